//! `heatsmooth predict`: class, probability and L-bound for image files.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use network::Classify;
use record::Guarantee;
use serde_json::json;
use train::loss::softmax;

use crate::common::{self, Common, ModelArgs, ModelConfig};
use crate::failure::Unfinished;
use crate::{config, output};

/// Class, probability and L-bound radius for image files.
///
/// The L-bound radius sigma * sqrt(pi/2) * (p1 - p2) is approximate: it holds if
/// the model is exactly a Gaussian average at sigma.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: heatsmooth predict --model runs/heat/model.safetensors cat.png dog.jpg"
)]
pub struct Flags {
    #[command(flatten)]
    model: ModelArgs,
    /// Noise level of the L-bound [default: the one stored in the model, if any].
    #[arg(long, allow_negative_numbers = true)]
    sigma: Option<f64>,
    /// PNG or JPEG files.
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let config: ModelConfig = config::resolve(json!({}), None, &flags.model)?;
    let model = config.load(None, flags.common.quiet)?.model;
    let sigma = match flags.sigma.or(model.info.sigma) {
        Some(sigma) => Some(common::sigma(sigma)?),
        None => None,
    };
    let network = network::Cpu::new(&model, flags.common.start()?);
    let input = model.graph.input();
    let shape = [input.height, input.width, input.channels];
    let mut logits = vec![0.0; model.graph.classes()];
    let guarantee = Guarantee::ApproximateIfAverage.sentence();
    let (mut text, mut value, mut failed) = (String::new(), Vec::new(), 0);
    for path in &flags.images {
        let name = path.display();
        let pixels = match data::decode_image(path, shape) {
            Ok(pixels) => pixels,
            Err(error) if flags.images.len() > 1 => {
                failed += 1;
                eprintln!("error: {error}");
                value.push(json!({"image": name.to_string(), "error": error.to_string()}));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        network.logits(&pixels, &mut logits);
        let p = softmax(&logits);
        let mut order: Vec<usize> = (0..p.len()).collect();
        order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
        let runner_up = order.get(1).map_or(0.0, |&second| p[second]);
        let radius = sigma.map(|s| {
            f64::from(s) * (std::f64::consts::PI / 2.0).sqrt() * (p[order[0]] - runner_up)
        });
        let class = model.class_name(order[0]);
        text += &format!("{name}: {class}, probability {:.4}", p[order[0]]);
        if let (Some(radius), Some(sigma)) = (radius, sigma) {
            text += &format!(", L-bound radius {radius:.4} (sigma {sigma})");
        }
        text += "\n";
        let guarantee = radius.map(|_| guarantee);
        value.push(json!({"image": name.to_string(), "class": order[0], "name": class, "probability": p[order[0]], "lbound": radius, "sigma": sigma, "guarantee": guarantee}));
    }
    if sigma.is_some() {
        text += &format!("guarantee of the radius: {guarantee}\n");
    }
    output::summary(&flags.common, &json!(value), &text)?;
    match failed {
        0 => Ok(()),
        n => Err(Unfinished(format!(
            "{n} of {} images could not be read",
            flags.images.len()
        ))
        .into()),
    }
}
