//! What a graph is made of for training: units, and which values are kept.
//!
//! Batch norm, addition and ReLU that follow each other are one unit,
//! `out = relu(scale * source + shift + residual)`. Such a unit without a
//! residual and with one reader is not stored: its reader computes it again, in
//! the cache, from what the convolution before it left behind. So one tensor
//! per convolution is kept, and one per residual block. Where no batch norm
//! stands between, a convolution does the addition and the ReLU itself.

use std::ops::Range;

use kernels::geometry::{ConvShape, Shape, Window};

use crate::activation::Activation;
use crate::cpu::attention::{self, Attention};
use crate::cpu::constants::{learned, plain_add};
use crate::cpu::tokens::Token;
use crate::graph::{Graph, NodeId};
use crate::op::Op;

/// Where the factors of an [`Apply`] come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Factors {
    /// 1 and 0.
    Identity,
    /// The constants of an affine node.
    Constant(NodeId),
    /// Statistics and parameters of a batch norm.
    Norm(NodeId),
}

/// `out = relu(scale * source + shift + residual)`.
#[derive(Clone, Debug)]
pub(super) struct Apply {
    pub factors: Factors,
    pub source: NodeId,
    pub residual: Option<NodeId>,
    pub relu: bool,
}

/// Who computes a value; named by the node that gives the value.
#[derive(Clone, Debug)]
pub(super) enum Unit {
    /// The images.
    Input,
    /// A convolution, or a linear layer as one of 1x1.
    /// `out = relu(conv(input) + bias + residual)`.
    Conv {
        input: NodeId,
        shape: ConvShape,
        parameters: Range<usize>,
        residual: Option<NodeId>,
        relu: bool,
    },
    Apply(Apply),
    /// Any other operator, as the graph has it.
    Other,
    /// The nodes of attention, in the place of the last one.
    Attention(Attention),
    /// The same value for every image.
    Constant,
    /// Part of the unit of a later node.
    Fused,
}

/// Units and values by node.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub units: Vec<Unit>,
    pub shapes: Vec<Shape>,
    /// Stored for all images of a batch; other values are computed by their
    /// reader.
    pub kept: Vec<bool>,
    /// Readers of each value.
    pub readers: Vec<usize>,
    /// Values of which only the places where they are positive are kept, by node.
    pub bits: Vec<bool>,
    /// Nodes with a kernel of their own.
    pub tokens: Vec<Option<Token>>,
    /// Floats of the gradients that are summed over all images, beside those of
    /// convolutions and batch norms, by node: of layer norms both parameters, of
    /// constants that are learned the value.
    pub sums: Vec<usize>,
    /// Batch norms in order, as `(batch norm, unit that applies it)`.
    pub norms: Vec<(NodeId, NodeId)>,
    /// Images that a share of a batch has at least, where there are as many.
    pub share: usize,
}

/// Weights of a convolution that no second-level cache holds: several images should
/// share a reading of them, and of the sums of their gradients, even if that leaves few
/// shares.
const LARGE: usize = 1 << 18;

impl Plan {
    pub fn new(graph: &Graph) -> Self {
        let count = graph.nodes().len();
        let units = fuse(graph);
        let mut readers = vec![0; count];
        let mut kept: Vec<bool> = units
            .iter()
            .map(|unit| !matches!(unit, Unit::Fused | Unit::Constant))
            .collect();
        let mut is_source = vec![false; count];
        for (id, unit) in units.iter().enumerate() {
            for input in inputs(graph, id, unit) {
                readers[input] += 1;
            }
            if let Unit::Apply(apply) = unit {
                is_source[apply.source] = true;
            }
        }
        readers[graph.output()] += 1;
        for (id, unit) in units.iter().enumerate() {
            if let Unit::Apply(Apply { residual: None, .. }) = unit
                && readers[id] == 1
                && !is_source[id]
                && id != graph.output()
            {
                kept[id] = false;
            }
        }
        let norms = units
            .iter()
            .enumerate()
            .filter_map(|(id, unit)| match unit {
                Unit::Apply(Apply {
                    factors: Factors::Norm(norm),
                    ..
                }) => Some((*norm, id)),
                _ => None,
            });
        let token = |id: NodeId| match &units[id] {
            Unit::Other => Token::of(graph, id),
            Unit::Attention(attention) => Some(Token::Attention(attention.heads(graph))),
            _ => None,
        };
        let learned = learned(graph);
        let sums = |id: NodeId| match &graph.nodes()[id].op {
            Op::LayerNorm { scale, shift, .. } if *scale || *shift => 2 * graph.shape(id).channels,
            _ if learned[id] => graph.shape(id).len(),
            _ => 0,
        };
        let large = |unit: &Unit| match unit {
            Unit::Conv { shape, .. } => shape.weights() >= LARGE,
            _ => false,
        };
        Self {
            share: if units.iter().any(large) { 4 } else { 1 },
            norms: norms.collect(),
            tokens: (0..count).map(token).collect(),
            sums: (0..count).map(sums).collect(),
            bits: vec![false; count],
            shapes: (0..count).map(|id| graph.shape(id)).collect(),
            units,
            kept,
            readers,
        }
    }

