//! Factors of the units that apply some: `y = scale * x + shift`.

use kernels::norm::Moments;

use super::plan::{Factors, Plan};
use super::tape::Applied;
use crate::fold::{self, BatchNorm, Channel, single};
use crate::graph::{Graph, NodeId};
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
            let factors = fold::Factors::of(graph, parameters, node);
            let factors = factors.expect("constant factors belong to an affine node");
            Applied {
                scale: single(&factors.scale),
                shift: single(&factors.shift),
                ..Applied::default()
            }
        }
        Factors::Norm(node) => normed(batch_norm(graph, parameters, node).running(), 0),
    }
}

/// Factors of a batch norm in train mode.
pub(super) fn of_batch(
    graph: &Graph,
    parameters: &Parameters,
    node: NodeId,
    moments: Moments,
) -> Applied {
    let norm = batch_norm(graph, parameters, node);
    let means = moments.mean.iter().enumerate();
    let channels = means.map(|(c, &mean)| norm.channel(c, mean, moments.variance(c)));
    normed(channels, moments.rows)
}

fn batch_norm<'a>(graph: &Graph, parameters: &'a Parameters, node: NodeId) -> BatchNorm<'a> {
    BatchNorm::of(graph, parameters, node).expect("statistics belong to a batch norm")
}

fn normed(channels: impl Iterator<Item = Channel>, rows: usize) -> Applied {
    let mut applied = Applied {
        rows,
        ..Applied::default()
    };
    for channel in channels {
        let inverse = channel.inverse_deviation();
        let scale = inverse * channel.weight;
        applied.scale.push(scale as f32);
        applied.shift.push(channel.shift(scale) as f32);
        applied.mean.push(channel.mean as f32);
        applied.variance.push(channel.variance as f32);
        applied.inverse.push(inverse as f32);
    }
    applied
}
