//! From a graph to ONNX.

mod fields;
mod layouts;
mod nodes;
mod rearrange;
mod tokens;

use network::{Activation, Graph, Model, NodeId, Op, fold_batch_norms};
use prost::Message;

use self::fields::value_info;
use self::layouts::{Layout, Value};
use super::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
    TensorProto, data_type,
};

/// Who wrote the file.
pub(super) const PRODUCER: &str = "heatsmooth";
/// Metadata entry with the model's provenance as JSON.
pub(super) const INFO: &str = "heatsmooth";
/// Operators of 2022: what every runtime still in use knows.
const OPSET: i64 = 17;
/// The first with Gelu and with dilated average pooling.
const LATE_OPSET: i64 = 20;

/// What becomes of batch norms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fold {
    /// They stay, and the network can be trained on.
    #[default]
    Keep,
    /// They are multiplied into the layers before them: faster, eval mode only.
    Fold,
}

/// Serialises a model: input `image` (N x C x H x W, pixels in [0, 1]), output
/// `logits` (N x classes), any batch size. Weights keep their names and bits,
/// and class names and provenance are metadata.
pub fn write(model: &Model, fold: Fold) -> Vec<u8> {
    match fold {
        Fold::Keep => encode(model),
        Fold::Fold => encode(&fold_batch_norms(model)),
    }
}

fn encode(model: &Model) -> Vec<u8> {
    let graph = &model.graph;
    let late = graph.nodes().iter().any(|node| match &node.op {
        Op::Activation(Activation::Gelu { .. }) | Op::AveragedRelu => true,
        Op::AveragePool { window, .. } => window.dilation != [1, 1],
        _ => false,
    });
    let mut writer = Writer {
        model,
        opset: if late { LATE_OPSET } else { OPSET },
        constants: graph.constants(),
        proto: GraphProto {
            name: Some(model.info.architecture.clone().unwrap_or("network".into())),
            ..GraphProto::default()
        },
        values: Vec::with_capacity(graph.nodes().len()),
    };
    writer.run();
    let info = serde_json::to_string(&model.info).expect("provenance is plain data");
    let proto = ModelProto {
        ir_version: Some(if late { 9 } else { 8 }),
        producer_name: Some(PRODUCER.into()),
        producer_version: Some(env!("CARGO_PKG_VERSION").into()),
        graph: Some(writer.proto),
        opset_import: vec![OperatorSetIdProto {
            domain: Some(String::new()),
            version: Some(if late { LATE_OPSET } else { OPSET }),
        }],
        metadata_props: vec![StringStringEntryProto {
            key: Some(INFO.into()),
            value: Some(info),
        }],
    };
    proto.encode_to_vec()
}

struct Writer<'a> {
    model: &'a Model,
    opset: i64,
    /// Nodes whose value is the same for every image.
    constants: Vec<bool>,
    proto: GraphProto,
    /// Of every node so far.
    values: Vec<Value>,
}

impl Writer<'_> {
    fn graph(&self) -> &Graph {
        &self.model.graph
    }

    fn run(&mut self) {
        let shape = self.graph().input();
        let image = [shape.channels, shape.height, shape.width];
        self.proto.input = vec![value_info("image", &image)];
        self.values.push(Value {
            name: "image".into(),
            layout: Layout::First,
        });
        for id in 1..self.graph().nodes().len() {
            let value = self.node(id);
            self.values.push(value);
        }
        let logits = self.flat(self.graph().output());
        self.emit("Identity", "logits", &[&logits], vec![]);
        self.proto.output = vec![value_info("logits", &[self.graph().classes()])];
    }

    /// Adds a node that makes the value `name`.
    fn emit(&mut self, op: &str, name: &str, inputs: &[&str], attribute: Vec<AttributeProto>) {
        self.proto.node.push(NodeProto {
            input: inputs.iter().map(ToString::to_string).collect(),
            output: vec![name.into()],
            name: Some(name.into()),
            op_type: Some(op.into()),
            attribute,
            domain: None,
        });
    }

    fn initialiser(&mut self, name: String, dims: &[usize], values: &[f32]) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.tensor(name, dims, data_type::FLOAT, bytes)
    }

    fn int_initialiser(&mut self, name: String, values: &[i64]) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.tensor(name, &[values.len()], data_type::INT64, bytes)
    }

    fn tensor(&mut self, name: String, dims: &[usize], kind: i32, bytes: Vec<u8>) -> String {
        self.proto.initializer.push(TensorProto {
            dims: dims.iter().map(|&d| d as i64).collect(),
            data_type: Some(kind),
            name: Some(name.clone()),
            raw_data: Some(bytes.into()),
            ..TensorProto::default()
        });
        name
    }

    /// A node's parameters as initialisers under their own names.
    fn parameters(&mut self, id: NodeId) -> Vec<String> {
        let model = self.model;
        let range = model.graph.parameters_of(id);
        let each = range.map(|i| (&model.graph.parameters()[i], model.parameters.get(i)));
        let names =
            each.map(|(spec, values)| self.initialiser(spec.name.clone(), &spec.shape, values));
        names.collect()
    }

    fn made(&self, name: &str) -> bool {
        self.proto.node.iter().any(|node| node.output[0] == name)
    }
}
