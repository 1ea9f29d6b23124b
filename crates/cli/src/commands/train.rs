//! `heatsmooth train`: make a model.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use data::{Augment, Dataset, Split};
use network::architecture::{self, Task};
use network::{Differentiable, Model, ModelInfo};
use rayon::ThreadPool;
use record::{DataId, ModelId, RunManifest, Versions};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use train::methods::Baseline;
use train::{EpochReport, MODEL_FILE, Observer, Plan, Progress, Run, Schedule, SgdParams};

use crate::common::{Common, Configured, normalisation, open_data, shape_of};
use crate::failure::advised;
use crate::progress::Meter;
use crate::{config, output};

/// Train a model; running the same command again resumes.
#[derive(Args, Debug)]
pub struct Flags {
    #[command(subcommand)]
    method: Method,
}

#[derive(Subcommand, Debug)]
enum Method {
    /// Cross-entropy on clean images: the undefended baseline.
    #[command(
        after_help = "Example: heatsmooth train baseline --data digits --arch smallcnn --out runs/baseline"
    )]
    Baseline(MethodFlags),
}

#[derive(Args, Debug)]
struct MethodFlags {
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
    /// The data set: a name, or a folder of class folders of images.
    #[arg(long)]
    data: Option<String>,
    /// The folder of data sets [default: $HEATSMOOTH_DATA, or the platform's].
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// The network, by name; `--arch list` shows them.
    #[arg(long)]
    arch: Option<String>,
    /// The run folder.
    #[arg(long, value_name = "RUN")]
    out: Option<PathBuf>,
    /// Passes over the data [default: 200; digits: 20].
    #[arg(long, value_name = "N")]
    epochs: Option<u32>,
    /// Images a step [default: 128; digits: 64].
    #[arg(long, value_name = "N")]
    batch_size: Option<usize>,
    /// Learning rate [default: 0.1].
    #[arg(long)]
    lr: Option<f64>,
    /// constant, cosine, one-cycle or piecewise:EPOCHS@FACTOR [default:
    /// piecewise:60,120,160@0.2; digits: one-cycle].
    #[arg(long)]
    schedule: Option<String>,
    /// Epochs over which the rate first rises from 0 [default: 0].
    #[arg(long, value_name = "E")]
    warmup_epochs: Option<f64>,
    /// Share of the old step that is kept [default: 0.9].
    #[arg(long)]
    momentum: Option<f32>,
    /// Pull towards 0 on weights, never on biases and norms [default: 5e-4].
    #[arg(long)]
    weight_decay: Option<f32>,
    /// Bound on the gradient's norm [default: none].
    #[arg(long)]
    clip: Option<f32>,
    /// Variations of the images: auto or none [default: auto].
    #[arg(long)]
    augment: Option<String>,
    /// Input normalisation, mean and std for each channel, as
    /// `0.49,0.48,0.45/0.25,0.24,0.26`, or none [default: none].
    #[arg(long, value_name = "MEANS/STDS")]
    normalise: Option<String>,
    /// Seconds between checkpoints within an epoch [default: 30].
    #[arg(long, value_name = "S")]
    checkpoint_seconds: Option<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Config {
    data: String,
    #[serde(default)]
    root: Option<PathBuf>,
    arch: String,
    out: PathBuf,
    epochs: u32,
    batch_size: usize,
    lr: f64,
    schedule: Schedule,
    warmup_epochs: f64,
    momentum: f32,
    weight_decay: f32,
    #[serde(default)]
    clip: Option<f32>,
    augment: AugmentChoice,
    normalise: String,
    checkpoint_seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AugmentChoice {
    Auto,
    None,
}

/// The paper's settings for CIFAR-10; shorter ones for the embedded digits.
fn defaults(data: Option<&str>) -> Value {
    let digits = data == Some("digits");
    json!({
        "epochs": if digits { 20 } else { 200 },
        "batch-size": if digits { 64 } else { 128 },
        "lr": 0.1,
        "schedule": if digits { "one-cycle" } else { "piecewise:60,120,160@0.2" },
        "warmup-epochs": 0.0,
        "momentum": 0.9,
        "weight-decay": 5e-4,
        "augment": "auto",
        "normalise": "none",
        "checkpoint-seconds": 30.0,
    })
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    let Method::Baseline(flags) = flags.method;
    let MethodFlags {
        options,
        configured,
        common,
    } = flags;
    if options.arch.as_deref() == Some("list") {
        let lines = architecture::ARCHITECTURES.iter();
        let lines: Vec<String> = lines
            .map(|(name, about)| format!("{name:20} {about}"))
            .collect();
        return output::print(&lines.join("\n"));
    }
    let file = configured.config.as_deref();
    let data = config::peek("data", file, &options)?;
    let config: Config = config::resolve(defaults(data.as_deref()), file, &options)?;
    if configured.print_config {
        return output::print(&config::print(&config)?);
    }
    let pool = common.start()?;
    train_baseline(&config, &common, pool)
}

fn train_baseline(config: &Config, common: &Common, pool: Arc<ThreadPool>) -> Result<()> {
    let train_set = open_data(&config.data, Split::Train, config.root.clone(), None)?;
    let test_set = open_data(&config.data, Split::Test, config.root.clone(), None)?;
    let plan = plan(config, &train_set, common.seed);
    plan.check()?;
    let model = fresh_model(config, &train_set, &plan)?;
    let manifest = RunManifest {
        format: RunManifest::FORMAT.into(),
        version: RunManifest::VERSION,
        command: "train".into(),
        method: "baseline".into(),
        label: None,
        sigma: None,
        configuration: json!({"arch": config.arch, "normalise": config.normalise, "plan": plan}),
        seed: common.seed,
        data: data_id(&train_set),
        parent: None,
        model: None,
        versions: versions(pool.current_num_threads()),
        started: None,
        finished: None,
    };
    let path = config.out.join(RunManifest::FILE);
    manifest.claim(&path)?;
    let mut network = network::Cpu::new(&model, pool);
    let run = Run {
        folder: config.out.clone(),
        train: &train_set,
        test: Some(&test_set),
        checkpoint_every: Duration::try_from_secs_f64(config.checkpoint_seconds).map_err(|_| {
            advised(
                "--checkpoint-seconds makes no sense",
                "give a positive number",
            )
        })?,
    };
    let mut teller = Teller::new(common.quiet);
    train::train(&mut network, &mut Baseline, &plan, &run, &mut teller)?;
    let last = teller.finish();
    let model = Model {
        parameters: network.parameters().clone(),
        ..model
    };
    finish(&config.out, &model, manifest, common, last)
}

/// Writes the model and completes the manifest; prints the summary.
fn finish(
    out: &Path,
    model: &Model,
    manifest: RunManifest,
    common: &Common,
    last: Option<EpochReport>,
) -> Result<()> {
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
    let accuracy = last.as_ref().and_then(|report| {
        let found = report
            .values
            .iter()
            .find(|(name, _)| *name == "test_accuracy");
        found.map(|(_, value)| *value)
    });
    let mut text = format!("{}: {} trained\n", file.display(), manifest.method);
    if let Some(accuracy) = accuracy {
        text += &format!(
            "  test accuracy {} (clean; guarantee: empirical)\n",
            output::percent(accuracy)
        );
    }
    let value = json!({"model": file.display().to_string(), "sha256": manifest.model.map(|m| m.sha256), "test_accuracy": accuracy});
    output::summary(common.json, &value, &text)
}

fn plan(config: &Config, dataset: &Dataset, seed: u64) -> Plan {
    Plan {
        epochs: config.epochs,
        batch_size: config.batch_size,
        lr: config.lr,
        schedule: config.schedule.clone(),
        warmup_epochs: config.warmup_epochs,
        sgd: SgdParams {
            momentum: config.momentum,
            weight_decay: config.weight_decay,
            clip: config.clip,
        },
        augment: match config.augment {
            AugmentChoice::Auto => dataset.default_augment(),
            AugmentChoice::None => Augment::None,
        },
        seed,
    }
}

/// A network of the wanted architecture with random weights.
fn fresh_model(config: &Config, dataset: &Dataset, plan: &Plan) -> Result<Model> {
    let input = shape_of(dataset);
    let mut task = Task::new(input, dataset.classes().len());
    if config.normalise != "none" {
        let (mean, std) = normalisation(&config.normalise, input.channels)?;
        task = task.normalised(&mean, &std);
    }
    let graph = architecture::build(&config.arch, &task)?;
    let Value::Object(hyper_parameters) = serde_json::to_value(plan)? else {
        unreachable!("a plan is a struct");
    };
    let info = ModelInfo {
        architecture: Some(config.arch.clone()),
        classes: dataset.classes().to_vec(),
        method: Some("baseline".into()),
        hyper_parameters,
        data: Some(dataset.name().into()),
        data_sha256: Some(dataset.hash().into()),
        version: Some(env!("CARGO_PKG_VERSION").into()),
        ..ModelInfo::default()
    };
    Ok(Model::initialised(graph, plan.seed, info))
}

/// How a data set is named in records.
pub fn data_id(dataset: &Dataset) -> DataId {
    DataId {
        name: dataset.name().into(),
        split: dataset.split().to_string(),
        sha256: dataset.hash().into(),
    }
}

/// What computes.
pub fn versions(threads: usize) -> Versions {
    Versions {
        program: env!("CARGO_PKG_VERSION").into(),
        isa: network::Isa::detect().name().into(),
        threads,
    }
}

/// Shows a run on stderr and remembers its last epoch.
pub struct Teller {
    quiet: bool,
    meter: Option<Meter>,
    resumed: u64,
    last: Option<EpochReport>,
}

impl Teller {
    /// Silent if `quiet`.
    pub fn new(quiet: bool) -> Self {
        Self {
            quiet,
            meter: None,
            resumed: 0,
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
        let (quiet, resumed) = (self.quiet, self.resumed);
        let meter = self.meter.get_or_insert_with(|| {
            let mut meter = Meter::new(quiet, "steps", progress.steps);
            meter.resume(resumed);
            meter
        });
        meter.set(progress.step, || {
            format!(
                "epoch {}/{} loss {:.4}",
                progress.epoch, progress.epochs, progress.loss
            )
        });
        std::ops::ControlFlow::Continue(())
    }

    fn epoch(&mut self, report: &EpochReport) {
        if let Some(meter) = &self.meter {
            let values: Vec<String> = report
                .values
                .iter()
                .map(|(name, v)| format!("{name} {v:.4}"))
                .collect();
            meter.line(&format!("epoch {}: {}", report.epoch, values.join(", ")));
        }
        self.last = Some(report.clone());
    }

    fn resumed(&mut self, step: u64) {
        self.resumed = step;
        if !self.quiet {
            eprintln!("resuming at step {step}");
        }
    }
}

/// The baseline of the demo.
pub fn digits_baseline(out: &Path, common: Common) -> Result<()> {
    let mut options = defaults(Some("digits"));
    options["data"] = "digits".into();
    options["arch"] = "smallcnn".into();
    options["out"] = out.display().to_string().into();
    let config: Config = config::resolve(options, None, json!({}))?;
    let pool = common.start()?;
    train_baseline(&config, &common, pool)
}
