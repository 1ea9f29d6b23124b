//! The paper's experiment as one recipe: four models, each made and measured,
//! then compared in a report. Every stage is a command that resumes by itself,
//! so the recipe can be stopped and run again at any moment.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use data::Split;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::commands::{attack, certify, fidelity, lbound, smooth, train};
use crate::common::{Common, open_data};
use crate::failure::advised;
use crate::progress::Part;

/// The four models that are compared, in the order in which they are made.
const MODELS: [Model; 4] = [
    Model::Baseline,
    Model::Gaussian,
    Model::Smoothadv,
    Model::Heat,
];

/// A model that is made: one of those that the paper compares, or the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    Start,
    Baseline,
    Gaussian,
    Smoothadv,
    Heat,
}

impl Model {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Baseline => "baseline",
            Self::Gaussian => "gaussian",
            Self::Smoothadv => "smoothadv",
            Self::Heat => "heat",
        }
    }

    /// A stochastic model is the average over noise: it chooses its class by
    /// votes, and is bounded and attacked as an average. A deterministic one is
    /// what one clean pass says.
    fn stochastic(self) -> bool {
        report::averages(self.name())
    }
}

/// What is done, as a file says it: under each name the options of that command,
/// under the names that its own configuration files use.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Recipe {
    /// Title of the report.
    pub title: String,
    /// The data set.
    pub data: String,
    /// Noise level of everything.
    pub sigma: f64,
    /// Measure on the first so many test images; none said: all.
    pub images: Option<u64>,
    /// Noises over which stochastic models are averaged when they are attacked.
    pub attack_samples: u32,
    /// Noises over which stochastic models are averaged for the L-bound.
    pub lbound_samples: u32,
    /// Options of `train baseline` for a model that is only started from, with
    /// `from = "start"`; empty: none.
    #[serde(default)]
    pub start: Map<String, Value>,
    /// Options of `train baseline`.
    pub baseline: Map<String, Value>,
    /// Options of `train gaussian`; `from = "baseline"` starts from that model.
    pub gaussian: Map<String, Value>,
    /// Options of `train smoothadv`.
    pub smoothadv: Map<String, Value>,
    /// Options of `smooth`.
    pub heat: Map<String, Value>,
    /// Options of `certify`.
    pub certify: Map<String, Value>,
    /// Options of `attack pgd`.
    pub pgd: Map<String, Value>,
    /// Options of `attack ddn`.
    pub ddn: Map<String, Value>,
    /// Options of `fidelity`.
    pub fidelity: Map<String, Value>,
}

/// A recipe in a folder.
pub struct Pipeline<'a> {
    /// What to do.
    pub recipe: &'a Recipe,
    /// Where everything goes.
    pub out: &'a Path,
    /// The folder of data sets.
    pub root: Option<PathBuf>,
    /// Measure on so many images instead of what the recipe says.
    pub images: Option<u64>,
    /// Options of every command.
    pub common: &'a Common,
}

/// One command.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Make(Model),
    Certify(Model),
    Lbound(Model),
    Attack(Model, &'static str),
    Fidelity,
}

impl Stage {
    /// What takes longest, certification, comes last: the models and all else
    /// can be looked at before.
    fn all(recipe: &Recipe) -> Vec<Self> {
        let start = (!recipe.start.is_empty()).then_some(Model::Start);
        let mut all: Vec<Self> = start.into_iter().chain(MODELS).map(Self::Make).collect();
        for model in MODELS {
            let attack = |name| Self::Attack(model, name);
            all.extend([Self::Lbound(model), attack("pgd"), attack("ddn")]);
        }
        all.push(Self::Fidelity);
        all.extend(MODELS.map(Self::Certify));
        all
    }

    fn name(self) -> String {
        match self {
            Self::Make(Model::Heat) => "heat: smooth".into(),
            Self::Make(model) => format!("{}: train", model.name()),
            Self::Certify(model) => format!("{}: certify", model.name()),
            Self::Lbound(model) => format!("{}: L-bound", model.name()),
            Self::Attack(model, attack) => {
                format!("{}: {}", model.name(), attack.to_uppercase())
            }
            Self::Fidelity => "heat: fidelity".into(),
        }
    }
}

