//! Every method, attack and measurement by name: one row each, read by the
//! binary, by experiments and by the report.
//!
//! A new one is a file of its own and a row in [`Registry::standard`], or, in
//! another program, a row added to it.

use std::path::Path;

use attack::{Ddn, DdnParams, Pgd, PgdParams};
use certify::{
    CalibrateParams, CertifyParams, CleverParams, FidelityParams, IntervalParams, LBoundParams,
    Smoothing,
};
use data::Targets;
use network::architecture::has_layer_norms;
use network::{Distribution, TaskKind};
use record::MethodInfo;
use serde_json::{Value, json};
use settings::{Field, SettingError, Settings, Values};
use train::methods::{
    AdversarialParams, AverageParams, HeatParams, InnerAttackParams, NoiseDraws, TrainingNoise,
};
use train::{AugmentChoice, Schedule, Training};

use crate::calibrate::calibrate;
use crate::choice::{AttackChoice, MethodChoice};
use crate::error::Error;
use crate::measure::{Measured, measure};
use crate::measurements::{
    AttackOptions, Attacked, Bounded, Calibrated, Certified, CleverOptions, Compared,
    DistributionChoice, DistributionOptions, Estimated, GaussianNoiseOptions, Intervals,
    NoiseLevel, NoiseLevels, NoiseOptions, Reached, TimeBudget, certify_levels, check_gaussian,
    check_said, only_gaussian, refuse_intervals,
};
use crate::observer::Observer;
use crate::source::{ModelSource, needs_targets};
use crate::subject::Subject;

/// A way to train.
pub struct MethodEntry {
    /// Its name, how people read it, and whether its models average over noise.
    pub info: MethodInfo,
    /// What it does, in a line.
    pub about: &'static str,
    /// Whether it looks at labels; one that does not smooths a given model.
    pub labels: bool,
    /// What can be set.
    pub fields: fn() -> Vec<Field>,
    /// How it trains on a data set where nothing is said; see [`MethodEntry::usual`].
    pub training: fn(data: &str) -> Training,
    /// The method with these settings; the noise level that the model started
    /// from stores, if there is one, comes along.
    pub choose: fn(&Values, Option<f64>) -> Result<MethodChoice, Error>,
    /// Its cost in forward passes for one image in one epoch, roughly.
    pub cost: fn(&Values) -> f64,
}

impl MethodEntry {
    /// How it trains on a data set where nothing is said: a built-in network with fresh
    /// weights if a name is given. Without batch norms such a network needs bounded
    /// gradients, and a transformer, which does not know what a shifted digit is, more
    /// passes over the digits.
    pub fn usual(&self, data: &str, arch: Option<&str>) -> Training {
        let mut training = (self.training)(data);
        if self.labels && arch.is_some_and(has_layer_norms) {
            training.clip = 1.0;
        }
        if self.labels && (arch, data) == (Some("smallvit"), "digits") {
            training.epochs *= 3;
        }
        training
    }
}

/// What records call the methods with other noise than Gaussian.
const OTHER_NOISE: [MethodInfo; 4] = [
    MethodInfo::stochastic("uniform", "RandomizedSmoothing, uniform noise", 2),
    MethodInfo::stochastic("laplace", "RandomizedSmoothing, Laplace noise", 2),
    MethodInfo::deterministic("uniform-average", "average over uniform noise", 0),
    MethodInfo::deterministic("laplace-average", "average over Laplace noise", 0),
];

/// An attack.
pub struct AttackEntry {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// What can be set.
    pub fields: fn() -> Vec<Field>,
    /// The attack with these settings and this seed, and what decides it.
    pub choose: fn(&Values, u64) -> Result<AttackChoice, Error>,
}

/// What a measurement may be told besides its settings.
pub struct MeasureContext<'a> {
    /// Seed of all noise.
    pub seed: u64,
    /// The model compared with, if one is given.
    pub reference: Option<&'a ModelSource>,
}

/// Something that is measured image by image.
pub struct MeasurementEntry {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Whether it compares with another model.
    pub wants_reference: bool,
    /// What can be set.
    pub fields: fn() -> Vec<Field>,
    /// Measures a subject with these settings into a log.
    pub run: MeasureFn,
    /// Its cost in forward passes for one image, roughly.
    pub cost: fn(&Values) -> f64,
}

