//! The training methods: what one step adds to the gradient.

mod average;
mod baseline;
mod gaussian;
mod heat;
mod inputs;
mod smoothadv;
mod widths;

pub use average::{Average, AverageOf, AverageParams, Norms, Relus};
pub use baseline::Baseline;
pub use gaussian::Gaussian;
pub use heat::{Fit, Heat, HeatParams, Scale, Start};
pub use inputs::InnerAttackParams;
pub use smoothadv::{AdversarialParams, InnerAttack, NoiseDraws, SmoothAdv};

use network::{Distribution, Executor, Gradients, Images, Load, Model, Noise, NoisyImage, Purpose};
use serde_json::Value;
use settings::SettingError;

use crate::error::TrainError;
use crate::minibatch::Minibatch;

/// The noise that a network is trained on. A number stands for Gaussian noise of
/// that standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingNoise {
    /// How it is distributed.
    pub distribution: Distribution,
    /// Standard deviation, in units of pixels scaled to [0, 1].
    pub sigma: f64,
}

impl From<f64> for TrainingNoise {
    fn from(sigma: f64) -> Self {
        let distribution = Distribution::Gaussian;
        Self {
            distribution,
            sigma,
        }
    }
}

impl TrainingNoise {
    /// Refuses a level that is not a positive number.
    fn check(&self) -> Result<(), SettingError> {
        positive("sigma", self.sigma)
    }

    /// The noise itself, in single precision.
    pub(crate) fn noise(&self, seed: u64, purpose: Purpose) -> Noise {
        Noise::float(seed, purpose, self.distribution, self.sigma)
    }

    /// Its mirror image.
    fn mirrored(self) -> Self {
        let sigma = -self.sigma;
        Self { sigma, ..self }
    }
}

/// Where in a run a step is; randomness may depend on it, on the seed and on
/// image numbers, and on nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Seed of the run.
    pub seed: u64,
    /// Epoch, from 0.
    pub epoch: u32,
    /// Step of the leg, from 0.
    pub step: u64,
}

/// A run may have several legs, one network trained after another (the
/// timesteps of heat smoothing), in one folder and one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// From 0.
    pub number: u32,
    /// Of how many.
    pub of: u32,
}

/// What a method may use when a leg begins.
pub struct LegContext<'a> {
    /// Puts a model on the device of the run.
    pub load: Load<'a>,
    /// Some clean training images.
    pub images: &'a Images,
    /// Seed of the run.
    pub seed: u64,
}

/// A way to train: computes the gradient of its loss on some images.
pub trait Method {
    /// Names of what [`Method::step`] measures; `loss` comes first.
    fn columns(&self) -> &'static [&'static str];

    /// The same of a run on real values: some of the columns, from the first on; or
    /// what of the method is about classes.
    fn value_columns(&self) -> Result<&'static [&'static str], &'static str> {
        Err("the method is about classes")
    }

    /// How many networks are trained one after another.
    fn legs(&self) -> u32 {
        1
    }

    /// Whether the network of every leg is kept beside the last one.
    fn keeps_legs(&self) -> bool {
        false
    }

    /// Before a leg: `previous` is what the leg before it ended with, at first
    /// the model of the run. Gives the model from which this leg starts, perhaps
    /// of another form that can better express what the method aims at.
    ///
    /// # Errors
    /// A device that fails.
    fn begin(
        &mut self,
        _leg: Leg,
        previous: &Model,
        _stage: &LegContext<'_>,
    ) -> Result<Model, TrainError> {
        Ok(previous.clone())
    }

    /// Adds what these images contribute to the gradient of the mean loss over
    /// [`Minibatch::of`] images to `gradients` (0 before), updates running statistics,
    /// and returns their contributions to the means in the order of
    /// [`Method::columns`]: over all ranks, both are summed up.
    ///
    /// # Errors
    /// A device that fails; a run that diverges.
    fn step(
        &mut self,
        network: &mut dyn Executor,
        images: &Minibatch<'_>,
        position: Position,
        gradients: &mut Gradients,
    ) -> Result<Vec<f64>, TrainError>;

    /// What a step measured, from the sums over all ranks; all ranks give the same
    /// answer.
    ///
    /// # Errors
    /// A run that diverges.
    fn finish(&mut self, sums: Vec<f64>, position: Position) -> Result<Vec<f64>, TrainError> {
        let _ = position;
        Ok(sums)
    }

    /// A step in a single process.
    ///
    /// # Errors
    /// As [`Method::step`] and [`Method::finish`].
    fn step_alone(
        &mut self,
        network: &mut dyn Executor,
        images: &Images,
        position: Position,
        gradients: &mut Gradients,
    ) -> Result<Vec<f64>, TrainError> {
        let sums = self.step(network, &Minibatch::whole(images), position, gradients)?;
        self.finish(sums, position)
    }

    /// What a checkpoint must hold of the method itself.
    fn save(&self) -> Value {
        Value::Null
    }

    /// Goes on from what [`Method::save`] gave; called after [`Method::begin`].
    ///
    /// # Errors
    /// A state that is not this method's.
    fn restore(&mut self, _state: &Value) -> Result<(), TrainError> {
        Ok(())
    }
}

/// Refuses what is not a positive number.
pub(crate) fn positive(name: &str, value: f64) -> Result<(), SettingError> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(SettingError::value(name, value, "a positive number"))
}

/// Refuses what is not a share.
pub(crate) fn share(name: &str, value: f64) -> Result<(), SettingError> {
    match (0.0..=1.0).contains(&value) {
        true => Ok(()),
        false => Err(SettingError::value(name, value, "0 to 1")),
    }
}

/// Images with fresh noise: a function of seed, image and epoch alone.
pub(crate) fn noisy_copies(
    images: &Images,
    noise: TrainingNoise,
    position: Position,
) -> (Noise, Vec<NoisyImage<'_>>) {
    let noise = noise.noise(position.seed, Purpose::Training);
    (noise, NoisyImage::copies_of(images, position.epoch, 1))
}
