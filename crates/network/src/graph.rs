//! The graph: nodes in topological order, with inferred shapes.

use std::collections::HashSet;
use std::ops::Range;

use kernels::geometry::Shape;
use serde::{Deserialize, Serialize};

use crate::device_error::DeviceError;
use crate::infer::infer;
use crate::op::Op;
use crate::parameters::ParameterSpec;

/// Index of a node; inputs of a node have smaller indices.
pub type NodeId = usize;

/// No activation of one image and no parameter may have more elements than
/// this: a hostile file must not make us allocate the world.
const MAX_ELEMENTS: usize = 1 << 28;

/// One operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Unique; prefix of its parameters' names.
    pub name: String,
    /// What it computes.
    pub op: Op,
    /// From what.
    pub inputs: Vec<NodeId>,
}

/// Why a graph makes no sense; names the node.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum GraphError {
    /// No nodes at all, or no input first.
    #[error("a graph starts with its one input node")]
    NoInput,
    /// Two nodes share a name.
    #[error("node `{0}` occurs twice")]
    Duplicate(String),
    /// An input that is not an earlier node.
    #[error("node `{node}` reads node {input}, which does not come before it")]
    Order {
        /// The reader.
        node: String,
        /// What it wants to read.
        input: NodeId,
    },
    /// A foreign network that is only a part.
    #[error("a network of another program stands alone")]
    Mixed,
    /// The operator does not fit its inputs.
    #[error("node `{node}` ({op}): {reason}")]
    Shape {
        /// Its name.
        node: String,
        /// Its operator.
        op: &'static str,
        /// What does not fit.
        reason: String,
    },
}

/// A network without its weights: checked nodes, shapes and parameter
/// specifications. The last node gives the logits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Node>", into = "Vec<Node>")]
pub struct Graph {
    nodes: Vec<Node>,
    shapes: Vec<Shape>,
    parameters: Vec<ParameterSpec>,
    ranges: Vec<Range<usize>>,
}

impl TryFrom<Vec<Node>> for Graph {
    type Error = GraphError;

    fn try_from(nodes: Vec<Node>) -> Result<Self, GraphError> {
        Graph::new(nodes)
    }
}

impl From<Graph> for Vec<Node> {
    fn from(graph: Graph) -> Self {
        graph.nodes
    }
}

impl Graph {
    /// How many images these pixels are.
    ///
    /// # Errors
    /// If they are not whole images.
    pub fn count_images(&self, pixels: &[f32]) -> Result<usize, DeviceError> {
        let len = self.input().len();
        let count = pixels.len() / len;
        DeviceError::length("pixels", count * len, pixels.len())?;
        Ok(count)
    }

    /// Checks the nodes and infers every shape.
    pub fn new(nodes: Vec<Node>) -> Result<Self, GraphError> {
        if !matches!(nodes.first().map(|n| &n.op), Some(Op::Input { .. })) {
            return Err(GraphError::NoInput);
        }
        let mut names = HashSet::new();
        let mut shapes: Vec<Shape> = Vec::with_capacity(nodes.len());
        let mut parameters: Vec<ParameterSpec> = Vec::new();
        let mut ranges = Vec::with_capacity(nodes.len());
        for (id, node) in nodes.iter().enumerate() {
            if !names.insert(node.name.as_str()) {
                return Err(GraphError::Duplicate(node.name.clone()));
            }
            if let Some(&input) = node.inputs.iter().find(|&&input| input >= id) {
                return Err(GraphError::Order {
                    node: node.name.clone(),
                    input,
                });
            }
            let fail = |reason: String| GraphError::Shape {
                node: node.name.clone(),
                op: node.op.name(),
                reason,
            };
            if id > 0 && matches!(node.op, Op::Input { .. }) {
                return Err(fail("a second input".into()));
            }
            if !node.op.arity().contains(&node.inputs.len()) {
                return Err(fail(format!("cannot take {} inputs", node.inputs.len())));
            }
            let inputs: Vec<Shape> = node.inputs.iter().map(|&i| shapes[i]).collect();
            let shape = infer(&node.op, &inputs).map_err(&fail)?;
            if !small([shape.height, shape.width, shape.channels]) {
                return Err(fail(format!("its output {shape} is empty or too large")));
            }
            let start = parameters.len();
            for (suffix, dims, role) in node.op.parameters(inputs.first().copied().unwrap_or(shape))
            {
                if !small(dims.iter().copied()) {
                    return Err(fail(format!("its {suffix} {dims:?} is empty or too large")));
                }
                parameters.push(ParameterSpec {
                    name: match suffix {
                        "" => node.name.clone(),
                        suffix => format!("{}.{suffix}", node.name),
                    },
                    shape: dims,
                    role,
                });
            }
            if let Op::Foreign {
                parameters: own, ..
            } = &node.op
            {
                let mut known = HashSet::new();
                for spec in own {
                    if !small(spec.shape.iter().copied()) || !known.insert(&spec.name) {
                        let name = &spec.name;
                        return Err(fail(format!("its {name} is empty, too large or twice")));
                    }
                }
                parameters.extend_from_slice(own);
            }
            ranges.push(start..parameters.len());
            shapes.push(shape);
        }
        let mut names = HashSet::new();
        if let Some(twice) = parameters.iter().find(|spec| !names.insert(&spec.name)) {
            return Err(GraphError::Duplicate(twice.name.clone()));
        }
        constants_are_read_as_such(&nodes)?;
        let foreign = |node: &Node| matches!(node.op, Op::Foreign { .. });
        if nodes.iter().any(foreign) && nodes.len() > 2 {
            return Err(GraphError::Mixed);
        }
        Ok(Self {
            nodes,
            shapes,
            parameters,
            ranges,
        })
    }

