//! Cross-entropy on noisy images: RandomizedSmoothing (Cohen et al. 2019).

use data::Batch;
use network::{Differentiable, Gradients, Noise, Purpose};

use super::baseline::cross_entropy_step;
use super::{Method, Position};
use crate::error::TrainError;

/// `mean of -log softmax(f(x + eta))_y` with fresh `eta ~ N(0, sigma^2 I)` for
/// every image in every epoch; noisy pixels are not clipped.
#[derive(Clone, Copy, Debug)]
pub struct Gaussian {
    /// Noise level, in units of pixels scaled to [0, 1].
    pub sigma: f32,
}

impl Gaussian {
    /// The batch's images with the noise of this epoch.
    pub(super) fn noisy(&self, batch: &Batch, position: Position) -> Vec<f32> {
        let noise = Noise {
            seed: position.seed,
            purpose: Purpose::Training,
            sigma: self.sigma,
        };
        let len = batch.images.len() / batch.labels.len();
        let mut noisy = vec![0.0; batch.images.len()];
        let images = batch
            .images
            .chunks_exact(len)
            .zip(noisy.chunks_exact_mut(len));
        for ((clean, noisy), &index) in images.zip(&batch.indices) {
            noise.add(index, position.epoch, clean, noisy);
        }
        noisy
    }
}

impl<N: Differentiable> Method<N> for Gaussian {
    fn columns(&self) -> &'static [&'static str] {
        &["loss", "train_accuracy"]
    }

    fn step(
        &mut self,
        network: &mut N,
        batch: &Batch,
        position: Position,
        gradients: &mut Gradients,
    ) -> Result<Vec<f64>, TrainError> {
        let noisy = self.noisy(batch, position);
        Ok(cross_entropy_step(
            network,
            &noisy,
            &batch.labels,
            gradients,
        ))
    }
}
