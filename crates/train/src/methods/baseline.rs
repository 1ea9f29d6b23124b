//! Cross-entropy on clean images; of real values, the squared error.

use network::{Executor, Gradients, Mode, Model, Tape};

use super::{Leg, LegContext, Method, Position};
use crate::error::TrainError;
use crate::loss::{self, SquaredError};
use crate::minibatch::Minibatch;

/// The undefended baseline: `mean of -log softmax(f(x))_y`, or the mean of
/// `(f(x) - y)^2` in units of the variance of y.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    error: SquaredError,
}

impl Method for Baseline {
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
        _: Position,
        gradients: &mut Gradients,
    ) -> Result<Vec<f64>, TrainError> {
        let pass = network.forward(&images.pixels, Mode::Train)?;
        target_step(network, pass, (images, &self.error), gradients)
    }
}

/// One step towards the targets of some images after a train-mode pass of them, or of
/// what was made from them: by cross-entropy where they are classes, else by the squared
/// error.
pub(super) fn target_step(
    network: &mut dyn Executor,
    (outputs, tape): (Vec<f32>, Tape),
    (images, error): (&Minibatch<'_>, &SquaredError),
    gradients: &mut Gradients,
) -> Result<Vec<f64>, TrainError> {
    if images.values.is_empty() {
        let of = images.of();
        let labels = (&images.labels[..], of);
        return cross_entropy_step(network, (outputs, tape), labels, gradients);
    }
    let mut cotangent = vec![0.0; outputs.len()];
    let loss = error.mean(&outputs, &images.values, images.of(), &mut cotangent);
    network.parameter_gradient(&tape, &cotangent, gradients)?;
    network.update_running_statistics(&tape)?;
    Ok(vec![loss])
}

/// One cross-entropy step after a train-mode pass, as a part of the mean over `of` images:
/// backward, running statistics; returns loss and accuracy.
pub(super) fn cross_entropy_step(
    network: &mut dyn Executor,
    (logits, tape): (Vec<f32>, Tape),
    (labels, of): (&[u32], usize),
    gradients: &mut Gradients,
) -> Result<Vec<f64>, TrainError> {
    let classes = network.classes();
    let mut cotangent = vec![0.0; logits.len()];
    let loss = loss::cross_entropy(classes, &logits, (labels, of), &mut cotangent);
    network.parameter_gradient(&tape, &cotangent, gradients)?;
    network.update_running_statistics(&tape)?;
    let correct = loss::correct(classes, &logits, labels);
    Ok(vec![loss, correct as f64 / of as f64])
}