/// Measures a subject with some settings into a log.
pub type MeasureFn =
    fn(&Values, &MeasureContext<'_>, &Subject, &Path, &mut dyn Observer) -> Result<Measured, Error>;

/// All that there is, by name.
pub struct Registry {
    /// Ways to train.
    pub methods: Vec<MethodEntry>,
    /// Attacks.
    pub attacks: Vec<AttackEntry>,
    /// Measurements besides attacks.
    pub measurements: Vec<MeasurementEntry>,
}

/// What has no meaning for real values.
const ABOUT_CLASSES: [&str; 4] = ["lbound", "calibrate", "clever", "ddn"];

/// Costs of a training pass and of an attack's step, in forward passes.
pub(crate) const TRAIN: f64 = 5.0;
const ATTACK: f64 = 2.5;

impl Registry {
    /// What the library brings along.
    pub fn standard() -> Self {
        Self {
            methods: vec![
                MethodEntry {
                    info: MethodInfo::deterministic("baseline", "baseline", 4),
                    about: "Cross-entropy on clean images: the undefended baseline",
                    labels: true,
                    fields: Vec::new,
                    training: usual_training,
                    choose: |_, _| Ok(MethodChoice::baseline()),
                    cost: |_| TRAIN,
                },
                MethodEntry {
                    info: MethodInfo::stochastic("gaussian", "RandomizedSmoothing", 2),
                    about: "Cross-entropy on noisy images, Gaussian or other: RandomizedSmoothing (Cohen et al.)",
                    labels: true,
                    fields: training_noise_fields,
                    training: usual_training,
                    choose: |values, stored| {
                        MethodChoice::gaussian(training_noise(values, stored)?)
                    },
                    cost: |_| TRAIN,
                },
                MethodEntry {
                    info: MethodInfo::stochastic("smoothadv", "SmoothAdv", 1),
                    about: "Adversarial training of the smoothed classifier: SmoothAdv (Salman et al.)",
                    labels: true,
                    fields: || {
                        let parts = [NoiseLevel::fields(), NoiseDraws::fields()];
                        parts
                            .into_iter()
                            .flatten()
                            .chain(AdversarialParams::fields())
                            .collect()
                    },
                    training: usual_training,
                    choose: |values, stored| {
                        let (draws, params) =
                            (NoiseDraws::read(values)?, AdversarialParams::read(values)?);
                        MethodChoice::smoothadv(sigma(values, stored)?, draws, params)
                    },
                    cost: |values| number(values, "samples", 1.0) * adversarial_cost(values),
                },
                MethodEntry {
                    info: MethodInfo::deterministic("adversarial", "adversarial training", 3),
                    about: "Ordinary adversarial training (Madry et al.): no noise, one copy",
                    labels: true,
                    fields: AdversarialParams::fields,
                    training: usual_training,
                    choose: |values, _| MethodChoice::adversarial(AdversarialParams::read(values)?),
                    cost: adversarial_cost,
                },
                MethodEntry {
                    info: MethodInfo::deterministic("heat", "HeatSmoothing", 0),
                    about: "HeatSmoothing, the paper's Algorithm 1: no labels",
                    labels: false,
                    fields: || {
                        let parts = [training_noise_fields(), HeatParams::fields()];
                        let parts = parts.into_iter().flatten();
                        parts.chain(InnerAttackParams::fields()).collect()
                    },
                    training: warm_training,
                    choose: |values, stored| {
                        let params = HeatParams::read(values)?;
                        let attack = InnerAttackParams::read(values)?;
                        MethodChoice::attacked_heat(training_noise(values, stored)?, params, attack)
                    },
                    cost: |values| {
                        let kappa = number(values, "kappa", 1.0);
                        let pass = 1.0 + TRAIN + kappa * (TRAIN + ATTACK - 1.0);
                        number(values, "timesteps", 1.0) * pass
                    },
                },
                MethodEntry {
                    info: MethodInfo::deterministic("average", "Gaussian average", 0),
                    about: "The Gaussian average of a model in one pass: no labels",
                    labels: false,
                    fields: || {
                        let parts = [training_noise_fields(), AverageParams::fields()];
                        let parts = parts.into_iter().flatten();
                        parts.chain(InnerAttackParams::fields()).collect()
                    },
                    training: average_training,
                    choose: |values, stored| {
                        let params = AverageParams::read(values)?;
                        let attack = InnerAttackParams::read(values)?;
                        MethodChoice::average(training_noise(values, stored)?, params, attack)
                    },
                    cost: |values| TRAIN + number(values, "draws", 2.0),
                },
            ],
            attacks: vec![
                AttackEntry {
                    name: "pgd",
                    about: "Projected gradient descent with a fixed L2 budget",
                    fields: PgdParams::fields,
                    choose: |values, seed| {
                        let params = PgdParams::read(values)?;
                        let (steps, eps) = (params.steps, params.eps);
                        let pgd = Pgd::new(params, seed)?;
                        let settings =
                            json!({"steps": steps, "eps": eps, "step_size": pgd.step_size()});
                        Ok(AttackChoice {
                            attack: Box::new(pgd),
                            settings,
                        })
                    },
                },
                AttackEntry {
                    name: "ddn",
                    about: "Decoupled direction and norm (Rony et al.): small L2 norms",
                    fields: DdnParams::fields,
                    choose: |values, seed| {
                        let params = DdnParams::read(values)?;
                        let settings = json!({
                            "steps": params.steps, "eps": params.eps,
                            "init_norm": params.init_norm, "gamma": params.gamma,
                            "levels": params.levels,
                        });
                        Ok(AttackChoice {
                            attack: Box::new(Ddn::new(params, seed)?),
                            settings,
                        })
                    },
                },
            ],
            measurements: vec![
                MeasurementEntry {
                    name: "certify",
                    about: "Certified radii of the smoothed classifier (Cohen et al.), or intervals of real values",
                    wants_reference: false,
                    fields: || {
                        let mut fields = NoiseLevels::fields();
                        fields.extend(NoiseOptions::fields());
                        fields.extend(CertifyParams::fields());
                        fields.extend(TimeBudget::fields());
                        fields.extend(IntervalParams::fields());
                        fields
                    },
                    run: |values, context, subject, log, observer| {
                        refuse_intervals(values)?;
                        let NoiseOptions { noise, norm } = NoiseOptions::read(values)?;
                        let levels = NoiseLevels::of(values, subject)?;
                        let params = CertifyParams::read(values)?;
                        check_said(values, &params)?;
                        let plans = levels.into_iter().map(|sigma| {
                            let mut smoothing = subject.smoothing(noise, sigma)?;
                            if let Some(norm) = norm {
                                let pixels = subject.network.input().len();
                                smoothing = smoothing.in_norm(norm.norm(), pixels);
                            }
                            Certified::new(smoothing, params.clone(), context.seed)
                        });
                        let plans = plans.collect::<Result<Vec<_>, Error>>()?;
                        let time = TimeBudget::read(values)?.limit()?;
                        certify_levels(&plans, subject, log, time, observer)
                    },
                    cost: |values| number(values, "n", 1e4),
                },
                MeasurementEntry {
                    name: "lbound",
                    about: "The L-bound sigma * sqrt(pi/2) * (p_y - max p_i) for each image",
                    wants_reference: false,
                    fields: || {
                        let fields = GaussianNoiseOptions::fields().into_iter();
                        with_noise(fields.chain(LBoundParams::fields()).collect())
                    },
                    run: |values, context, subject, log, observer| {
                        check_gaussian(&subject.loaded.model.info, "the L-bound")?;
                        let sigma = level(values, subject)?;
                        let noise = GaussianNoiseOptions::read(values)?.noise;
                        only_gaussian(noise)?;
                        let params = LBoundParams::read(values)?;
                        let smoothing = match (params.samples, noise) {
                            (0, None) => Smoothing::gaussian(sigma)?,
                            (0, Some(_)) => {
                                return Err(SettingError::Ineffective {
                                    name: "noise".into(),
                                    reason: "no noisy copies are averaged over".into(),
                                }
                                .into());
                            }
                            _ => subject.smoothing(noise, sigma)?,
                        };
                        let bounded =
                            Bounded::new(smoothing, &params, context.seed).calibrated(subject);
                        measure(&bounded, subject, log, observer)
                    },
                    cost: |values| number(values, "samples", 1.0).max(1.0),
                },
                MeasurementEntry {
                    name: "clever",
                    about: "CLEVER: an estimate, not a bound, of the distance to another class (Weng et al.)",
                    wants_reference: false,
                    fields: || {
                        let fields = CleverOptions::fields().into_iter();
                        fields.chain(CleverParams::fields()).collect()
                    },
                    run: |values, context, subject, log, observer| {
                        let (options, params) =
                            (CleverOptions::read(values)?, CleverParams::read(values)?);
                        let estimated = Estimated::new(&params, options, subject, context.seed)?;
                        measure(&estimated, subject, log, observer)
                    },
                    cost: |values| {
                        let points =
                            number(values, "batches", 50.0) * number(values, "samples", 100.0);
                        let classes = match values.has("target") {
                            true => 1.0,
                            false => number(values, "runner-ups", 9.0),
                        };
                        points * (1.0 + (ATTACK - 1.0) * classes)
                    },
                },
                MeasurementEntry {
                    name: "fidelity",
                    about: "How close v(x) is to the Monte-Carlo average of f at x",
                    wants_reference: true,
                    fields: || {
                        let fields = DistributionOptions::fields().into_iter();
                        with_noise(fields.chain(FidelityParams::fields()).collect())
                    },
                    run: |values, context, subject, log, observer| {
                        let own = subject.loaded.model.info.noise;
                        let noise = DistributionOptions::read(values)?.noise;
                        let noise = noise.map_or(own, DistributionChoice::distribution);
                        let (sigma, params) =
                            (level(values, subject)?, FidelityParams::read(values)?);
                        let reference = context.reference;
                        let reference =
                            reference.ok_or_else(|| SettingError::missing("reference"))?;
                        let averaged = Compared::new(
                            (noise, sigma),
                            &params,
                            reference,
                            subject,
                            context.seed,
                        )?;
                        measure(&averaged, subject, log, observer)
                    },
                    // Twelve levels of noise.
                    cost: |values| 12.0 * number(values, "samples", 100.0),
                },
                MeasurementEntry {
                    name: "calibrate",
                    about: "The one-pass radius that may be promised, kept in the model's file",
                    wants_reference: true,
                    fields: || {
                        let fields = GaussianNoiseOptions::fields().into_iter();
                        with_noise(fields.chain(CalibrateParams::fields()).collect())
                    },
                    run: |values, context, subject, log, observer| {
                        let noise = GaussianNoiseOptions::read(values)?.noise;
                        only_gaussian(noise)?;
                        let smoothing = subject.smoothing(noise, level(values, subject)?)?;
                        let params = CalibrateParams::read(values)?;
                        let reference = context.reference;
                        let reference =
                            reference.ok_or_else(|| SettingError::missing("reference"))?;
                        let compared =
                            Calibrated::new(smoothing, &params, reference, subject, context.seed)?;
                        calibrate(&compared, subject, log, observer)
                    },
                    cost: |values| number(values, "n", 2000.0),
                },
            ],
        }
    }

    /// A method by name.
    ///
    /// # Errors
    /// A name that there is not.
    pub fn method(&self, name: &str) -> Result<&MethodEntry, Error> {
        let names = self.methods.iter().map(|entry| &*entry.info.name);
        let found = self.methods.iter().find(|entry| entry.info.name == name);
        found.ok_or_else(|| unknown("method", name, names))
    }

    /// An attack by name.
    ///
    /// # Errors
    /// A name that there is not.
    pub fn attack(&self, name: &str) -> Result<&AttackEntry, Error> {
        let names = self.attacks.iter().map(|entry| entry.name);
        let found = self.attacks.iter().find(|entry| entry.name == name);
        found.ok_or_else(|| unknown("attack", name, names))
    }

    /// A measurement by name.
    ///
    /// # Errors
    /// A name that there is not.
    pub fn measurement(&self, name: &str) -> Result<&MeasurementEntry, Error> {
        let names = self.measurements.iter().map(|entry| entry.name);
        let found = self.measurements.iter().find(|entry| entry.name == name);
        found.ok_or_else(|| unknown("measurement", name, names))
    }

    /// What can be set of a measurement or attack.
    ///
    /// # Errors
    /// A name that there is not.
    pub fn fields_of(&self, what: &str) -> Result<Vec<Field>, Error> {
        match self.attacks.iter().find(|entry| entry.name == what) {
            Some(attack) => {
                let both = (attack.fields)().into_iter().chain(AttackOptions::fields());
                Ok(both.collect())
            }
            None => Ok((self.measurement(what)?.fields)()),
        }
    }

    /// Measures a subject by the name of a measurement or attack.
    ///
    /// # Errors
    /// As [`measure`].
    pub fn measure(
        &self,
        what: &str,
        values: &Values,
        context: &MeasureContext<'_>,
        subject: &Subject,
        log: &Path,
        observer: &mut dyn Observer,
    ) -> Result<Measured, Error> {
        match (subject.task(), what) {
            (TaskKind::Regression, "certify") => {
                return Intervals::measure(values, context, subject, log, observer);
            }
            (TaskKind::Regression, "pgd") => {
                return Reached::measure(values, context, subject, log, observer);
            }
            (TaskKind::Regression, _) if ABOUT_CLASSES.contains(&what) => {
                return Err(Error::refused(
                    format!("{what} is about classes, and the model predicts real values"),
                    "certify (with eps), attack pgd and fidelity measure real values",
                ));
            }
            (TaskKind::Classification, _) if what != "fidelity" => {
                if matches!(subject.dataset.targets(), Targets::Unknown) {
                    needs_targets(&subject.dataset, subject.task(), what)?;
                }
            }
            _ => {}
        }
        let Some(entry) = self.attacks.iter().find(|entry| entry.name == what) else {
            let entry = self.measurement(what)?;
            return (entry.run)(values, context, subject, log, observer);
        };
        let choice = (entry.choose)(values, context.seed)?;
        let options = AttackOptions::read(values)?;
        let attacked = Attacked::new(choice, options, subject, context.seed)?;
        measure(&attacked, subject, log, observer)
    }

    /// The cost of a measurement or attack in forward passes for one image.
    pub(crate) fn cost_of(&self, what: &str, values: &Values) -> f64 {
        match self.measurement(what) {
            Ok(entry) => (entry.cost)(values),
            Err(_) => {
                let steps = number(values, "steps", 20.0);
                steps * ATTACK * number(values, "samples", 1.0)
            }
        }
    }

    /// What a report must know about the methods.
    pub fn method_infos(&self) -> Vec<MethodInfo> {
        let infos = self.methods.iter().map(|entry| entry.info.clone());
        infos.chain(OTHER_NOISE).collect()
    }

    /// Whether models of a method answer by an average over noise.
    pub fn is_stochastic(&self, method: &str) -> bool {
        let mut methods = self.method_infos().into_iter();
        methods.any(|info| info.name == method && info.stochastic)
    }
}

fn unknown<'n>(what: &str, name: &str, names: impl Iterator<Item = impl AsRef<str> + 'n>) -> Error {
    let names: Vec<String> = names.map(|name| name.as_ref().to_owned()).collect();
    SettingError::value(what, name, names.join(", ")).into()
}

