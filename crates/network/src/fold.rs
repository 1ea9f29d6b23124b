//! Batch norms as constant factors, and as part of the layers before them.
//!
//! With given statistics a batch norm is, for each channel,
//!
//! ```text
//! y = weight * (x - mean) / sqrt(variance + epsilon) + bias
//!   = scale * x + shift
//! scale = weight / sqrt(variance + epsilon)
//! shift = bias - scale * mean
//! ```
//!
//! Both executors and the export compute these numbers here, in f64. Only
//! [`Reference`](crate::Reference) does not: it evaluates the first line as it
//! stands, and so can tell whether this module is right.

mod factors;
mod norm;

pub(crate) use self::factors::{Factors, single};
pub(crate) use self::norm::{BatchNorm, Channel};
use crate::graph::{Graph, Node, NodeId};
use crate::model::Model;
use crate::op::Op;
use crate::parameters::Parameters;

/// The same network in eval mode without batch norms: each is multiplied into
/// the convolution or linear layer that it alone reads, or becomes an affine
/// node. Where a number would overflow, a batch norm stays what it is.
pub fn fold_batch_norms(model: &Model) -> Model {
    let (graph, parameters) = folded(&model.graph, &model.parameters);
    Model {
        graph,
        parameters,
        info: model.info.clone(),
    }
}

/// [`fold_batch_norms`] of a graph and its parameters.
pub(crate) fn folded(graph: &Graph, parameters: &Parameters) -> (Graph, Parameters) {
    let nodes = graph.nodes();
    let mut readers = vec![Vec::new(); nodes.len()];
    for (id, node) in nodes.iter().enumerate() {
        node.inputs
            .iter()
            .for_each(|&input| readers[input].push(id));
    }
    let mut ids = vec![0; nodes.len()];
    let mut folded: Vec<Node> = Vec::with_capacity(nodes.len());
    let mut values: Vec<Vec<f32>> = Vec::new();
    // Batch norms that are part of the layer before them by now.
    let mut gone = vec![false; nodes.len()];
    for (id, node) in nodes.iter().enumerate() {
        if gone[id] {
            ids[id] = ids[node.inputs[0]];
            continue;
        }
        let mut node = node.clone();
        node.inputs
            .iter_mut()
            .for_each(|input| *input = ids[*input]);
        let range = graph.parameters_of(id);
        let mut own: Vec<Vec<f32>> = range.map(|i| parameters.get(i).to_vec()).collect();
        match (&mut node.op, &readers[id][..]) {
            (op @ Op::BatchNorm { .. }, _) => {
                if let Some(affine) = affine(graph, parameters, id) {
                    *op = affine;
                    own.clear();
                }
            }
            (Op::Conv { bias, .. } | Op::Linear { bias, .. }, &[reader]) => {
                if let Some(product) = multiplied(graph, parameters, reader, &own) {
                    *bias = true;
                    own = product;
                    gone[reader] = true;
                }
            }
            _ => {}
        }
        values.extend(own);
        ids[id] = folded.len();
        folded.push(node);
    }
    let graph = Graph::new(folded).expect("folding keeps shapes");
    let parameters = Parameters::new(&graph, values);
    (graph, parameters)
}

/// A batch norm as an affine node, unless its numbers overflow.
fn affine(graph: &Graph, parameters: &Parameters, norm: NodeId) -> Option<Op> {
    let factors = Factors::of_norm(BatchNorm::of(graph, parameters, norm)?);
    let (scale, shift) = (single(&factors.scale), single(&factors.shift));
    finite(&[&scale, &shift]).then_some(Op::Affine { scale, shift })
}

/// Weight and bias of a layer times the factors of the batch norm behind it,
/// unless they or the factors overflow.
fn multiplied(
    graph: &Graph,
    parameters: &Parameters,
    norm: NodeId,
    layer: &[Vec<f32>],
) -> Option<Vec<Vec<f32>>> {
    let norm = Factors::of_norm(BatchNorm::of(graph, parameters, norm)?);
    let bias = layer.get(1).map(Vec::as_slice);
    let factors = Factors::of_bias(norm.scale.len(), bias).then(&norm);
    let (weight, bias) = (factors.weights(&layer[0]), single(&factors.shift));
    let (scale, shift) = (single(&norm.scale), single(&norm.shift));
    finite(&[&weight, &bias, &scale, &shift]).then(|| vec![weight, bias])
}

fn finite(lists: &[&[f32]]) -> bool {
    lists.iter().copied().flatten().all(|v| v.is_finite())
}
