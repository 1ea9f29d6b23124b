//! `heatsmooth inspect`: what a model file holds.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use heatsmooth::network::Summary;
use heatsmooth::settings::Settings as _;
use heatsmooth::{ModelSource, Registry, TaskKind, Weights, calibrated_guarantee};
use serde_json::json;

use super::measure::{WEIGHTS, read};
use crate::Entry;
use crate::common::{Common, with_common};
use crate::{options, output};

/// `heatsmooth inspect`.
pub const ENTRY: Entry = Entry {
    name: "inspect",
    command: |command, _| command_line(command),
    run: |matches, _: &Registry| run(matches),
};

fn command_line(command: Command) -> Command {
    let command = command
        .about("What a model file holds: network, weights, where it comes from")
        .arg(
            Arg::new("file")
                .value_name("MODEL")
                .help("A model file, or a run folder")
                .required(true)
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            Arg::new("brief")
                .long("brief")
                .help("Leave out the table of layers")
                .action(ArgAction::SetTrue),
        )
        .args(options::arguments(&Weights::fields(), Some(WEIGHTS)))
        .after_help("Example: heatsmooth inspect runs/baseline/model.safetensors");
    with_common(command)
}

/// The model that a positional argument names.
pub fn source(matches: &ArgMatches, argument: &str) -> Result<ModelSource> {
    let weights = options::given(&Weights::fields(), matches)?;
    let path = matches.get_one::<PathBuf>(argument).cloned();
    Ok(ModelSource::with(path.unwrap_or_default(), read(&weights)?))
}

fn run(matches: &ArgMatches) -> Result<()> {
    let common = Common::of(matches)?;
    let source = source(matches, "file")?;
    let loaded = source.load(None)?;
    let (graph, info) = (&loaded.model.graph, &loaded.model.info);
    let value = json!({
        "sha256": loaded.sha256,
        "info": info,
        "input": [graph.input().height, graph.input().width, graph.input().channels],
        "classes": graph.classes(),
        "parameters": graph.parameter_count(),
        "macs": graph.macs(),
        "layers": graph.nodes().len(),
    });
    let mut text = format!("{}\n", source.path.display());
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text += &format!("  {name:13} {value}\n");
        }
    };
    line("sha256", Some(loaded.sha256.clone()));
    line("architecture", info.architecture.clone());
    line("method", info.method.clone());
    line("label", info.label.clone());
    line("sigma", info.sigma.map(|s| s.to_string()));
    line("noise", info.sigma.map(|_| info.noise.to_string()));
    line(
        "calibration",
        info.calibration.as_ref().map(|c| {
            format!(
                "sigma {}, shrink {:.4}, cap {:.4}, on {} images of {} {}: {}",
                c.sigma,
                c.shrink,
                c.cap,
                c.images,
                c.origin.data,
                c.origin.split,
                calibrated_guarantee(c)
            )
        }),
    );
    line("trained on", info.data.clone());
    line("data sha256", info.data_sha256.clone());
    line("parent sha256", info.parent_sha256.clone());
    line(
        "written by",
        info.version.as_ref().map(|v| format!("heatsmooth {v}")),
    );
    line(
        "input",
        Some(format!(
            "{} (height x width x channels), pixels in [0, 1]",
            graph.input()
        )),
    );
    let outputs = match info.classes.len() {
        0 => graph.classes().to_string(),
        _ => format!("{}: {}", graph.classes(), shorten(&info.classes)),
    };
    let name = match info.task {
        TaskKind::Classification => "classes",
        TaskKind::Regression => "real values",
    };
    line(name, Some(outputs));
    for (name, value) in &info.hyper_parameters {
        text += &format!("  {name} = {value}\n");
    }
    if !matches.get_flag("brief") {
        text += &format!("\n{}\n", Summary(graph));
    }
    output::summary(&common, &value, &text)
}

/// At most twelve names.
fn shorten(names: &[String]) -> String {
    match names.len() {
        0..=12 => names.join(", "),
        n => format!("{}, ... ({} more)", names[..12].join(", "), n - 12),
    }
}
