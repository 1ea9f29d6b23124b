//! What a batch norm does to one channel.

use crate::graph::{Graph, NodeId};
use crate::op::Op;
use crate::parameters::Parameters;

/// The parameters of a batch norm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchNorm<'a> {
    weight: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
    mean: &'a [f32],
    variance: &'a [f32],
    epsilon: f32,
}

impl<'a> BatchNorm<'a> {
    /// Those of node `id`, if it is a batch norm.
    pub fn of(graph: &Graph, parameters: &'a Parameters, id: NodeId) -> Option<Self> {
        let Op::BatchNorm {
            epsilon,
            scale,
            shift,
            ..
        } = graph.nodes()[id].op
        else {
            return None;
        };
        let range = graph.parameters_of(id);
        Some(Self {
            weight: scale.then(|| parameters.get(range.start)),
            bias: shift.then(|| parameters.get(range.end - 3)),
            mean: parameters.get(range.end - 2),
            variance: parameters.get(range.end - 1),
            epsilon,
        })
    }

    /// Its channels with the running statistics: eval mode.
    pub fn running(self) -> impl Iterator<Item = Channel> {
        let statistics = self.mean.iter().zip(self.variance).enumerate();
        statistics.map(move |(c, (&mean, &variance))| {
            self.channel(c, f64::from(mean), f64::from(variance))
        })
    }

    /// Channel `c` with these statistics.
    pub fn channel(&self, c: usize, mean: f64, variance: f64) -> Channel {
        let value = |values: Option<&[f32]>, or| values.map_or(or, |values| f64::from(values[c]));
        Channel {
            weight: value(self.weight, 1.0),
            bias: value(self.bias, 0.0),
            mean,
            variance,
            epsilon: f64::from(self.epsilon),
        }
    }
}

/// The numbers of one channel of a batch norm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel {
    pub weight: f64,
    pub bias: f64,
    pub mean: f64,
    pub variance: f64,
    epsilon: f64,
}

impl Channel {
    fn deviation(&self) -> f64 {
        (self.variance + self.epsilon).sqrt()
    }

    /// The factor, for those who need nothing else: one division.
    pub fn scale(&self) -> f64 {
        self.weight / self.deviation()
    }

    /// The factor without the weight, which gradients are made of. Training
    /// takes its factor as this times the weight. That is not always the same
    /// number as [`scale`](Self::scale), it may differ in the last bit of the
    /// f64, so exchanging one for the other would change trained models or
    /// logits.
    pub fn inverse_deviation(&self) -> f64 {
        1.0 / self.deviation()
    }

    /// The offset that belongs to a factor.
    pub fn shift(&self, scale: f64) -> f64 {
        self.bias - scale * self.mean
    }
}
