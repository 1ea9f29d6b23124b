//! `heatsmooth merge`: join the shards of a log, or ranges of images.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, FromArgMatches as _};
use heatsmooth::{Error, Registry, record};
use serde_json::json;

use crate::Entry;
use crate::common::{Common, with_common};
use crate::output;

/// `heatsmooth merge`.
pub const ENTRY: Entry = Entry {
    name: "merge",
    command: |command, _| with_common(Flags::augment_args(command)),
    run: |matches, registry| {
        run(
            &Flags::from_arg_matches(matches)?,
            &Common::of(matches)?,
            registry,
        )
    },
};

/// Join the logs of all shards of one run, or of ranges of images that follow each
/// other.
#[derive(Args, Debug)]
#[command(after_help = "Example: heatsmooth merge part1.tsv part2.tsv part3.tsv --out whole.tsv")]
pub struct Flags {
    /// The logs of all shards, or of all ranges.
    #[arg(required = true, value_name = "SHARD.tsv")]
    shards: Vec<PathBuf>,
    /// The joined log.
    #[arg(long, value_name = "F.tsv")]
    out: PathBuf,
}

fn run(flags: &Flags, common: &Common, _: &Registry) -> Result<()> {
    let merged = record::merge(&flags.shards, &flags.out).map_err(Error::from)?;
    if !merged.mixed.is_empty() {
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
    output::summary(common, &value, &text)
}
