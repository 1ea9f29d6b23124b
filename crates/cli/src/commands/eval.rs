//! `heatsmooth eval`: clean and noisy accuracy.

use anyhow::Result;
use clap::Args;
use network::{Noise, Purpose};
use serde::{Deserialize, Serialize};
use serde_json::json;
use train::{Accuracy, evaluate};

use crate::common::{
    Common, Configured, DataArgs, DataConfig, ModelArgs, ModelConfig, image_range, load_both,
};
use crate::progress::Meter;
use crate::{config, output};

/// Clean and noisy accuracy of a model, top-1 and top-5.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: heatsmooth eval --model runs/baseline/model.safetensors --data digits --sigma 0.1"
)]
pub struct Flags {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    configured: Configured,
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Options {
    #[command(flatten)]
    #[serde(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    #[serde(flatten)]
    data: DataArgs,
    /// Noise level for noisy accuracy, in units of pixels scaled to [0, 1].
    #[arg(long, allow_negative_numbers = true)]
    sigma: Option<f64>,
    /// Only images A to B-1 of the data set, as `A..B`.
    #[arg(long, value_name = "A..B")]
    images: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Config {
    #[serde(flatten)]
    model: ModelConfig,
    #[serde(flatten)]
    data: DataConfig,
    #[serde(default)]
    sigma: Option<f64>,
    #[serde(default)]
    images: Option<String>,
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let defaults = json!({"split": "test"});
    let config: Config = config::resolve(
        &defaults,
        flags.configured.config.as_deref(),
        &flags.options,
    )?;
    if flags.configured.print_config {
        return output::print(&config::print(&config)?);
    }
    let pool = flags.common.start()?;
    let (loaded, dataset) = load_both(&config.model, &config.data, flags.common.quiet)?;
    let network = network::Cpu::new(&loaded.model, pool);
    let noises = match config.sigma {
        None => vec![None],
        Some(sigma) => vec![None, Some(crate::common::sigma(sigma)?)],
    };
    let range = config.images.as_deref().unwrap_or("..");
    let range = image_range(range, dataset.len() as u64)?;
    let total = range.end - range.start;
    let range = range.start as usize..range.end as usize;
    let mut results = Vec::new();
    for sigma in noises {
        let noise = sigma.map(|sigma| Noise {
            seed: flags.common.seed,
            purpose: Purpose::Prediction,
            sigma,
        });
        let mut meter = Meter::new(flags.common.quiet, "images", total);
        let accuracy = evaluate(&network, &dataset, noise.as_ref(), range.clone(), |done| {
            meter.set(done, || "evaluated".into());
        })?;
        meter.finish();
        results.push((sigma, accuracy));
    }
    let mut text = format!(
        "{} on {} {}, {total} images\n",
        config.model.model.display(),
        config.data.data,
        config.data.split
    );
    for (sigma, accuracy) in &results {
        text += &line(*sigma, accuracy);
    }
    text += "guarantee: empirical\n";
    let value: Vec<_> = results
        .iter()
        .map(|(sigma, a)| json!({"sigma": sigma, "images": a.images, "top1": a.top1(), "top5": a.top5(), "guarantee": "empirical"}))
        .collect();
    output::summary(&flags.common, &json!(value), &text)
}

fn line(sigma: Option<f32>, accuracy: &Accuracy) -> String {
    let what = match sigma {
        None => "clean".to_string(),
        Some(sigma) => format!("one noisy copy each, sigma {sigma}"),
    };
    let (top1, top5) = (
        output::percent(accuracy.top1()),
        output::percent(accuracy.top5()),
    );
    format!("  {what}: top-1 {top1}, top-5 {top5}\n")
}
