//! What each training method can be told beyond what all share.

use anyhow::Result;
use clap::Args;
use network::Cpu;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use train::methods::{self, Baseline, InnerAttack, SmoothAdvParams};

use crate::common;

/// The baseline has no options of its own.
#[derive(Args, Debug, Serialize)]
pub struct BaselineOptions {}

/// Options of `train gaussian`.
#[derive(Args, Debug, Serialize)]
pub struct GaussianOptions {
    /// Noise level, in units of pixels scaled to [0, 1].
    #[arg(long, allow_negative_numbers = true)]
    sigma: Option<f64>,
}

/// Options of `train smoothadv`.
#[derive(Args, Debug, Serialize)]
pub struct SmoothAdvOptions {
    #[command(flatten)]
    #[serde(flatten)]
    noise: GaussianOptions,
    /// Noises an image [default: 1].
    #[arg(long, value_name = "M")]
    samples: Option<u32>,
    #[command(flatten)]
    #[serde(flatten)]
    adversarial: AdversarialOptions,
}

/// Options of `train adversarial`.
#[derive(Args, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct AdversarialOptions {
    /// Largest L2 norm of the inner attack's perturbation [default: 0.5].
    #[arg(long, allow_negative_numbers = true)]
    eps: Option<f64>,
    /// Steps of the inner attack [default: 4].
    #[arg(long, value_name = "N")]
    attack_steps: Option<u32>,
    /// The inner attack: pgd or ddn [default: pgd].
    #[arg(long)]
    attack: Option<String>,
    /// Epochs in which eps rises to its value [default: 10].
    #[arg(long, value_name = "E")]
    eps_warmup: Option<u32>,
}

/// A training method with its options resolved.
pub trait Recipe: Serialize + DeserializeOwned {
    /// The method, as in records and on the command line.
    const NAME: &'static str;

    /// Values of its own options where nothing is said.
    fn defaults() -> Value;

    /// What one step does, and what decides it, for records.
    fn method(&self) -> Result<(Box<dyn train::Method<Cpu>>, Value)>;

    /// The noise level it trains for.
    fn sigma(&self) -> Option<f64> {
        None
    }
}

/// Cross-entropy.
#[derive(Debug, Serialize, Deserialize)]
pub struct Clean {}

impl Recipe for Clean {
    const NAME: &'static str = "baseline";

    fn defaults() -> Value {
        json!({})
    }

    fn method(&self) -> Result<(Box<dyn train::Method<Cpu>>, Value)> {
        Ok((Box::new(Baseline), json!({})))
    }
}

/// Cross-entropy under noise.
#[derive(Debug, Serialize, Deserialize)]
pub struct Noisy {
    sigma: f64,
}

impl Recipe for Noisy {
    const NAME: &'static str = "gaussian";

    fn defaults() -> Value {
        json!({})
    }

    fn method(&self) -> Result<(Box<dyn train::Method<Cpu>>, Value)> {
        let sigma = common::sigma(self.sigma)?;
        let settings = json!({"sigma": sigma});
        Ok((Box::new(methods::Gaussian { sigma }), settings))
    }

    fn sigma(&self) -> Option<f64> {
        Some(self.sigma)
    }
}

/// Cross-entropy on what an attack finds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Adversarial {
    eps: f64,
    attack_steps: u32,
    attack: InnerAttack,
    eps_warmup: u32,
}

impl Adversarial {
    fn params(&self, sigma: f64, samples: u32) -> SmoothAdvParams {
        SmoothAdvParams {
            sigma,
            samples,
            eps: self.eps,
            steps: self.attack_steps,
            attack: self.attack,
            warmup_epochs: self.eps_warmup,
        }
    }
}

impl Recipe for Adversarial {
    const NAME: &'static str = "adversarial";

    fn defaults() -> Value {
        let params = SmoothAdvParams::new(0.0);
        json!({
            "eps": params.eps, "attack-steps": params.steps, "attack": params.attack,
            "eps-warmup": params.warmup_epochs,
        })
    }

    fn method(&self) -> Result<(Box<dyn train::Method<Cpu>>, Value)> {
        adversarial(self.params(0.0, 1))
    }
}

/// The same under noise.
#[derive(Debug, Serialize, Deserialize)]
pub struct Smooth {
    sigma: f64,
    samples: u32,
    #[serde(flatten)]
    adversarial: Adversarial,
}

impl Recipe for Smooth {
    const NAME: &'static str = "smoothadv";

    fn defaults() -> Value {
        let mut all = Adversarial::defaults();
        all["samples"] = json!(SmoothAdvParams::new(0.0).samples);
        all
    }

    fn method(&self) -> Result<(Box<dyn train::Method<Cpu>>, Value)> {
        let sigma = f64::from(common::sigma(self.sigma)?);
        adversarial(self.adversarial.params(sigma, self.samples))
    }

    fn sigma(&self) -> Option<f64> {
        Some(self.sigma)
    }
}

fn adversarial(params: SmoothAdvParams) -> Result<(Box<dyn train::Method<Cpu>>, Value)> {
    let settings = json!(params);
    Ok((Box::new(methods::SmoothAdv::new(params)?), settings))
}
