//! The graph while it is being made: nodes with shapes and values.

use std::collections::HashMap;

use kernels::geometry::Shape;

use crate::activation::Activation;
use crate::graph::{Graph, GraphError, Node, NodeId};
use crate::op::Op;
use crate::parameters::Parameters;

/// What a node computes; the error function is no operator of ours, but part of
/// a pattern for one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Op(Op),
    Erf,
}

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
}

/// What is wrong, for the node's error.
type Reason = String;

impl Sketch {
    pub(super) fn new(shape: Shape) -> Result<Self, GraphError> {
        let op = Op::Input { shape };
        let input = Node {
            name: "input".into(),
            op: op.clone(),
            inputs: vec![],
        };
        Graph::new(vec![input])?;
        let draft = Draft {
            name: "input".into(),
            kind: Kind::Op(op),
            inputs: vec![],
            shape,
            values: vec![],
        };
        Ok(Self {
            drafts: vec![draft],
            names: HashMap::from([("input".into(), 1)]),
            flat: HashMap::new(),
        })
    }

    pub(super) fn shape(&self, node: NodeId) -> Shape {
        self.drafts[node].shape
    }

    fn op(&self, node: NodeId) -> Option<&Op> {
        match &self.drafts[node].kind {
            Kind::Op(op) => Some(op),
            Kind::Erf => None,
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

    pub(super) fn erf(&mut self, name: &str, input: NodeId) -> NodeId {
        self.push(name, Kind::Erf, &[input], self.shape(input))
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
        let pair = match (x == y, spreads(x, y), spreads(y, x)) {
            (true, ..) => [a, b],
            (_, true, _) => [a, self.spread(name, b, a)?],
            (_, _, true) => [self.spread(name, a, b)?, b],
            _ => return Err(format!("cannot add {x} and {y}")),
        };
        Ok(self.push(name, Kind::Op(Op::Add), &pair, self.shape(pair[0])))
    }

    /// A vector on every pixel of another node's shape: times ones.
    fn spread(&mut self, name: &str, vector: NodeId, over: NodeId) -> Result<NodeId, Reason> {
        let ones = self.affine(&format!("{name}.ones"), over, vec![0.0], vec![1.0])?;
        let shape = self.shape(over);
        Ok(self.push(
            &format!("{name}.spread"),
            Kind::Op(Op::Mul),
            &[ones, vector],
            shape,
        ))
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
        let pair = match (x == y, spreads(x, y), spreads(y, x)) {
            (true, ..) | (_, true, _) => [a, b],
            (_, _, true) => [b, a],
            _ => return Err(format!("cannot multiply {x} by {y}")),
        };
        Ok(self.push(name, Kind::Op(Op::Mul), &pair, self.shape(pair[0])))
    }

    /// `x * sigmoid(x)` and `x * hard_sigmoid(x)`.
    fn gated(&self, x: NodeId, gate: NodeId) -> Option<Activation> {
        if self.drafts[gate].inputs != [x] {
            return None;
        }
        match self.op(gate)? {
            Op::Activation(Activation::Sigmoid) => Some(Activation::Silu),
            Op::Activation(Activation::HardSigmoid { slope, offset })
                if close(*slope, 1.0 / 6.0) && *offset == 0.5 =>
            {
                Some(Activation::HardSwish)
            }
            _ => None,
        }
    }

    /// Follows affine nodes of one value for all channels to their source:
    /// `node = scale * source + shift`.
    fn scalar_source(&self, mut node: NodeId) -> (NodeId, f32, f32) {
        let (mut a, mut b) = (1.0, 0.0);
        while let Some(Op::Affine { scale, shift }) = self.op(node)
            && let ([scale], [shift]) = (&scale[..], &shift[..])
        {
            (a, b) = (a * scale, a * shift + b);
            node = self.drafts[node].inputs[0];
        }
        (node, a, b)
    }

    /// `k x * a (1 + erf(x / sqrt 2))` is `2 a k` times Gelu; returns `x` and
    /// the factor.
    fn gelu(&self, x: NodeId, gate: NodeId) -> Option<(NodeId, f32)> {
        let (erf, a, b) = self.scalar_source(gate);
        if self.drafts[erf].kind != Kind::Erf || !close(a, b) {
            return None;
        }
        // The argument is one affine node behind `x`, `x` itself may be one.
        let argument = self.drafts[erf].inputs[0];
        let input = match self.op(argument)? {
            Op::Affine { scale, shift }
                if shift[..] == [0.0]
                    && scale.len() == 1
                    && close(scale[0], std::f32::consts::FRAC_1_SQRT_2) =>
            {
                self.drafts[argument].inputs[0]
            }
            _ => return None,
        };
        if x == input {
            return Some((input, 2.0 * a));
        }
        match self.op(x)? {
            Op::Affine { scale, shift }
                if shift[..] == [0.0] && scale.len() == 1 && self.drafts[x].inputs == [input] =>
            {
                Some((input, 2.0 * a * scale[0]))
            }
            _ => None,
        }
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
        shape.channels = channels.map(|s| s.channels).sum();
        Ok(self.push(name, Kind::Op(Op::Concat), inputs, shape))
    }

    /// The graph of everything that `output` needs, with its parameters.
    pub(super) fn finish(mut self, output: NodeId) -> Result<(Graph, Parameters), SketchError> {
        let output = self.join_affines(output);
        let uses = self.uses(output);
        self.join_biases(&uses);
        let needed = self.uses(output);
        let mut ids = vec![0; self.drafts.len()];
        let (mut nodes, mut values) = (Vec::new(), Vec::new());
        for (id, draft) in self.drafts.into_iter().enumerate() {
            if id > 0 && needed[id] == 0 {
                continue;
            }
            let Kind::Op(op) = draft.kind else {
                return Err(SketchError::Erf(draft.name));
            };
            ids[id] = nodes.len();
            nodes.push(Node {
                name: draft.name,
                op,
                inputs: draft.inputs.iter().map(|&i| ids[i]).collect(),
            });
            values.extend(draft.values);
        }
        let graph = Graph::new(nodes).map_err(SketchError::Graph)?;
        let parameters = Parameters::new(&graph, values);
        Ok((graph, parameters))
    }

    /// How often each node is read on the way to the output.
    fn uses(&self, output: NodeId) -> Vec<usize> {
        let mut uses = vec![0; self.drafts.len()];
        uses[output] = 1;
        for id in (0..=output).rev() {
            if uses[id] > 0 {
                self.drafts[id].inputs.iter().for_each(|&i| uses[i] += 1);
            }
        }
        uses
    }

    /// Joins affine nodes that follow each other and drops those that change
    /// nothing; returns the node that is now the output.
    fn join_affines(&mut self, output: NodeId) -> NodeId {
        let mut instead: Vec<NodeId> = (0..self.drafts.len()).collect();
        for id in 1..self.drafts.len() {
            self.drafts[id]
                .inputs
                .iter_mut()
                .for_each(|i| *i = instead[*i]);
            let Some(Op::Affine { scale, shift }) = self.op(id) else {
                continue;
            };
            let (mut scale, mut shift) = (scale.clone(), shift.clone());
            let mut source = self.drafts[id].inputs[0];
            if let Some(Op::Affine {
                scale: first,
                shift: offset,
            }) = self.op(source)
            {
                let at = |v: &[f32], i: usize| f64::from(v[i % v.len()]);
                let n = first
                    .len()
                    .max(offset.len())
                    .max(scale.len())
                    .max(shift.len());
                let joined = |i: usize| {
                    let factor = at(first, i) * at(&scale, i);
                    (
                        factor as f32,
                        (at(offset, i) * at(&scale, i) + at(&shift, i)) as f32,
                    )
                };
                (scale, shift) = (0..n).map(joined).unzip();
                source = self.drafts[source].inputs[0];
            }
            for values in [&mut scale, &mut shift] {
                if values.iter().all(|v| *v == values[0]) {
                    values.truncate(1);
                }
            }
            if scale[..] == [1.0] && shift[..] == [0.0] {
                instead[id] = source;
            }
            self.drafts[id].kind = Kind::Op(Op::Affine { scale, shift });
            self.drafts[id].inputs = vec![source];
        }
        instead[output]
    }

    /// A constant added behind a convolution or linear layer becomes its bias,
    /// which is trained.
    fn join_biases(&mut self, uses: &[usize]) {
        for id in 1..self.drafts.len() {
            let source = match self.drafts[id].inputs[..] {
                [source] if uses[id] > 0 && uses[source] == 1 => source,
                _ => continue,
            };
            let shift = match self.op(id) {
                Some(Op::Affine { scale, shift }) if scale.iter().all(|&v| v == 1.0) => shift,
                _ => continue,
            };
            let channels = self.shape(id).channels;
            let values: Vec<f32> = shift.iter().copied().cycle().take(channels).collect();
            match &mut self.drafts[source].kind {
                Kind::Op(Op::Conv { bias, .. } | Op::Linear { bias, .. }) if !*bias => *bias = true,
                _ => continue,
            }
            self.drafts[source].values.push(values);
            // The layer takes the sum's place.
            self.drafts.swap(source, id);
        }
    }
}

/// Why a sketch is no graph.
pub(super) enum SketchError {
    /// This node's error function is not part of a Gelu.
    Erf(String),
    /// See there.
    Graph(GraphError),
}

fn spreads(image: Shape, vector: Shape) -> bool {
    vector == Shape::vector(image.channels)
}

fn close(a: f32, b: f32) -> bool {
    (a - b).abs() < 1e-4 * b.abs()
}
