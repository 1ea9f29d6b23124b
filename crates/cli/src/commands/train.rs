//! `heatsmooth train`: make a model.

mod recipe;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::{Args, Subcommand};
use data::{Dataset, Split};
use network::architecture::{self, Task};
use network::{Cpu, Differentiable, Model, ModelInfo};
use rayon::ThreadPool;
use record::{DataId, ModelId, RunManifest, Versions};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use train::{Leg, Run};

use self::recipe::Recipe;
use crate::common::{
    Common, Configured, ModelConfig, check_fit, normalisation, open_data, shape_of,
};
use crate::failure::advised;
use crate::plan::{PlanArgs, PlanConfig, Teller, claim, finish, provenance, shared_defaults};
use crate::preset::PresetArgs;
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
    Baseline(MethodFlags<recipe::BaselineOptions>),
    /// Cross-entropy on noisy images: RandomizedSmoothing (Cohen et al.).
    #[command(
        after_help = "Example: heatsmooth train gaussian --data digits --arch smallcnn --sigma 0.25 --out runs/gaussian"
    )]
    Gaussian(MethodFlags<recipe::GaussianOptions>),
    /// Adversarial training of the smoothed classifier: SmoothAdv (Salman et al.).
    #[command(
        after_help = "Example: heatsmooth train smoothadv --data digits --arch smallcnn --sigma 0.25 --out runs/smoothadv"
    )]
    Smoothadv(MethodFlags<recipe::SmoothAdvOptions>),
    /// Ordinary adversarial training (Madry et al.): no noise, one copy.
    #[command(
        after_help = "Example: heatsmooth train adversarial --data digits --arch smallcnn --out runs/adversarial"
    )]
    Adversarial(MethodFlags<recipe::AdversarialOptions>),
}

#[derive(Args, Debug)]
struct MethodFlags<O: Args> {
    #[command(flatten)]
    own: O,
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
    /// The data set: a name, or a folder of class folders of images.
    #[arg(long)]
    data: Option<String>,
    /// The folder of data sets [default: $HEATSMOOTH_DATA, or the platform's].
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// The network, by name; `--arch list` shows them.
    #[arg(long)]
    arch: Option<String>,
    /// Start from a model's weights instead of random ones: fine-tune it. Its
    /// network is kept; --arch is needed only for a file of weights alone.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// The run folder.
    #[arg(long, value_name = "RUN")]
    out: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    plan: PlanArgs,
    /// Input normalisation, mean and std for each channel, as
    /// `0.49,0.48,0.45/0.25,0.24,0.26`; a network that is started from has its
    /// own [default: none].
    #[arg(long, value_name = "MEANS/STDS")]
    normalise: Option<String>,
}

/// A configured training run by the recipe `R`; options of other recipes are
/// unknown to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Config<R> {
    data: String,
    #[serde(default)]
    root: Option<PathBuf>,
    #[serde(default)]
    arch: Option<String>,
    #[serde(default)]
    from: Option<PathBuf>,
    out: PathBuf,
    #[serde(flatten)]
    plan: PlanConfig,
    #[serde(default)]
    normalise: Option<String>,
    #[serde(flatten)]
    recipe: R,
}

impl<R> Config<R> {
    /// The network before the first step: of random weights, or the one to
    /// start from, which is then its parent.
    fn start(
        &self,
        data: &Dataset,
        mut info: ModelInfo,
        seed: u64,
        quiet: bool,
    ) -> Result<(Model, Option<ModelId>)> {
        if let Some(from) = &self.from {
            let weights = ModelConfig {
                model: from.clone(),
                arch: self.arch.clone(),
                normalise: self.normalise.clone(),
                input: None,
                classes: None,
            };
            let loaded = weights.load(Some(data), quiet)?;
            check_fit(&loaded.model, data)?;
            info.architecture = loaded.model.info.architecture.clone();
            info.parent_sha256 = Some(loaded.sha256.clone());
            let parent = ModelId {
                sha256: loaded.sha256,
                path: Some(from.display().to_string()),
            };
            let model = loaded.model;
            return Ok((Model { info, ..model }, Some(parent)));
        }
        let Some(arch) = &self.arch else {
            let hint = "give --arch, such as smallcnn (`--arch list` shows all), or a model to start from with --from";
            return Err(advised("--arch is required", hint));
        };
        let input = shape_of(data);
        let mut task = Task::new(input, data.classes().len());
        if let Some(text) = self.normalise.as_deref().filter(|text| *text != "none") {
            let (mean, std) = normalisation(text, input.channels)?;
            task = task.normalised(&mean, &std);
        }
        info.architecture = Some(arch.clone());
        let graph = architecture::build(arch, &task)?;
        Ok((Model::initialised(graph, seed, info), None))
    }
}

