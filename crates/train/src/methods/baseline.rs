//! Cross-entropy on clean images.

use data::Batch;
use network::{Differentiable, Gradients, Mode};

use super::{Method, Position};
use crate::error::TrainError;
use crate::loss;

/// The undefended baseline: `mean of -log softmax(f(x))_y`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Baseline;

impl<N: Differentiable> Method<N> for Baseline {
    fn columns(&self) -> &'static [&'static str] {
        &["loss", "train_accuracy"]
    }

    fn step(
        &mut self,
        network: &mut N,
        batch: &Batch,
        _: Position,
        gradients: &mut Gradients,
    ) -> Result<Vec<f64>, TrainError> {
        Ok(cross_entropy_step(
            network,
            &batch.images,
            &batch.labels,
            gradients,
        ))
    }
}

/// One cross-entropy step on the given images: forward, backward, running
/// statistics; returns loss and accuracy.
pub(super) fn cross_entropy_step<N: Differentiable>(
    network: &mut N,
    images: &[f32],
    labels: &[u32],
    gradients: &mut Gradients,
) -> Vec<f64> {
    let classes = network.classes();
    let (logits, tape) = network.forward(images, Mode::Train);
    let mut cotangent = vec![0.0; logits.len()];
    let loss = loss::cross_entropy(classes, &logits, labels, &mut cotangent);
    network.parameter_gradient(&tape, &cotangent, gradients);
    network.update_running_statistics(&tape);
    let correct = loss::correct(classes, &logits, labels);
    vec![loss, correct as f64 / labels.len() as f64]
}
