//! What `attack pgd` and `attack ddn` can be told, and what becomes of it.

use std::path::PathBuf;

use anyhow::Result;
use attack::{Aim, Attack, Averaged, Batch, DdnParams, Deterministic, PgdParams, Target};
use clap::Args;
use data::Dataset;
use network::{Classify as _, Cpu, Noise, Purpose};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::failure::advised;
use crate::measure::{SubjectArgs, SubjectConfig};
use crate::{common, config};

/// Options of both attacks.
#[derive(Args, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Options {
    #[command(flatten)]
    #[serde(flatten)]
    subject: SubjectArgs,
    /// Steps [default: 20].
    #[arg(long)]
    steps: Option<u32>,
    /// Drive every image to a class: its number or name, `next` (the one after
    /// the label) or `random`. Success is then that class predicted [default:
    /// away from the label].
    #[arg(long, value_name = "CLASS")]
    target: Option<String>,
    /// Judge by the top K classes: the label leaves them, or the target enters
    /// them [default: 1].
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Attack the average over M noises: the stochastic model [default: 1, the
    /// network itself].
    #[arg(long, value_name = "M")]
    samples: Option<u32>,
    /// Noise level of the stochastic model.
    #[arg(long, allow_negative_numbers = true)]
    sigma: Option<f64>,
    /// Draw new noises in every step instead of M fixed ones; success is then
    /// checked on noises that the attack has not seen.
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    fresh_noise: bool,
    /// Images attacked at once [default: 100].
    #[arg(long, value_name = "N")]
    batch_size: Option<usize>,
    /// Save pictures of the first images here: original, noisy, adversarial, and
    /// the difference, amplified.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// How many images to save [default: 24].
    #[arg(long, value_name = "N")]
    save_images: Option<usize>,
}

/// PGD's own options.
#[derive(Args, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PgdOptions {
    /// The L2 budget [default: 4].
    #[arg(long, allow_negative_numbers = true)]
    eps: Option<f64>,
    /// Length of a step [default: 2 * eps / steps].
    #[arg(long, value_name = "L", allow_negative_numbers = true)]
    step_size: Option<f64>,
}

/// DDN's own options.
#[derive(Args, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DdnOptions {
    /// Scale results of a larger L2 norm down to this one, whether or not they
    /// still succeed then [default: none].
    #[arg(long, allow_negative_numbers = true)]
    eps: Option<f64>,
    /// Norm to start from [default: 1].
    #[arg(long, value_name = "L", allow_negative_numbers = true)]
    init_norm: Option<f64>,
    /// Relative change of the norm in a step [default: 0.05].
    #[arg(long, allow_negative_numbers = true)]
    gamma: Option<f64>,
    /// Grey levels to round to, 0: do not round [default: 256].
    #[arg(long, value_name = "N")]
    levels: Option<u32>,
}

/// A configured attack: [`Options`] and those of the attack `A` itself. Options of
/// the other attack are unknown to it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Config<A> {
    /// Model, images, log.
    #[serde(flatten)]
    pub subject: SubjectConfig,
    steps: u32,
    #[serde(default)]
    target: Option<TargetText>,
    /// See [`Options`].
    pub top_k: usize,
    samples: u32,
    /// See [`Options`].
    #[serde(default)]
    pub sigma: Option<f64>,
    fresh_noise: bool,
    /// See [`Options`].
    pub batch_size: usize,
    /// See [`Options`].
    #[serde(default)]
    pub save: Option<PathBuf>,
    #[serde(default)]
    save_images: Option<usize>,
    #[serde(flatten)]
    own: A,
}

/// A class in a configuration file may be a number or a text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum TargetText {
    Number(u32),
    Text(String),
}

/// One of the two attacks.
pub trait Own: Serialize + DeserializeOwned {
    /// As in records.
    const NAME: &'static str;

    /// Its own defaults.
    fn defaults() -> Value;

    /// The attack, and what decides it, for records.
    fn attack(&self, steps: u32, seed: u64) -> Result<(Box<dyn Attack>, Value)>;
}

/// [`PgdOptions`] resolved.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PgdConfig {
    eps: f64,
    #[serde(default)]
    step_size: Option<f64>,
}

impl Own for PgdConfig {
    const NAME: &'static str = "pgd";

    fn defaults() -> Value {
        json!({"eps": PgdParams::default().eps})
    }

    fn attack(&self, steps: u32, seed: u64) -> Result<(Box<dyn Attack>, Value)> {
        let params = PgdParams {
            steps,
            eps: self.eps,
            step_size: self.step_size,
            seed,
            ..PgdParams::default()
        };
        let pgd = params.check()?;
        let settings = json!({"steps": steps, "eps": self.eps, "step_size": pgd.step_size()});
        Ok((Box::new(pgd), settings))
    }
}

/// [`DdnOptions`] resolved.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DdnConfig {
    #[serde(default)]
    eps: Option<f64>,
    init_norm: f64,
    gamma: f64,
    levels: u32,
}

