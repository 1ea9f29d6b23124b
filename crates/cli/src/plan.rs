//! Options that every training run has.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use data::{Augment, Dataset};
use network::{Model, ModelInfo};
use record::{ModelId, RunManifest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use train::{EpochReport, Leg, MODEL_FILE, Observer, Plan, Progress, Schedule, SgdParams};

use crate::common::Common;
use crate::failure::advised;
use crate::output;
use crate::progress::Meter;

/// How a network is trained, whatever the method.
#[derive(Args, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PlanArgs {
    /// Passes over the data.
    #[arg(long, value_name = "N")]
    epochs: Option<u32>,
    /// Images a step.
    #[arg(long, value_name = "N")]
    batch_size: Option<usize>,
    /// Learning rate.
    #[arg(long, allow_negative_numbers = true)]
    lr: Option<f64>,
    /// constant, cosine, one-cycle or piecewise:EPOCHS@FACTOR.
    #[arg(long)]
    schedule: Option<String>,
    /// Epochs over which the rate first rises from 0.
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    warmup_epochs: Option<f64>,
    /// Share of the old step that is kept.
    #[arg(long, allow_negative_numbers = true)]
    momentum: Option<f64>,
    /// Pull towards 0 on weights, never on biases and norms.
    #[arg(long, allow_negative_numbers = true)]
    weight_decay: Option<f64>,
    /// Bound on the gradient's norm; 0: none.
    #[arg(long, allow_negative_numbers = true)]
    clip: Option<f64>,
    /// Variations of the images: auto or none.
    #[arg(long)]
    augment: Option<String>,
    /// Keep the last N training images out of training, to make choices on:
    /// `--split train --images` measures on them [default: 0].
    #[arg(long, value_name = "N")]
    hold_out: Option<usize>,
    /// Seconds between checkpoints within an epoch.
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    checkpoint_seconds: Option<f64>,
}

/// [`PlanArgs`] resolved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PlanConfig {
    epochs: u32,
    batch_size: usize,
    lr: f64,
    schedule: Schedule,
    warmup_epochs: f64,
    momentum: f64,
    weight_decay: f64,
    clip: f64,
    augment: AugmentChoice,
    hold_out: usize,
    checkpoint_seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AugmentChoice {
    Auto,
    None,
}

impl PlanConfig {
    /// The plan for this data set.
    pub fn plan(&self, dataset: &Dataset, seed: u64) -> Result<Plan> {
        let clip = self.clip as f32;
        let plan = Plan {
            epochs: self.epochs,
            batch_size: self.batch_size,
            lr: self.lr,
            schedule: self.schedule.clone(),
            warmup_epochs: self.warmup_epochs,
            sgd: SgdParams {
                momentum: self.momentum as f32,
                weight_decay: self.weight_decay as f32,
                clip: (clip != 0.0).then_some(clip),
            },
            augment: match self.augment {
                AugmentChoice::Auto => dataset.default_augment(),
                AugmentChoice::None => Augment::None,
            },
            hold_out: self.hold_out,
            seed,
        };
        plan.check()?;
        plan.images(dataset)?;
        Ok(plan)
    }

    /// Time between checkpoints.
    pub fn checkpoint_every(&self) -> Result<Duration> {
        Duration::try_from_secs_f64(self.checkpoint_seconds).map_err(|_| {
            let message = format!("--checkpoint-seconds is {}", self.checkpoint_seconds);
            advised(message, "give a number of at least 0")
        })
    }
}

/// Defaults that all methods share.
pub fn shared_defaults() -> Value {
    json!({
        "warmup-epochs": 0.0, "momentum": 0.9, "clip": 0.0, "augment": "auto", "hold-out": 0,
        "checkpoint-seconds": 30.0,
    })
}

