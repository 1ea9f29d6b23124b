//! Attention as several nodes of a graph, which are computed as one.

use kernels::attention::{Attention as Head, AttentionGradients};
use kernels::isa::Isa;

use crate::graph::{Graph, NodeId};
use crate::op::Op;

/// Nodes that are `softmax(scale q k^T + biases) v` together.
#[derive(Clone, Debug)]
pub(super) struct Attention {
    /// Queries, keys, values, then the biases, which are constants.
    pub inputs: Vec<NodeId>,
    /// Those between: nobody else reads them.
    pub absorbed: Vec<NodeId>,
    scale: f32,
}

/// By node, for the product that ends it.
pub(super) fn find(graph: &Graph) -> Vec<Option<Attention>> {
    let mut readers = vec![0; graph.nodes().len()];
    for node in graph.nodes() {
        node.inputs.iter().for_each(|&input| readers[input] += 1);
    }
    let constant = graph.constants();
    let ids = 0..graph.nodes().len();
    ids.map(|id| ends(graph, &readers, &constant, id)).collect()
}

/// The attention that ends in a node.
fn ends(graph: &Graph, readers: &[usize], constant: &[bool], id: NodeId) -> Option<Attention> {
    let node = |id: NodeId| &graph.nodes()[id];
    let own = |id: NodeId| readers[id] == 1 && !constant[id] && id != graph.output();
    let (Op::MatMul { transposed: false }, &[softmax, v]) = (&node(id).op, &node(id).inputs[..])
    else {
        return None;
    };
    if node(softmax).op != Op::Softmax || !own(softmax) {
        return None;
    }
    let (mut absorbed, mut biases, mut scale) = (vec![softmax], vec![], 1.0);
    let mut at = node(softmax).inputs[0];
    loop {
        if !own(at) {
            return None;
        }
        absorbed.push(at);
        match (&node(at).op, &node(at).inputs[..]) {
            // Biases are added to what is scaled.
            (Op::Add, &[x, bias]) if scale == 1.0 && constant[bias] && !constant[x] => {
                let (own, full) = (graph.shape(bias), graph.shape(at));
                if (own.width, own.channels) != (full.width, full.channels) {
                    return None;
                }
                biases.push(bias);
                at = x;
            }
            (
                Op::Affine {
                    scale: factor,
                    shift,
                },
                &[x],
            ) if factor.len() == 1 && shift[..] == [0.0] => {
                scale *= factor[0];
                at = x;
            }
            (Op::MatMul { transposed: true }, &[q, k]) => {
                let inputs = [&[q, k, v][..], &biases].concat();
                let mut distinct = inputs.clone();
                distinct.sort_unstable();
                distinct.dedup();
                return (distinct.len() == inputs.len()).then_some(Attention {
                    inputs,
                    absorbed,
                    scale,
                });
            }
            _ => return None,
        }
    }
}

/// All heads of an attention, ready to run.
#[derive(Clone, Debug)]
pub(super) struct Heads {
    head: Head,
    /// Floats of one matrix of each input.
    lengths: Vec<usize>,
}

impl Attention {
    /// Of a graph.
    pub fn heads(&self, graph: &Graph) -> Heads {
        let [q, k, v] = [0, 1, 2].map(|i| graph.shape(self.inputs[i]));
        let length = |&id: &NodeId| graph.shape(id).width * graph.shape(id).channels;
        Heads {
            head: Head {
                queries: q.width,
                keys: k.width,
                depth: q.channels,
                columns: v.channels,
                scale: self.scale,
            },
            lengths: self.inputs.iter().map(length).collect(),
        }
    }
}

impl Heads {
    pub fn scratch_len(&self, isa: Isa) -> usize {
        self.head.scratch_len(isa)
    }

    /// Matrix number `i` of every input; a constant has those of one image, or one only.
    fn matrices<'a>(&self, inputs: &[&'a [f32]], i: usize) -> Vec<&'a [f32]> {
        let each = inputs.iter().zip(&self.lengths);
        let matrix =
            |(values, &len): (&&'a [f32], &usize)| &values[place(values.len(), len, i)..][..len];
        each.map(matrix).collect()
    }

    pub fn forward(&self, isa: Isa, inputs: &[&[f32]], y: &mut [f32], scratch: &mut [f32]) {
        let len = self.head.queries * self.head.columns;
        for (i, y) in y.chunks_exact_mut(len).enumerate() {
            let matrices = self.matrices(inputs, i);
            let (qkv, biases) = ([matrices[0], matrices[1], matrices[2]], &matrices[3..]);
            self.head.forward(isa, qkv, biases, y, scratch);
        }
    }

    /// Adds to the gradient of each input that is wanted.
    pub fn pull_back(
        &self,
        isa: Isa,
        inputs: &[&[f32]],
        dy: &[f32],
        dx: &mut [Option<&mut [f32]>],
        scratch: &mut [f32],
    ) {
        let len = self.head.queries * self.head.columns;
        for (i, dy) in dy.chunks_exact(len).enumerate() {
            let matrices = self.matrices(inputs, i);
            let (qkv, biases) = ([matrices[0], matrices[1], matrices[2]], &matrices[3..]);
            let each = dx.iter_mut().zip(&self.lengths);
            let mut wanted = each.map(|(dx, &len)| {
                let dx = dx.as_deref_mut()?;
                let at = place(dx.len(), len, i);
                Some(&mut dx[at..at + len])
            });
            let gradients = AttentionGradients {
                q: wanted.next().flatten(),
                k: wanted.next().flatten(),
                v: wanted.next().flatten(),
                biases: wanted.collect(),
            };
            self.head.backward(isa, qkv, biases, dy, gradients, scratch);
        }
    }
}

/// Where matrix number `i` of `len` floats starts in values that may have fewer.
fn place(values: usize, len: usize, i: usize) -> usize {
    i % (values / len) * len
}
