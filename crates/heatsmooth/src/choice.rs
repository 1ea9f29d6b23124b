//! Training methods and attacks with their settings.

use attack::Attack;
use network::Distribution;
use serde_json::{Value, json};
use settings::Settings as _;
use train::Method;
use train::methods::{
    AdversarialParams, Average, AverageParams, Baseline, Gaussian, Heat, HeatParams,
    InnerAttackParams, NoiseDraws, SmoothAdv, TrainingNoise,
};

use crate::error::Error;

/// A training method with its settings: what [`fit`](crate::fit) runs.
pub struct MethodChoice {
    /// Its name in records.
    pub name: String,
    /// The noise level that its models are made for.
    pub sigma: Option<f64>,
    /// The noise that its models are made for, where there is a level.
    pub noise: Distribution,
    /// Whether it looks at labels. One that does not is a way to smooth a given
    /// model.
    pub labels: bool,
    /// Everything else that decides what it does.
    pub settings: Value,
    /// The method itself.
    pub method: Box<dyn Method>,
}

/// An attack with its settings: what [`Attacked`](crate::measurements::Attacked)
/// runs.
pub struct AttackChoice {
    /// The attack itself.
    pub attack: Box<dyn Attack>,
    /// Everything that decides what it does, except its seed.
    pub settings: Value,
}

impl MethodChoice {
    /// Cross-entropy on clean images.
    pub fn baseline() -> Self {
        Self {
            name: "baseline".into(),
            sigma: None,
            noise: Distribution::Gaussian,
            labels: true,
            settings: json!({}),
            method: Box::new(Baseline::default()),
        }
    }

    /// Cross-entropy on noisy images: RandomizedSmoothing (Cohen et al.). Records
    /// name it by the distribution of the noise.
    ///
    /// # Errors
    /// A noise level that is not a positive number.
    pub fn gaussian(noise: impl Into<TrainingNoise>) -> Result<Self, Error> {
        let noise = noise.into();
        let name = match noise.distribution {
            Distribution::Gaussian => "gaussian",
            Distribution::Uniform => "uniform",
            Distribution::Laplace => "laplace",
        };
        Ok(Self {
            name: name.into(),
            sigma: Some(noise.sigma),
            noise: noise.distribution,
            labels: true,
            settings: with_noise(noise, []),
            method: Box::new(Gaussian::new(noise)?),
        })
    }

    /// Adversarial training of the smoothed classifier: SmoothAdv (Salman et al.).
    ///
    /// # Errors
    /// A setting out of its range.
    pub fn smoothadv(
        sigma: f64,
        draws: NoiseDraws,
        params: AdversarialParams,
    ) -> Result<Self, Error> {
        let settings = with_noise(sigma.into(), [draws.write(), params.write()]);
        if sigma == 0.0 {
            // Without noise it is another method.
            return Err(settings::SettingError::value("sigma", 0, "a positive number").into());
        }
        Ok(Self {
            name: "smoothadv".into(),
            sigma: Some(sigma),
            noise: Distribution::Gaussian,
            labels: true,
            settings,
            method: Box::new(SmoothAdv::new(sigma, draws, params)?),
        })
    }

    /// Ordinary adversarial training (Madry et al.): no noise, one copy.
    ///
    /// # Errors
    /// A setting out of its range.
    pub fn adversarial(params: AdversarialParams) -> Result<Self, Error> {
        Ok(Self {
            name: "adversarial".into(),
            sigma: None,
            noise: Distribution::Gaussian,
            labels: true,
            settings: json!(params),
            method: Box::new(SmoothAdv::without_noise(params)?),
        })
    }

    /// HeatSmoothing, the paper's Algorithm 1: no labels.
    ///
    /// # Errors
    /// A setting out of its range.
    pub fn heat(noise: impl Into<TrainingNoise>, params: HeatParams) -> Result<Self, Error> {
        Self::attacked_heat(noise, params, InnerAttackParams::default())
    }

    /// HeatSmoothing with a student that is attacked while it learns.
    ///
    /// # Errors
    /// A setting out of its range.
    pub fn attacked_heat(
        noise: impl Into<TrainingNoise>,
        params: HeatParams,
        attack: InnerAttackParams,
    ) -> Result<Self, Error> {
        let noise = noise.into();
        let mut deciding = params.write();
        deciding.remove("keep-iterates");
        Ok(Self {
            name: "heat".into(),
            sigma: Some(noise.sigma),
            noise: noise.distribution,
            labels: false,
            settings: with_noise(noise, [deciding, said(&attack)]),
            method: Box::new(Heat::new(noise, params)?.attacked(attack)?),
        })
    }

    /// The Gaussian average, or that over other noise, with the noise on the
    /// teacher's side: no labels. Records name it by the distribution of the noise.
    ///
    /// # Errors
    /// A setting out of its range.
    pub fn average(
        noise: impl Into<TrainingNoise>,
        params: AverageParams,
        attack: InnerAttackParams,
    ) -> Result<Self, Error> {
        let noise = noise.into();
        let name = match noise.distribution {
            Distribution::Gaussian => "average",
            Distribution::Uniform => "uniform-average",
            Distribution::Laplace => "laplace-average",
        };
        Ok(Self {
            name: name.into(),
            sigma: Some(noise.sigma),
            noise: noise.distribution,
            labels: false,
            settings: with_noise(noise, [params.write(), said(&attack)]),
            method: Box::new(Average::new(noise, params, attack)?),
        })
    }
}

/// Settings of the inner attack; none where nothing is attacked.
fn said(attack: &InnerAttackParams) -> settings::Values {
    match attack.attack {
        Some(_) => attack.write(),
        None => settings::Values::default(),
    }
}

/// Settings as one JSON object that starts with the noise; runs of earlier versions
/// have Gaussian noise and do not say so.
fn with_noise<const N: usize>(noise: TrainingNoise, parts: [settings::Values; N]) -> Value {
    let mut all = json!({"sigma": noise.sigma});
    if noise.distribution != Distribution::Gaussian {
        all["noise"] = json!(noise.distribution);
    }
    for (name, value) in parts.iter().flat_map(settings::Values::iter) {
        all[name] = value.clone();
    }
    all
}