impl Own for DdnConfig {
    const NAME: &'static str = "ddn";

    fn defaults() -> Value {
        let DdnParams {
            init_norm, gamma, ..
        } = DdnParams::default();
        json!({"init-norm": init_norm, "gamma": gamma, "levels": 256})
    }

    fn attack(&self, steps: u32, seed: u64) -> Result<(Box<dyn Attack>, Value)> {
        if let Some(eps) = self.eps.filter(|&eps| eps.is_nan() || eps <= 0.0) {
            let hint = "give a positive norm, or leave it out: DDN looks for small ones anyway";
            return Err(advised(format!("--eps is {eps}"), hint));
        }
        let params = DdnParams {
            steps,
            init_norm: self.init_norm,
            gamma: self.gamma,
            levels: (self.levels != 0).then_some(self.levels),
            max_norm: self.eps,
            seed,
        };
        let settings = json!({
            "steps": steps, "eps": self.eps, "init_norm": self.init_norm, "gamma": self.gamma,
            "levels": self.levels,
        });
        Ok((Box::new(params.check()?), settings))
    }
}

impl<A: Own> Config<A> {
    /// What holds where nothing is said.
    pub fn defaults() -> Value {
        let mut all = json!({
            "split": "test", "skip": 1, "steps": 20, "samples": 1, "top-k": 1,
            "fresh-noise": false, "batch-size": 100,
        });
        config::extend(&mut all, A::defaults());
        all
    }

    /// How many images to save.
    pub fn pictures(&self) -> usize {
        self.save_images.unwrap_or(24)
    }

    /// Refuses what contradicts itself.
    pub fn check(&self) -> Result<()> {
        if self.samples == 0 {
            return Err(advised(
                "--samples is 0",
                "1 attacks the network itself, more its average over noise",
            ));
        }
        self.sigma.map(common::sigma).transpose()?;
        if self.samples > 1 && self.sigma.is_none() {
            return Err(advised(
                "--samples without --sigma",
                "the stochastic model needs its noise level, such as --sigma 0.1",
            ));
        }
        if self.fresh_noise && self.samples == 1 {
            return Err(advised(
                "--fresh-noise without --samples",
                "only a stochastic model has noise: give --samples 32, say, and --sigma",
            ));
        }
        if self.batch_size == 0 {
            return Err(advised("--batch-size is 0", "give at least 1"));
        }
        if self.save.is_none() && self.save_images.is_some() {
            return Err(advised(
                "--save-images without --save",
                "say where the pictures go with --save DIR",
            ));
        }
        Ok(())
    }

    /// The attack, and everything that decides it.
    pub fn attack(&self, seed: u64) -> Result<(Box<dyn Attack>, Value)> {
        let (attack, mut settings) = self.own.attack(self.steps, seed)?;
        let target = self.target.as_ref();
        let more = json!({
            "samples": self.samples, "top_k": self.top_k, "fresh_noise": self.fresh_noise,
            "target": target.map(TargetText::to_string),
        });
        config::extend(&mut settings, more);
        if let Value::Object(settings) = &mut settings {
            settings.retain(|_, value| !value.is_null());
        }
        Ok((attack, settings))
    }

    /// What is attacked: the network, or its average over noise.
    pub fn model<'a>(&self, network: &'a Cpu, seed: u64) -> Result<Box<dyn Target + 'a>> {
        let (classes, input) = (network.classes(), network.input());
        // Before anything is written, not with the first batch.
        Batch::new(&[], &[], &[])
            .top_k(self.top_k)
            .check(input, classes)?;
        let Some(sigma) = self.sigma.filter(|_| self.samples > 1) else {
            return Ok(Box::new(Deterministic::new(network)));
        };
        let noise = Noise {
            seed,
            purpose: Purpose::Prediction,
            sigma: common::sigma(sigma)?,
        };
        let averaged = Averaged::new(network, noise, self.samples)?;
        Ok(Box::new(if self.fresh_noise {
            averaged.fresh()
        } else {
            averaged
        }))
    }

    /// The targets, if the attack has some.
    pub fn aim(&self, data: &Dataset, seed: u64) -> Result<Option<Aim>> {
        let names = data.classes();
        let Some(target) = &self.target else {
            return Ok(None);
        };
        let text = target.to_string();
        // A class may be called `next`, or by another one's number: its name wins.
        let named = names.iter().position(|name| *name == text);
        let numbered = || text.parse().ok().filter(|&class| class < names.len());
        if let Some(class) = named.or_else(numbered) {
            return Ok(Some(Aim::Class(class as u32)));
        }
        match text.as_str() {
            "next" => Ok(Some(Aim::Next)),
            "random" => Ok(Some(Aim::Random { seed })),
            _ => Err(advised(
                format!("--target is `{text}`"),
                format!(
                    "give a class by its name or number (0 to {}), next or random",
                    names.len().saturating_sub(1)
                ),
            )),
        }
    }
}

impl std::fmt::Display for TargetText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(class) => class.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}
