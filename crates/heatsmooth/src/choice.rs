//! Training methods and attacks with their settings.

use attack::Attack;
use serde_json::{Value, json};
use settings::Settings as _;
use train::Method;
use train::methods::{
    AdversarialParams, Average, AverageParams, Baseline, Gaussian, Heat, HeatParams,
    InnerAttackParams, NoiseDraws, SmoothAdv,
};

use crate::error::Error;

/// A training method with its settings: what [`fit`](crate::fit) runs.
pub struct MethodChoice {
    /// Its name in records.
    pub name: String,
    /// The noise level that its models are made for.
    pub sigma: Option<f64>,
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
            labels: true,
            settings: json!({}),
            method: Box::new(Baseline),
        }
    }

    /// Cross-entropy on noisy images: RandomizedSmoothing (Cohen et al.).
    ///
    /// # Errors
    /// A noise level that is not a positive number.
    pub fn gaussian(sigma: f64) -> Result<Self, Error> {
        Ok(Self {
            name: "gaussian".into(),
            sigma: Some(sigma),
            labels: true,
            settings: json!({"sigma": sigma}),
            method: Box::new(Gaussian::new(sigma)?),
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
        let settings = with_sigma(sigma, [draws.write(), params.write()]);
        if sigma == 0.0 {
            // Without noise it is another method.
            return Err(settings::SettingError::value("sigma", 0, "a positive number").into());
        }
        Ok(Self {
            name: "smoothadv".into(),
            sigma: Some(sigma),
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
            labels: true,
            settings: json!(params),
            method: Box::new(SmoothAdv::without_noise(params)?),
        })
    }

    /// HeatSmoothing, the paper's Algorithm 1: no labels.
    ///
    /// # Errors
    /// A setting out of its range.
    pub fn heat(sigma: f64, params: HeatParams) -> Result<Self, Error> {
        Self::attacked_heat(sigma, params, InnerAttackParams::default())
    }

    /// HeatSmoothing with a student that is attacked while it learns.
    ///
    /// # Errors
    /// A setting out of its range.
    pub fn attacked_heat(
        sigma: f64,
        params: HeatParams,
        attack: InnerAttackParams,
    ) -> Result<Self, Error> {
        let mut deciding = params.write();
        deciding.remove("keep-iterates");
        Ok(Self {
            name: "heat".into(),
            sigma: Some(sigma),
            labels: false,
            settings: with_sigma(sigma, [deciding, said(&attack)]),
            method: Box::new(Heat::new(sigma, params)?.attacked(attack)?),
        })
    }

    /// The Gaussian average, with the noise on the teacher's side: no labels.
    ///
    /// # Errors
    /// A setting out of its range.
    pub fn average(
        sigma: f64,
        params: AverageParams,
        attack: InnerAttackParams,
    ) -> Result<Self, Error> {
        Ok(Self {
            name: "average".into(),
            sigma: Some(sigma),
            labels: false,
            settings: with_sigma(sigma, [params.write(), said(&attack)]),
            method: Box::new(Average::new(sigma, params, attack)?),
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

/// Settings as one JSON object that starts with sigma.
fn with_sigma<const N: usize>(sigma: f64, parts: [settings::Values; N]) -> Value {
    let mut all = json!({"sigma": sigma});
    for (name, value) in parts.iter().flat_map(settings::Values::iter) {
        all[name] = value.clone();
    }
    all
}
