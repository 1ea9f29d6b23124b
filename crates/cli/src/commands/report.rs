//! `heatsmooth report`: tables, figures and the page.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use report::{AttackConvention, Denominator, Options};
use serde_json::json;

use crate::common::Common;
use crate::output;

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
    #[command(flatten)]
    common: Common,
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

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let defaults = Options::default();
    let options = Options {
        title: flags.title.unwrap_or(defaults.title),
        radii: flags.radii,
        denominator: match flags.denominator {
            Divisor::All => Denominator::All,
            Divisor::NonAbstained => Denominator::NonAbstained,
        },
        attacks: match flags.attacks {
            Convention::Successes => AttackConvention::Successes,
            Convention::Paper => AttackConvention::Paper,
        },
        ..Options::default()
    };
    let report = report::build(&flags.paths, &options)?;
    if !flags.common.quiet {
        for warning in report.warnings() {
            eprintln!("warning: {warning}");
        }
    }
    let written = report.write(&flags.out)?;
    let page = written.page.display().to_string();
    let text = format!("{page}: {} files written", written.files.len());
    let value = json!({"page": page, "files": written.files});
    output::summary(&flags.common, &value, &text)
}
