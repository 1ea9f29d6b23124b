//! `heatsmooth smooth`: HeatSmoothing of a given model.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use data::Split;
use network::{Cpu, Model, ModelInfo};
use rayon::ThreadPool;
use record::{ModelId, RunManifest};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use train::methods::HeatParams;
use train::{HeatRun, Leg, Run};

use crate::commands::train::{data_id, versions};
use crate::common::{Common, Configured, DataConfig, ModelArgs, ModelConfig, load_both, open_data};
use crate::plan::{PlanArgs, PlanConfig, Teller, claim, finish, provenance, shared_defaults};
use crate::preset::PresetArgs;
use crate::{config, output};

/// Turn a model into its own Gaussian average (HeatSmoothing, Algorithm 1);
/// labels are never used. Running the same command again resumes.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: heatsmooth smooth --model runs/baseline/model.safetensors --data digits --sigma 0.25 --out runs/heat"
)]
pub struct Flags {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    preset: PresetArgs,
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
    /// The data set: a name, or a folder of class folders of images.
    #[arg(long)]
    data: Option<String>,
    /// The folder of data sets [default: $HEATSMOOTH_DATA, or the platform's].
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// The run folder.
    #[arg(long, value_name = "RUN")]
    out: Option<PathBuf>,
    /// Noise level whose average is wanted, in units of pixels scaled to [0, 1].
    #[arg(long, allow_negative_numbers = true)]
    sigma: Option<f64>,
    /// Scale of the gradient term; 0.5 is true Gaussian averaging, the paper
    /// takes 5 [default: 1].
    #[arg(long, allow_negative_numbers = true)]
    lambda: Option<f64>,
    /// Steps of the heat equation, each with its own student [default: 1].
    #[arg(long, value_name = "N")]
    timesteps: Option<u32>,
    /// Random projections of the Jacobian a step [default: 1].
    #[arg(long)]
    kappa: Option<u32>,
    /// Finite-difference step [default: 0.1].
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    fd_step: Option<f64>,
    /// Distance to the teacher: l2, kl or l2-prob [default: l2].
    #[arg(long)]
    fit: Option<String>,
    /// Where a student starts: warm (the teacher's weights) or reinit [default:
    /// warm].
    #[arg(long)]
    start: Option<String>,
    /// How projections add up: unbiased, or the paper's plain sum [default:
    /// unbiased].
    #[arg(long)]
    scale: Option<String>,
    /// Divide the loss by the variance of the teacher's outputs: true or false
    /// [default: true].
    #[arg(long, value_name = "BOOL")]
    scale_free: Option<bool>,
    /// Share of the student's inputs that get noise; the paper has none
    /// [default: 0.5].
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    noisy_share: Option<f64>,
    /// Keep all iterates f1, f2, ... beside the model.
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    keep_iterates: bool,
    #[command(flatten)]
    #[serde(flatten)]
    plan: PlanArgs,
}

/// A configured heat-smoothing run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Config {
    #[serde(flatten)]
    model: ModelConfig,
    data: String,
    #[serde(default)]
    root: Option<PathBuf>,
    out: PathBuf,
    #[serde(flatten)]
    heat: HeatParams,
    keep_iterates: bool,
    #[serde(flatten)]
    plan: PlanConfig,
}

/// The warm recipe: minutes on a pretrained network.
fn defaults(data: Option<&str>) -> Value {
    let digits = data == Some("digits");
    let mut all = shared_defaults();
    let own = json!({
        "lambda": 1.0, "timesteps": 1, "kappa": 1, "fd-step": 0.1, "fit": "l2", "start": "warm",
        "scale": "unbiased", "scale-free": true, "noisy-share": 0.5, "keep-iterates": false,
        "epochs": if digits { 40 } else { 1 }, "batch-size": if digits { 64 } else { 128 },
        "lr": 0.05, "schedule": "cosine", "weight-decay": 0.0, "clip": 1.0,
    });
    config::extend(&mut all, own);
    all
}

/// The command as a step of another one, with these options and, under
/// `preset`, the name of shipped ones.
pub fn step(mut options: Value, common: &Common) -> Result<()> {
    let data = options["data"].as_str().map(String::from);
    let mut defaults = defaults(data.as_deref());
    PresetArgs::taken(&mut options).lay("smooth", &mut defaults)?;
    let config: Config = config::resolve(defaults, None, options)?;
    smooth_model(&config, common, common.start()?).map(|_| ())
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    if let Some(list) = flags.preset.list("smooth") {
        return output::print(&list);
    }
    let file = flags.configured.config.as_deref();
    let data = config::peek("data", file, &flags.options)?;
    let mut defaults = defaults(data.as_deref());
    flags.preset.lay("smooth", &mut defaults)?;
    let config: Config = config::resolve(defaults, file, &flags.options)?;
    if flags.configured.print_config {
        return output::print(&config::print(&config)?);
    }
    let pool = flags.common.start()?;
    smooth_model(&config, &flags.common, pool).map(|_| ())
}

/// Smooths a model; returns the new model's file.
fn smooth_model(config: &Config, common: &Common, pool: Arc<ThreadPool>) -> Result<PathBuf> {
    config.heat.check()?;
    let data = DataConfig {
        data: config.data.clone(),
        split: Split::Train,
        root: config.root.clone(),
    };
    let (loaded, train_set) = load_both(&config.model, &data, common.quiet)?;
    let f = loaded.model;
    let test_set = open_data(
        &config.data,
        Split::Test,
        config.root.clone(),
        Some(f.graph.input()),
    )?;
    let plan = config.plan.plan(&train_set, common.seed)?;
    let settings = json!({"heat": config.heat, "plan": plan});
    let manifest = RunManifest {
        format: RunManifest::FORMAT.into(),
        version: RunManifest::VERSION,
        command: "smooth".into(),
        method: "heat".into(),
        label: None,
        sigma: Some(config.heat.sigma),
        configuration: settings.clone(),
        seed: common.seed,
        data: data_id(&train_set),
        parent: Some(ModelId {
            sha256: loaded.sha256.clone(),
            path: Some(config.model.model.display().to_string()),
        }),
        model: None,
        versions: versions(pool.current_num_threads()),
        started: None,
        finished: None,
    };
    if let Some(file) = claim(&manifest, &config.out, common)? {
        return Ok(file);
    }
    let mut heat = HeatRun {
        params: config.heat.clone(),
        plan,
        run: Run {
            folder: config.out.clone(),
            train: &train_set,
            test: Some(&test_set),
            checkpoint_every: config.plan.checkpoint_every()?,
            leg: Leg::ONLY,
        },
        keep_iterates: config.keep_iterates,
    };
    let mut teller = Teller::new(common);
    let executor = |model: &Model| Cpu::new(model, Arc::clone(&pool));
    let v = train::smooth(&f, &mut heat, executor, &mut teller)?;
    let info = ModelInfo {
        architecture: f.info.architecture.clone(),
        parent_sha256: Some(loaded.sha256),
        ..provenance(&train_set, "heat", Some(config.heat.sigma), settings)
    };
    let file = finish(
        &config.out,
        &Model { info, ..v },
        manifest,
        common,
        teller.finish(),
    )?;
    heat.tidy()?;
    Ok(file)
}