impl Pipeline<'_> {
    /// Runs all stages, each from where an earlier run left it.
    pub fn stages(&self) -> Result<()> {
        self.check()?;
        let stages = Stage::all(self.recipe);
        let work: Vec<f64> = stages.iter().map(|&stage| self.work(stage)).collect();
        let mut done = (0.0, Duration::ZERO);
        for (number, &stage) in stages.iter().enumerate() {
            let name = format!("[{}/{}] {}", number + 1, stages.len(), stage.name());
            if !self.common.quiet {
                eprintln!("{name}");
            }
            let clock = Instant::now();
            Part::enter(Some(Part {
                name,
                here: work[number],
                after: work[number + 1..].iter().sum(),
                done,
                before: 0.0,
            }));
            let outcome = self.stage(stage);
            let before = Part::enter(None).map_or(0.0, |part| part.before);
            outcome?;
            // What an earlier run had done says nothing about the speed.
            let elapsed = clock.elapsed();
            if elapsed > Duration::from_secs(1) {
                done = (done.0 + work[number] * (1.0 - before), done.1 + elapsed);
            }
        }
        Ok(())
    }

    /// Refuses before hours of training what the measurements after it would refuse.
    fn check(&self) -> Result<()> {
        let data = open_data(&self.recipe.data, Split::Test, self.root.clone(), None)?;
        match self.images() {
            Some(images) if images == 0 || images > data.len() as u64 => Err(advised(
                format!("--images is {images}"),
                format!(
                    "give 1 to {}, the test images of {}",
                    data.len(),
                    data.name()
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Measured are the first so many test images.
    fn images(&self) -> Option<u64> {
        self.images.or(self.recipe.images)
    }

    /// Writes the report about everything in the folder.
    pub fn report(&self) -> Result<(report::Report, report::Written)> {
        let options = report::Options {
            title: self.recipe.title.clone(),
            ..report::Options::default()
        };
        let report = report::build(&[self.out.to_path_buf()], &options)?;
        let written = report.write(&self.out.join("report"))?;
        Ok((report, written))
    }

    /// The finished model's file.
    pub fn model(&self, name: &str) -> PathBuf {
        self.out.join(name).join(::train::MODEL_FILE)
    }

    /// Options of the commands that are stages: their summaries are the report.
    pub fn silent(&self) -> Common {
        Common {
            silent: true,
            ..self.common.clone()
        }
    }

    fn stage(&self, stage: Stage) -> Result<()> {
        let common = &self.silent();
        match stage {
            Stage::Make(model) => {
                let options = self.training(model);
                match model {
                    Model::Heat => smooth::step(options, common),
                    Model::Start => train::step("baseline", options, common),
                    _ => train::step(model.name(), options, common),
                }
            }
            Stage::Certify(model) => {
                let select = if model.stochastic() { "noise" } else { "clean" };
                let mut options = self.measurement("certify", model, &self.recipe.certify);
                options["select"] = json!(select);
                certify::step(options, common)
            }
            Stage::Lbound(model) => {
                let mut options = self.measurement("lbound", model, &Map::new());
                if model.stochastic() {
                    options["samples"] = json!(self.recipe.lbound_samples);
                }
                lbound::step(options, common)
            }
            Stage::Attack(model, name) => {
                let settings = match name {
                    "pgd" => &self.recipe.pgd,
                    _ => &self.recipe.ddn,
                };
                let mut options = self.measurement(name, model, settings);
                if model.stochastic() {
                    options["samples"] = json!(self.recipe.attack_samples);
                }
                if settings.contains_key("save-images") {
                    let gallery = format!("gallery-{name}-{}", model.name());
                    options["save"] = json!(self.out.join(gallery));
                }
                attack::step(name, options, common)
            }
            Stage::Fidelity => {
                let mut options = self.measurement("fidelity", Model::Heat, &self.recipe.fidelity);
                options["reference"] = json!(self.model("baseline"));
                fidelity::step(options, common)
            }
        }
    }

    fn settings(&self, model: Model) -> &Map<String, Value> {
        match model {
            Model::Start => &self.recipe.start,
            Model::Baseline => &self.recipe.baseline,
            Model::Gaussian => &self.recipe.gaussian,
            Model::Smoothadv => &self.recipe.smoothadv,
            Model::Heat => &self.recipe.heat,
        }
    }

    /// Options that make a model.
    fn training(&self, model: Model) -> Value {
        let mut options = self.settings(model).clone();
        options.insert("data".into(), json!(self.recipe.data));
        options.insert("root".into(), json!(self.root));
        options.insert("out".into(), json!(self.out.join(model.name())));
        if !matches!(model, Model::Start | Model::Baseline) {
            options.insert("sigma".into(), json!(self.recipe.sigma));
        }
        if model == Model::Heat {
            options.insert("model".into(), json!(self.model("baseline")));
        }
        if let Some(from) = options.get("from").and_then(Value::as_str) {
            let from = json!(self.model(from));
            options.insert("from".into(), from);
        }
        Value::Object(options)
    }

    /// Options that measure a model.
    fn measurement(&self, what: &str, model: Model, settings: &Map<String, Value>) -> Value {
        let mut options = settings.clone();
        let log = format!("{what}-{}.tsv", model.name());
        for (key, value) in [
            ("model", json!(self.model(model.name()))),
            ("data", json!(self.recipe.data)),
            ("root", json!(self.root)),
            ("sigma", json!(self.recipe.sigma)),
            ("out", json!(self.out.join(log))),
        ] {
            options.insert(key.into(), value);
        }
        if let Some(images) = self.images() {
            let images = json!(format!("0..{images}"));
            options.entry("images").or_insert(images);
        }
        Value::Object(options)
    }

    /// About how much work a stage is, in forward passes of one image. A taped
    /// pass with its backward pass costs some 5 of them, a gradient with respect
    /// to the image some 2 more.
    fn work(&self, stage: Stage) -> f64 {
        const TRAIN: f64 = 5.0;
        const ATTACK: f64 = 2.5;
        let number = |map: &Map<String, Value>, key: &str, or: f64| {
            map.get(key).and_then(Value::as_f64).unwrap_or(or)
        };
        let images = self.images().unwrap_or(1000) as f64;
        let of = |model: Model, samples: u32| match model.stochastic() {
            true => f64::from(samples),
            false => 1.0,
        };
        match stage {
            Stage::Make(model) => {
                let map = self.settings(model);
                let pass = match model {
                    Model::Start | Model::Baseline | Model::Gaussian => TRAIN,
                    Model::Smoothadv => {
                        let steps = number(map, "attack-steps", 4.0);
                        number(map, "samples", 1.0) * (TRAIN + steps * ATTACK)
                    }
                    Model::Heat => {
                        let kappa = number(map, "kappa", 1.0);
                        number(map, "timesteps", 1.0)
                            * (1.0 + TRAIN + kappa * (TRAIN + ATTACK - 1.0))
                    }
                };
                pass * number(map, "epochs", 1.0) * 50_000.0
            }
            Stage::Certify(_) => images * number(&self.recipe.certify, "n", 1e4),
            Stage::Lbound(model) => images * of(model, self.recipe.lbound_samples),
            Stage::Attack(model, name) => {
                let map = if name == "pgd" {
                    &self.recipe.pgd
                } else {
                    &self.recipe.ddn
                };
                let samples = of(model, self.recipe.attack_samples);
                images * ATTACK * samples * number(map, "steps", 20.0)
            }
            Stage::Fidelity => images * number(&self.recipe.fidelity, "samples", 100.0) * 8.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        common: Common,
    }

    #[test]
    fn images_that_are_not_there_are_refused_before_any_work() {
        let recipe = include_str!("../presets/demo.toml");
        let recipe: Recipe = toml::from_str(recipe).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        for images in [0, 361] {
            let pipeline = Pipeline {
                recipe: &recipe,
                out: &out,
                root: None,
                images: Some(images),
                common: &Line::parse_from(["heatsmooth"]).common,
            };
            let error = pipeline.stages().unwrap_err().to_string();
            assert_eq!(error, format!("--images is {images}"));
            assert!(!out.exists());
        }
    }
}
