//! What each operator becomes.

use network::{Activation, NodeId, Op};

use super::Writer;
use super::fields::{float, int, text, window_attributes};
use super::layouts::{Layout, Value};

impl Writer<'_> {
    /// Writes node `id`; returns the value that it makes.
    pub(super) fn node(&mut self, id: NodeId) -> Value {
        let node = self.graph().nodes()[id].clone();
        let name = node.name.as_str();
        if self.constants[id] {
            return self.constant(id);
        }
        let first = node.inputs[0];
        let source = self.values[first].clone();
        let mut layout = source.layout;
        match &node.op {
            Op::Input { .. } | Op::Parameter { .. } => unreachable!("reads nothing"),
            Op::Foreign { .. } => unreachable!("only its own program can write it"),
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
                layout = Layout::First;
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
                if layout == Layout::Last {
                    layout = Layout::First;
                    inputs.insert(0, self.image(first));
                } else {
                    inputs.insert(0, source.name);
                }
                let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                let attributes = vec![
                    float("epsilon", *epsilon),
                    float("momentum", 1.0 - momentum),
                ];
                self.emit("BatchNormalization", name, &inputs, attributes);
            }
            Op::Activation(activation) => self.activation(name, &source.name, *activation),
            Op::AveragedRelu => self.averaged_relu(id, &source),
            Op::Add | Op::Mul | Op::Concat => {
                layout = self.common_layout(&node.inputs);
                let spread = node.op == Op::Concat;
                let inputs = node.inputs.iter();
                let inputs: Vec<String> = inputs
                    .map(|&input| match spread && self.constants[input] {
                        true => self.for_each_image(input, layout),
                        false => self.laid_out(input, layout),
                    })
                    .collect();
                let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                let (op, attributes) = match node.op {
                    Op::Add => ("Add", vec![]),
                    Op::Mul => ("Mul", vec![]),
                    _ if layout == Layout::Last => ("Concat", vec![int("axis", 3)]),
                    _ => ("Concat", vec![int("axis", 1)]),
                };
                self.emit(op, name, &inputs, attributes);
            }
            Op::MaxPool { window } => {
                let input = self.image(first);
                self.emit("MaxPool", name, &[&input], window_attributes(window));
                layout = Layout::First;
            }
            Op::AveragePool {
                window,
                count_padding,
            } => {
                let input = self.image(first);
                let mut attributes = window_attributes(window);
                attributes.push(int("count_include_pad", (*count_padding).into()));
                self.emit("AveragePool", name, &[&input], attributes);
                layout = Layout::First;
            }
            Op::GlobalAveragePool => {
                let input = self.image(first);
                self.emit("GlobalAveragePool", name, &[&input], vec![]);
                layout = Layout::First;
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
                layout = Layout::First;
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
                layout = Layout::First;
            }
            Op::Flatten => {
                let input = match layout {
                    Layout::Vector => source.name,
                    _ => self.image(first),
                };
                self.emit("Flatten", name, &[&input], vec![int("axis", 1)]);
                layout = Layout::Vector;
            }
            Op::Linear { .. } => {
                let mut inputs = vec![self.flat(first)];
                inputs.extend(self.parameters(id));
                let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
                self.emit("Gemm", name, &inputs, vec![int("transB", 1)]);
                layout = Layout::Vector;
            }
            Op::LayerNorm { .. } => layout = self.layer_norm(id),
            Op::MatMul { transposed } => {
                self.mat_mul(id, *transposed);
                layout = Layout::Last;
            }
            Op::Softmax => {
                let axis = if layout == Layout::Last { 3 } else { 1 };
                self.emit("Softmax", name, &[&source.name], vec![int("axis", axis)]);
            }
            Op::Rearrange(rearrange) => {
                self.rearrange(name, first, rearrange);
                layout = Layout::Last;
            }
        }
        Value {
            name: name.into(),
            layout,
        }
    }

    /// `scale * x + shift` as one or two nodes.
    fn affine(&mut self, name: &str, source: &Value, scale: &[f32], shift: &[f32]) {
        let shifted = shift.iter().any(|&v| v != 0.0);
        let scaled = scale.iter().any(|&v| v != 1.0) || !shifted;
        let mut value = source.name.clone();
        if scaled {
            let scale = self.per_channel(format!("{name}/scale"), scale, source.layout);
            let product = match shifted {
                true => format!("{name}/product"),
                false => name.to_string(),
            };
            self.emit("Mul", &product, &[&value, &scale], vec![]);
            value = product;
        }
        if shifted {
            let shift = self.per_channel(format!("{name}/shift"), shift, source.layout);
            self.emit("Add", name, &[&value, &shift], vec![]);
        }
    }

    /// `width * (Gelu(u) + phi(u))` with `u = x / width`, for which ONNX has no
    /// node of its own.
    fn averaged_relu(&mut self, id: NodeId, source: &Value) {
        let name = self.graph().nodes()[id].name.clone();
        let width = self.model.graph.parameters_of(id).start;
        let width = self.model.parameters.get(width).iter();
        // No width is 0, which would be divided by: so narrow an average is the ReLU.
        let width: Vec<f32> = width.map(|w| w.max(1e-6)).collect();
        let inverse: Vec<f32> = width.iter().map(|w| 1.0 / w).collect();
        let part = |part: &str| Value {
            name: format!("{name}/{part}"),
            layout: source.layout,
        };
        let (u, gelu, square) = (part("u"), part("gelu"), part("square"));
        self.affine(&u.name, source, &inverse, &[0.0]);
        self.activation(&gelu.name, &u.name, Activation::Gelu { tanh: false });
        self.emit("Mul", &square.name, &[&u.name, &u.name], vec![]);
        let (exponent, exponential) = (part("exponent"), part("exponential"));
        self.affine(&exponent.name, &square, &[-0.5], &[0.0]);
        self.activation(&exponential.name, &exponent.name, Activation::Exp);
        let (density, sum) = (part("density"), part("sum"));
        let peak = (0.5 * std::f64::consts::FRAC_1_PI).sqrt() as f32;
        self.affine(&density.name, &exponential, &[peak], &[0.0]);
        self.emit("Add", &sum.name, &[&gelu.name, &density.name], vec![]);
        self.affine(&name, &sum, &width, &[0.0]);
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
            Activation::Exp => self.emit("Exp", name, &[input], vec![]),
            Activation::Tanh => self.emit("Tanh", name, &[input], vec![]),
        }
    }
}
