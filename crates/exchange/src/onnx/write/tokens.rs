//! Values of the network's own, layer norms and products of matrices.

use network::{NodeId, Op};

use super::Writer;
use super::fields::{float, int, ints};
use super::layouts::{Layout, Value};
use crate::onnx::proto::AttributeProto;

impl Writer<'_> {
    /// A constant as `1 x H x W x C`: a parameter under its own name, or what is
    /// taken of it.
    pub(super) fn constant(&mut self, id: NodeId) -> Value {
        let shape = self.graph().shape(id);
        let sizes = [1, shape.height, shape.width, shape.channels];
        let node = self.graph().nodes()[id].clone();
        let name = node.name;
        let Op::Rearrange(rearrange) = node.op else {
            let values = self.model.graph.parameters_of(id).start;
            let values = self.model.parameters.get(values);
            let name = self.initialiser(name, &sizes, values);
            let layout = Layout::Last;
            return Value { name, layout };
        };
        let source = self.values[node.inputs[0]].name.clone();
        let (flat, all) = (format!("{name}/flat"), format!("{name}/all"));
        let all = self.int_initialiser(all, &[-1]);
        self.emit("Reshape", &flat, &[&source, &all], vec![]);
        let mut places = Vec::with_capacity(shape.len());
        rearrange.places(|place| places.push(place as i64));
        let places = self.int_initialiser(format!("{name}/places"), &places);
        let picked = format!("{name}/picked");
        self.emit("Gather", &picked, &[&flat, &places], vec![int("axis", 0)]);
        self.reshape(&picked, &name, &sizes);
        let layout = Layout::Last;
        Value { name, layout }
    }

    /// A constant once for each image of the batch, for operators that do not spread
    /// it themselves.
    pub(super) fn for_each_image(&mut self, id: NodeId, layout: Layout) -> String {
        let value = self.laid_out(id, layout);
        let shape = self.graph().shape(id);
        let sizes = match layout {
            Layout::Vector => vec![shape.channels],
            Layout::First => vec![shape.channels, shape.height, shape.width],
            Layout::Last => vec![shape.height, shape.width, shape.channels],
        };
        let each = format!("{value}/each");
        if !self.made(&each) {
            let batch = "image/batch";
            if !self.made(batch) {
                let range = vec![int("start", 0), int("end", 1)];
                self.emit("Shape", batch, &["image"], range);
            }
            let sizes: Vec<i64> = sizes.into_iter().map(|size| size as i64).collect();
            let sizes = self.int_initialiser(format!("{each}-sizes"), &sizes);
            let all = format!("{each}-shape");
            self.emit("Concat", &all, &[batch, &sizes], vec![int("axis", 0)]);
            self.emit("Expand", &each, &[&value, &all], vec![]);
        }
        each
    }

    /// Products of matrices, `N x H x W x C`.
    pub(super) fn mat_mul(&mut self, id: NodeId, transposed: bool) {
        let node = self.graph().nodes()[id].clone();
        let first = self.channels_last(node.inputs[0]);
        let mut second = self.channels_last(node.inputs[1]);
        if transposed {
            second = self.permuted(&second, "transposed", &[0, 1, 3, 2]);
        }
        self.emit("MatMul", &node.name, &[&first, &second], vec![]);
    }

    /// A layer norm, or the steps of one that ONNX has no operator for.
    pub(super) fn layer_norm(&mut self, id: NodeId) -> Layout {
        let node = self.graph().nodes()[id].clone();
        let Op::LayerNorm {
            groups,
            over_pixels,
            centred,
            epsilon,
            scale,
            shift,
        } = node.op
        else {
            unreachable!("a layer norm")
        };
        let (name, shape) = (node.name.as_str(), self.graph().shape(id));
        let channels = shape.channels;
        if over_pixels && centred {
            self.group_norm(id, groups, epsilon, (scale, shift));
            return Layout::First;
        }
        let source = self.channels_last(node.inputs[0]);
        let mut parameters = self.parameters(id).into_iter();
        let (scale, shift) = (
            scale.then(|| parameters.next().unwrap_or_default()),
            shift.then(|| parameters.next().unwrap_or_default()),
        );
        if groups == 1 && !over_pixels && centred {
            let scale = scale.unwrap_or_else(|| {
                self.initialiser(format!("{name}.weight"), &[channels], &vec![1.0; channels])
            });
            let mut inputs = vec![source.as_str(), &scale];
            inputs.extend(shift.as_deref());
            let attributes = vec![float("epsilon", epsilon)];
            self.emit("LayerNormalization", name, &inputs, attributes);
            return Layout::Last;
        }
        let part = |part: &str| format!("{name}/{part}");
        let mut value = part("grouped");
        self.reshape(
            &source,
            &value,
            &[0, shape.pixels(), groups, channels / groups],
        );
        let axes: &[usize] = if over_pixels { &[1, 3] } else { &[3] };
        if centred {
            self.mean(&value, &part("mean"), axes);
            self.emit("Sub", &part("centred"), &[&value, &part("mean")], vec![]);
            value = part("centred");
        }
        self.emit("Mul", &part("square"), &[&value, &value], vec![]);
        self.mean(&part("square"), &part("variance"), axes);
        let epsilon = self.initialiser(part("epsilon"), &[], &[epsilon]);
        self.emit("Add", &part("sum"), &[&part("variance"), &epsilon], vec![]);
        self.emit("Sqrt", &part("deviation"), &[&part("sum")], vec![]);
        self.emit(
            "Div",
            &part("normal"),
            &[&value, &part("deviation")],
            vec![],
        );
        let last = |value: &str, ends: bool| if ends { name.to_string() } else { part(value) };
        let ends = scale.is_none() && shift.is_none();
        let mut value = last("image", ends);
        self.reshape(
            &part("normal"),
            &value,
            &[0, shape.height, shape.width, channels],
        );
        if let Some(scale) = scale {
            let product = last("product", shift.is_none());
            self.emit("Mul", &product, &[&value, &scale], vec![]);
            value = product;
        }
        if let Some(shift) = shift {
            self.emit("Add", name, &[&value, &shift], vec![]);
        }
        Layout::Last
    }

    /// A group norm: of each group as one channel, then the factors.
    fn group_norm(&mut self, id: NodeId, groups: usize, epsilon: f32, factors: (bool, bool)) {
        let node = self.graph().nodes()[id].clone();
        let (name, shape) = (node.name.as_str(), self.graph().shape(id));
        let part = |part: &str| format!("{name}/{part}");
        let source = self.image(node.inputs[0]);
        let inner = shape.channels / groups * shape.pixels();
        self.reshape(&source, &part("grouped"), &[0, groups, inner]);
        let ones = self.initialiser(part("ones"), &[groups], &vec![1.0; groups]);
        let zeros = self.initialiser(part("zeros"), &[groups], &vec![0.0; groups]);
        let inputs = [part("grouped"), ones, zeros];
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let attributes = vec![float("epsilon", epsilon)];
        self.emit(
            "InstanceNormalization",
            &part("normal"),
            &inputs,
            attributes,
        );
        let (scale, shift) = factors;
        let end = |value: &str, ends: bool| if ends { name.to_string() } else { part(value) };
        let mut value = end("image", !scale && !shift);
        let image = [0, shape.channels, shape.height, shape.width];
        self.reshape(&part("normal"), &value, &image);
        let range = self.model.graph.parameters_of(id);
        let channels = |writer: &mut Self, at: usize, suffix: &str| {
            let values = writer.model.parameters.get(at);
            writer.per_channel(part(suffix), values, Layout::First)
        };
        if scale {
            let factor = channels(self, range.start, "scale");
            let product = end("product", !shift);
            self.emit("Mul", &product, &[&value, &factor], vec![]);
            value = product;
        }
        if shift {
            let offset = channels(self, range.end - 1, "shift");
            self.emit("Add", name, &[&value, &offset], vec![]);
        }
    }

    /// The mean along some dimensions, which stay with one element.
    fn mean(&mut self, input: &str, name: &str, axes: &[usize]) {
        let mut inputs = vec![input.to_string()];
        let mut attributes: Vec<AttributeProto> = vec![int("keepdims", 1)];
        if self.opset < 18 {
            attributes.push(ints("axes", axes));
        } else {
            let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
            inputs.push(self.int_initialiser(format!("{name}/axes"), &axes));
        }
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        self.emit("ReduceMean", name, &inputs, attributes);
    }
}
