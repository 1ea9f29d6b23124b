//! Batch norms as part of the layers before them.

use crate::graph::{Graph, Node, NodeId};
use crate::model::Model;
use crate::op::Op;
use crate::parameters::Parameters;

/// Factor and offset per channel of a batch norm in eval mode:
/// `s = scale / sqrt(variance + epsilon)` and `shift - mean * s`. `None` for
/// nodes of other kinds and where the result is not finite.
fn factors(model: &Model, id: NodeId) -> Option<(Vec<f64>, Vec<f64>)> {
    let Op::BatchNorm {
        epsilon,
        scale,
        shift,
        ..
    } = model.graph.nodes()[id].op
    else {
        return None;
    };
    let range = model.graph.parameters_of(id);
    let values = |index: usize| model.parameters.get(index);
    let (mean, variance) = (values(range.end - 2), values(range.end - 1));
    let scale = scale.then(|| values(range.start));
    let shift = shift.then(|| values(range.end - 3));
    let factor = |c: usize| {
        let scale = scale.map_or(1.0, |s| f64::from(s[c]));
        scale / (f64::from(variance[c]) + f64::from(epsilon)).sqrt()
    };
    let factors: Vec<f64> = (0..mean.len()).map(factor).collect();
    let offset = |(c, s): (usize, &f64)| {
        shift.map_or(0.0, |shift| f64::from(shift[c])) - f64::from(mean[c]) * s
    };
    let offsets: Vec<f64> = factors.iter().enumerate().map(offset).collect();
    let finite = factors
        .iter()
        .chain(&offsets)
        .all(|&v| (v as f32).is_finite());
    finite.then_some((factors, offsets))
}

/// The same network in eval mode without batch norms: each is multiplied into
/// the convolution or linear layer that it alone reads, or becomes an affine
/// node. Where a number would overflow, a batch norm stays what it is.
pub fn fold_batch_norms(model: &Model) -> Model {
    let nodes = model.graph.nodes();
    let mut readers = vec![Vec::new(); nodes.len()];
    for (id, node) in nodes.iter().enumerate() {
        node.inputs
            .iter()
            .for_each(|&input| readers[input].push(id));
    }
    let own = |id: NodeId| {
        let range = model.graph.parameters_of(id);
        range
            .map(|i| model.parameters.get(i).to_vec())
            .collect::<Vec<_>>()
    };
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
        let mut own = own(id);
        match (&mut node.op, factors(model, id), &readers[id][..]) {
            (op @ Op::BatchNorm { .. }, Some((scale, shift)), _) => {
                *op = Op::Affine {
                    scale: scale.iter().map(|&v| v as f32).collect(),
                    shift: shift.iter().map(|&v| v as f32).collect(),
                };
                own.clear();
            }
            (Op::Conv { bias, .. } | Op::Linear { bias, .. }, _, &[reader]) => {
                let norm = factors(model, reader);
                if let Some(product) = norm.and_then(|norm| multiplied(&own, norm)) {
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
    Model {
        graph,
        parameters,
        info: model.info.clone(),
    }
}

/// Weight and bias of a layer times the factors of the batch norm behind it,
/// unless they overflow.
fn multiplied(layer: &[Vec<f32>], (scale, shift): (Vec<f64>, Vec<f64>)) -> Option<Vec<Vec<f32>>> {
    let row = layer[0].len() / scale.len();
    let rows = layer[0].chunks_exact(row).zip(&scale);
    let weight = rows.flat_map(|(row, s)| row.iter().map(move |&w| (f64::from(w) * s) as f32));
    let weight: Vec<f32> = weight.collect();
    let bias = scale.iter().zip(shift).enumerate().map(|(o, (s, shift))| {
        let bias = layer.get(1).map_or(0.0, |bias| f64::from(bias[o]));
        (bias * s + shift) as f32
    });
    let bias: Vec<f32> = bias.collect();
    let finite = weight.iter().chain(&bias).all(|v| v.is_finite());
    finite.then(|| vec![weight, bias])
}
