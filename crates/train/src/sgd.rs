//! Stochastic gradient descent with momentum.

use network::{Gradients, Graph, Parameters, Role};
use serde::{Deserialize, Serialize};

/// Hyper-parameters of [`Sgd`].
///
/// For every trainable parameter `p` with gradient `g`, as in PyTorch:
///
/// ```text
/// g <- g * min(1, clip / ||g||)          (norm over all parameters)
/// v <- momentum * v + g + weight_decay * p
/// p <- p - rate * v
/// ```
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `momentum` | 0.9 | share of the old step kept | [0, 1) |
/// | `weight_decay` | 5e-4 | only on weights of convolutions and linear layers | >= 0 |
/// | `clip` | none | bound on the gradient's norm | > 0 |
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SgdParams {
    /// Share of the old step that is kept.
    pub momentum: f32,
    /// Pull towards 0; never on biases and norms.
    pub weight_decay: f32,
    /// Bound on the norm of the whole gradient.
    pub clip: Option<f32>,
}

impl Default for SgdParams {
    fn default() -> Self {
        Self {
            momentum: 0.9,
            weight_decay: 5e-4,
            clip: None,
        }
    }
}

/// The optimiser's state.
#[derive(Clone, Debug)]
pub struct Sgd {
    params: SgdParams,
    velocity: Gradients,
}

impl Sgd {
    /// At rest.
    pub fn new(graph: &Graph, params: SgdParams) -> Self {
        let velocity = Gradients::zeros(graph);
        Self { params, velocity }
    }

    /// The velocities, for checkpoints.
    pub fn velocity(&self) -> &Gradients {
        &self.velocity
    }

    /// The velocities, to be restored.
    pub fn velocity_mut(&mut self) -> &mut Gradients {
        &mut self.velocity
    }

    /// One step with this learning rate; returns the gradient's norm before
    /// clipping. A norm that is not finite moves nothing.
    pub fn step(
        &mut self,
        graph: &Graph,
        rate: f32,
        gradients: &Gradients,
        parameters: &mut Parameters,
    ) -> f64 {
        let norm = gradients.norm();
        if !norm.is_finite() {
            return norm;
        }
        let shrink = match self.params.clip {
            Some(clip) if norm > f64::from(clip) => (f64::from(clip) / norm) as f32,
            _ => 1.0,
        };
        let SgdParams {
            momentum,
            weight_decay,
            ..
        } = self.params;
        let state = self.velocity.iter_mut().zip(gradients.iter());
        let values = parameters.iter_mut().zip(graph.parameters());
        for ((velocity, gradient), (values, spec)) in state.zip(values) {
            let decay = if spec.role == Role::Weight {
                weight_decay
            } else {
                0.0
            };
            for ((v, &g), p) in velocity.iter_mut().zip(gradient).zip(values) {
                *v = momentum * *v + shrink * g + decay * *p;
                *p -= rate * *v;
            }
        }
        norm
    }
}
