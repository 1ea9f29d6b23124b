//! Cross-entropy on noisy images: RandomizedSmoothing (Cohen et al. 2019).

use network::{Executor, Gradients, Images};
use settings::SettingError;

use super::baseline::cross_entropy_step;
use super::{Method, Position, TrainingNoise, noisy_copies};
use crate::error::TrainError;

/// `mean of -log softmax(f(x + eta))_y` with fresh `eta ~ N(0, sigma^2 I)`, or noise
/// of another distribution, for every image in every epoch; noisy pixels are not
/// clipped.
#[derive(Clone, Copy, Debug)]
pub struct Gaussian {
    noise: TrainingNoise,
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
        Ok(Self { noise })
    }
}

impl Method for Gaussian {
    fn columns(&self) -> &'static [&'static str] {
        &["loss", "train_accuracy"]
    }

    fn step(
        &mut self,
        network: &mut dyn Executor,
        images: &Images,
        position: Position,
        gradients: &mut Gradients,
    ) -> Result<Vec<f64>, TrainError> {
        let noisy = noisy_copies(network, images, self.noise, position)?;
        cross_entropy_step(network, &noisy, &images.labels, gradients)
    }
}