    /// A plan for pull-backs to the images only: what they need of a convolution
    /// that ends in a ReLU is where it is positive.
    pub fn for_images(graph: &Graph) -> Self {
        let mut plan = Self::new(graph);
        for (bits, unit) in plan.bits.iter_mut().zip(&plan.units) {
            *bits = matches!(unit, Unit::Conv { relu: true, .. });
        }
        plan
    }

    /// The unit that applies factors to give `id`.
    pub fn apply(&self, id: NodeId) -> &Apply {
        match &self.units[id] {
            Unit::Apply(apply) => apply,
            unit => unreachable!("node {id} is {unit:?}, not an application of factors"),
        }
    }

    /// The batch norm whose statistics are needed to read a value, if any.
    pub fn norm_behind(&self, id: NodeId) -> Option<NodeId> {
        match &self.units[id] {
            Unit::Apply(Apply {
                factors: Factors::Norm(_),
                ..
            }) if !self.kept[id] => Some(id),
            _ => None,
        }
    }
}

/// Values that a unit reads.
pub(super) fn inputs(graph: &Graph, id: NodeId, unit: &Unit) -> Vec<NodeId> {
    match unit {
        Unit::Input | Unit::Fused | Unit::Constant => vec![],
        Unit::Conv {
            input, residual, ..
        } => std::iter::once(*input).chain(*residual).collect(),
        Unit::Apply(apply) => std::iter::once(apply.source)
            .chain(apply.residual)
            .collect(),
        Unit::Other => graph.nodes()[id].inputs.clone(),
        Unit::Attention(attention) => attention.inputs.clone(),
    }
}

/// One unit per node; chains of element-wise nodes end up in their last one.
fn fuse(graph: &Graph) -> Vec<Unit> {
    let nodes = graph.nodes();
    let mut readers = vec![vec![]; nodes.len()];
    for (id, node) in nodes.iter().enumerate() {
        for &input in &node.inputs {
            readers[input].push(id);
        }
    }
    let sole_reader = |id: NodeId| match readers[id][..] {
        [reader] => Some(reader),
        _ => None,
    };
    let constant = graph.constants();
    let mut units: Vec<Option<Unit>> = vec![None; nodes.len()];
    for (id, attention) in attention::find(graph).into_iter().enumerate() {
        if let Some(attention) = attention {
            let absorbed = attention.absorbed.iter();
            absorbed.for_each(|&id| units[id] = Some(Unit::Fused));
            units[id] = Some(Unit::Attention(attention));
        }
    }
    for (id, node) in nodes.iter().enumerate() {
        if units[id].is_some() {
            continue;
        }
        let linear = matches!(node.op, Op::Conv { .. } | Op::Linear { .. });
        let factors = match &node.op {
            Op::Input { .. } => {
                units[id] = Some(Unit::Input);
                continue;
            }
            _ if constant[id] => {
                units[id] = Some(Unit::Constant);
                continue;
            }
            Op::Affine { .. } => Factors::Constant(id),
            Op::BatchNorm { .. } => Factors::Norm(id),
            Op::Add if plain_add(graph, &constant, id) => Factors::Identity,
            Op::Activation(Activation::Relu) => Factors::Identity,
            _ if linear => Factors::Identity,
            _ => {
                units[id] = Some(Unit::Other);
                continue;
            }
        };
        let (mut residual, mut relu) = (None, node.op == Op::RELU);
        let mut last = id;
        if node.op == Op::Add {
            residual = Some(node.inputs[1]);
        } else if let Some(add) = sole_reader(id)
            && plain_add(graph, &constant, add)
            && units[add].is_none()
            && !relu
        {
            residual = nodes[add].inputs.iter().copied().find(|&i| i != id);
            (units[last], last) = (Some(Unit::Fused), add);
        }
        if let Some(next) = sole_reader(last)
            && nodes[next].op == Op::RELU
            && !relu
        {
            relu = true;
            (units[last], last) = (Some(Unit::Fused), next);
        }
        units[last] = Some(if linear {
            Unit::Conv {
                input: node.inputs[0],
                shape: conv_shape(&node.op, graph.input_of(id)),
                parameters: graph.parameters_of(id),
                residual,
                relu,
            }
        } else {
            Unit::Apply(Apply {
                factors,
                source: node.inputs[0],
                residual,
                relu,
            })
        });
    }
    units
        .into_iter()
        .map(|unit| unit.unwrap_or(Unit::Fused))
        .collect()
}

/// Geometry of a convolution or, as one of 1x1, of a linear layer.
fn conv_shape(op: &Op, input: Shape) -> ConvShape {
    match op {
        Op::Linear { out_features, .. } => ConvShape {
            input,
            out_channels: *out_features,
            window: Window::square(1, 1, 0),
            groups: 1,
        },
        op => op.conv_shape(input).expect("a convolution has a shape"),
    }
}
