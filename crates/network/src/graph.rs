//! The graph: nodes in topological order, with inferred shapes.

use std::collections::HashSet;
use std::ops::Range;

use kernels::geometry::Shape;
use serde::{Deserialize, Serialize};

use crate::device_error::DeviceError;
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
    pub(crate) fn count_images(&self, pixels: &[f32]) -> Result<usize, DeviceError> {
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
                    name: format!("{}.{suffix}", node.name),
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

    /// Shape of a node's first input.
    pub fn input_of(&self, node: NodeId) -> Shape {
        self.shapes[self.nodes[node].inputs[0]]
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

    /// Multiply-accumulates of one image's forward pass (convolutions and
    /// linear layers).
    pub fn macs(&self) -> u64 {
        (1..self.nodes.len())
            .map(|id| self.nodes[id].op.macs(self.input_of(id)))
            .sum()
    }
}

fn small(dims: impl IntoIterator<Item = usize>) -> bool {
    let product = dims.into_iter().try_fold(1, usize::checked_mul);
    product.is_some_and(|n| (1..=MAX_ELEMENTS).contains(&n))
}

/// Output shape of an operator, or what does not fit.
fn infer(op: &Op, inputs: &[Shape]) -> Result<Shape, String> {
    let pooled = |window: &kernels::geometry::Window, channels| {
        let Shape { height, width, .. } = inputs[0];
        let [h, w] = window.output(height, width).ok_or_else(|| {
            format!(
                "a window of {}x{} does not fit the input {}",
                window.kernel[0], window.kernel[1], inputs[0]
            )
        })?;
        Ok(Shape::new(h, w, channels))
    };
    match op {
        Op::Input { shape } => Ok(*shape),
        Op::Affine { scale, shift } => {
            let fits = |v: &[f32]| v.len() == 1 || v.len() == inputs[0].channels;
            if !fits(scale) || !fits(shift) {
                return Err(format!(
                    "{} factors and {} offsets for {} channels",
                    scale.len(),
                    shift.len(),
                    inputs[0].channels
                ));
            }
            if scale.iter().chain(shift).any(|v| !v.is_finite()) {
                return Err("a factor or offset is not finite".into());
            }
            Ok(inputs[0])
        }
        Op::Conv {
            out_channels,
            window,
            groups,
            ..
        } => {
            let channels = inputs[0].channels;
            if !channels.is_multiple_of(*groups) || !out_channels.is_multiple_of(*groups) {
                return Err(format!(
                    "{groups} groups do not divide {channels} input and {out_channels} output channels"
                ));
            }
            pooled(window, *out_channels)
        }
        Op::BatchNorm {
            epsilon, momentum, ..
        } => {
            if !(*epsilon >= 0.0 && *epsilon < 1.0 && (0.0..=1.0).contains(momentum)) {
                return Err(format!(
                    "epsilon {epsilon} or momentum {momentum} is absurd"
                ));
            }
            Ok(inputs[0])
        }
        Op::Activation(_) | Op::AveragedRelu => Ok(inputs[0]),
        Op::Add => match inputs {
            [a, b] if a == b => Ok(*a),
            _ => Err(format!("cannot add {} and {}", inputs[0], inputs[1])),
        },
        Op::Mul => match inputs {
            [a, b] if a == b || *b == Shape::vector(a.channels) => Ok(*a),
            _ => Err(format!("cannot multiply {} by {}", inputs[0], inputs[1])),
        },
        Op::Concat => {
            let Shape { height, width, .. } = inputs[0];
            if inputs
                .iter()
                .any(|s| (s.height, s.width) != (height, width))
            {
                return Err("inputs differ in height or width".into());
            }
            let mut channels = inputs.iter().map(|s| s.channels);
            let channels = channels.try_fold(0, usize::checked_add);
            Ok(Shape::new(
                height,
                width,
                channels.ok_or("too many channels")?,
            ))
        }
        Op::MaxPool { window } | Op::AveragePool { window, .. } => {
            pooled(window, inputs[0].channels)
        }
        Op::GlobalAveragePool => Ok(Shape::vector(inputs[0].channels)),
        Op::Subsample { stride: [v, h] } => {
            if *v == 0 || *h == 0 {
                return Err("a stride of 0".into());
            }
            Ok(Shape::new(
                inputs[0].height.div_ceil(*v),
                inputs[0].width.div_ceil(*h),
                inputs[0].channels,
            ))
        }
        Op::Pad { padding, channels } => {
            let total = |a: usize, b: usize, c: usize| a.checked_add(b)?.checked_add(c);
            let shape = (|| {
                Some(Shape::new(
                    total(inputs[0].height, padding.top, padding.bottom)?,
                    total(inputs[0].width, padding.left, padding.right)?,
                    total(inputs[0].channels, channels[0], channels[1])?,
                ))
            })();
            shape.ok_or_else(|| "too much padding".into())
        }
        Op::Flatten => {
            let Shape {
                height,
                width,
                channels,
            } = inputs[0];
            let len = height
                .checked_mul(width)
                .and_then(|p| p.checked_mul(channels));
            Ok(Shape::vector(len.ok_or("too many features")?))
        }
        Op::Foreign { classes, .. } => Ok(Shape::vector(*classes)),
        Op::Linear { out_features, .. } => {
            if inputs[0] != Shape::vector(inputs[0].channels) {
                return Err(format!(
                    "wants a vector, got {}: flatten or pool it first",
                    inputs[0]
                ));
            }
            Ok(Shape::vector(*out_features))
        }
    }
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
