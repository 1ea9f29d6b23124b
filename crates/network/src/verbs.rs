//! The four verbs, as traits that a device implements.

use kernels::geometry::Shape;

use crate::graph::Graph;
use crate::noise::{Noise, NoisyImage};
use crate::parameters::{Gradients, Parameters};

/// Which statistics batch norms use. Always said, never implied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Of the batch itself.
    Train,
    /// The running ones; an image's result does not depend on its neighbours.
    Eval,
}

/// A classifier that can be evaluated: verb one.
pub trait Classify: Sync {
    /// Shape of one image.
    fn input(&self) -> Shape;

    /// Number of logits `K`.
    fn classes(&self) -> usize;

    /// Logits in eval mode of all images, `images.len() / input().len()` of
    /// them, NHWC; `logits` takes `K` values an image.
    fn logits(&self, images: &[f32], logits: &mut [f32]);

    /// Logits of noisy copies, one behind the other in the order of `batch`.
    fn noisy_logits(&self, noise: &Noise, batch: &[NoisyImage<'_>], logits: &mut [f32]);
}

/// A network that can be differentiated: verbs two to four.
pub trait Differentiable: Classify {
    /// What a forward pass keeps for the backward passes.
    type Tape;

    /// The graph that is evaluated.
    fn graph(&self) -> &Graph;

    /// Its weights and running statistics.
    fn parameters(&self) -> &Parameters;

    /// The same, to be changed; anything derived from them is made anew.
    fn parameters_mut(&mut self) -> &mut Parameters;

    /// Logits and tape. Never touches the running statistics.
    fn forward(&self, images: &[f32], mode: Mode) -> (Vec<f32>, Self::Tape);

    /// `dx = d(cotangent . logits)/dx`; no parameter gradient is computed.
    fn input_gradient(&self, tape: &Self::Tape, cotangent: &[f32], dx: &mut [f32]);

    /// Adds `d(cotangent . logits)/d(parameters)` to `gradients`.
    fn parameter_gradient(&self, tape: &Self::Tape, cotangent: &[f32], gradients: &mut Gradients);

    /// Moves the running statistics towards those of a train-mode pass; does
    /// nothing for a tape of an eval-mode pass.
    fn update_running_statistics(&mut self, tape: &Self::Tape);
}
