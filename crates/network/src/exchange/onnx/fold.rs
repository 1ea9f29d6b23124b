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
/// node. A batch norm whose factors overflow is kept.
pub fn fold_batch_norms(model: &Model) -> Model {
    let nodes = model.graph.nodes();
    let mut readers = vec![Vec::new(); nodes.len()];
    for (id, node) in nodes.iter().enumerate() {
        node.inputs
            .iter()
            .for_each(|&input| readers[input].push(id));
    }
    let mut ids = vec![0; nodes.len()];
    let mut folded: Vec<Node> = Vec::with_capacity(nodes.len());
    let mut values: Vec<Vec<f32>> = Vec::new();
    for (id, node) in nodes.iter().enumerate() {
        let own = model
            .graph
            .parameters_of(id)
            .map(|i| model.parameters.get(i).to_vec());
        let own: Vec<Vec<f32>> = own.collect();
        let mut node = node.clone();
        node.inputs
            .iter_mut()
            .for_each(|input| *input = ids[*input]);
        let source = nodes[id].inputs.first().copied();
        let behind_layer = source.is_some_and(|source| {
            let layer = matches!(nodes[source].op, Op::Conv { .. } | Op::Linear { .. });
            layer && readers[source] == [id]
        });
        match (&mut node.op, factors(model, id)) {
            (op @ Op::BatchNorm { .. }, Some((scale, shift))) => {
                if behind_layer {
                    // Already multiplied into it.
                    ids[id] = node.inputs[0];
                    continue;
                }
                *op = Op::Affine {
                    scale: scale.iter().map(|&v| v as f32).collect(),
                    shift: shift.iter().map(|&v| v as f32).collect(),
                };
            }
            (Op::Conv { bias, .. } | Op::Linear { bias, .. }, _) => {
                let norm = match readers[id][..] {
                    [reader] => factors(model, reader),
                    _ => None,
                };
                match norm {
                    Some(norm) => {
                        *bias = true;
                        values.extend(multiplied(&own, norm));
                    }
                    None => values.extend(own),
                }
            }
            _ => values.extend(own),
        }
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

/// Weight and bias of a layer times the factors of the batch norm behind it.
fn multiplied(layer: &[Vec<f32>], (scale, shift): (Vec<f64>, Vec<f64>)) -> [Vec<f32>; 2] {
    let row = layer[0].len() / scale.len();
    let rows = layer[0].chunks_exact(row).zip(&scale);
    let weight = rows.flat_map(|(row, s)| row.iter().map(move |&w| (f64::from(w) * s) as f32));
    let bias = scale.iter().zip(shift).enumerate().map(|(o, (s, shift))| {
        let bias = layer.get(1).map_or(0.0, |bias| f64::from(bias[o]));
        (bias * s + shift) as f32
    });
    [weight.collect(), bias.collect()]
}
