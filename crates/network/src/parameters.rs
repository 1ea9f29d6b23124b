//! Named parameters and their gradients.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::graph::Graph;

/// What a parameter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Weight of a convolution or linear layer: the only role that decays.
    Weight,
    /// Bias of a convolution or linear layer.
    Bias,
    /// Scale of a norm, or of a layer's outputs.
    NormScale,
    /// Shift of a norm.
    NormShift,
    /// Running mean of a batch norm; not trained.
    RunningMean,
    /// Running variance of a batch norm (unbiased); not trained.
    RunningVariance,
    /// Width of the noise that a ReLU is averaged over; measured, not trained.
    Width,
    /// A class token or position embedding: trained, starts small.
    Embedding,
    /// Which tokens of a rolled window do not see each other, of `rows x columns`
    /// windows with all pairs of tokens each; not trained.
    Mask,
    /// Anything else that is kept but not trained.
    Constant,
}

impl Role {
    /// Moved by the optimiser.
    pub fn trainable(self) -> bool {
        !matches!(
            self,
            Role::RunningMean | Role::RunningVariance | Role::Width | Role::Mask | Role::Constant
        )
    }
}

/// Name, shape and role of one parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterSpec {
    /// `node.weight`, `node.bias`, `node.running_mean`, `node.running_var`,
    /// `node.width`, or `node` itself.
    pub name: String,
    /// As in PyTorch: OIHW, out x in, or channels; empty for a single number.
    pub shape: Vec<usize>,
    /// What it is for.
    pub role: Role,
}

impl ParameterSpec {
    /// Number of values.
    #[expect(clippy::len_without_is_empty, reason = "no parameter is empty")]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Values of all parameters of a graph, in the order of
/// [`Graph::parameters`].
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    values: Vec<Vec<f32>>,
}

impl Parameters {
    /// Takes values that fit the graph.
    ///
    /// # Panics
    /// If a length differs from its specification.
    pub fn new(graph: &Graph, values: Vec<Vec<f32>>) -> Self {
        assert_eq!(values.len(), graph.parameters().len());
        for (values, spec) in values.iter().zip(graph.parameters()) {
            assert_eq!(values.len(), spec.len(), "{}", spec.name);
        }
        Self { values }
    }

    /// Values of one parameter.
    pub fn get(&self, index: usize) -> &[f32] {
        &self.values[index]
    }

    /// Values of one parameter, to be changed.
    pub fn get_mut(&mut self, index: usize) -> &mut [f32] {
        &mut self.values[index]
    }

    /// All parameters in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.iter().map(Vec::as_slice)
    }

    /// All parameters in order, to be changed.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut [f32]> {
        self.values.iter_mut().map(Vec::as_mut_slice)
    }

    /// `running <- (1 - momentum) * running + momentum * batch` for one batch
    /// norm, whose parameters are `range`; the variance enters unbiased, as in
    /// PyTorch: `variance * rows / (rows - 1)`.
    pub fn update_running(
        &mut self,
        range: Range<usize>,
        momentum: f32,
        mean: &[f32],
        variance: &[f32],
        rows: usize,
    ) {
        let unbias = rows as f32 / (rows.max(2) - 1) as f32;
        let (running_mean, running_variance) = (range.end - 2, range.end - 1);
        for (r, m) in self.values[running_mean].iter_mut().zip(mean) {
            *r += momentum * (m - *r);
        }
        for (r, v) in self.values[running_variance].iter_mut().zip(variance) {
            *r += momentum * (v * unbias - *r);
        }
    }
}

/// Gradients of all parameters, aligned with [`Parameters`]; those of what is
/// not trained are empty.
#[derive(Clone, Debug, PartialEq)]
pub struct HostGradients {
    values: Vec<Vec<f32>>,
}

impl HostGradients {
    /// Zeros for every trainable parameter.
    pub fn zeros(graph: &Graph) -> Self {
        let values = graph
            .parameters()
            .iter()
            .map(|spec| vec![0.0; if spec.role.trainable() { spec.len() } else { 0 }])
            .collect();
        Self { values }
    }

    /// Sets everything to zero.
    pub fn clear(&mut self) {
        self.values.iter_mut().for_each(|g| g.fill(0.0));
    }

    /// Gradient of one parameter.
    pub fn get(&self, index: usize) -> &[f32] {
        &self.values[index]
    }

    /// Gradient of one parameter, to be added to.
    pub fn get_mut(&mut self, index: usize) -> &mut [f32] {
        &mut self.values[index]
    }

    /// All gradients in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.iter().map(Vec::as_slice)
    }

    /// All gradients in order, to be changed.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut [f32]> {
        self.values.iter_mut().map(Vec::as_mut_slice)
    }

    /// Euclidean norm over all parameters, summed in `f64`.
    pub fn norm(&self) -> f64 {
        // Side by side: one chain of additions takes longer than reading the values.
        const CHAINS: usize = 8;
        let square = |g: &[f32]| {
            let (rows, rest) = g.as_chunks::<CHAINS>();
            let mut sums = [0.0; CHAINS];
            for row in rows {
                for (sum, &x) in sums.iter_mut().zip(row) {
                    *sum += f64::from(x) * f64::from(x);
                }
            }
            let rest = rest.iter().map(|&x| f64::from(x) * f64::from(x));
            sums.into_iter().chain(rest).sum::<f64>()
        };
        self.iter().map(square).sum::<f64>().sqrt()
    }
}
