//! `heatsmooth lbound`: the Lipschitz bound.

use std::time::Duration;

use anyhow::Result;
use certify::{Bound, LBound, LBoundSummary, lbound_all};
use clap::Args;
use record::{Guarantee, Kind, LboundRow};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::common::{Common, Configured};
use crate::measure::{Recorder, SubjectArgs, SubjectConfig};
use crate::{config, output};

/// The L-bound sigma * sqrt(pi/2) * (p_y - max p_i) for each image.
///
/// Approximate for a deterministic model: it holds if v is exactly a Gaussian
/// average at sigma. With --samples the mean softmax over noise is used.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: heatsmooth lbound --model runs/heat/model.safetensors --data digits --sigma 0.25 --out lbound.tsv"
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
    subject: SubjectArgs,
    /// Noise level, in units of pixels scaled to [0, 1].
    #[arg(long, allow_negative_numbers = true)]
    sigma: Option<f64>,
    /// Average over M noisy copies, for stochastic models [default: 0, none].
    #[arg(long, value_name = "M")]
    samples: Option<u32>,
    /// How many classes count as right [default: 1].
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Config {
    #[serde(flatten)]
    subject: SubjectConfig,
    sigma: f64,
    samples: u32,
    top_k: usize,
}

fn defaults() -> Value {
    json!({"split": "test", "skip": 1, "samples": 0, "top-k": 1})
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let file = flags.configured.config.as_deref();
    let config: Config = config::resolve(defaults(), file, &flags.options)?;
    if flags.configured.print_config {
        return output::print(&config::print(&config)?);
    }
    measure(&config, &flags.common)
}

/// The command as a step of another one, with these options.
pub fn step(options: Value, common: &Common) -> Result<()> {
    measure(&config::resolve(defaults(), None, options)?, common)
}

fn measure(config: &Config, common: &Common) -> Result<()> {
    let plan = LBound {
        sigma: config.sigma,
        samples: config.samples,
        top_k: config.top_k,
        seed: common.seed,
    };
    let subject = config.subject.open(common)?;
    plan.check(subject.loaded.model.graph.classes())?;
    subject.check_sigma(config.sigma, common.quiet);
    let manifest = subject.manifest(
        &config.subject,
        common,
        (Kind::Lbound, "lbound"),
        Some(config.sigma),
        Guarantee::ApproximateIfAverage,
        json!({"samples": config.samples, "top_k": config.top_k}),
    );
    let none: [&str; 0] = [];
    let mut recorder = Recorder::open(&config.subject.out, &manifest, &none, common.quiet)?;
    let mut images = subject.images(recorder.resumed);
    let mut observer = |bound: Bound| {
        let row = LboundRow {
            idx: bound.index.into(),
            label: bound.label as u32,
            predict: bound.predict as u32,
            correct: bound.correct,
            radius: bound.radius,
            p_label: bound.p_label,
            p_other: bound.p_other,
            time: Duration::try_from_secs_f64(bound.seconds).ok(),
            extra: vec![],
        };
        recorder.push(row, String::new)
    };
    lbound_all(&subject.network, &mut images, &plan, 1024, &mut observer)?;
    images.result()?;
    let (rows, _) = recorder.finish()?;
    let summary = LBoundSummary::of(rows.iter().map(|r| r.radius));
    let centre = |c: Option<certify::Centre>| match c {
        Some(c) => format!("median {:.4}, mean {:.4}", c.median, c.mean),
        None => "none".into(),
    };
    let guarantee = Guarantee::ApproximateIfAverage.to_string();
    let text = format!(
        "{}: {} images, sigma {}\n  over the {} radii above 0 (the paper's figure): {}\n  over all images, wrong ones as 0: {}\n  guarantee: {guarantee}\n",
        config.subject.out.display(),
        summary.images,
        config.sigma,
        summary.positive_images,
        centre(summary.positive),
        centre(summary.all),
    );
    let numbers =
        |c: Option<certify::Centre>| c.map(|c| json!({"median": c.median, "mean": c.mean}));
    let value = json!({
        "log": config.subject.out.display().to_string(), "images": summary.images,
        "positive_images": summary.positive_images, "positive": numbers(summary.positive),
        "all": numbers(summary.all), "guarantee": guarantee,
    });
    output::summary(common, &value, &text)
}
