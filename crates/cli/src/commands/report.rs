//! `heatsmooth report`: tables, figures and the page.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, FromArgMatches as _, ValueEnum};
use heatsmooth::report::{self, AttackConvention, Denominator, Options};
use heatsmooth::{Error, Registry};
use serde_json::json;

use crate::Entry;
use crate::common::{Common, with_common};
use crate::output;

/// `heatsmooth report`.
pub const ENTRY: Entry = Entry {
    name: "report",
    command: |command, _| with_common(Flags::augment_args(command)),
    run: |matches, registry| {
        run(
            &Flags::from_arg_matches(matches)?,
            &Common::of(matches)?,
            registry,
        )
    },
};

/// So many warnings are printed; the page has all of them.
const FEW_WARNINGS: usize = 10;

/// Tables (Markdown, LaTeX, CSV), figures (SVG, PNG) and one self-contained page
/// from logs and run folders; other people's certification logs too.
#[derive(Args, Debug)]
#[command(after_help = "Example: heatsmooth report runs certified/*.tsv --out report")]
pub struct Flags {
    /// Logs, run folders, or folders that hold some.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Where the report goes.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Title of the page.
    #[arg(long)]
    title: Option<String>,
    /// Radii of the certified-accuracy tables [default: a grid that fits].
    #[arg(long, value_delimiter = ',', value_name = "R,R,...")]
    radii: Vec<f64>,
    /// What certified accuracy is divided by: all images, or the paper's
    /// non-abstained ones.
    #[arg(long, value_enum, default_value_t = Divisor::All)]
    denominator: Divisor,
    /// Which attack distances are averaged: successes, or the paper's convention.
    #[arg(long, value_enum, default_value_t = Convention::Successes)]
    attacks: Convention,
    /// Published figures to show beside the logs: METHOD-DATA, such as cohen-cifar10 or
    /// smoothadv-imagenet, or all of a data set, as cifar10.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    beside: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Divisor {
    All,
    NonAbstained,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Convention {
    Successes,
    Paper,
}

fn run(flags: &Flags, common: &Common, registry: &Registry) -> Result<()> {
    let defaults = Options::default();
    let options = Options {
        title: flags.title.clone().unwrap_or(defaults.title),
        radii: flags.radii.clone(),
        denominator: match flags.denominator {
            Divisor::All => Denominator::All,
            Divisor::NonAbstained => Denominator::NonAbstained,
        },
        attacks: match flags.attacks {
            Convention::Successes => AttackConvention::Successes,
            Convention::Paper => AttackConvention::Paper,
        },
        beside: flags.beside.clone(),
        methods: registry.method_infos(),
        ..Options::default()
    };
    let report = report::build(&flags.paths, &options).map_err(Error::from)?;
    let warnings = report.warnings();
    for warning in warnings.iter().take(FEW_WARNINGS) {
        eprintln!("warning: {warning}");
    }
    if warnings.len() > FEW_WARNINGS {
        let more = warnings.len() - FEW_WARNINGS;
        eprintln!("warning: {more} more warnings are in the report");
    }
    let written = report.write(&flags.out).map_err(Error::from)?;
    let page = written.page.display().to_string();
    let text = format!("{page}: {} files written", written.files.len());
    let value = json!({"page": page, "files": written.files});
    output::summary(common, &value, &text)
}
