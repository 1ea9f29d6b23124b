//! From ONNX to a graph.

mod arrange;
mod attention;
mod attributes;
mod elementwise;
mod evaluate;
mod express;
mod facts;
mod input;
mod layers;
mod layout;
mod matrices;
mod norms;
mod pooling;
mod resize;
mod shapes;
mod site;
mod sketch;
mod supported;
mod view;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use network::{Model, ModelInfo, NodeId, Shape};
use prost::Message;
use prost::bytes::Bytes;

use self::site::{Activation, Refusal, Site, Value};
use self::sketch::{Sketch, SketchError};
pub use self::supported::SUPPORTED;
use super::constant::Constant;
use super::proto::{GraphProto, ModelProto, NodeProto};
use super::write::{INFO, PRODUCER};
use super::{DECISIONS, External, OnnxError};
use crate::{ImportError, ImportReport, state_dict::check_values};

/// Operators after which a value is still the same.
const SEEN: [&str; 6] = [
    "Cast",
    "Expand",
    "Identity",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
];
/// Elements of constants that small files may have beyond one per byte.
const SLACK: usize = 1 << 20;

struct Importer<'a> {
    sketch: Sketch,
    values: HashMap<&'a str, Value>,
    /// Constants that are stored values, seen in another shape perhaps, and the names of these.
    stored: HashMap<&'a str, &'a str>,
    /// Positions of nodes that pass their input on: softmax at the end.
    skipped: HashSet<usize>,
    opset: i64,
    /// Size of the batch dimension in the file; 1 if it is open.
    batch: usize,
    /// Elements that may still be copied or computed.
    budget: usize,
    /// What is known about nodes that are part of a norm.
    facts: HashMap<NodeId, facts::Fact>,
    notes: Vec<String>,
}

/// Reads a model; see [`super::read`].
pub(super) fn read(
    bytes: Bytes,
    input: Option<Shape>,
    external: &mut dyn External,
) -> Result<(Model, ImportReport), ImportError> {
    let size = bytes.len();
    let model = ModelProto::decode(bytes).map_err(|e| OnnxError::Decode(e.to_string()))?;
    let opset = opset(&model)?;
    let no_graph = || OnnxError::Model("it has no graph".into());
    let graph = model.graph.as_ref().ok_or_else(no_graph)?;
    let ours = model.producer_name.as_deref() == Some(PRODUCER);
    let (image, shape, batch, view) = input::image(graph, input, ours)?;
    let output = graph.output.first().and_then(|o| o.name.as_deref());
    let output = output.ok_or_else(|| OnnxError::Model("it has no output".into()))?;
    let mut importer = Importer {
        sketch: Sketch::new(shape).map_err(OnnxError::Graph)?,
        values: HashMap::new(),
        stored: HashMap::new(),
        skipped: HashSet::new(),
        opset,
        batch,
        budget: 0,
        facts: HashMap::new(),
        notes: vec![],
    };
    let mut total = size;
    for tensor in &graph.initializer {
        let name = tensor.name.as_deref().unwrap_or_default();
        let value = match Constant::decode(tensor, external)? {
            Some(constant) => {
                total = total.saturating_add(constant.len());
                if telling(name) {
                    importer.stored.insert(name, name);
                }
                Value::Constant(Rc::new(constant))
            }
            None => Value::Opaque,
        };
        importer.values.insert(name, value);
    }
    importer.budget = total.saturating_mul(2).saturating_add(SLACK);
    importer
        .values
        .insert(image, Value::Activation(Activation { node: 0, view }));
    if graph.output.len() > 1 {
        let note = format!(
            "{} outputs: `{output}` taken, others dropped",
            graph.output.len()
        );
        importer.notes.push(note);
    }
    importer.run(graph, output)?;
    importer.finish(output, &model)
}

/// The version of the operators.
fn opset(model: &ModelProto) -> Result<i64, OnnxError> {
    let standard = |domain: Option<&str>| matches!(domain, None | Some("" | "ai.onnx"));
    let mut sets = model.opset_import.iter();
    let version = sets.find(|set| standard(set.domain.as_deref()));
    match version.and_then(|set| set.version) {
        Some(version @ 9..) => Ok(version),
        Some(version) => Err(OnnxError::Opset(version)),
        None => Err(OnnxError::Decode("it names no operator set".into())),
    }
}

/// Whether a stored value can keep its name: not one that an exporter made up, nor one that a
/// layer's parameter may have.
fn telling(name: &str) -> bool {
    let layers = [
        ".weight",
        ".bias",
        ".running_mean",
        ".running_var",
        ".width",
    ];
    !name.is_empty() && !name.contains("::") && !layers.iter().any(|end| name.ends_with(end))
}

/// A node's own name, or one made up from its operator.
fn node_name(node: &NodeProto, index: usize) -> String {
    match node.name.as_deref() {
        None | Some("") => format!("{}_{index}", node.op_type.as_deref().unwrap_or_default()),
        Some(name) => name.trim_matches('/').into(),
    }
}

