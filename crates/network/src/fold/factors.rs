//! Constant factors and offsets per channel, composed in f64.

use super::norm::BatchNorm;
use crate::graph::{Graph, NodeId};
use crate::op::Op;
use crate::parameters::Parameters;

/// `y_c = scale_c * x_c + shift_c`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Factors {
    pub scale: Vec<f64>,
    pub shift: Vec<f64>,
}

impl Factors {
    /// What the bias of a layer adds.
    pub fn of_bias(channels: usize, bias: Option<&[f32]>) -> Self {
        let wide = |bias: &[f32]| bias.iter().map(|&b| f64::from(b)).collect();
        Self {
            scale: vec![1.0; channels],
            shift: bias.map_or_else(|| vec![0.0; channels], wide),
        }
    }

    /// What a batch norm in eval mode does.
    pub fn of_norm(norm: BatchNorm) -> Self {
        let factors = norm.running().map(|channel| {
            let scale = channel.scale();
            (scale, channel.shift(scale))
        });
        let (scale, shift) = factors.unzip();
        Self { scale, shift }
    }

    /// What node `id` does, if it is a batch norm (in eval mode) or affine.
    pub fn of(graph: &Graph, parameters: &Parameters, id: NodeId) -> Option<Self> {
        let Op::Affine { scale, shift } = &graph.nodes()[id].op else {
            return BatchNorm::of(graph, parameters, id).map(Self::of_norm);
        };
        let channels = graph.shape(id).channels;
        let spread = |v: &[f32]| (0..channels).map(|c| f64::from(v[c % v.len()])).collect();
        Some(Self {
            scale: spread(scale),
            shift: spread(shift),
        })
    }

    /// First this, then `next`.
    pub fn then(mut self, next: &Self) -> Self {
        for c in 0..self.scale.len() {
            self.scale[c] *= next.scale[c];
            self.shift[c] = self.shift[c] * next.scale[c] + next.shift[c];
        }
        self
    }

    /// The weights of the layer before, with the factors multiplied in. A
    /// weight's output channel is its slowest index.
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

/// Rounded to single precision.
pub(crate) fn single(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}
