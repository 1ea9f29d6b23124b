//! From a graph and its parameters to a plan.

use kernels::conv::Conv;
use kernels::gelu::Form;
use kernels::geometry::{ConvShape, Shape, Window};
use kernels::isa::Isa;

use super::plan::{Plan, Source, Step, Work};
use super::sections;
use crate::activation::Activation;
use crate::cpu::attention::{self, Attention};
use crate::cpu::constants::{self, plain_add};
use crate::cpu::tokens::{Token, gelu};
use crate::fold::{Factors, single};
use crate::graph::{Graph, NodeId};
use crate::op::Op;
use crate::parameters::Parameters;

/// Nodes that become one step: a root, then factors, a sum and a ReLU or Gelu, each
/// of which is the only reader of what comes before it.
struct Chain {
    root: NodeId,
    /// The step runs in its place, when the residual is there.
    last: NodeId,
    /// Of the factors behind the root.
    factors: Option<Factors>,
    residual: Option<NodeId>,
    relu: bool,
    /// At the end, of a convolution or a linear layer.
    gelu: Option<Form>,
    /// The root ends one.
    attention: Option<Attention>,
}

/// Compiles a graph.
pub(super) fn compile(isa: Isa, graph: &Graph, parameters: &Parameters) -> Plan {
    let constants = constants::evaluate(graph, parameters);
    let chains = chains(graph, parameters, &constants);
    // By node: the node whose step holds its value.
    let mut holder: Vec<NodeId> = (0..graph.nodes().len()).collect();
    let constant = graph.constants();
    for id in 0..holder.len() {
        if !constant[id] && renames(graph, id) {
            holder[id] = holder[graph.nodes()[id].inputs[0]];
        }
    }
    let mut slots = Slots::new(graph, &chains, &holder, &constant);
    let steps = chains
        .iter()
        .map(|chain| {
            let reads: Vec<NodeId> = reads(graph, chain).map(|id| holder[id]).collect();
            let sources: Vec<Source> = reads.iter().map(|&id| slots.source(id)).collect();
            let output = slots.assign(chain.last, graph.shape(chain.last).len());
            reads.iter().for_each(|&id| slots.release(id));
            let (inputs, residual) = match chain.residual {
                Some(_) => (&sources[..sources.len() - 1], sources.last().copied()),
                None => (&sources[..], None),
            };
            Step {
                work: work(isa, graph, parameters, chain),
                inputs: inputs.to_vec(),
                lengths: reads_of_root(graph, chain)
                    .map(|id| graph.shape(id).len())
                    .collect(),
                residual,
                relu: chain.relu,
                gelu: chain.gelu,
                output,
                shapes: [
                    graph.shape(first_read(graph, chain)),
                    graph.shape(chain.last),
                ],
            }
        })
        .collect();
    let output = slots.source(holder[graph.output()]);
    let lengths = [graph.input().len(), graph.classes()];
    let sections = sections::cut(steps, output, lengths);
    Plan {
        block: sections.iter().map(|s| s.group).max().unwrap_or(1),
        sections,
        input: graph.input().len(),
        classes: graph.classes(),
        graph: graph.clone(),
        isa,
        constants,
    }
}

/// Whether a node gives its input another shape only. A flattened image is left
/// as it is where a linear layer alone reads it: its weights are reordered.
fn renames(graph: &Graph, id: NodeId) -> bool {
    let input = graph.input_of(id);
    match &graph.nodes()[id].op {
        Op::Flatten => {}
        Op::Rearrange(rearrange) => return rearrange.keeps_order(input),
        _ => return false,
    }
    let into_linear = || {
        let reader = |n: &&crate::graph::Node| n.inputs.contains(&id);
        let mut readers = graph.nodes().iter().filter(reader);
        id != graph.output() && readers.all(|n| matches!(n.op, Op::Linear { .. }))
    };
    input.pixels() == 1 || input.channels == 1 || into_linear()
}

