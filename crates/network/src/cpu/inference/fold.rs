//! Constant factors and offsets per channel, composed in f64.

use crate::graph::{Graph, NodeId};
use crate::op::Op;
use crate::parameters::Parameters;

/// `y_c = scale_c * x_c + shift_c`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Factors {
    pub scale: Vec<f64>,
    pub shift: Vec<f64>,
}

impl Factors {
    pub fn identity(channels: usize) -> Self {
        Self {
            scale: vec![1.0; channels],
            shift: vec![0.0; channels],
        }
    }

    /// What a batch norm (eval mode) or an affine node does.
    pub fn of(graph: &Graph, parameters: &Parameters, id: NodeId) -> Option<Self> {
        let channels = graph.shape(id).channels;
        let range = graph.parameters_of(id);
        match &graph.nodes()[id].op {
            Op::Affine { scale, shift } => {
                let spread = |v: &[f32]| (0..channels).map(|c| f64::from(v[c % v.len()])).collect();
                Some(Self {
                    scale: spread(scale),
                    shift: spread(shift),
                })
            }
            Op::BatchNorm {
                epsilon,
                scale,
                shift,
                ..
            } => {
                let mean = parameters.get(range.end - 2);
                let variance = parameters.get(range.end - 1);
                let weight = scale.then(|| parameters.get(range.start));
                let bias = shift.then(|| parameters.get(range.end - 3));
                let mut factors = Self::identity(channels);
                for c in 0..channels {
                    let deviation = (f64::from(variance[c]) + f64::from(*epsilon)).sqrt();
                    let a = weight.map_or(1.0, |w| f64::from(w[c])) / deviation;
                    factors.scale[c] = a;
                    factors.shift[c] =
                        bias.map_or(0.0, |b| f64::from(b[c])) - a * f64::from(mean[c]);
                }
                Some(factors)
            }
            _ => None,
        }
    }

    /// First this, then `next`.
    pub fn then(mut self, next: &Self) -> Self {
        for c in 0..self.scale.len() {
            self.scale[c] *= next.scale[c];
            self.shift[c] = self.shift[c] * next.scale[c] + next.shift[c];
        }
        self
    }

    /// The weights with the factors multiplied in; outputs are the slowest
    /// index.
    pub fn weights(&self, weights: &[f32]) -> Vec<f32> {
        let each = weights.len() / self.scale.len();
        weights
            .chunks_exact(each)
            .zip(&self.scale)
            .flat_map(|(w, a)| w.iter().map(move |&w| (f64::from(w) * a) as f32))
            .collect()
    }

    /// The offsets in single precision, if any is not 0.
    pub fn bias(&self) -> Option<Vec<f32>> {
        let some = self.shift.iter().any(|&s| s != 0.0);
        some.then(|| single(&self.shift))
    }
}

/// Rounded.
pub(super) fn single(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}
