//! From a graph to ONNX.

use kernels::geometry::{Padding, Window};
use prost::Message;
use prost::bytes::Bytes;

use super::fold::fold_batch_norms;
use super::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto,
    ValueInfoProto, attribute_type, data_type,
};
use crate::activation::Activation;
use crate::graph::{Graph, NodeId};
use crate::model::Model;
use crate::op::Op;

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
        Op::Activation(Activation::Gelu { .. }) => true,
        Op::AveragePool { window, .. } => window.dilation != [1, 1],
        _ => false,
    });
    let mut writer = Writer {
        model,
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

/// An ONNX value: its name, and whether it is N x K or N x C x H x W.
#[derive(Clone)]
struct Value {
    name: String,
    flat: bool,
}

struct Writer<'a> {
    model: &'a Model,
    proto: GraphProto,
    /// Of every node so far.
    values: Vec<Value>,
}

fn attribute(name: &str) -> AttributeProto {
    AttributeProto {
        name: Some(name.into()),
        ..AttributeProto::default()
    }
}

fn int(name: &str, value: usize) -> AttributeProto {
    AttributeProto {
        i: Some(value as i64),
        r#type: Some(attribute_type::INT),
        ..attribute(name)
    }
}

fn ints(name: &str, values: &[usize]) -> AttributeProto {
    AttributeProto {
        ints: values.iter().map(|&v| v as i64).collect(),
        r#type: Some(attribute_type::INTS),
        ..attribute(name)
    }
}

fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto {
        f: Some(value),
        r#type: Some(attribute_type::FLOAT),
        ..attribute(name)
    }
}

fn text(name: &str, value: &'static str) -> AttributeProto {
    AttributeProto {
        s: Some(Bytes::from_static(value.as_bytes())),
        r#type: Some(attribute_type::STRING),
        ..attribute(name)
    }
}