impl<'a> Importer<'a> {
    /// Expresses all nodes that the output needs.
    fn run(&mut self, graph: &'a GraphProto, output: &'a str) -> Result<(), OnnxError> {
        let mut producers: HashMap<&str, usize> = HashMap::new();
        for (index, node) in graph.node.iter().enumerate() {
            for output in node.output.iter().filter(|output| !output.is_empty()) {
                producers.entry(output).or_insert(index);
            }
        }
        self.skip_softmax(graph, &producers, output);
        let mut needed = vec![false; graph.node.len()];
        let mut wanted = vec![output];
        while let Some(value) = wanted.pop() {
            if let Some(&index) = producers.get(value)
                && !std::mem::replace(&mut needed[index], true)
            {
                wanted.extend(graph.node[index].input.iter().map(String::as_str));
            }
        }
        // First, as what they decide by is refused with another remedy.
        for (index, node) in graph.node.iter().enumerate() {
            let op = node.op_type.as_deref().unwrap_or_default();
            if needed[index] && DECISIONS.contains(&op) {
                return Err(OnnxError::Unsupported {
                    node: node_name(node, index),
                    op: op.into(),
                });
            }
        }
        for (index, node) in graph.node.iter().enumerate() {
            if !needed[index] {
                continue;
            }
            let values = self.express(index, node).map_err(|refusal| {
                let name = node_name(node, index);
                let op = match node.domain.as_deref() {
                    None | Some("" | "ai.onnx") => String::new(),
                    Some(domain) => format!("{domain}::"),
                };
                let op = op + node.op_type.as_deref().unwrap_or_default();
                match refusal {
                    Refusal::Operator => OnnxError::Unsupported { node: name, op },
                    Refusal::Reason(reason) => OnnxError::Node {
                        node: name,
                        op,
                        reason,
                    },
                }
            })?;
            let seen = matches!(node.op_type.as_deref(), Some(op) if SEEN.contains(&op));
            let stored = node
                .input
                .first()
                .and_then(|name| self.stored.get(name.as_str()));
            if let (true, Some(&stored), [output]) = (seen, stored, &node.output[..]) {
                self.stored.insert(output, stored);
            }
            for (output, value) in node.output.iter().zip(values) {
                self.values.insert(output, value);
            }
        }
        Ok(())
    }

    /// Softmax right before the output is left away: logits are wanted.
    fn skip_softmax(&mut self, graph: &GraphProto, producers: &HashMap<&str, usize>, output: &str) {
        let mut value = output;
        // A damaged graph may go in circles: no more steps than nodes.
        for _ in 0..graph.node.len() {
            let Some(&index) = producers.get(value) else {
                return;
            };
            let node = &graph.node[index];
            match node.op_type.as_deref().unwrap_or_default() {
                op @ ("Softmax" | "LogSoftmax") => {
                    self.skipped.insert(index);
                    let note = format!("{op} `{}` at the end removed", node_name(node, index));
                    self.notes.push(note);
                }
                "Identity" | "Cast" | "Dropout" | "Flatten" | "Reshape" | "Squeeze" => {}
                _ => return,
            }
            let Some(input) = node.input.first() else {
                return;
            };
            value = input;
        }
    }

    /// Charges for a copy of a constant: one tensor may be used many times.
    fn spend(&mut self, count: usize) -> Result<(), Refusal> {
        let left = self.budget.checked_sub(count);
        self.budget = left.ok_or("the weights together are much larger than the file")?;
        Ok(())
    }

    fn node_shape(&self, activation: &Activation) -> Shape {
        self.sketch.shape(activation.node)
    }

    /// ONNX's shape of a value.
    fn sizes(&self, activation: &Activation) -> Vec<usize> {
        activation.view.sizes()
    }

    fn finish(
        mut self,
        output: &str,
        model: &ModelProto,
    ) -> Result<(Model, ImportReport), ImportError> {
        let fail = |reason: String| OnnxError::Model(format!("its output `{output}` {reason}"));
        let activation = match self.values.remove(output) {
            Some(Value::Activation(activation)) => activation,
            Some(_) => return Err(fail("does not depend on the image".into()).into()),
            None => return Err(fail("is made by no node".into()).into()),
        };
        let sizes = self.sizes(&activation);
        let shape = self.node_shape(&activation);
        let node = if shape.pixels() == 1 && activation.view.covers(shape.len()) {
            activation.node
        } else {
            let vector = self.vector("output", &activation);
            let wrong = |_| fail(format!("is {sizes:?} instead of N x classes"));
            vector.map_err(wrong)?
        };
        if node == 0 {
            return Err(fail("is the image itself".into()).into());
        }
        let (graph, parameters) = self.sketch.finish(node).map_err(|error| match error {
            SketchError::Part(node, op) => OnnxError::Unsupported {
                node,
                op: op.into(),
            },
            SketchError::Graph(error) => OnnxError::Graph(error),
        })?;
        let mut report = ImportReport {
            notes: self.notes,
            ..ImportReport::default()
        };
        for (spec, values) in graph.parameters().iter().zip(parameters.iter()) {
            check_values(&spec.name, spec.role, values)?;
            report.matched.push((spec.name.clone(), spec.name.clone()));
        }
        // What this program wrote about the model, it can read again.
        let entry = model
            .metadata_props
            .iter()
            .find(|e| e.key.as_deref() == Some(INFO));
        let info = entry.and_then(|e| serde_json::from_str(e.value.as_deref()?).ok());
        let info = info.unwrap_or_else(|| ModelInfo {
            method: Some("imported".into()),
            ..ModelInfo::default()
        });
        let model = Model {
            graph,
            parameters,
            info,
        };
        Ok((model, report))
    }
}
