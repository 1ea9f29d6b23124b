//! The four verbs, as traits that a device implements.

use std::any::Any;

use kernels::geometry::Shape;

use crate::collective::{Collective, NormSharing};
use crate::device_error::DeviceError;
use crate::graph::Graph;
use crate::model::Model;
use crate::noise::{Noise, NoisyImage};
use crate::op::Op;
use crate::optimiser::{SgdStep, TrainingState};
use crate::parameters::{HostGradients, Parameters};

/// Which statistics batch norms use. Always said, never implied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Of the batch itself.
    Train,
    /// The running ones; an image's result does not depend on its neighbours.
    Eval,
    /// The running ones, in a network that learns all the same: as `Eval`, with a
    /// tape that is made for gradients of the parameters.
    Frozen,
}

/// A classifier that can be evaluated: verb one.
pub trait Classify: Sync {
    /// Shape of one image.
    fn input(&self) -> Shape;

    /// Number of logits `K`.
    fn classes(&self) -> usize;

    /// Logits in eval mode of all images, `images.len() / input().len()` of
    /// them, NHWC; `logits` takes `K` values an image.
    ///
    /// # Errors
    /// Lengths that do not fit; a device that fails.
    fn logits(&self, images: &[f32], logits: &mut [f32]) -> Result<(), DeviceError>;

    /// Logits of noisy copies, one behind the other in the order of `batch`.
    ///
    /// # Errors
    /// As [`Classify::logits`].
    fn noisy_logits(
        &self,
        noise: &Noise,
        batch: &[NoisyImage<'_>],
        logits: &mut [f32],
    ) -> Result<(), DeviceError>;

    /// How many images or noisy copies are best evaluated at once: enough to
    /// keep the device busy, few enough for its memory. No result depends on it.
    fn batch(&self) -> usize;
}

/// A network on a device, chosen at run time: verbs two to four, and what must
/// live beside the weights.
pub trait Executor: Classify + Send {
    /// The graph that is evaluated.
    fn graph(&self) -> &Graph;

    /// Logits and tape. Never touches the running statistics.
    ///
    /// # Errors
    /// As [`Classify::logits`].
    fn forward(&self, images: &[f32], mode: Mode) -> Result<(Vec<f32>, Tape), DeviceError>;

