//! `heatsmooth reproduce`: the paper's experiments.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use heatsmooth::settings::{Settings, settings};
use heatsmooth::{
    Experiment, IllustrationParams, Laboratory, Registry, config, illustrate, presets,
};
use serde_json::json;

use super::measure::read;
use crate::Entry;
use crate::common::{Common, with_common};
use crate::{options, output};

settings! {
    /// What an experiment can be told.
    pub struct ExperimentOptions {
        /// quick (hours on two cores) or paper (its hyper-parameters to the letter:
        /// weeks on two cores).
        preset: String = "quick".into(),
        /// Measure on the first N test images [default: as the preset says].
        images: Option<u64> = None,
        /// The folder of data sets [default: $HEATSMOOTH_DATA, or the platform's].
        root: Option<PathBuf> = None,
    }
}

/// `heatsmooth reproduce`.
pub const ENTRY: Entry = Entry {
    name: "reproduce",
    command: |command, _| command_line(command),
    run,
};

fn out() -> Arg {
    Arg::new("out")
        .long("out")
        .value_name("DIR")
        .required(true)
        .help("Where everything goes")
        .value_parser(value_parser!(PathBuf))
}

fn command_line(command: Command) -> Command {
    let illustration = Command::new("illustration")
        .about(
            "Figures 1 and 2 of the paper: a binary classifier on the line, smoothed by five \
             timesteps, beside the exact Gaussian average",
        )
        .long_about(
            "Figures 1 and 2 of the paper: a binary classifier on the line, smoothed by five \
             timesteps, beside the exact Gaussian average\n\n\
             The line is [-1.25, 1.25], the range of the one pixel x = 2.5 pixel - 1.25; sigma \
             and distances are in units of x. Writes figure-1 and figure-2 (SVG, PNG), curves.tsv \
             and illustration.json; running again repeats it, to the same bytes.",
        )
        .arg(out())
        .args(options::arguments(&IllustrationParams::fields(), None))
        .after_help("Example: heatsmooth reproduce illustration --out illustration");
    let cifar10 = Command::new("cifar10")
        .about(
            "The paper's CIFAR-10 experiment: baseline, RandomizedSmoothing, SmoothAdv and \
             HeatSmoothing are trained, certified, bounded, attacked and compared in one report. \
             Running it again continues where it stopped",
        )
        .arg(out())
        .args(options::arguments(&ExperimentOptions::fields(), None))
        .arg(
            Arg::new("print-config")
                .long("print-config")
                .help("Show the recipe and stop")
                .help_heading("Common options")
                .action(ArgAction::SetTrue),
        )
        .after_help(
            "Example: heatsmooth reproduce cifar10 --out cifar10\n\
             `heatsmooth data fetch cifar10` gets the images.",
        );
    command
        .about("The paper's experiments, each as one recipe")
        .arg_required_else_help(true)
        .subcommand_required(true)
        .subcommand(with_common(illustration))
        .subcommand(with_common(cifar10))
}

fn run(matches: &ArgMatches, registry: &Registry) -> Result<()> {
    match matches.subcommand() {
        Some(("illustration", matches)) => illustration(matches),
        Some((_, matches)) => cifar10(matches, registry),
        None => Ok(()),
    }
}

fn illustration(matches: &ArgMatches) -> Result<()> {
    let common = Common::of(matches)?;
    let values = options::given(&IllustrationParams::fields(), matches)?;
    let params = read::<IllustrationParams>(&values)?;
    let out = matches
        .get_one::<PathBuf>("out")
        .cloned()
        .unwrap_or_default();
    let device = common.device()?;
    let done = illustrate(
        &params,
        &out,
        &device,
        common.seed(),
        &mut common.terminal(),
    )?;
    output::summary(&common, &done.numbers, &done.to_string())
}

fn cifar10(matches: &ArgMatches, registry: &Registry) -> Result<()> {
    let common = Common::of(matches)?;
    let values = options::given(&ExperimentOptions::fields(), matches)?;
    let options = read::<ExperimentOptions>(&values)?;
    if matches.get_flag("print-config") {
        let text = presets::preset_text("reproduce-cifar10", &options.preset)?;
        let value = config::to_json(text)?;
        return output::summary(&common, &value, text);
    }
    let mut experiment = Experiment::shipped("reproduce-cifar10", &options.preset, registry)?;
    experiment.data.root = options.root;
    experiment.images = options.images.or(experiment.images);
    let laboratory = Laboratory {
        out: &matches
            .get_one::<PathBuf>("out")
            .cloned()
            .unwrap_or_default(),
        registry,
        device: &common.device()?,
        seed: common.seed(),
    };
    experiment.run(&laboratory, &mut common.terminal())?;
    let (report, written) = experiment.report(&laboratory)?;
    let tables = report.tables().filter(|table| {
        ["certified", "adversarial", "timing"]
            .iter()
            .any(|what| table.id.starts_with(what))
    });
    let mut text: String = tables.map(|table| table.to_markdown() + "\n").collect();
    let page = written.page.display().to_string();
    text += &format!("{page}: the report, with figures, attacks and single images");
    output::summary(&common, &json!({"report": page}), &text)
}
