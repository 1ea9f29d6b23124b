//! `heatsmooth inspect`: what a model file holds.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use network::Summary;
use serde_json::json;

use crate::common::{Common, ModelArgs, ModelConfig, WeightsArgs};
use crate::{config, output};

/// What a model file holds: network, weights, where it comes from.
#[derive(Args, Debug)]
#[command(after_help = "Example: heatsmooth inspect runs/baseline/model.safetensors")]
pub struct Flags {
    /// A model file.
    #[arg(value_name = "MODEL")]
    file: PathBuf,
    #[command(flatten)]
    weights: WeightsArgs,
    /// Leave out the table of layers.
    #[arg(long)]
    brief: bool,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let model = ModelArgs {
        model: Some(flags.file.clone()),
        weights: flags.weights,
    };
    let model: ModelConfig = config::resolve(json!({}), None, &model)?;
    let loaded = model.load(None, flags.common.quiet)?;
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
    let mut text = format!("{}\n", flags.file.display());
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text += &format!("  {name:13} {value}\n");
        }
    };
    line("sha256", Some(loaded.sha256.clone()));
    line("architecture", info.architecture.clone());
    line("method", info.method.clone());
    line("sigma", info.sigma.map(|s| s.to_string()));
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
    let classes = match info.classes.len() {
        0 => graph.classes().to_string(),
        _ => format!("{}: {}", graph.classes(), shorten(&info.classes)),
    };
    line("classes", Some(classes));
    for (name, value) in &info.hyper_parameters {
        text += &format!("  {name} = {value}\n");
    }
    if !flags.brief {
        text += &format!("\n{}\n", Summary(graph));
    }
    output::summary(&flags.common, &value, &text)
}

/// At most twelve names.
fn shorten(names: &[String]) -> String {
    match names.len() {
        0..=12 => names.join(", "),
        n => format!("{}, ... ({} more)", names[..12].join(", "), n - 12),
    }
}
