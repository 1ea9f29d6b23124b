//! The graph while it is being made: nodes with shapes and values.

mod finish;
mod patterns;

use std::collections::HashMap;

use network::{Activation, Graph, GraphError, Node, NodeId, Op, Rearrange, Role, Shape};

/// What a node computes; some functions are no operators of ours, but part of a
/// pattern for one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Op(Op),
    /// This operator of ONNX.
    Part(&'static str),
}

/// The error function, part of Gelu.
pub(super) const ERF: Kind = Kind::Part("Erf");

#[derive(Clone, Debug)]
struct Draft {
    name: String,
    kind: Kind,
    inputs: Vec<NodeId>,
    shape: Shape,
    values: Vec<Vec<f32>>,
}

/// Nodes so far.
#[derive(Debug)]
pub(super) struct Sketch {
    drafts: Vec<Draft>,
    /// How often a name was asked for.
    names: HashMap<String, usize>,
    /// Node to its flattened form.
    flat: HashMap<NodeId, NodeId>,
    /// Node and movement to the rearranged node.
    moved: HashMap<NodeId, Vec<(Rearrange, NodeId)>>,
}

/// What is wrong, for the node's error.
type Reason = String;

impl Sketch {
    pub(super) fn new(shape: Shape) -> Result<Self, GraphError> {
        check_shape(shape)?;
        let draft = Draft {
            name: "input".into(),
            kind: Kind::Op(Op::Input { shape }),
            inputs: vec![],
            shape,
            values: vec![],
        };
        Ok(Self {
            drafts: vec![draft],
            names: HashMap::from([("input".into(), 1)]),
            flat: HashMap::new(),
            moved: HashMap::new(),
        })
    }

    pub(super) fn shape(&self, node: NodeId) -> Shape {
        self.drafts[node].shape
    }

    fn op(&self, node: NodeId) -> Option<&Op> {
        match &self.drafts[node].kind {
            Kind::Op(op) => Some(op),
            Kind::Part(_) => None,
        }
    }

    fn unique(&mut self, name: &str) -> String {
        let mut number = self.names.get(name).copied().unwrap_or(0) + 1;
        let mut unique = name.to_string();
        while number > 1 {
            unique = format!("{name}_{number}");
            if !self.names.contains_key(&unique) {
                self.names.insert(unique.clone(), 1);
                break;
            }
            number += 1;
        }
        self.names.insert(name.into(), number);
        unique
    }

    fn push(&mut self, name: &str, kind: Kind, inputs: &[NodeId], shape: Shape) -> NodeId {
        let name = self.unique(name);
        self.drafts.push(Draft {
            name,
            kind,
            inputs: inputs.to_vec(),
            shape,
            values: vec![],
        });
        self.drafts.len() - 1
    }

    /// Adds a node with one input and its parameters' values.
    pub(super) fn layer(
        &mut self,
        name: &str,
        op: Op,
        input: NodeId,
        values: Vec<Vec<f32>>,
    ) -> Result<NodeId, Reason> {
        // A graph of this node alone says its shape and its parameters.
        let shape = self.shape(input);
        let node = |name: &str, op: &Op, inputs| Node {
            name: name.into(),
            op: op.clone(),
            inputs,
        };
        let start = node("input", &Op::Input { shape }, vec![]);
        let graph = Graph::new(vec![start, node("node", &op, vec![0])]);
        let graph = graph.map_err(|error| match error {
            GraphError::Shape { reason, .. } => reason,
            error => error.to_string(),
        })?;
        for (spec, values) in graph.parameters().iter().zip(&values) {
            if spec.len() != values.len() {
                let (shape, got) = (&spec.shape, values.len());
                let suffix = spec.name.trim_start_matches("node.");
                return Err(format!(
                    "its {suffix} has {got} values instead of {shape:?}"
                ));
            }
        }
        let id = self.push(name, Kind::Op(op), &[input], graph.shape(1));
        self.drafts[id].values = values;
        Ok(id)
    }

    /// A vector in PyTorch's order; nothing is added if it is one already.
    pub(super) fn flatten(&mut self, name: &str, input: NodeId) -> Result<NodeId, Reason> {
        if self.shape(input).pixels() == 1 {
            return Ok(input);
        }
        if let Some(&flat) = self.flat.get(&input) {
            return Ok(flat);
        }
        let flat = self.layer(&format!("{name}.flatten"), Op::Flatten, input, vec![])?;
        self.flat.insert(input, flat);
        Ok(flat)
    }

    /// A function that must become part of a pattern.
    pub(super) fn part(&mut self, name: &str, op: &'static str, input: NodeId) -> NodeId {
        self.push(name, Kind::Part(op), &[input], self.shape(input))
    }

