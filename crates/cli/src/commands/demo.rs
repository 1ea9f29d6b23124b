//! `heatsmooth demo`: the whole pipeline on the embedded digits.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::commands::train;
use crate::common::Common;

/// The whole pipeline on the embedded digits: train, evaluate, print.
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
    let pool = flags.common.start()?;
    let config = train::digits_config(flags.out.join("baseline"), None)?;
    train::train_model("baseline", &config, &flags.common, pool).map(|_| ())
}
