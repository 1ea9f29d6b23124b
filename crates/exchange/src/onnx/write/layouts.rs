//! How a node's value lies in ONNX.

use network::NodeId;

use super::Writer;
use super::fields::{int, ints};

/// The order of a value's dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// N x K.
    Vector,
    /// N x C x H x W.
    First,
    /// N x H x W x C.
    Last,
}

/// An ONNX value.
#[derive(Clone)]
pub(super) struct Value {
    pub name: String,
    pub layout: Layout,
}

impl Writer<'_> {
    /// A node's value as N x K; the node's shape is 1 x 1 x K.
    pub(super) fn flat(&mut self, id: NodeId) -> String {
        let Value { name, layout } = self.values[id].clone();
        if layout == Layout::Vector {
            return name;
        }
        let vector = format!("{name}/vector");
        if !self.made(&vector) {
            self.emit("Flatten", &vector, &[&name], vec![int("axis", 1)]);
        }
        vector
    }

    /// A node's value as N x C x H x W.
    pub(super) fn image(&mut self, id: NodeId) -> String {
        let Value { name, layout } = self.values[id].clone();
        match layout {
            Layout::First => name,
            Layout::Vector => self.unsqueezed(&name, "image", [2, 3]),
            Layout::Last => self.permuted(&name, "image", &[0, 3, 1, 2]),
        }
    }

    /// A node's value as N x H x W x C.
    pub(super) fn channels_last(&mut self, id: NodeId) -> String {
        let Value { name, layout } = self.values[id].clone();
        match layout {
            Layout::Last => name,
            Layout::Vector => self.unsqueezed(&name, "last", [1, 2]),
            Layout::First => self.permuted(&name, "last", &[0, 2, 3, 1]),
        }
    }

    pub(super) fn laid_out(&mut self, id: NodeId, layout: Layout) -> String {
        match layout {
            Layout::Vector => self.flat(id),
            Layout::First => self.image(id),
            Layout::Last => self.channels_last(id),
        }
    }

    /// The layout in which several values are best joined or added.
    pub(super) fn common_layout(&self, ids: &[NodeId]) -> Layout {
        let computed = ids.iter().filter(|&&id| !self.constants[id]);
        let mut layouts = computed.map(|&id| self.values[id].layout);
        let first = layouts.next().unwrap_or(Layout::First);
        let flat = |&id: &NodeId| self.graph().shape(id).pixels() == 1;
        match first {
            Layout::Vector if !ids.iter().all(flat) => Layout::First,
            first if layouts.all(|layout| layout == first) => first,
            _ => Layout::First,
        }
    }

    fn unsqueezed(&mut self, name: &str, part: &str, axes: [i64; 2]) -> String {
        let image = format!("{name}/{part}");
        if !self.made(&image) {
            let list = match part {
                "image" => format!("{name}/axes"),
                part => format!("{name}/{part}-axes"),
            };
            let axes = self.int_initialiser(list, &axes);
            self.emit("Unsqueeze", &image, &[name, &axes], vec![]);
        }
        image
    }

    /// The dimensions in another order.
    pub(super) fn permuted(&mut self, name: &str, part: &str, order: &[usize]) -> String {
        let turned = format!("{name}/{part}");
        if !self.made(&turned) {
            self.emit("Transpose", &turned, &[name], vec![ints("perm", order)]);
        }
        turned
    }

    /// Constants per channel, shaped to fit a value.
    pub(super) fn per_channel(&mut self, name: String, values: &[f32], layout: Layout) -> String {
        match (values.len(), layout) {
            (1, _) => self.initialiser(name, &[], values),
            (n, Layout::First) => self.initialiser(name, &[n, 1, 1], values),
            (n, _) => self.initialiser(name, &[n], values),
        }
    }
}
