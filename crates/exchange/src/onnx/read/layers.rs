//! Operators with weights, and pooling.

use network::{Op, Padding, Shape, Window};

use super::attributes::{Attributes, extent};
use super::{Activation, Importer, Refusal, Site, Value};

/// What a layer with weights is called: as its weight where that has a telling
/// name, `layer1.0.conv1.weight`, else as the node.
pub(super) fn layer_name(site: &Site<'_>, weight: usize) -> String {
    let weight = site.proto.input.get(weight).map(String::as_str);
    let telling = weight.and_then(|name| name.strip_suffix(".weight"));
    telling
        .filter(|name| !name.is_empty())
        .unwrap_or(&site.name)
        .into()
}

/// The window that attributes describe, on an input of this shape.
pub(super) fn window(
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

impl Importer<'_> {
    /// Convolution of images.
    pub(super) fn conv(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = self.image(&site.name, site.activation(0)?)?;
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
        Ok(self.as_image(node))
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

    /// `x * B`, with a constant matrix as a layer.
    pub(super) fn matmul(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let weight = match site.inputs.get(1) {
            Some(Some(Value::Constant(weight))) if weight.shape.len() == 2 => weight,
            _ => return self.product(site),
        };
        if weight.as_floats().is_none() {
            return Err("a weight that is no tensor of floats".into());
        }
        let &[rows, columns] = &weight.shape[..] else {
            return self.product(site);
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
        if activation.view.dims.len() == 2 && activation.view.batch_first(self.batch) {
            let (x, order) = self.vector_in_order(&name, &activation)?;
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
            return Ok(self.as_vector(node));
        }
        let activation = self.channels_last(&name, &activation, 1)?;
        let op = Op::Conv {
            out_channels: out_features,
            window: Window::square(1, 1, 0),
            groups: 1,
            bias: has_bias,
        };
        let values = [weight].into_iter().chain(bias).collect();
        let node = self.sketch.layer(&name, op, activation.node, values)?;
        Ok(self.pixelwise(node, &activation, 1))
    }

    pub(super) fn batch_norm(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let mut x = site.activation(0)?.clone();
        let name = layer_name(site, 1);
        let rank = x.view.dims.len();
        if rank < 2 || (rank > 2 && !x.view.batch_first(self.batch)) {
            return Err(format!("wants the channels first, got {:?}", self.sizes(&x)).into());
        }
        // Tokens of all images may stand in one dimension.
        if rank == 2 && x.view.batch_first(self.batch) {
            let node = self.vector(&name, &x)?;
            x = self.as_vector(node);
        } else {
            // The channels last, and back.
            let order = |from: usize, to: usize| {
                let mut order: Vec<usize> = (0..rank).collect();
                let dim = order.remove(from);
                order.insert(to, dim);
                order
            };
            x.view = x.view.permuted(&order(1, rank - 1));
            x = self.channels_last(&name, &x, 1)?;
            x.view = x.view.permuted(&order(rank - 1, 1));
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
            momentum: new_share(site.attributes.float("momentum").unwrap_or(0.9)),
            scale: true,
            shift: true,
        };
        let node = self.sketch.layer(&name, op, x.node, values)?;
        let view = x.view;
        Ok(Activation { node, view })
    }
}

/// ONNX counts the share that is kept, we count what is new; rounded, so that
/// 0.9 is 0.1 and not 0.100000024.
fn new_share(kept: f32) -> f32 {
    ((1.0 - f64::from(kept)) * 1e6).round() as f32 / 1e6
}

fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let column = |c: usize| (0..rows).map(move |r| values[r * columns + c]);
    (0..columns).flat_map(column).collect()
}
