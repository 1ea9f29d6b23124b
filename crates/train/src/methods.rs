//! The training methods: what one step adds to the gradient.

mod baseline;
mod gaussian;
mod heat;
mod smoothadv;

pub use baseline::Baseline;
pub use gaussian::Gaussian;
pub use heat::{Fit, Heat, HeatParams, Scale, Start};
pub use smoothadv::{InnerAttack, SmoothAdv, SmoothAdvParams};

use data::Batch;
use network::{Differentiable, Gradients};

use crate::error::TrainError;

/// Where in a run a step is; randomness may depend on it, on the seed and on
/// image numbers, and on nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Seed of the run.
    pub seed: u64,
    /// Epoch, from 0.
    pub epoch: u32,
    /// Step of the run, from 0.
    pub step: u64,
}

/// A way to train: computes the gradient of its loss on a batch.
pub trait Method<N: Differentiable> {
    /// Names of what [`Method::step`] measures; `loss` comes first.
    fn columns(&self) -> &'static [&'static str];

    /// Adds the gradient of the mean loss over the batch to `gradients`
    /// (cleared before), updates running statistics, and returns batch means in
    /// the order of [`Method::columns`].
    fn step(
        &mut self,
        network: &mut N,
        batch: &Batch,
        position: Position,
        gradients: &mut Gradients,
    ) -> Result<Vec<f64>, TrainError>;
}
