//! Stochastic gradient descent with momentum: the update, and its state.

use rayon::prelude::*;

use crate::graph::Graph;
use crate::parameters::{HostGradients, Parameters, Role};

/// Elements that one thread takes at a time.
const PIECE: usize = 1 << 14;

/// One update. For every trainable parameter `p` with gradient `g`, as in
/// PyTorch:
///
/// ```text
/// g <- g * min(1, clip / ||g||)          (norm over all parameters)
/// v <- momentum * v + g + weight_decay * p
/// p <- p - rate * v
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdStep {
    /// Learning rate.
    pub rate: f32,
    /// Share of the old step that is kept.
    pub momentum: f32,
    /// Pull towards 0; only on weights of convolutions and linear layers.
    pub weight_decay: f32,
    /// Bound on the norm of the whole gradient.
    pub clip: Option<f32>,
}

/// All that training changes: what a checkpoint holds.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingState {
    /// Weights and running statistics.
    pub parameters: Parameters,
    /// The optimiser's velocities.
    pub velocity: HostGradients,
}

impl SgdStep {
    /// The update in host memory; returns the gradient's norm before clipping.
    /// A norm that is not finite moves nothing.
    pub(crate) fn apply(
        &self,
        graph: &Graph,
        gradients: &HostGradients,
        velocity: &mut HostGradients,
        parameters: &mut Parameters,
    ) -> f64 {
        let norm = gradients.norm();
        if !norm.is_finite() {
            return norm;
        }
        let shrink = match self.clip {
            Some(clip) if norm > f64::from(clip) => (f64::from(clip) / norm) as f32,
            _ => 1.0,
        };
        let state = velocity.iter_mut().zip(gradients.iter());
        let values = parameters.iter_mut().zip(graph.parameters());
        // Large parameters in pieces, one piece a thread at a time.
        let mut pieces = vec![];
        for ((velocity, gradient), (values, spec)) in state.zip(values) {
            let decay = if spec.role == Role::Weight {
                self.weight_decay
            } else {
                0.0
            };
            let state = velocity.chunks_mut(PIECE).zip(gradient.chunks(PIECE));
            let each = state.zip(values.chunks_mut(PIECE));
            pieces.extend(each.map(|((v, g), p)| (v, g, p, decay)));
        }
        pieces
            .into_par_iter()
            .for_each(|(velocity, gradient, values, decay)| {
                for ((v, &g), p) in velocity.iter_mut().zip(gradient).zip(values) {
                    *v = self.momentum * *v + shrink * g + decay * *p;
                    *p -= self.rate * *v;
                }
            });
        norm
    }
}