/// Groups the nodes, in the order in which the steps run.
fn chains(graph: &Graph, parameters: &Parameters, constants: &[Vec<f32>]) -> Vec<Chain> {
    let nodes = graph.nodes();
    let mut readers = vec![vec![]; nodes.len()];
    for (id, node) in nodes.iter().enumerate() {
        for &input in &node.inputs {
            readers[input].push(id);
        }
    }
    let constant = graph.constants();
    let mut taken = constant.clone();
    let mut attention = attention::find(graph);
    for absorbed in attention.iter().flatten().flat_map(|a| &a.absorbed) {
        taken[*absorbed] = true;
    }
    let mut chains = Vec::new();
    for id in 1..nodes.len() {
        if taken[id] || renames(graph, id) {
            continue;
        }
        let mut chain = Chain {
            root: id,
            last: id,
            factors: Factors::of(graph, parameters, id),
            residual: None,
            relu: nodes[id].op == Op::RELU,
            gelu: None,
            attention: attention[id].take(),
        };
        let linear = matches!(nodes[id].op, Op::Conv { .. } | Op::Linear { .. });
        let absorbs = linear || chain.factors.is_some();
        // A sum absorbs a ReLU, nothing else.
        let sum = plain_add(graph, &constant, id);
        while (absorbs || sum) && !chain.relu && chain.gelu.is_none() {
            let [next] = readers[chain.last][..] else {
                break;
            };
            if taken[next] {
                break;
            }
            let open = absorbs && chain.residual.is_none();
            match &nodes[next].op {
                Op::BatchNorm { .. } | Op::Affine { .. } | Op::Mul if open => {
                    let next = match factors(graph, parameters, constants, next) {
                        Some(next) => next,
                        None => break,
                    };
                    chain.factors = Some(match chain.factors.take() {
                        Some(factors) => factors.then(&next),
                        None => next,
                    });
                }
                Op::Add if open && plain_add(graph, &constant, next) => {
                    let other = nodes[next].inputs.iter().find(|&&i| i != chain.last);
                    let Some(&other) = other else { break };
                    chain.residual = Some(other);
                }
                Op::Activation(Activation::Relu) => chain.relu = true,
                &Op::Activation(Activation::Gelu { tanh }) if linear => {
                    chain.gelu = Some(gelu(tanh));
                }
                _ => break,
            }
            taken[next] = true;
            chain.last = next;
        }
        chains.push(chain);
    }
    chains.sort_by_key(|chain| chain.last);
    chains
}

/// What node `id` does, if it is a batch norm, affine, or a product with a constant of
/// one value a channel.
fn factors(
    graph: &Graph,
    parameters: &Parameters,
    constants: &[Vec<f32>],
    id: NodeId,
) -> Option<Factors> {
    let node = &graph.nodes()[id];
    if node.op != Op::Mul {
        return Factors::of(graph, parameters, id);
    }
    let values = &constants[node.inputs[1]];
    let a_channel = graph.shape(node.inputs[1]) == Shape::vector(graph.shape(id).channels);
    (a_channel && !values.is_empty()).then(|| Factors {
        scale: values.iter().map(|&v| f64::from(v)).collect(),
        shift: vec![0.0; values.len()],
    })
}

/// What a chain reads: the root's inputs, then the residual.
fn reads(graph: &Graph, chain: &Chain) -> impl Iterator<Item = NodeId> {
    reads_of_root(graph, chain).chain(chain.residual)
}

/// The first of these: what a chain transforms.
fn first_read(graph: &Graph, chain: &Chain) -> NodeId {
    let mut read = reads_of_root(graph, chain);
    read.next().expect("only constants read nothing")
}

/// What the root of a chain reads.
fn reads_of_root(graph: &Graph, chain: &Chain) -> impl Iterator<Item = NodeId> {
    let inputs = match &chain.attention {
        Some(attention) => &attention.inputs,
        None => &graph.nodes()[chain.root].inputs,
    };
    inputs.clone().into_iter()
}