    /// Elements in other places; the same movement is made once.
    pub(super) fn rearranged(
        &mut self,
        name: &str,
        input: NodeId,
        movement: Rearrange,
    ) -> Result<NodeId, Reason> {
        let known = self.moved.get(&input).into_iter().flatten();
        if let Some((_, node)) = known.into_iter().find(|(known, _)| *known == movement) {
            return Ok(*node);
        }
        let node = self.layer(name, Op::Rearrange(movement.clone()), input, vec![])?;
        self.moved.entry(input).or_default().push((movement, node));
        Ok(node)
    }

    /// A value of the network's own.
    pub(super) fn parameter(
        &mut self,
        name: &str,
        shape: Shape,
        role: Role,
        values: Vec<f32>,
    ) -> Result<NodeId, Reason> {
        check_shape(shape).map_err(|_| format!("a constant of {shape} is too large"))?;
        let node = self.push(name, Kind::Op(Op::Parameter { shape, role }), &[], shape);
        self.drafts[node].values = vec![values];
        Ok(node)
    }

    /// Products of matrices.
    pub(super) fn mat_mul(
        &mut self,
        name: &str,
        transposed: bool,
        a: NodeId,
        b: NodeId,
    ) -> Result<NodeId, Reason> {
        let (x, y) = (self.shape(a), self.shape(b));
        let (depth, columns) = match transposed {
            true => (y.channels, y.width),
            false => (y.width, y.channels),
        };
        if x.height != y.height || x.channels != depth {
            return Err(format!("cannot multiply the matrices {x} and {y}"));
        }
        let shape = Shape::new(x.height, x.width, columns);
        check_shape(shape).map_err(|_| format!("its output {shape} is too large"))?;
        Ok(self.push(name, Kind::Op(Op::MatMul { transposed }), &[a, b], shape))
    }

    /// `scale * x + shift`; one value stands for all channels.
    pub(super) fn affine(
        &mut self,
        name: &str,
        input: NodeId,
        scale: Vec<f32>,
        shift: Vec<f32>,
    ) -> Result<NodeId, Reason> {
        self.layer(name, Op::Affine { scale, shift }, input, vec![])
    }

    pub(super) fn add(&mut self, name: &str, a: NodeId, b: NodeId) -> Result<NodeId, Reason> {
        let (x, y) = (self.shape(a), self.shape(b));
        let pair = match (spreads(x, y), spreads(y, x)) {
            (true, _) => [a, b],
            (_, true) => [b, a],
            _ => return Err(format!("cannot add {x} and {y}")),
        };
        Ok(self.push(name, Kind::Op(Op::Add), &pair, self.shape(pair[0])))
    }

    /// A product, or the activation that it is part of.
    pub(super) fn mul(&mut self, name: &str, a: NodeId, b: NodeId) -> Result<NodeId, Reason> {
        for (x, gate) in [(a, b), (b, a)] {
            if let Some(activation) = self.gated(x, gate) {
                return self.layer(name, Op::Activation(activation), x, vec![]);
            }
            if let Some((input, factor)) = self.gelu(x, gate) {
                let gelu = Op::Activation(Activation::Gelu { tanh: false });
                let gelu = self.layer(name, gelu, input, vec![])?;
                return self.affine(&format!("{name}.scale"), gelu, vec![factor], vec![0.0]);
            }
        }
        let (x, y) = (self.shape(a), self.shape(b));
        let pair = match (spreads(x, y), spreads(y, x)) {
            (true, _) => [a, b],
            (_, true) => [b, a],
            _ => return Err(format!("cannot multiply {x} by {y}")),
        };
        Ok(self.push(name, Kind::Op(Op::Mul), &pair, self.shape(pair[0])))
    }

    pub(super) fn concat(&mut self, name: &str, inputs: &[NodeId]) -> Result<NodeId, Reason> {
        let mut shape = self.shape(inputs[0]);
        let channels = inputs.iter().map(|&i| self.shape(i));
        if channels
            .clone()
            .any(|s| (s.height, s.width) != (shape.height, shape.width))
        {
            return Err("inputs differ in height or width".into());
        }
        let mut channels = channels.map(|s| s.channels);
        let channels = channels.try_fold(0, usize::checked_add);
        shape.channels = channels.ok_or("too many channels")?;
        check_shape(shape).map_err(|_| format!("its output {shape} is too large"))?;
        Ok(self.push(name, Kind::Op(Op::Concat), inputs, shape))
    }
}

/// Why a sketch is no graph.
pub(super) enum SketchError {
    /// This node and its operator are part of no pattern.
    Part(String, &'static str),
    /// See there.
    Graph(GraphError),
}

/// Whether activations of this shape are allowed in a graph.
fn check_shape(shape: Shape) -> Result<(), GraphError> {
    let input = Node {
        name: "input".into(),
        op: Op::Input { shape },
        inputs: vec![],
    };
    Graph::new(vec![input]).map(drop)
}

/// Whether the second has the shape of the first, or spreads to it.
pub(super) fn spreads(first: Shape, second: Shape) -> bool {
    let along = |a: usize, b: usize| a == b || b == 1;
    along(first.height, second.height)
        && along(first.width, second.width)
        && along(first.channels, second.channels)
}