/// The paper's settings for CIFAR-10; shorter ones for the embedded digits.
fn defaults<R: Recipe>(data: Option<&str>) -> Value {
    let digits = data == Some("digits");
    let mut all = shared_defaults();
    all["epochs"] = json!(if digits { 20 } else { 200 });
    all["batch-size"] = json!(if digits { 64 } else { 128 });
    all["lr"] = json!(0.1);
    all["schedule"] = json!(if digits {
        "one-cycle"
    } else {
        "piecewise:60,120,160@0.2"
    });
    all["weight-decay"] = json!(5e-4);
    config::extend(&mut all, R::defaults());
    all
}

/// The command as a step of another one, with these options and, under
/// `preset`, the name of shipped ones.
pub fn step(name: &str, options: Value, common: &Common) -> Result<()> {
    fn go<R: Recipe>(mut options: Value, common: &Common) -> Result<()> {
        let data = options["data"].as_str().map(String::from);
        let mut defaults = defaults::<R>(data.as_deref());
        PresetArgs::taken(&mut options).lay(&format!("train-{}", R::NAME), &mut defaults)?;
        let config: Config<R> = config::resolve(defaults, None, options)?;
        train_model(&config, common, common.start()?).map(|_| ())
    }
    match name {
        "gaussian" => go::<recipe::Noisy>(options, common),
        "smoothadv" => go::<recipe::Smooth>(options, common),
        "adversarial" => go::<recipe::Adversarial>(options, common),
        _ => go::<recipe::Clean>(options, common),
    }
}

/// Runs the command.
pub fn run(flags: Flags) -> Result<()> {
    match flags.method {
        Method::Baseline(flags) => start::<recipe::Clean, _>(flags),
        Method::Gaussian(flags) => start::<recipe::Noisy, _>(flags),
        Method::Smoothadv(flags) => start::<recipe::Smooth, _>(flags),
        Method::Adversarial(flags) => start::<recipe::Adversarial, _>(flags),
    }
}

fn start<R: Recipe, O: Args + Serialize>(flags: MethodFlags<O>) -> Result<()> {
    let MethodFlags {
        own,
        options,
        preset,
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
    let command = format!("train-{}", R::NAME);
    if let Some(list) = preset.list(&command) {
        return output::print(&list);
    }
    let file = configured.config.as_deref();
    let data = config::peek("data", file, &options)?;
    let mut defaults = defaults::<R>(data.as_deref());
    preset.lay(&command, &mut defaults)?;
    let mut flags = json!(options);
    config::extend(&mut flags, json!(own));
    let config: Config<R> = config::resolve(defaults, file, flags)?;
    if configured.print_config {
        return output::print(&config::print(&config)?);
    }
    let pool = common.start()?;
    train_model(&config, &common, pool).map(|_| ())
}

/// Trains; returns the model's file.
fn train_model<R: Recipe>(
    config: &Config<R>,
    common: &Common,
    pool: Arc<ThreadPool>,
) -> Result<PathBuf> {
    let (mut method, settings) = config.recipe.method()?;
    let sigma = config.recipe.sigma();
    let train_set = open_data(&config.data, Split::Train, config.root.clone(), None)?;
    let test_set = open_data(&config.data, Split::Test, config.root.clone(), None)?;
    let plan = config.plan.plan(&train_set, common.seed)?;
    let info = provenance(
        &train_set,
        R::NAME,
        sigma,
        json!({"method": settings, "plan": plan}),
    );
    let (model, parent) = config.start(&train_set, info, plan.seed, common.quiet)?;
    let manifest = RunManifest {
        format: RunManifest::FORMAT.into(),
        version: RunManifest::VERSION,
        command: "train".into(),
        method: R::NAME.into(),
        label: None,
        sigma,
        configuration: json!({
            "arch": model.info.architecture, "normalise": config.normalise, "method": settings, "plan": plan,
        }),
        seed: common.seed,
        data: data_id(&train_set),
        parent,
        model: None,
        versions: versions(pool.current_num_threads()),
        started: None,
        finished: None,
    };
    if let Some(file) = claim(&manifest, &config.out, common)? {
        return Ok(file);
    }
    let mut network = Cpu::new(&model, pool);
    let run = Run {
        folder: config.out.clone(),
        train: &train_set,
        test: Some(&test_set),
        checkpoint_every: config.plan.checkpoint_every()?,
        leg: Leg::ONLY,
    };
    let mut teller = Teller::new(common);
    train::train(&mut network, method.as_mut(), &plan, &run, &mut teller)?;
    let model = Model {
        parameters: network.parameters().clone(),
        ..model
    };
    finish(&config.out, &model, manifest, common, teller.finish())
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