/// The noise level said, or the one that the model started from stores.
fn sigma(values: &Values, stored: Option<f64>) -> Result<f64, Error> {
    let sigma = NoiseLevel::read(values)?.sigma.or(stored);
    sigma.ok_or_else(|| SettingError::missing("sigma").into())
}

/// What can be said about the noise of a training.
fn training_noise_fields() -> Vec<Field> {
    let fields = NoiseLevel::fields().into_iter();
    fields.chain(DistributionOptions::fields()).collect()
}

/// The noise said, its level perhaps the one that the model started from stores.
fn training_noise(values: &Values, stored: Option<f64>) -> Result<TrainingNoise, Error> {
    let noise = DistributionOptions::read(values)?.noise;
    Ok(TrainingNoise {
        distribution: noise.map_or(Distribution::Gaussian, DistributionChoice::distribution),
        sigma: sigma(values, stored)?,
    })
}

/// The noise level said, or the one that the subject's model stores.
fn level(values: &Values, subject: &Subject) -> Result<f64, Error> {
    subject.sigma(NoiseLevel::read(values)?.sigma)
}

fn with_noise(fields: Vec<Field>) -> Vec<Field> {
    NoiseLevel::fields().into_iter().chain(fields).collect()
}

fn number(values: &Values, name: &str, or: f64) -> f64 {
    values.get(name).and_then(Value::as_f64).unwrap_or(or)
}