    /// The program and the name of the network, if it is another program's.
    pub fn foreign(&self) -> Option<(&str, &str)> {
        match &self.nodes[self.output()].op {
            Op::Foreign {
                program, network, ..
            } => Some((program, network)),
            _ => None,
        }
    }

    /// Nodes in topological order; node 0 is the input, the last one the
    /// logits.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Output shape of a node.
    pub fn shape(&self, node: NodeId) -> Shape {
        self.shapes[node]
    }

    /// Shape of one image.
    pub fn input(&self) -> Shape {
        self.shapes[0]
    }

    /// Shape of a node's first input, or its own if it reads nothing.
    pub fn input_of(&self, node: NodeId) -> Shape {
        let first = self.nodes[node].inputs.first();
        self.shapes[first.copied().unwrap_or(node)]
    }

    /// Which nodes have the same value for every image: parameters, and what is
    /// rearranged of them.
    pub fn constants(&self) -> Vec<bool> {
        constants(&self.nodes)
    }

    /// The node that gives the logits.
    pub fn output(&self) -> NodeId {
        self.nodes.len() - 1
    }

    /// Number of logits.
    pub fn classes(&self) -> usize {
        self.shapes[self.output()].len()
    }

    /// All parameters, node by node.
    pub fn parameters(&self) -> &[ParameterSpec] {
        &self.parameters
    }

    /// Which of [`Graph::parameters`] belong to a node, in the order of
    /// [`Op::parameters`].
    pub fn parameters_of(&self, node: NodeId) -> Range<usize> {
        self.ranges[node].clone()
    }

    /// Trainable values in total.
    pub fn parameter_count(&self) -> usize {
        let trainable = self.parameters.iter().filter(|p| p.role.trainable());
        trainable.map(ParameterSpec::len).sum()
    }

    /// Multiply-accumulates of one image's forward pass (convolutions, linear
    /// layers and products of matrices).
    pub fn macs(&self) -> u64 {
        (1..self.nodes.len())
            .map(|id| self.nodes[id].op.macs(self.input_of(id), self.shapes[id]))
            .sum()
    }
}

fn constants(nodes: &[Node]) -> Vec<bool> {
    let mut constants: Vec<bool> = Vec::with_capacity(nodes.len());
    for node in nodes {
        constants.push(match &node.op {
            Op::Parameter { .. } => true,
            Op::Rearrange(_) => constants[node.inputs[0]],
            _ => false,
        });
    }
    constants
}

/// Refuses constants where executors want a value of each image.
fn constants_are_read_as_such(nodes: &[Node]) -> Result<(), GraphError> {
    let constants = constants(nodes);
    let fail = |node: &Node, reason: &str| GraphError::Shape {
        node: node.name.clone(),
        op: node.op.name(),
        reason: reason.into(),
    };
    for node in nodes {
        let read = node
            .inputs
            .iter()
            .filter(|&&input| constants[input])
            .count();
        let fits = match &node.op {
            Op::Add | Op::Mul | Op::Concat | Op::MatMul { .. } => read < node.inputs.len(),
            Op::Rearrange(_) => true,
            _ => read == 0,
        };
        if !fits {
            return Err(fail(node, "reads nothing that depends on the image"));
        }
        if node.op == Op::Add || node.op == Op::Mul {
            // The first input says for which images.
            if constants[node.inputs[0]] {
                return Err(fail(node, "its first input does not depend on the image"));
            }
        }
    }
    match (constants.last(), nodes.last()) {
        (Some(true), Some(last)) => Err(fail(last, "does not depend on the image")),
        _ => Ok(()),
    }
}

fn small(dims: impl IntoIterator<Item = usize>) -> bool {
    let product = dims.into_iter().try_fold(1, usize::checked_mul);
    product.is_some_and(|n| (1..=MAX_ELEMENTS).contains(&n))
}

/// Adds nodes one behind the other.
#[derive(Debug)]
pub struct GraphBuilder {
    nodes: Vec<Node>,
}

impl GraphBuilder {
    /// Starts with an image of this shape.
    pub fn new(shape: Shape) -> Self {
        let input = Node {
            name: "input".into(),
            op: Op::Input { shape },
            inputs: vec![],
        };
        Self { nodes: vec![input] }
    }

    /// Adds a node that reads `inputs`; returns its id.
    pub fn add(&mut self, name: impl Into<String>, op: Op, inputs: &[NodeId]) -> NodeId {
        self.nodes.push(Node {
            name: name.into(),
            op,
            inputs: inputs.to_vec(),
        });
        self.last()
    }

    /// Adds a node that reads the last one; returns its id.
    pub fn then(&mut self, name: impl Into<String>, op: Op) -> NodeId {
        let last = self.last();
        self.add(name, op, &[last])
    }

    /// The node added last.
    pub fn last(&self) -> NodeId {
        self.nodes.len() - 1
    }

    /// Checks everything.
    pub fn build(self) -> Result<Graph, GraphError> {
        Graph::new(self.nodes)
    }
}
