//! Cross-entropy on noisy images: RandomizedSmoothing (Cohen et al. 2019); of real
//! values, the squared error.

use network::{Executor, Gradients, Mode, Model};
use settings::SettingError;

use super::baseline::target_step;
use super::{Leg, LegContext, Method, Position, TrainingNoise, noisy_copies};
use crate::error::TrainError;
use crate::loss::SquaredError;
use crate::minibatch::Minibatch;

/// `mean of -log softmax(f(x + eta))_y` with fresh `eta ~ N(0, sigma^2 I)`, or noise
/// of another distribution, for every image in every epoch; noisy pixels are not
/// clipped.
#[derive(Clone, Debug)]
pub struct Gaussian {
    noise: TrainingNoise,
    error: SquaredError,
}

impl Gaussian {
    /// With this noise; a number is the level of Gaussian noise, in units of pixels
    /// scaled to [0, 1].
    ///
    /// # Errors
    /// A level that is not a positive number.
    pub fn new(noise: impl Into<TrainingNoise>) -> Result<Self, SettingError> {
        let noise = noise.into();
        noise.check()?;
        let error = SquaredError::default();
        Ok(Self { noise, error })
    }
}

impl Method for Gaussian {
    fn columns(&self) -> &'static [&'static str] {
        &["loss", "train_accuracy"]
    }

    fn value_columns(&self) -> Result<&'static [&'static str], &'static str> {
        Ok(&["loss"])
    }

    fn begin(
        &mut self,
        _: Leg,
        previous: &Model,
        stage: &LegContext<'_>,
    ) -> Result<Model, TrainError> {
        self.error = SquaredError::of(stage.images);
        Ok(previous.clone())
    }

    fn step(
        &mut self,
        network: &mut dyn Executor,
        images: &Minibatch<'_>,
        position: Position,
        gradients: &mut Gradients,
    ) -> Result<Vec<f64>, TrainError> {
        let (noise, batch) = noisy_copies(images, self.noise, position);
        let pass = network.forward_noisy(&noise, &batch, Mode::Train)?;
        target_step(network, pass, (images, &self.error), gradients)
    }
}
