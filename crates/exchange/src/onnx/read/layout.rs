//! Operators that move values: reshaping, padding, joining.

use network::{Op, Padding};

use super::shapes::{Slices, axis, permutation, squeezed, target_shape, unsqueezed};
use super::view::{Axis, View, long};
use super::{Activation, Importer, Refusal, Site, Value};
use crate::onnx::constant::Constant;
use crate::onnx::proto::data_type;

impl Importer<'_> {
    /// The shape of a value as a constant.
    pub(super) fn shape(&mut self, site: &Site<'_>) -> Result<Value, Refusal> {
        let sizes = self.sizes(site.activation(0)?);
        let ends = ["start", "end"].map(|name| site.attributes.int(name));
        let range = (ends[0].unwrap_or(0), ends[1].unwrap_or(i64::MAX), 1);
        let (start, count, _) = Slices::resolve(range, sizes.len())?;
        let part = sizes[start..start + count].iter().map(|&d| d as i64);
        Ok(Value::Constant(Constant::ints(part.collect()).into()))
    }

    pub(super) fn cast(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let to = site.attributes.int("to").unwrap_or(0);
        let floats = [
            data_type::FLOAT,
            data_type::FLOAT16,
            data_type::DOUBLE,
            data_type::BFLOAT16,
        ];
        if !floats.iter().any(|&kind| i64::from(kind) == to) {
            return Err("activations stay floats".into());
        }
        Ok(site.activation(0)?.clone())
    }

    /// Reshape, Flatten, Squeeze and Unsqueeze: another view of the same node.
    pub(super) fn reshape(&mut self, op: &str, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?;
        let sizes = self.sizes(x);
        let axes = match site.constant(1)? {
            Some(axes) => axes.as_ints(),
            None => site.attributes.ints("axes"),
        };
        let wanted = match op {
            "Flatten" => {
                let axis = site.attributes.axis("axis", 1, sizes.len() + 1)?;
                let (a, b) = sizes.split_at(axis);
                vec![a.iter().product(), b.iter().product()]
            }
            "Squeeze" => squeezed(&sizes, axes)?,
            "Unsqueeze" => unsqueezed(&sizes, axes.ok_or("no axes")?)?,
            _ => {
                let zeros = site.attributes.int("allowzero") != Some(1);
                target_shape(&sizes, axes.ok_or("no constant shape")?, zeros)?
            }
        };
        let shape = self.node_shape(x);
        let view = match wanted.split_first() {
            Some((&batch, rest)) if batch == self.batch => x.view.reshaped(shape, rest),
            _ => None,
        };
        let view = view.ok_or_else(|| format!("cannot make {wanted:?} of {sizes:?}"))?;
        let node = x.node;
        Ok(Activation { node, view })
    }

    pub(super) fn transpose(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?;
        let rank = x.view.0.len() + 1;
        let perm = permutation(site.attributes.ints("perm"), rank)?;
        if perm[0] != 0 {
            return Err("moves the batch".into());
        }
        let dims = perm[1..].iter().map(|&p| x.view.0[p - 1].clone());
        let view = View(dims.collect());
        let node = x.node;
        Ok(Activation { node, view })
    }

    /// Every n-th row and column.
    pub(super) fn slice(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?;
        let (shape, sizes) = (self.node_shape(x), self.sizes(x));
        let slices = Slices::new(&site.attributes, &site.constants(), self.opset)?;
        let mut stride = [1, 1];
        for &(along, start, end, step) in &slices.0 {
            let along = axis(along, sizes.len())?;
            let (first, count, step) = Slices::resolve((start, end, step), sizes[along])?;
            if (first, count, step) == (0, sizes[along], 1) {
                continue;
            }
            let step = usize::try_from(step).unwrap_or(usize::MAX);
            let whole = first == 0 && count == sizes[along].div_ceil(step);
            let dim = match along {
                0 => &[][..],
                dim => &x.view.0[dim - 1],
            };
            match long(shape, dim)[..] {
                [Axis::Height] if whole => stride[0] = step,
                [Axis::Width] if whole => stride[1] = step,
                _ => {
                    return Err("takes a part that is not every n-th pixel from the first".into());
                }
            }
        }
        let mut node = x.node;
        if stride != [1, 1] {
            node = self
                .sketch
                .layer(&site.name, Op::Subsample { stride }, node, vec![])?;
        }
        let view = x.view.clone();
        Ok(Activation { node, view })
    }

    /// Zeros around the image and the channels.
    pub(super) fn pad(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?;
        let rank = x.view.0.len() + 1;
        if !matches!(site.attributes.text("mode"), None | Some("constant")) {
            return Err("only zeros are padded".into());
        }
        let value = match self.opset {
            ..11 => site.attributes.float("value").map(f64::from),
            _ => site.constant(2)?.and_then(Constant::scalar),
        };
        if value.is_some_and(|value| value != 0.0) {
            return Err("only zeros are padded".into());
        }
        let pads = match self.opset {
            ..11 => site.attributes.ints("pads"),
            _ => site.constant(1)?.and_then(Constant::as_ints),
        };
        let pads = pads.ok_or("no constant pads")?;
        let axes: Vec<usize> = match site.constant(3)?.and_then(Constant::as_ints) {
            Some(axes) => {
                let axes = axes.iter().map(|&a| axis(a, rank));
                axes.collect::<Result<_, Refusal>>()?
            }
            None => (0..rank).collect(),
        };
        if pads.len() != 2 * axes.len() {
            return Err(format!("{} pads for {} axes", pads.len(), axes.len()).into());
        }
        let (mut padding, mut channels) = (Padding::default(), [0, 0]);
        for (i, &along) in axes.iter().enumerate() {
            let size = |value: i64| {
                let size = usize::try_from(value).ok();
                size.ok_or_else(|| format!("a padding of {value}"))
            };
            let (before, after) = (size(pads[i])?, size(pads[i + axes.len()])?);
            if (before, after) == (0, 0) {
                continue;
            }
            let dim = match along {
                0 => &[][..],
                along => &x.view.0[along - 1],
            };
            match dim {
                [Axis::Height] => (padding.top, padding.bottom) = (before, after),
                [Axis::Width] => (padding.left, padding.right) = (before, after),
                [Axis::Channel] => channels = [before, after],
                _ => return Err(format!("cannot pad dimension {along}").into()),
            }
        }
        let mut node = x.node;
        if padding != Padding::default() || channels != [0, 0] {
            let op = Op::Pad { padding, channels };
            node = self.sketch.layer(&site.name, op, node, vec![])?;
        }
        let view = x.view.clone();
        Ok(Activation { node, view })
    }

    /// Channels of several images, or several vectors.
    pub(super) fn concat(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let inputs = (0..site.inputs.len()).map(|i| site.activation(i).cloned());
        let inputs: Vec<Activation> = inputs.collect::<Result<_, Refusal>>()?;
        let first = &inputs[0];
        let rank = first.view.0.len() + 1;
        let along = axis(site.attributes.int("axis").unwrap_or(1), rank)?;
        if along == 0 {
            return Err("joins batches".into());
        }
        if rank == 2 {
            let mut nodes = Vec::with_capacity(inputs.len());
            for input in &inputs {
                match self.vector(&site.name, input)? {
                    (node, None) => nodes.push(node),
                    _ => return Err("a flattened image with its channels last".into()),
                }
            }
            let node = self.sketch.concat(&site.name, &nodes)?;
            let view = View::vector();
            return Ok(Activation { node, view });
        }
        // Whatever the sizes, the channels must be what is joined.
        let layout = |x: &Activation| {
            let shape = self.node_shape(x);
            let dims = x.view.0.iter().enumerate();
            let dims = dims.map(|(d, axes)| {
                let axes = long(shape, axes);
                let joined = axes.is_empty() || axes == [Axis::Channel];
                match d + 1 == along {
                    true => joined.then(|| vec![Axis::Channel]),
                    false => (!axes.contains(&Axis::Channel)).then_some(axes),
                }
            });
            dims.collect::<Option<Vec<_>>>().map(View)
        };
        let view = layout(first).ok_or("joins something else than channels")?;
        if inputs.iter().any(|x| layout(x).as_ref() != Some(&view)) {
            return Err("inputs of different layouts".into());
        }
        let nodes: Vec<usize> = inputs.iter().map(|x| x.node).collect();
        let node = self.sketch.concat(&site.name, &nodes)?;
        let view = view.settled(self.sketch.shape(node));
        Ok(Activation { node, view })
    }
}