/// Kernel, stride, padding and dilation; the dilation only where it matters,
/// as older operators do not have it.
fn window_attributes(window: &Window) -> Vec<AttributeProto> {
    let Padding {
        top,
        left,
        bottom,
        right,
    } = window.padding;
    let mut attributes = vec![
        ints("kernel_shape", &window.kernel),
        ints("strides", &window.stride),
        ints("pads", &[top, left, bottom, right]),
    ];
    if window.dilation != [1, 1] {
        attributes.push(ints("dilations", &window.dilation));
    }
    attributes
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
            flat: false,
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

    /// A node's value as N x K; the node's shape is 1 x 1 x K.
    fn flat(&mut self, id: NodeId) -> String {
        let Value { name, flat } = self.values[id].clone();
        if flat {
            return name;
        }
        let vector = format!("{name}/vector");
        if !self.made(&vector) {
            self.emit("Flatten", &vector, &[&name], vec![int("axis", 1)]);
        }
        vector
    }

    /// A node's value as N x C x H x W.
    fn image(&mut self, id: NodeId) -> String {
        let Value { name, flat } = self.values[id].clone();
        if !flat {
            return name;
        }
        let image = format!("{name}/image");
        if !self.made(&image) {
            let axes = self.int_initialiser(format!("{name}/axes"), &[2, 3]);
            self.emit("Unsqueeze", &image, &[&name, &axes], vec![]);
        }
        image
    }

    fn made(&self, name: &str) -> bool {
        self.proto.node.iter().any(|node| node.output[0] == name)
    }

    /// Constants per channel, shaped to fit a value.
    fn per_channel(&mut self, name: String, values: &[f32], flat: bool) -> String {
        match (values.len(), flat) {
            (1, _) => self.initialiser(name, &[], values),
            (n, true) => self.initialiser(name, &[n], values),
            (n, false) => self.initialiser(name, &[n, 1, 1], values),
        }
    }

    fn node(&mut self, id: NodeId) -> Value {
        let node = self.graph().nodes()[id].clone();
        let name = node.name.as_str();
        let first = node.inputs[0];
        let source = self.values[first].clone();
        let mut flat = source.flat;
        match &node.op {
            Op::Input { .. } => unreachable!("only node 0 is an input"),
            Op::Affine { scale, shift } => {
                self.affine(name, &source, scale, shift);
            }
            Op::Conv { window, groups, .. } => {
                let mut inputs = vec![self.image(first)];
                inputs.extend(self.parameters(id));
                let mut attributes = window_attributes(window);
                attributes.push(int("group", *groups));
                let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                self.emit("Conv", name, &inputs, attributes);
                flat = false;
            }
            Op::BatchNorm {
                epsilon,
                momentum,
                scale,
                shift,
            } => {
                let mut inputs = self.parameters(id);
                let channels = self.graph().shape(id).channels;
                if !*scale {
                    let ones = vec![1.0; channels];
                    let ones = self.initialiser(format!("{name}.weight"), &[channels], &ones);
                    inputs.insert(0, ones);
                }
                if !*shift {
                    let zeros = vec![0.0; channels];
                    let zeros = self.initialiser(format!("{name}.bias"), &[channels], &zeros);
                    inputs.insert(1, zeros);
                }
                inputs.insert(0, source.name);
                let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                let attributes = vec![
                    float("epsilon", *epsilon),
                    float("momentum", 1.0 - momentum),
                ];
                self.emit("BatchNormalization", name, &inputs, attributes);
            }
            Op::Activation(activation) => self.activation(name, &source.name, *activation),
            Op::Add | Op::Mul | Op::Concat => {
                flat = node.inputs.iter().all(|&input| self.values[input].flat);
                let inputs: Vec<String> = node
                    .inputs
                    .iter()
                    .map(|&input| {
                        if flat {
                            self.flat(input)
                        } else {
                            self.image(input)
                        }
                    })
                    .collect();
                let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                let (op, attributes) = match node.op {
                    Op::Add => ("Add", vec![]),
                    Op::Mul => ("Mul", vec![]),
                    _ => ("Concat", vec![int("axis", 1)]),
                };
                self.emit(op, name, &inputs, attributes);
            }
            Op::MaxPool { window } => {
                let input = self.image(first);
                self.emit("MaxPool", name, &[&input], window_attributes(window));
                flat = false;
            }
            Op::AveragePool {
                window,
                count_padding,
            } => {
                let input = self.image(first);
                let mut attributes = window_attributes(window);
                attributes.push(int("count_include_pad", (*count_padding).into()));
                self.emit("AveragePool", name, &[&input], attributes);
                flat = false;
            }
            Op::GlobalAveragePool => {
                let input = self.image(first);
                self.emit("GlobalAveragePool", name, &[&input], vec![]);
                flat = false;
            }
            Op::Subsample { stride } => {
                let input = self.image(first);
                let mut constant = |part: &str, values: [i64; 2]| {
                    self.int_initialiser(format!("{name}/{part}"), &values)
                };
                let starts = constant("starts", [0, 0]);
                let ends = constant("ends", [i64::MAX, i64::MAX]);
                let axes = constant("axes", [2, 3]);
                let steps = constant("steps", [stride[0] as i64, stride[1] as i64]);
                self.emit(
                    "Slice",
                    name,
                    &[&input, &starts, &ends, &axes, &steps],
                    vec![],
                );
                flat = false;
            }
            Op::Pad {
                padding: p,
                channels: [before, after],
            } => {
                let input = self.image(first);
                let pads = [0, *before, p.top, p.left, 0, *after, p.bottom, p.right];
                let pads = pads.map(|v| v as i64);
                let pads = self.int_initialiser(format!("{name}/pads"), &pads);
                self.emit("Pad", name, &[&input, &pads], vec![]);
                flat = false;
            }
            Op::Flatten => {
                self.emit("Flatten", name, &[&source.name], vec![int("axis", 1)]);
                flat = true;
            }
            Op::Linear { .. } => {
                let mut inputs = vec![self.flat(first)];
                inputs.extend(self.parameters(id));
                let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                self.emit("Gemm", name, &inputs, vec![int("transB", 1)]);
                flat = true;
            }
        }
        Value {
            name: name.into(),
            flat,
        }
    }

    /// `scale * x + shift` as one or two nodes.
    fn affine(&mut self, name: &str, source: &Value, scale: &[f32], shift: &[f32]) {
        let shifted = shift.iter().any(|&v| v != 0.0);
        let scaled = scale.iter().any(|&v| v != 1.0) || !shifted;
        let mut value = source.name.clone();
        if scaled {
            let scale = self.per_channel(format!("{name}/scale"), scale, source.flat);
            let product = match shifted {
                true => format!("{name}/product"),
                false => name.to_string(),
            };
            self.emit("Mul", &product, &[&value, &scale], vec![]);
            value = product;
        }
        if shifted {
            let shift = self.per_channel(format!("{name}/shift"), shift, source.flat);
            self.emit("Add", name, &[&value, &shift], vec![]);
        }
    }

    fn activation(&mut self, name: &str, input: &str, activation: Activation) {
        match activation {
            Activation::Relu => self.emit("Relu", name, &[input], vec![]),
            Activation::LeakyRelu { slope } => {
                self.emit("LeakyRelu", name, &[input], vec![float("alpha", slope)]);
            }
            Activation::Clip { low, high } => {
                let low = self.initialiser(format!("{name}/low"), &[], &[low]);
                let high = self.initialiser(format!("{name}/high"), &[], &[high]);
                self.emit("Clip", name, &[input, &low, &high], vec![]);
            }
            Activation::Sigmoid => self.emit("Sigmoid", name, &[input], vec![]),
            Activation::HardSigmoid { slope, offset } => {
                let attributes = vec![float("alpha", slope), float("beta", offset)];
                self.emit("HardSigmoid", name, &[input], attributes);
            }
            Activation::HardSwish => self.emit("HardSwish", name, &[input], vec![]),
            Activation::Gelu { tanh } => {
                let approximate = text("approximate", if tanh { "tanh" } else { "none" });
                self.emit("Gelu", name, &[input], vec![approximate]);
            }
            Activation::Silu => {
                let gate = format!("{name}/sigmoid");
                self.emit("Sigmoid", &gate, &[input], vec![]);
                self.emit("Mul", name, &[input, &gate], vec![]);
            }
            Activation::Tanh => self.emit("Tanh", name, &[input], vec![]),
        }
    }
}

/// An input or output of any batch size.
fn value_info(name: &str, sizes: &[usize]) -> ValueInfoProto {
    let batch = DimensionProto {
        dim_param: Some("N".into()),
        dim_value: None,
    };
    let fixed = sizes.iter().map(|&size| DimensionProto {
        dim_value: Some(size as i64),
        dim_param: None,
    });
    let dim = std::iter::once(batch).chain(fixed).collect();
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorTypeProto {
                elem_type: Some(data_type::FLOAT),
                shape: Some(TensorShapeProto { dim }),
            }),
        }),
    }
}