/// What the root of a chain computes, its factors folded in.
fn work(isa: Isa, graph: &Graph, parameters: &Parameters, chain: &Chain) -> Work {
    let node = &graph.nodes()[chain.root];
    let (input, output) = (graph.input_of(chain.root), graph.shape(chain.root));
    let range = graph.parameters_of(chain.root);
    if let Some(attention) = &chain.attention {
        return Work::Token {
            token: Token::Attention(attention.heads(graph)),
            parameters: vec![],
        };
    }
    match &node.op {
        op @ (Op::Conv { bias, .. } | Op::Linear { bias, .. }) => {
            let shape = op.conv_shape(input).unwrap_or(ConvShape {
                input,
                out_channels: output.channels,
                window: Window::square(1, 1, 0),
                groups: 1,
            });
            let bias = bias.then(|| parameters.get(range.start + 1));
            let factors = Factors::of_bias(output.channels, bias);
            let factors = match &chain.factors {
                Some(next) => factors.then(next),
                None => factors,
            };
            let mut weights = factors.weights(parameters.get(range.start));
            let source = &graph.nodes()[node.inputs[0]];
            if source.op == Op::Flatten && renames(graph, node.inputs[0]) {
                weights = in_image_order(&weights, graph.input_of(node.inputs[0]));
            }
            Work::Conv {
                conv: Box::new(Conv::new(isa, shape, &weights)),
                bias: factors.bias(),
            }
        }
        Op::Affine { .. } | Op::BatchNorm { .. } => {
            let factors = chain.factors.as_ref().expect("a root of factors");
            // Rows of a whole line of pixels make full vectors.
            Work::Affine {
                scale: single(&factors.scale).repeat(input.width),
                shift: single(&factors.shift).repeat(input.width),
            }
        }
        Op::Add if plain_add(graph, &graph.constants(), chain.root) => Work::Add,
        Op::Activation(Activation::Relu) => Work::Relu,
        Op::AveragedRelu => Work::AveragedRelu {
            width: parameters.get(range.start).to_vec(),
        },
        Op::MaxPool { window } => Work::MaxPool(*window),
        Op::AveragePool {
            window,
            count_padding,
        } => Work::AveragePool {
            window: *window,
            count_padding: *count_padding,
        },
        Op::GlobalAveragePool => Work::GlobalAveragePool,
        _ => match Token::of(graph, chain.root) {
            Some(token) => Work::Token {
                token,
                parameters: range.map(|i| parameters.get(i).to_vec()).collect(),
            },
            None => Work::Other(chain.root),
        },
    }
}

/// Weights of a linear layer for features in NHWC order instead of NCHW.
fn in_image_order(weights: &[f32], image: Shape) -> Vec<f32> {
    let mut out = Vec::with_capacity(weights.len());
    for row in weights.chunks_exact(image.len()) {
        for pixel in 0..image.pixels() {
            out.extend((0..image.channels).map(|c| row[c * image.pixels() + pixel]));
        }
    }
    out
}

/// Buffers that values share over time.
struct Slots<'a> {
    /// By node.
    constant: &'a [bool],
    /// Floats an image.
    sizes: Vec<usize>,
    free: Vec<usize>,
    /// Slot and readers to come, by node.
    values: Vec<(Option<usize>, usize)>,
}

impl<'a> Slots<'a> {
    fn new(graph: &Graph, chains: &[Chain], holder: &[NodeId], constant: &'a [bool]) -> Self {
        let mut values = vec![(None, 0); graph.nodes().len()];
        for id in chains.iter().flat_map(|chain| reads(graph, chain)) {
            values[holder[id]].1 += 1;
        }
        values[holder[graph.output()]].1 += 1;
        Self {
            constant,
            sizes: vec![],
            free: vec![],
            values,
        }
    }

    fn source(&self, id: NodeId) -> Source {
        match self.values[id].0 {
            _ if self.constant[id] => Source::Constant(id),
            Some(slot) => Source::Slot(slot),
            None => Source::Input,
        }
    }

    /// A free slot for the value of a node: the smallest that is large enough,
    /// or the largest, which grows.
    fn assign(&mut self, id: NodeId, size: usize) -> usize {
        let fit = |&i: &usize| {
            let have = self.sizes[self.free[i]];
            (have < size, have.abs_diff(size))
        };
        let slot = match (0..self.free.len()).min_by_key(fit) {
            Some(best) => self.free.swap_remove(best),
            None => {
                self.sizes.push(0);
                self.sizes.len() - 1
            }
        };
        self.sizes[slot] = self.sizes[slot].max(size);
        self.values[id].0 = Some(slot);
        if self.values[id].1 == 0 {
            self.free.push(slot);
        }
        slot
    }

    /// One reader has read.
    fn release(&mut self, id: NodeId) {
        let (slot, readers) = &mut self.values[id];
        *readers -= 1;
        if let (Some(slot), 0) = (*slot, *readers) {
            self.free.push(slot);
        }
    }
}
