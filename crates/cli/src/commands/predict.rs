//! `heatsmooth predict`: class, probability and L-bound for image files.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use certify::{Image, Predict, Prediction, lbound_radius, predict_all};
use clap::Args;
use network::Classify;
use network::logits::{softmax, top_k};
use record::Guarantee;
use serde_json::json;

use crate::common::{self, Common, ModelArgs, ModelConfig};
use crate::failure::{Unfinished, advised};
use crate::{config, output};

/// Class, probability and L-bound radius for image files.
///
/// The L-bound radius sigma * sqrt(pi/2) * (p1 - p2) is approximate: it holds if
/// the model is exactly a Gaussian average at sigma. With --samples noisy copies
/// vote, too: PREDICT of Cohen et al., the class of the smoothed classifier.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: heatsmooth predict --model runs/heat/model.safetensors cat.png dog.jpg"
)]
pub struct Flags {
    #[command(flatten)]
    model: ModelArgs,
    /// Noise level of the L-bound and the vote [default: the one stored in the model, if any].
    #[arg(long, allow_negative_numbers = true)]
    sigma: Option<f64>,
    /// Let N noisy copies vote as well, and abstain if the vote is too close.
    #[arg(long, value_name = "N")]
    samples: Option<u32>,
    /// Failure probability of the vote, for each image [default: 0.001].
    #[arg(long, requires = "samples", allow_negative_numbers = true)]
    alpha: Option<f64>,
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
    let vote = flags.vote(sigma)?;
    let voted = vote.as_ref().map(|plan| {
        let guarantee = Guarantee::SoundSmoothed { alpha: plan.alpha };
        guarantee.to_string()
    });
    let network = network::Cpu::new(&model, flags.common.start()?);
    let input = model.graph.input();
    let shape = [input.height, input.width, input.channels];
    let mut logits = vec![0.0; model.graph.classes()];
    let guarantee = Guarantee::ApproximateIfAverage.sentence();
    let (mut text, mut value, mut failed) = (String::new(), Vec::new(), 0);
    for (number, path) in flags.images.iter().enumerate() {
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
        let order = top_k(&p, 2);
        let runner_up = order.get(1).map_or(0.0, |&second| p[second]);
        let radius = sigma.map(|sigma| lbound_radius(sigma.into(), p[order[0]], runner_up));
        let class = model.class_name(order[0]);
        text += &format!("{name}: {class}, probability {:.4}", p[order[0]]);
        if let (Some(radius), Some(sigma)) = (radius, sigma) {
            text += &format!(", L-bound radius {radius:.4} (sigma {sigma})");
        }
        let votes = match &vote {
            Some(plan) => Some(count(&network, plan, number as u32, &pixels)?),
            None => None,
        };
        if let (Some(votes), Some(plan)) = (&votes, &vote) {
            let verdict = match votes.predict {
                Some(class) => format!("is {}", model.class_name(class)),
                None => "abstains".into(),
            };
            text += &format!(
                "; the smoothed classifier {verdict} ({} of {} votes)",
                votes.n_a, plan.n
            );
        }
        text += "\n";
        let votes = votes.map(|v| {
            json!({"class": v.predict, "first": v.first, "votes": v.n_a, "runner_up_votes": v.n_b, "guarantee": voted})
        });
        let guarantee = radius.map(|_| guarantee);
        value.push(json!({"image": name.to_string(), "class": order[0], "name": class, "probability": p[order[0]], "lbound": radius, "sigma": sigma, "guarantee": guarantee, "smoothed": votes}));
    }
    if sigma.is_some() {
        text += &format!("guarantee of the radius: {guarantee}\n");
    }
    if let Some(guarantee) = &voted {
        text += &format!("guarantee of the vote: {guarantee}\n");
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

impl Flags {
    /// The vote that is asked for.
    fn vote(&self, sigma: Option<f32>) -> Result<Option<Predict>> {
        let Some(n) = self.samples else {
            return Ok(None);
        };
        let Some(sigma) = sigma else {
            return Err(advised(
                "--samples needs a noise level, and the model has none stored",
                "give --sigma, in units of pixels scaled to [0, 1], such as 0.25",
            ));
        };
        let sigma = f64::from(sigma);
        let plan = Predict {
            n,
            alpha: self.alpha.unwrap_or(Predict::new(sigma).alpha),
            seed: self.common.seed,
            ..Predict::new(sigma)
        };
        plan.check()?;
        Ok(Some(plan))
    }
}

/// The votes on one image, whose noise its number decides.
fn count(network: &network::Cpu, plan: &Predict, index: u32, pixels: &[f32]) -> Result<Prediction> {
    let image = Image {
        index,
        label: 0,
        pixels: Cow::Borrowed(pixels),
    };
    let mut votes = None;
    let mut observer = |found: Prediction| {
        votes = Some(found);
        ControlFlow::Continue(())
    };
    predict_all(network, [image], plan, 1024, &mut observer)?;
    votes.ok_or_else(|| anyhow!("no votes were counted"))
}