fn adversarial_cost(values: &Values) -> f64 {
    TRAIN + number(values, "attack-steps", 4.0) * ATTACK
}

/// The paper's settings for CIFAR-10; shorter ones for the embedded digits.
fn usual_training(data: &str) -> Training {
    match data {
        "digits" => Training {
            epochs: 20,
            batch_size: 64,
            schedule: Schedule::OneCycle,
            ..Training::default()
        },
        _ => Training {
            epochs: 200,
            schedule: Schedule::Piecewise {
                epochs: vec![60, 120, 160],
                factor: 0.2,
            },
            ..Training::default()
        },
    }
}

/// Averaging: a few minutes on a network that is good under noise.
fn average_training(data: &str) -> Training {
    let warm = warm_training(data);
    match data {
        // Eight pixels wide: a shift is another digit.
        "digits" => Training {
            epochs: 150,
            augment: AugmentChoice::None,
            ..warm
        },
        _ => Training {
            epochs: 5,
            lr: 0.004,
            ..warm
        },
    }
}

/// The warm recipe: minutes on a pretrained network.
fn warm_training(data: &str) -> Training {
    let warm = Training {
        lr: 0.05,
        weight_decay: 0.0,
        clip: 1.0,
        ..Training::default()
    };
    match data {
        "digits" => Training {
            epochs: 40,
            batch_size: 64,
            ..warm
        },
        _ => Training { epochs: 4, ..warm },
    }
}
