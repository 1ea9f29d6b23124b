//! Operators with weights, and pooling.

use kernels::geometry::{Padding, Shape, Window};

use super::attributes::{Attributes, extent};
use super::evaluate::axis;
use super::view::{Axis, View, long};
use super::{Activation, Importer, Refusal, Site};
use crate::graph::NodeId;
use crate::op::Op;

/// What a layer with weights is called: as its weight where that has a telling
/// name, `layer1.0.conv1.weight`, else as the node.
fn layer_name(site: &Site<'_>, weight: usize) -> String {
    let weight = site.proto.input.get(weight).map(String::as_str);
    let telling = weight.and_then(|name| name.strip_suffix(".weight"));
    telling
        .filter(|name| !name.is_empty())
        .unwrap_or(&site.name)
        .into()
}

/// The window that attributes describe, on an input of this shape.
fn window(
    attributes: &Attributes<'_>,
    kernel: [usize; 2],
    input: Shape,
) -> Result<Window, Refusal> {
    let stride = attributes.pair("strides")?.unwrap_or([1, 1]);
    let dilation = attributes.pair("dilations")?.unwrap_or([1, 1]);
    if kernel.contains(&0) || stride.contains(&0) || dilation.contains(&0) {
        return Err("a kernel, stride or dilation of 0".into());
    }
    let same = |axis: usize| {
        let size = [input.height, input.width][axis];
        let reach = (kernel[axis] - 1) * dilation[axis] + 1;
        ((size.div_ceil(stride[axis]) - 1) * stride[axis] + reach).saturating_sub(size)
    };
    let (v, h) = (same(0), same(1));
    let padding = match attributes.text("auto_pad") {
        None | Some("" | "NOTSET") => match attributes.ints("pads") {
            None | Some([]) => Padding::default(),
            Some(&[top, left, bottom, right]) => Padding {
                top: extent(top)?,
                left: extent(left)?,
                bottom: extent(bottom)?,
                right: extent(right)?,
            },
            Some(other) => return Err(format!("padding {other:?}").into()),
        },
        Some("VALID") => Padding::default(),
        Some("SAME_UPPER") => Padding {
            top: v / 2,
            left: h / 2,
            bottom: v - v / 2,
            right: h - h / 2,
        },
        Some("SAME_LOWER") => Padding {
            top: v - v / 2,
            left: h - h / 2,
            bottom: v / 2,
            right: h / 2,
        },
        Some(other) => return Err(format!("auto_pad `{other}`").into()),
    };
    Ok(Window {
        kernel,
        stride,
        padding,
        dilation,
    })
}

/// Padding at the bottom and on the right that makes room for the last, partial
/// windows of `ceil_mode`; a window that would start behind the image and its
/// own padding does not count.
fn ceil_padding(window: &Window, input: Shape) -> [usize; 2] {
    let p = window.padding;
    let extra = |axis: usize, size: usize, before: usize, after: usize| {
        let (kernel, stride) = (window.kernel[axis], window.stride[axis]);
        let reach = (kernel - 1) * window.dilation[axis] + 1;
        let padded = size + before + after;
        let mut steps = padded.saturating_sub(reach).div_ceil(stride);
        if steps * stride >= size + before {
            steps = steps.saturating_sub(1);
        }
        (steps * stride + reach).saturating_sub(padded)
    };
    [
        extra(0, input.height, p.top, p.bottom),
        extra(1, input.width, p.left, p.right),
    ]
}

