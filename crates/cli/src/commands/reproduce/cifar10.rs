//! `heatsmooth reproduce cifar10`: the paper's experiment on CIFAR-10.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::common::Common;
use crate::failure::advised;
use crate::output;
use crate::pipeline::{Pipeline, Recipe};

/// Shipped recipes.
const PRESETS: [(&str, &str); 2] = [
    (
        "quick",
        include_str!("../../../presets/reproduce-cifar10-quick.toml"),
    ),
    (
        "paper",
        include_str!("../../../presets/reproduce-cifar10-paper.toml"),
    ),
];

/// The paper's CIFAR-10 experiment: baseline, RandomizedSmoothing, SmoothAdv and
/// HeatSmoothing are trained, certified, bounded, attacked and compared in one
/// report. Running it again continues where it stopped.
#[derive(Args, Debug)]
#[command(after_help = "Example: heatsmooth reproduce cifar10 --out cifar10\n\
                  `heatsmooth data fetch cifar10` gets the images.")]
pub struct Flags {
    /// Where everything goes.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// quick (hours on two cores) or paper (its hyper-parameters to the letter:
    /// weeks on two cores).
    #[arg(long, value_name = "NAME", default_value = "quick")]
    preset: String,
    /// Measure on the first N test images [default: as the preset says].
    #[arg(long, value_name = "N")]
    images: Option<u64>,
    /// The folder of data sets [default: $HEATSMOOTH_DATA, or the platform's].
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Show the recipe and stop.
    #[arg(long, help_heading = "Common options")]
    print_config: bool,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let preset = PRESETS.iter().find(|(name, _)| *name == flags.preset);
    let (_, text) = preset.ok_or_else(|| {
        advised(
            format!("no preset is called `{}`", flags.preset),
            "there are quick and paper",
        )
    })?;
    if flags.print_config {
        return output::print(text);
    }
    let recipe: Recipe = toml::from_str(text)?;
    let pipeline = Pipeline {
        recipe: &recipe,
        out: &flags.out,
        root: flags.root,
        images: flags.images,
        common: &flags.common,
    };
    pipeline.stages()?;
    let (report, written) = pipeline.report()?;
    let tables = report.tables().filter(|table| {
        ["certified", "adversarial", "timing"]
            .iter()
            .any(|what| table.id.starts_with(what))
    });
    let mut text: String = tables.map(|table| table.to_markdown() + "\n").collect();
    let page = written.page.display().to_string();
    text += &format!("{page}: the report, with figures, attacks and single images");
    output::summary(&flags.common, &json!({"report": page}), &text)
}
