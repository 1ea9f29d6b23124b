//! `heatsmooth demo`: the whole pipeline on the embedded digits.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::{Arg, ArgMatches, Command, value_parser};
use heatsmooth::{Experiment, Laboratory, Registry, certification_modes};
use serde_json::json;

use crate::Entry;
use crate::common::{Common, with_common};
use crate::output;

/// `heatsmooth demo`.
pub const ENTRY: Entry = Entry {
    name: "demo",
    command: |command, _| command_line(command),
    run,
};

fn command_line(command: Command) -> Command {
    let command = command
        .about(
            "The whole pipeline on the embedded digits: baseline, RandomizedSmoothing, SmoothAdv \
             and HeatSmoothing are trained, certified (the last one in every mode), bounded, \
             attacked and compared in one report. Running it again continues where it stopped",
        )
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("DIR")
                .default_value("demo")
                .help("Where everything goes")
                .value_parser(value_parser!(PathBuf)),
        )
        .after_help("Example: heatsmooth demo --out demo");
    with_common(command)
}

fn run(matches: &ArgMatches, registry: &Registry) -> Result<()> {
    let clock = Instant::now();
    let common = Common::of(matches)?;
    let demo = Experiment::shipped("reproduce", "demo", registry)?;
    let out = matches
        .get_one::<PathBuf>("out")
        .cloned()
        .unwrap_or_default();
    let laboratory = Laboratory {
        out: &out,
        registry,
        device: &common.device()?,
        seed: common.seed(),
    };
    let results = demo.run(&laboratory, &mut common.terminal())?;
    let (modes_text, modes) = certification_modes(&demo, &laboratory, &results)?;
    let (report, written) = demo.report(&laboratory)?;
    let certified = report.tables().find(|t| t.id.starts_with("certified"));
    let table = certified.map_or(String::new(), |t| t.to_markdown());
    let page = written.page.display().to_string();
    let text = format!(
        "{table}\n{modes_text}\n{page}: the report, with figures, attacks and single images"
    );
    let value = json!({"report": page, "modes": modes, "seconds": clock.elapsed().as_secs_f64()});
    output::summary(&common, &value, &text)
}