    /// The same of noisy copies, one behind the other, that are drawn where the network
    /// lives.
    ///
    /// # Errors
    /// As [`Classify::logits`].
    fn forward_noisy(
        &self,
        noise: &Noise,
        batch: &[NoisyImage<'_>],
        mode: Mode,
    ) -> Result<(Vec<f32>, Tape), DeviceError> {
        self.forward(&self.noisy(noise, batch)?, mode)
    }

    /// `d(cotangent . logits)/dx`; no parameter gradient is computed. A tape may
    /// be pulled back many times.
    ///
    /// # Errors
    /// As [`Classify::logits`]; a tape of another executor.
    fn input_gradient(&self, tape: &Tape, cotangent: &[f32]) -> Result<Vec<f32>, DeviceError>;

    /// Adds `d(cotangent . logits)/d(parameters)` to `gradients`.
    ///
    /// # Errors
    /// As [`Executor::input_gradient`].
    fn parameter_gradient(
        &self,
        tape: &Tape,
        cotangent: &[f32],
        gradients: &mut Gradients,
    ) -> Result<(), DeviceError>;

    /// Gradients of value 0, to be added to.
    ///
    /// # Errors
    /// A device without room for them.
    fn gradients(&self) -> Result<Gradients, DeviceError>;

    /// A copy of gradients in host memory.
    ///
    /// # Errors
    /// A device that fails; gradients of another executor.
    fn read_gradients(&self, gradients: &Gradients) -> Result<HostGradients, DeviceError> {
        gradients.of().cloned()
    }

    /// Puts values from host memory in the place of gradients.
    ///
    /// # Errors
    /// As [`Executor::read_gradients`].
    fn write_gradients(
        &self,
        values: HostGradients,
        gradients: &mut Gradients,
    ) -> Result<(), DeviceError> {
        *gradients.of_mut()? = values;
        Ok(())
    }

    /// Moves the running statistics towards those of a train-mode pass; does
    /// nothing for a tape of a pass that used the running ones.
    ///
    /// # Errors
    /// As [`Executor::input_gradient`].
    fn update_running_statistics(&mut self, tape: &Tape) -> Result<(), DeviceError>;

    /// One step of the optimiser, whose velocities live beside the parameters.
    /// Sets `gradients` to 0 again, and returns their norm before clipping; a
    /// norm that is not finite moves nothing.
    ///
    /// # Errors
    /// A device that fails; gradients of another executor.
    fn optimise(&mut self, step: &SgdStep, gradients: &mut Gradients) -> Result<f64, DeviceError>;

    /// A copy of the weights and running statistics.
    ///
    /// # Errors
    /// A device that fails.
    fn parameters(&self) -> Result<Parameters, DeviceError>;

    /// A copy of all that training changes, for checkpoints.
    ///
    /// # Errors
    /// A device that fails.
    fn state(&self) -> Result<TrainingState, DeviceError>;

    /// Goes on from a copied state.
    ///
    /// # Errors
    /// A device that fails.
    fn restore(&mut self, state: TrainingState) -> Result<(), DeviceError>;

    /// Noisy copies themselves, one behind the other, drawn where the network
    /// lives.
    ///
    /// # Errors
    /// As [`Classify::logits`].
    fn noisy(&self, noise: &Noise, batch: &[NoisyImage<'_>]) -> Result<Vec<f32>, DeviceError>;

    /// Says what batch norms share with those of other ranks from now on.
    ///
    /// # Errors
    /// A device whose batch norms cannot share it.
    fn share_norms(&mut self, sharing: NormSharing) -> Result<(), DeviceError> {
        let mut nodes = self.graph().nodes().iter();
        let norms = nodes.any(|node| matches!(node.op, Op::BatchNorm { .. } | Op::Foreign { .. }));
        match sharing {
            NormSharing::Statistics(_) | NormSharing::Running(_) if norms => {
                Err(DeviceError::Ranks {
                    reason: "this device cannot share batch norms with other ranks".into(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Sums up gradients over all ranks.
    ///
    /// # Errors
    /// A device whose gradients cannot be summed up; a rank that is gone.
    fn sum_gradients(
        &self,
        gradients: &mut Gradients,
        ranks: &dyn Collective,
    ) -> Result<(), DeviceError> {
        let _ = (gradients, ranks);
        Err(DeviceError::Ranks {
            reason: "this device cannot sum up gradients over ranks".into(),
        })
    }

    /// How many images fit into one tape, and its backward pass, without
    /// exhausting memory. No result in eval mode depends on it.
    fn taped_batch(&self) -> usize;
}

/// Puts a model on a device.
pub type Load<'a> = &'a dyn Fn(&Model) -> Result<Box<dyn Executor>, DeviceError>;

/// What a forward pass keeps for the backward passes, in the form of the
/// executor that made it.
#[derive(Debug)]
pub struct Tape(Box<dyn Any + Send>);

/// Gradients of all parameters, in the form and on the device of the executor
/// that made them.
#[derive(Debug)]
pub struct Gradients(Box<dyn Any + Send>);

macro_rules! of_executor {
    ($type:ident, $what:literal) => {
        impl $type {
            /// Wraps what an executor keeps.
            pub fn new<T: Any + Send>(own: T) -> Self {
                Self(Box::new(own))
            }

            /// The executor's own form of it.
            ///
            /// # Errors
            /// If another kind of executor made it.
            pub fn of<T: Any>(&self) -> Result<&T, DeviceError> {
                let own = self.0.downcast_ref();
                own.ok_or(DeviceError::Foreign { what: $what })
            }

            /// The same, to be changed.
            ///
            /// # Errors
            /// If another kind of executor made it.
            pub fn of_mut<T: Any>(&mut self) -> Result<&mut T, DeviceError> {
                let own = self.0.downcast_mut();
                own.ok_or(DeviceError::Foreign { what: $what })
            }
        }
    };
}

of_executor!(Tape, "tape");
of_executor!(Gradients, "gradients");
