//! Factors of the units that apply some: `y = scale * x + shift`.

use kernels::norm::Moments;

use super::plan::{Factors, Plan};
use super::tape::Applied;
use crate::graph::{Graph, NodeId};
use crate::op::Op;
use crate::parameters::Parameters;

/// Factors of unit `id` that do not depend on the batch: constants, and batch
/// norms in eval mode.
pub(super) fn fixed(graph: &Graph, parameters: &Parameters, plan: &Plan, id: NodeId) -> Applied {
    let channels = plan.shapes[id].channels;
    match plan.apply(id).factors {
        Factors::Identity => Applied {
            scale: vec![1.0; channels],
            shift: vec![0.0; channels],
            ..Applied::default()
        },
        Factors::Constant(node) => {
            let Op::Affine { scale, shift } = &graph.nodes()[node].op else {
                unreachable!("constant factors belong to an affine node")
            };
            let spread = |v: &[f32]| (0..channels).map(|c| v[c % v.len()]).collect();
            Applied {
                scale: spread(scale),
                shift: spread(shift),
                ..Applied::default()
            }
        }
        Factors::Norm(node) => {
            let range = graph.parameters_of(node);
            let (mean, variance) = (parameters.get(range.end - 2), parameters.get(range.end - 1));
            let wide = |v: &[f32]| v.iter().map(|&v| f64::from(v)).collect();
            normed(graph, parameters, node, wide(mean), wide(variance), 0)
        }
    }
}

/// Factors of a batch norm in train mode.
pub(super) fn of_batch(
    graph: &Graph,
    parameters: &Parameters,
    norm: NodeId,
    moments: Moments,
) -> Applied {
    let variance = (0..moments.mean.len())
        .map(|c| moments.variance(c))
        .collect();
    normed(
        graph,
        parameters,
        norm,
        moments.mean,
        variance,
        moments.rows,
    )
}

/// `scale = weight/sqrt(variance + epsilon)`, `shift = bias - mean * scale`.
fn normed(
    graph: &Graph,
    parameters: &Parameters,
    node: NodeId,
    mean: Vec<f64>,
    variance: Vec<f64>,
    rows: usize,
) -> Applied {
    let Op::BatchNorm {
        epsilon,
        scale,
        shift,
        ..
    } = graph.nodes()[node].op
    else {
        unreachable!("statistics belong to a batch norm")
    };
    let range = graph.parameters_of(node);
    let weight = scale.then(|| parameters.get(range.start));
    let bias = shift.then(|| parameters.get(range.end - 3));
    let mut applied = Applied {
        rows,
        ..Applied::default()
    };
    for (c, (mean, variance)) in mean.into_iter().zip(variance).enumerate() {
        let inverse = 1.0 / (variance + f64::from(epsilon)).sqrt();
        let scale = inverse * weight.map_or(1.0, |w| f64::from(w[c]));
        let shift = bias.map_or(0.0, |b| f64::from(b[c])) - mean * scale;
        applied.scale.push(scale as f32);
        applied.shift.push(shift as f32);
        applied.mean.push(mean as f32);
        applied.variance.push(variance as f32);
        applied.inverse.push(inverse as f32);
    }
    applied
}