/// What the file of a model trained here says about itself.
pub fn provenance(
    dataset: &Dataset,
    method: &str,
    sigma: Option<f64>,
    settings: Value,
) -> ModelInfo {
    let hyper_parameters = match settings {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    ModelInfo {
        classes: dataset.classes().to_vec(),
        method: Some(method.into()),
        sigma,
        hyper_parameters,
        data: Some(dataset.name().into()),
        data_sha256: Some(dataset.hash().into()),
        version: Some(env!("CARGO_PKG_VERSION").into()),
        ..ModelInfo::default()
    }
}

/// Claims a run folder; gives the model's file if an earlier run finished it.
pub fn claim(manifest: &RunManifest, out: &Path, common: &Common) -> Result<Option<PathBuf>> {
    let found = manifest.claim(&out.join(RunManifest::FILE))?;
    let file = out.join(MODEL_FILE);
    let Some(model) = found
        .and_then(|found| found.model)
        .filter(|_| file.exists())
    else {
        return Ok(None);
    };
    let text = format!("{}: {}, already made", file.display(), manifest.method);
    let value = json!({
        "model": file.display().to_string(), "method": manifest.method, "sha256": model.sha256,
    });
    output::summary(common, &value, &text)?;
    Ok(Some(file))
}

/// Writes the model and completes the manifest; prints the summary.
pub fn finish(
    out: &Path,
    model: &Model,
    manifest: RunManifest,
    common: &Common,
    last: Option<EpochReport>,
) -> Result<PathBuf> {
    let bytes = model.to_bytes();
    let file = out.join(MODEL_FILE);
    record::atomic::write(&file, &bytes)?;
    let manifest = RunManifest {
        model: Some(ModelId {
            sha256: network::file::sha256(&bytes),
            path: Some(MODEL_FILE.into()),
        }),
        ..manifest
    };
    manifest.write(&out.join(RunManifest::FILE))?;
    let find = |name: &str| {
        let values = last.iter().flat_map(|report| &report.values);
        values.clone().find(|(n, _)| *n == name).map(|(_, v)| *v)
    };
    let accuracy = find("test_accuracy");
    let mut text = format!("{}: {}\n", file.display(), manifest.method);
    if let Some(accuracy) = accuracy {
        let accuracy = output::percent(accuracy);
        text += &format!("  clean test accuracy {accuracy} (guarantee: empirical)\n");
    }
    let value = json!({
        "model": file.display().to_string(), "method": manifest.method,
        "sha256": manifest.model.map(|m| m.sha256), "test_accuracy": accuracy,
    });
    output::summary(common, &value, &text)?;
    Ok(file)
}

/// Shows a run on stderr and remembers its last epoch.
pub struct Teller {
    quiet: bool,
    epochs: bool,
    meter: Option<Meter>,
    fresh: bool,
    last: Option<EpochReport>,
}

impl Teller {
    /// Silent if the options say quiet; epochs are told one by one only by a
    /// command that is not a step of another one.
    pub fn new(common: &Common) -> Self {
        Self {
            quiet: common.quiet,
            epochs: !common.silent,
            meter: None,
            fresh: true,
            last: None,
        }
    }

    /// The report of the last epoch, if one was run here.
    pub fn finish(self) -> Option<EpochReport> {
        if let Some(meter) = self.meter {
            meter.finish();
        }
        self.last
    }
}

impl Observer for Teller {
    fn step(&mut self, progress: &Progress) -> std::ops::ControlFlow<()> {
        let quiet = self.quiet;
        let meter = self
            .meter
            .get_or_insert_with(|| Meter::new(quiet, "steps", progress.steps));
        if std::mem::take(&mut self.fresh) {
            meter.resume(progress.step - 1);
        }
        meter.set(progress.step, || {
            format!(
                "epoch {}/{} loss {:.4}",
                progress.epoch, progress.epochs, progress.loss
            )
        });
        std::ops::ControlFlow::Continue(())
    }

    fn epoch(&mut self, report: &EpochReport) {
        if let Some(meter) = self.meter.as_ref().filter(|_| self.epochs) {
            let values: Vec<String> = report
                .values
                .iter()
                .map(|(name, v)| format!("{name} {v:.4}"))
                .collect();
            meter.line(&format!("epoch {}: {}", report.epoch, values.join(", ")));
        }
        self.last = Some(report.clone());
    }

    fn resumed(&mut self, leg: &Leg, step: u64) {
        if self.quiet {
            return;
        }
        match leg.of {
            1 => eprintln!("resuming at step {step}"),
            of => eprintln!(
                "resuming timestep {} of {of} at step {step}",
                leg.number + 1
            ),
        }
    }
}
