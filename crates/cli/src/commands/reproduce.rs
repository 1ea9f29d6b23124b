//! `heatsmooth reproduce`: the paper's experiments.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use heatsmooth::data::{BrokenImages, OddImages};
use heatsmooth::settings::{Settings, settings};
use heatsmooth::{
    Experiment, IllustrationParams, Laboratory, Observer as _, Registry, config, illustrate,
    parse_shape, presets,
};
use serde_json::json;

use super::measure::read;
use crate::Entry;
use crate::common::{Common, with_common};
use crate::{options, output};

settings! {
    /// What an experiment can be told.
    pub struct ExperimentOptions {
        /// quick (hours on two cores), larger-noise (sigma 0.25 and 0.5, from the baseline
        /// of quick in the same folder) or paper (its hyper-parameters to the letter: weeks
        /// on two cores).
        preset: String = "quick".into(),
        /// Measure on the first N test images [default: as the preset says].
        images: Option<u64> = None,
        /// The folder of data sets [default: $HEATSMOOTH_DATA, or the platform's].
        root: Option<PathBuf> = None,
    }
}

settings! {
    /// What the ImageNet experiment can be told.
    pub struct ImageNetOptions {
        /// quick (the authors' follow-up: one epoch, about a day on one GPU) or paper (its
        /// hyper-parameters to the letter).
        preset: String = "quick".into(),
        /// Weights of the baseline, such as torchvision's ResNet-50 [default: trained].
        baseline: Option<PathBuf> = None,
        /// Weights of RandomizedSmoothing, such as Cohen's checkpoint [default: trained with
        /// paper, left out with quick].
        gaussian: Option<PathBuf> = None,
        /// Weights of SmoothAdv, such as Salman's checkpoint [default: trained with paper,
        /// left out with quick].
        smoothadv: Option<PathBuf> = None,
        /// Measure on N test images [default: as the preset says].
        images: Option<u64> = None,
        /// Every K-th test image [default: as the preset says].
        skip: Option<u64> = None,
        /// ImageNet, or a stand-in of its form: a folder of class folders, tar shards,
        /// Parquet tables or packed images.
        data: String = "imagenet".into(),
        /// The folder of data sets [default: $HEATSMOOTH_DATA, or the platform's].
        root: Option<PathBuf> = None,
        /// Image files that cannot be decoded: refuse or skip.
        broken: BrokenImages = BrokenImages::Refuse,
        /// Image files in CMYK or 16 bits, or of another format or class than their names
        /// say: convert, skip or refuse.
        odd: OddImages = OddImages::Convert,
        /// Another network than ResNet-50, for a stand-in.
        arch: Option<String> = None,
        /// Shape of the network's inputs, for a stand-in [default: 224x224x3].
        input: Option<String> = None,
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

fn print_config() -> Arg {
    Arg::new("print-config")
        .long("print-config")
        .help("Show the recipe and stop")
        .help_heading("Common options")
        .action(ArgAction::SetTrue)
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
        .arg(print_config())
        .after_help(
            "Example: heatsmooth reproduce cifar10 --out cifar10\n\
             `heatsmooth data fetch cifar10` gets the images.",
        );
    let imagenet = Command::new("imagenet")
        .about(
            "The paper's ImageNet experiment: a ResNet-50 is smoothed, averaged, certified, \
             bounded and attacked beside the baseline, RandomizedSmoothing and SmoothAdv. It \
             starts with a price list; running it again continues where it stopped",
        )
        .arg(out())
        .args(options::arguments(&ImageNetOptions::fields(), None))
        .arg(
            Arg::new("price")
                .long("price")
                .help("Show the price list and stop")
                .action(ArgAction::SetTrue),
        )
        .arg(print_config())
        .after_help(
            "Example: heatsmooth reproduce imagenet --baseline resnet50-0676ba61.pth --gaussian \
             cohen/resnet50/noise_0.25/checkpoint.pth.tar --out imagenet\n\
             docs/imagenet.md says where images and weights come from.",
        );
    command
        .about("The paper's experiments, each as one recipe")
        .arg_required_else_help(true)
        .subcommand_required(true)
        .subcommand(with_common(illustration))
        .subcommand(with_common(cifar10))
        .subcommand(with_common(imagenet))
}

fn run(matches: &ArgMatches, registry: &Registry) -> Result<()> {
    match matches.subcommand() {
        Some(("illustration", matches)) => illustration(matches),
        Some(("imagenet", matches)) => imagenet(matches, registry),
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
        out: &folder(matches),
        registry,
        device: &common.device()?,
        seed: common.seed(),
    };
    experiment.run(&laboratory, &mut common.terminal())?;
    finish(&experiment, &laboratory, &common)
}

fn folder(matches: &ArgMatches) -> PathBuf {
    let out = matches.get_one::<PathBuf>("out");
    out.cloned().unwrap_or_default()
}

fn imagenet(matches: &ArgMatches, registry: &Registry) -> Result<()> {
    let common = Common::of(matches)?;
    let values = options::given(&ImageNetOptions::fields(), matches)?;
    let options = read::<ImageNetOptions>(&values)?;
    if matches.get_flag("print-config") {
        let text = presets::preset_text("reproduce-imagenet", &options.preset)?;
        let value = config::to_json(text)?;
        return output::summary(&common, &value, text);
    }
    let mut experiment = Experiment::shipped("reproduce-imagenet", &options.preset, registry)?;
    experiment.data.data = Some(options.data);
    experiment.data.root = options.root;
    experiment.data.broken = options.broken;
    experiment.data.odd = options.odd;
    experiment.images = options.images.or(experiment.images);
    experiment.skip = options.skip.unwrap_or(experiment.skip);
    experiment.input = options.input.as_deref().map(parse_shape).transpose()?;
    if let Some(arch) = &options.arch {
        experiment.with_architecture(arch);
    }
    let given: [(&str, Option<&Path>); 3] = [
        ("baseline", options.baseline.as_deref()),
        ("gaussian", options.gaussian.as_deref()),
        ("smoothadv", options.smoothadv.as_deref()),
    ];
    for (name, weights) in given {
        if let Some(weights) = weights {
            experiment.give(name, weights)?;
        }
    }
    experiment.without_optional();
    let laboratory = Laboratory {
        out: &folder(matches),
        registry,
        device: &common.device()?,
        seed: common.seed(),
    };
    let price = experiment.price(&laboratory)?;
    if matches.get_flag("price") {
        let stages = price.stages.iter().map(
            |stage| json!({"stage": stage.name, "passes": stage.passes, "seconds": stage.seconds}),
        );
        let value = json!({
            "stages": stages.collect::<Vec<_>>(), "seconds": price.seconds(),
            "pass_seconds": price.pass_seconds, "train_seconds": price.train_seconds,
            "memory_bytes": price.memory_bytes, "disk_bytes": price.disk_bytes,
        });
        return output::summary(&common, &value, &price.to_string());
    }
    let mut terminal = common.terminal();
    terminal.note(&price.to_string());
    experiment.run(&laboratory, &mut terminal)?;
    finish(&experiment, &laboratory, &common)
}

/// Writes the report, and shows its main tables.
fn finish(experiment: &Experiment, laboratory: &Laboratory<'_>, common: &Common) -> Result<()> {
    let (report, written) = experiment.report(laboratory)?;
    let tables = report.tables().filter(|table| {
        ["certified", "adversarial", "timing"]
            .iter()
            .any(|what| table.id.starts_with(what))
    });
    let mut text: String = tables.map(|table| table.to_markdown() + "\n").collect();
    let page = written.page.display().to_string();
    text += &format!("{page}: the report, with figures, attacks and single images");
    output::summary(common, &json!({"report": page}), &text)
}
