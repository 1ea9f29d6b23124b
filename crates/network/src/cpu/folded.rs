//! Eval-mode passes with a tape, over the network without its batch norms.
//!
//! With fixed statistics a batch norm is part of the convolution before it: a
//! pass and its pull-back then cost what the convolutions cost, and of most
//! values the tape keeps one bit. Only the gradients of the parameters need the
//! network as it was.

use std::sync::{Arc, Mutex, PoisonError};

use super::training::{CpuTape, Training};
use crate::device_error::DeviceError;
use crate::fold;
use crate::graph::Graph;
use crate::parameters::Parameters;
use crate::verbs::Mode;

/// A network without batch norms, and what runs it.
#[derive(Debug)]
pub(super) struct Folded {
    graph: Graph,
    parameters: Parameters,
    training: Training,
}

impl Folded {
    /// Logits and tape of NHWC images.
    pub fn forward(self: &Arc<Self>, images: &[f32]) -> Result<(Vec<f32>, CpuTape), DeviceError> {
        let (graph, parameters) = (&self.graph, &self.parameters);
        let (logits, mut tape) = (self.training).forward(graph, parameters, images, Mode::Eval)?;
        tape.folded = Some(Arc::clone(self));
        Ok((logits, tape))
    }

    /// Writes the gradient of `cotangent . logits` with respect to the images.
    pub fn input_gradient(
        &self,
        tape: &CpuTape,
        cotangent: &[f32],
        dx: &mut [f32],
    ) -> Result<(), DeviceError> {
        let (graph, parameters) = (&self.graph, &self.parameters);
        (self.training).input_gradient(graph, parameters, tape, cotangent, dx)
    }
}

/// The folded network of the current parameters, made when it is asked for.
#[derive(Debug, Default)]
pub(super) struct Folding(Mutex<Option<Arc<Folded>>>);

impl Folding {
    /// Forgets what was derived from the parameters.
    pub fn parameters_change(&mut self) {
        *self.0.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The folded network; `training` lends its threads and its memory.
    pub fn get(&self, graph: &Graph, parameters: &Parameters, training: &Training) -> Arc<Folded> {
        let mut folded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let (graph, parameters) = fold::folded(graph, parameters);
            let training = training.for_images(&graph);
            Arc::new(Folded {
                graph,
                parameters,
                training,
            })
        };
        Arc::clone(folded.get_or_insert_with(make))
    }
}
