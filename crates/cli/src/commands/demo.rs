//! `heatsmooth demo`: the whole pipeline on the embedded digits.

mod modes;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::common::Common;
use crate::output;
use crate::pipeline::{Pipeline, Recipe};

/// What the demo does.
const RECIPE: &str = include_str!("../../presets/demo.toml");

/// The whole pipeline on the embedded digits: baseline, RandomizedSmoothing,
/// SmoothAdv and HeatSmoothing are trained, certified (the last one in every
/// mode), bounded, attacked and compared in one report. Running it again continues
/// where it stopped.
#[derive(Args, Debug)]
#[command(after_help = "Example: heatsmooth demo --out demo")]
pub struct Flags {
    /// Where everything goes.
    #[arg(long, value_name = "DIR", default_value = "demo")]
    out: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let clock = Instant::now();
    let recipe: Recipe = toml::from_str(RECIPE)?;
    let pipeline = Pipeline {
        recipe: &recipe,
        out: &flags.out,
        root: None,
        images: None,
        common: &flags.common,
    };
    pipeline.stages()?;
    let (modes_text, modes) = modes::run(&pipeline)?;
    let (report, written) = pipeline.report()?;
    let certified = report.tables().find(|t| t.id.starts_with("certified"));
    let table = certified.map_or(String::new(), |t| t.to_markdown());
    let page = written.page.display().to_string();
    let text = format!(
        "{table}\n{modes_text}\n{page}: the report, with figures, attacks and single images"
    );
    let value = json!({"report": page, "modes": modes, "seconds": clock.elapsed().as_secs_f64()});
    output::summary(&flags.common, &value, &text)
}
