//! Fresh random weights.

use crate::graph::Graph;
use crate::noise::{Noise, Purpose};
use crate::parameters::{Parameters, Role};

/// Fresh weights, a pure function of the graph and the seed:
///
/// | role | values |
/// |---|---|
/// | convolution weight | `N(0, 2/fan_out)`, `fan_out = out * kh * kw` (He et al.) |
/// | linear weight | `N(0, 1/fan_in)` |
/// | bias, shift, running mean, width | 0 |
/// | scale, running variance | 1 |
/// | class token, position embedding | `N(0, 0.02^2)` |
pub fn initialise(graph: &Graph, seed: u64) -> Parameters {
    let mut values = Vec::with_capacity(graph.parameters().len());
    for (index, spec) in graph.parameters().iter().enumerate() {
        let constant = |c: f32| vec![c; spec.len()];
        values.push(match spec.role {
            Role::NormScale | Role::RunningVariance => constant(1.0),
            Role::Bias | Role::NormShift | Role::RunningMean | Role::Width | Role::Constant => {
                constant(0.0)
            }
            Role::Weight | Role::Embedding => {
                let variance = match (spec.role, &spec.shape[..]) {
                    (Role::Embedding, _) => 4e-4,
                    (_, [out, _, kh, kw]) => 2.0 / (out * kh * kw) as f32,
                    _ => 1.0 / spec.shape[1] as f32,
                };
                let noise = Noise::gaussian(seed, Purpose::Weights, variance.sqrt().into());
                noise.draw(index as u32, 0, spec.len())
            }
        });
    }
    Parameters::new(graph, values)
}
