//! Cross-entropy on clean images.

use network::{Executor, Gradients, Images, Mode};

use super::{Method, Position};
use crate::error::TrainError;
use crate::loss;

/// The undefended baseline: `mean of -log softmax(f(x))_y`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Baseline;

impl Method for Baseline {
    fn columns(&self) -> &'static [&'static str] {
        &["loss", "train_accuracy"]
    }

    fn step(
        &mut self,
        network: &mut dyn Executor,
        images: &Images,
        _: Position,
        gradients: &mut Gradients,
    ) -> Result<Vec<f64>, TrainError> {
        cross_entropy_step(network, &images.pixels, &images.labels, gradients)
    }
}

/// One cross-entropy step on the given images: forward, backward, running
/// statistics; returns loss and accuracy.
pub(super) fn cross_entropy_step(
    network: &mut dyn Executor,
    images: &[f32],
    labels: &[u32],
    gradients: &mut Gradients,
) -> Result<Vec<f64>, TrainError> {
    let classes = network.classes();
    let (logits, tape) = network.forward(images, Mode::Train)?;
    let mut cotangent = vec![0.0; logits.len()];
    let loss = loss::cross_entropy(classes, &logits, labels, &mut cotangent);
    network.parameter_gradient(&tape, &cotangent, gradients)?;
    network.update_running_statistics(&tape)?;
    let correct = loss::correct(classes, &logits, labels);
    Ok(vec![loss, correct as f64 / labels.len() as f64])
}
