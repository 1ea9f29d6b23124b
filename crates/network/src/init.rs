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
/// | window mask | -100 between tokens that the roll brought together, else 0 |
/// | class token, position embedding | `N(0, 0.02^2)` |
pub fn initialise(graph: &Graph, seed: u64) -> Parameters {
    let mut values = Vec::with_capacity(graph.parameters().len());
    for (index, spec) in graph.parameters().iter().enumerate() {
        let constant = |c: f32| vec![c; spec.len()];
        values.push(match spec.role {
            Role::NormScale | Role::RunningVariance => constant(1.0),
            Role::Mask => window_mask(&spec.shape),
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

/// The mask of windows, `rows x columns x tokens^2`, of an image that was rolled by
/// half a window (Liu et al. 2021, section 3.2): -100 where two tokens of a window
/// come from different ends of the image.
pub fn window_mask(shape: &[usize]) -> Vec<f32> {
    let &[rows, columns, pairs] = shape else {
        return vec![0.0; shape.iter().product()];
    };
    let side = pairs.isqrt().isqrt();
    let tokens = side * side;
    // Part of a rolled axis: untouched, end before the roll, start before the roll.
    let part = |place: usize, size: usize| match size.saturating_sub(place) {
        left if left > side => 0,
        left if left > side / 2 => 1,
        _ => 2,
    };
    let mut mask = Vec::with_capacity(rows * columns * pairs);
    for window in 0..rows * columns {
        let part = |token: usize| {
            let row = window / columns * side + token / side;
            let column = window % columns * side + token % side;
            (part(row, rows * side), part(column, columns * side))
        };
        for pair in 0..pairs {
            let (a, b) = match tokens {
                0 => (0, 0),
                tokens => (pair / tokens, pair % tokens),
            };
            mask.push(if part(a) == part(b) { 0.0 } else { -100.0 });
        }
    }
    mask
}