impl Importer<'_> {
    /// Convolution of images.
    pub(super) fn conv(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = self.image(site.activation(0)?)?;
        let weight = site.weight(1)?;
        let &[out_channels, in_channels, kh, kw] = &weight.shape[..] else {
            return Err(format!("only images are convolved, not {:?}", weight.shape).into());
        };
        let groups = extent(site.attributes.int("group").unwrap_or(1))?;
        let channels = self.sketch.shape(x).channels;
        if in_channels.checked_mul(groups) != Some(channels) {
            return Err(
                format!("{in_channels} channels in {groups} groups do not fit {channels}").into(),
            );
        }
        if kh >= 1 << 20 || kw >= 1 << 20 {
            return Err(format!("a kernel of {kh}x{kw}").into());
        }
        let window = window(&site.attributes, [kh, kw], self.sketch.shape(x))?;
        let bias = site.constant(2)?.map(|_| site.weight(2)).transpose()?;
        let mut values = vec![weight.as_floats().unwrap_or_default().to_vec()];
        values.extend(bias.and_then(|b| b.as_floats()).map(<[f32]>::to_vec));
        self.spend(values.iter().map(Vec::len).sum())?;
        let op = Op::Conv {
            out_channels,
            window,
            groups,
            bias: bias.is_some(),
        };
        let node = self.sketch.layer(&layer_name(site, 1), op, x, values)?;
        let view = View::nchw();
        Ok(Activation { node, view })
    }

    /// `alpha * x * B + beta * C`.
    pub(super) fn gemm(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let attributes = &site.attributes;
        if attributes.int("transA").unwrap_or(0) != 0 {
            return Err("transA is not supported".into());
        }
        let weight = site.weight(1)?;
        let &[rows, columns] = &weight.shape[..] else {
            return Err(format!("a weight of {:?}", weight.shape).into());
        };
        self.spend(weight.len())?;
        let alpha = attributes.float("alpha").unwrap_or(1.0);
        let scaled = weight
            .as_floats()
            .unwrap_or_default()
            .iter()
            .map(|w| alpha * w);
        let weight: Vec<f32> = scaled.collect();
        let (weight, out) = match attributes.int("transB").unwrap_or(0) {
            0 => (transposed(&weight, rows, columns), columns),
            _ => (weight, rows),
        };
        let beta = attributes.float("beta").unwrap_or(1.0);
        let bias = match site.constant(2)? {
            None => None,
            Some(_) => {
                let bias = site.weight(2)?;
                let bias: Vec<f32> = bias
                    .as_floats()
                    .unwrap_or_default()
                    .iter()
                    .map(|b| beta * b)
                    .collect();
                match bias.len() {
                    1 => {
                        self.spend(out)?;
                        Some(vec![bias[0]; out])
                    }
                    n if n == out => Some(bias),
                    n => return Err(format!("{n} offsets for {out} features").into()),
                }
            }
        };
        self.linear(site, out, weight, bias)
    }

    /// `x * B` with a constant matrix.
    pub(super) fn matmul(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let weight = site.weight(1)?;
        let &[rows, columns] = &weight.shape[..] else {
            return Err(format!("a weight of {:?}", weight.shape).into());
        };
        self.spend(weight.len())?;
        let values = transposed(weight.as_floats().unwrap_or_default(), rows, columns);
        self.linear(site, columns, values, None)
    }

    /// A linear layer on a vector, or on the channels of every pixel; `weight`
    /// is out x in.
    fn linear(
        &mut self,
        site: &Site<'_>,
        out_features: usize,
        mut weight: Vec<f32>,
        bias: Option<Vec<f32>>,
    ) -> Result<Activation, Refusal> {
        let activation = site.activation(0)?.clone();
        let name = layer_name(site, 1);
        let has_bias = bias.is_some();
        let inputs = *self.sizes(&activation).last().unwrap_or(&0);
        if inputs.checked_mul(out_features) != Some(weight.len()) {
            let n = weight.len();
            return Err(format!("{n} weights for {inputs} to {out_features} features").into());
        }
        if activation.view.0.len() == 1 {
            let (x, order) = self.vector(&name, &activation)?;
            if let Some(order) = order {
                let rows = weight.chunks_exact(inputs);
                weight = rows.flat_map(|row| order.iter().map(|&i| row[i])).collect();
            }
            let values = [weight].into_iter().chain(bias).collect();
            let op = Op::Linear {
                out_features,
                bias: has_bias,
            };
            let node = self.sketch.layer(&name, op, x, values)?;
            let view = View::vector();
            return Ok(Activation { node, view });
        }
        if activation.view.0.last().map(Vec::as_slice) != Some(&[Axis::Channel]) {
            let sizes = self.sizes(&activation);
            return Err(format!("wants the channels last, got {sizes:?}").into());
        }
        let op = Op::Conv {
            out_channels: out_features,
            window: Window::square(1, 1, 0),
            groups: 1,
            bias: has_bias,
        };
        let values = [weight].into_iter().chain(bias).collect();
        let node = self.sketch.layer(&name, op, activation.node, values)?;
        let view = activation.view;
        Ok(Activation { node, view })
    }

    pub(super) fn batch_norm(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let mut x = site.activation(0)?.clone();
        let name = layer_name(site, 1);
        let shape = self.node_shape(&x);
        if x.view.0.len() == 1 && long(shape, &x.view.0[0]) != long(shape, &[Axis::Channel]) {
            let (node, order) = self.vector(&name, &x)?;
            if order.is_some() {
                return Err("a flattened image with its channels last".into());
            }
            let view = View::vector();
            x = Activation { node, view };
        }
        let shape = self.node_shape(&x);
        let channels = x
            .view
            .0
            .first()
            .is_some_and(|dim| long(shape, dim) == long(shape, &[Axis::Channel]));
        if !channels {
            return Err(format!("wants the channels first, got {:?}", self.sizes(&x)).into());
        }
        if site.attributes.int("training_mode").unwrap_or(0) != 0 {
            let note = format!("batch norm `{name}` was exported in training mode");
            self.notes.push(note + "; its running statistics are used");
        }
        let mut values = Vec::with_capacity(4);
        for index in 1..5 {
            values.push(site.weight(index)?.as_floats().unwrap_or_default().to_vec());
        }
        self.spend(values.iter().map(Vec::len).sum())?;
        let op = Op::BatchNorm {
            epsilon: site.attributes.float("epsilon").unwrap_or(1e-5),
            // ONNX counts what is kept, we count what is new.
            momentum: 1.0 - site.attributes.float("momentum").unwrap_or(0.9),
            scale: true,
            shift: true,
        };
        let node = self.sketch.layer(&name, op, x.node, values)?;
        let view = x.view;
        Ok(Activation { node, view })
    }

    /// The window of a pooling node, and what `ceil_mode` adds to it.
    fn pool_window(&self, site: &Site<'_>, x: NodeId) -> Result<(Window, [usize; 2]), Refusal> {
        let kernel = site
            .attributes
            .pair("kernel_shape")?
            .ok_or("no kernel_shape")?;
        let shape = self.sketch.shape(x);
        let window = window(&site.attributes, kernel, shape)?;
        let extra = match site.attributes.int("ceil_mode") {
            Some(1) => ceil_padding(&window, shape),
            _ => [0, 0],
        };
        Ok((window, extra))
    }

    pub(super) fn max_pool(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = self.image(site.activation(0)?)?;
        let (mut window, extra) = self.pool_window(site, x)?;
        // Padding never wins, so more of it changes nothing.
        window.padding.bottom += extra[0];
        window.padding.right += extra[1];
        let node = self
            .sketch
            .layer(&site.name, Op::MaxPool { window }, x, vec![])?;
        let view = View::nchw();
        Ok(Activation { node, view })
    }

    pub(super) fn average_pool(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let mut x = self.image(site.activation(0)?)?;
        let (mut window, extra) = self.pool_window(site, x)?;
        let mut count_padding = site.attributes.int("count_include_pad") == Some(1);
        if extra != [0, 0] {
            // What ceil_mode adds never counts: make the padding that does
            // part of the image.
            if count_padding && window.padding != Padding::default() {
                let pad = Op::Pad {
                    padding: std::mem::take(&mut window.padding),
                    channels: [0, 0],
                };
                x = self
                    .sketch
                    .layer(&format!("{}.pad", site.name), pad, x, vec![])?;
            }
            count_padding = false;
            window.padding.bottom += extra[0];
            window.padding.right += extra[1];
        }
        let op = Op::AveragePool {
            window,
            count_padding,
        };
        let node = self.sketch.layer(&site.name, op, x, vec![])?;
        let view = View::nchw();
        Ok(Activation { node, view })
    }

    /// Mean or maximum of all pixels; keeps the dimensions.
    pub(super) fn global_pool(&mut self, op: &str, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = self.image(site.activation(0)?)?;
        let node = self.over_pixels(op, &site.name, x)?;
        let view = View::nchw();
        Ok(Activation { node, view })
    }

    fn over_pixels(&mut self, op: &str, name: &str, x: NodeId) -> Result<NodeId, Refusal> {
        let shape = self.sketch.shape(x);
        if matches!(op, "GlobalMaxPool" | "ReduceMax") {
            let window = Window {
                kernel: [shape.height, shape.width],
                ..Window::square(1, 1, 0)
            };
            return Ok(self.sketch.layer(name, Op::MaxPool { window }, x, vec![])?);
        }
        let mean = self.sketch.layer(name, Op::GlobalAveragePool, x, vec![])?;
        if op == "ReduceSum" {
            let pixels = shape.pixels() as f32;
            let name = format!("{name}.sum");
            return Ok(self.sketch.affine(&name, mean, vec![pixels], vec![0.0])?);
        }
        Ok(mean)
    }

    /// Mean, sum or maximum over the pixels, in any layout.
    pub(super) fn reduce(&mut self, op: &str, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?;
        let sizes = self.sizes(x);
        let axes = match site.constant(1)? {
            Some(axes) => axes.as_ints(),
            None => site.attributes.ints("axes"),
        };
        let axes = axes.ok_or("reduces everything, the batch included")?;
        let mut reduced = Vec::new();
        for &a in axes {
            match axis(a, sizes.len())? {
                0 => return Err("reduces the batch".into()),
                dim if !reduced.contains(&(dim - 1)) => reduced.push(dim - 1),
                _ => {}
            }
        }
        let shape = self.node_shape(x);
        let gone: Vec<Axis> = reduced.iter().flat_map(|&d| x.view.0[d].clone()).collect();
        let gone = long(shape, &gone);
        let pixels = long(shape, &[Axis::Height, Axis::Width]);
        if gone.contains(&Axis::Channel) || !pixels.iter().all(|axis| gone.contains(axis)) {
            return Err(
                format!("{axes:?} of {sizes:?} are not all pixels and nothing else").into(),
            );
        }
        let node = self.over_pixels(op, &site.name, x.node)?;
        let mut view = x.view.clone();
        if site.attributes.int("keepdims") == Some(0) {
            let kept = view
                .0
                .into_iter()
                .enumerate()
                .filter(|(d, _)| !reduced.contains(d));
            view = View(kept.map(|(_, axes)| axes).collect());
        }
        let view = view.settled(self.sketch.shape(node));
        Ok(Activation { node, view })
    }
}

fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let column = |c: usize| (0..rows).map(move |r| values[r * columns + c]);
    (0..columns).flat_map(column).collect()
}
