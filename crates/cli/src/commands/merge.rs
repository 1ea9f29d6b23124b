//! `heatsmooth merge`: join the shards of a log.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;

use crate::common::Common;
use crate::output;

/// Join the logs of all shards of one run.
#[derive(Args, Debug)]
#[command(after_help = "Example: heatsmooth merge part1.tsv part2.tsv part3.tsv --out whole.tsv")]
pub struct Flags {
    /// The logs of all shards.
    #[arg(required = true, value_name = "SHARD.tsv")]
    shards: Vec<PathBuf>,
    /// The joined log.
    #[arg(long, value_name = "F.tsv")]
    out: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let merged = record::merge(&flags.shards, &flags.out)?;
    if !merged.mixed.is_empty() && !flags.common.quiet {
        eprintln!(
            "warning: the shards were computed by different programs or CPU types; last bits may differ"
        );
    }
    let text = format!(
        "{}: {} rows of {} shards",
        merged.path.display(),
        merged.rows,
        flags.shards.len()
    );
    let value = json!({"log": merged.path.display().to_string(), "rows": merged.rows, "shards": flags.shards.len()});
    output::summary(&flags.common, &value, &text)
}
