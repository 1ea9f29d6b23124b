//! Values that are the same for every image.

use crate::graph::{Graph, NodeId};
use crate::op::Op;
use crate::parameters::Parameters;

/// The constant nodes' values, by node; empty for the others.
pub(super) fn evaluate(graph: &Graph, parameters: &Parameters) -> Vec<Vec<f32>> {
    let constant = graph.constants();
    let mut values: Vec<Vec<f32>> = Vec::with_capacity(constant.len());
    for (id, node) in graph.nodes().iter().enumerate() {
        values.push(match &node.op {
            Op::Parameter { .. } => parameters.get(graph.parameters_of(id).start).to_vec(),
            Op::Rearrange(rearrange) if constant[id] => {
                let mut y = vec![0.0; graph.shape(id).len()];
                rearrange.runs().copy(&values[node.inputs[0]], &mut y);
                y
            }
            _ => vec![],
        });
    }
    values
}

/// Constant nodes whose gradient reaches a parameter that is learned.
pub(super) fn learned(graph: &Graph) -> Vec<bool> {
    let constant = graph.constants();
    let mut learned: Vec<bool> = Vec::with_capacity(constant.len());
    for (id, node) in graph.nodes().iter().enumerate() {
        learned.push(match &node.op {
            Op::Parameter { role, .. } => role.trainable(),
            Op::Rearrange(_) if constant[id] => learned[node.inputs[0]],
            _ => false,
        });
    }
    learned
}

/// Whether an addition is of two values of each image and of one shape, and so can be
/// part of what computes one of them.
pub(super) fn plain_add(graph: &Graph, constant: &[bool], id: NodeId) -> bool {
    let node = &graph.nodes()[id];
    node.op == Op::Add
        && node
            .inputs
            .iter()
            .all(|&input| !constant[input] && graph.shape(input) == graph.shape(id))
}
