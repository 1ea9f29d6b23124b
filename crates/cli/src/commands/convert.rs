//! `heatsmooth convert`: from and to other people's formats.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use network::exchange::onnx;
use serde_json::json;

use crate::common::{Common, ModelArgs, ModelConfig, WeightsArgs};
use crate::failure::advised;
use crate::{config, output};

/// Convert a model: safetensors, ONNX or a PyTorch checkpoint to safetensors or
/// ONNX. Weights keep their bits.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: heatsmooth convert resnet20.th resnet20.safetensors --arch resnet20-cifar \
                  --input 32x32x3 --classes 10 --normalise 0.485,0.456,0.406/0.229,0.224,0.225"
)]
pub struct Flags {
    /// The model to read.
    #[arg(value_name = "IN")]
    from: PathBuf,
    /// The file to write, .safetensors or .onnx.
    #[arg(value_name = "OUT")]
    to: PathBuf,
    /// ONNX: multiply batch norms into the layers before them.
    #[arg(long)]
    fold: bool,
    #[command(flatten)]
    weights: WeightsArgs,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let extension = flags.to.extension().and_then(|e| e.to_str());
    if !matches!(extension, Some("safetensors" | "onnx")) {
        return Err(advised(
            format!("cannot write {}", flags.to.display()),
            "give an output file that ends in .safetensors or .onnx",
        ));
    }
    let model = ModelArgs {
        model: Some(flags.from.clone()),
        weights: flags.weights,
    };
    let model: ModelConfig = config::resolve(json!({}), None, &model)?;
    let loaded = model.load(None, flags.common.quiet)?;
    let bytes = match extension {
        Some("onnx") => {
            let fold = if flags.fold {
                onnx::Fold::Fold
            } else {
                onnx::Fold::Keep
            };
            onnx::write(&loaded.model, fold)
        }
        _ => loaded.model.to_bytes(),
    };
    record::atomic::write(&flags.to, &bytes)?;
    let mut text = format!(
        "{}: {} parameters",
        flags.to.display(),
        loaded.model.graph.parameter_count()
    );
    // A model file of our own needs no matching.
    if loaded.report != network::ImportReport::default() {
        text += &format!("; {}", loaded.report);
    }
    let value = json!({
        "model": flags.to.display().to_string(), "sha256": network::file::sha256(&bytes),
        "matched": loaded.report.matched.len(), "missing": loaded.report.missing,
        "left_over": loaded.report.left_over, "notes": loaded.report.notes,
    });
    output::summary(&flags.common, &value, &text)
}
