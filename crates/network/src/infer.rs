//! Shapes of what operators give.

use kernels::geometry::{Shape, Window};

use crate::op::Op;
use crate::parameters::Role;

/// Whether the second shape is the first, or spreads to it along axes of 1.
pub(crate) fn spreads(first: Shape, second: Shape) -> bool {
    let along = |a: usize, b: usize| a == b || b == 1;
    along(first.height, second.height)
        && along(first.width, second.width)
        && along(first.channels, second.channels)
}

/// Output shape of an operator, or what does not fit.
pub(crate) fn infer(op: &Op, inputs: &[Shape]) -> Result<Shape, String> {
    let pooled = |window: &Window, channels| {
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
        // A file could not hold it: JSON has no such numbers.
        Op::Activation(activation) if !activation.is_finite() => {
            Err("a slope, bound or offset is not finite".into())
        }
        Op::Activation(_) | Op::AveragedRelu => Ok(inputs[0]),
        Op::Add if !spreads(inputs[0], inputs[1]) => {
            Err(format!("cannot add {} and {}", inputs[0], inputs[1]))
        }
        Op::Mul if !spreads(inputs[0], inputs[1]) => {
            Err(format!("cannot multiply {} by {}", inputs[0], inputs[1]))
        }
        Op::Add | Op::Mul => Ok(inputs[0]),
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
        Op::Parameter { shape, role } => match role {
            Role::RunningMean | Role::RunningVariance | Role::Width => {
                Err("such a value belongs to another node".into())
            }
            _ => Ok(*shape),
        },
        Op::LayerNorm {
            groups, epsilon, ..
        } => {
            let channels = inputs[0].channels;
            if *groups == 0 || !channels.is_multiple_of(*groups) {
                return Err(format!("{groups} groups do not divide {channels} channels"));
            }
            if !(*epsilon >= 0.0 && *epsilon < 1.0) {
                return Err(format!("epsilon {epsilon} is absurd"));
            }
            Ok(inputs[0])
        }
        Op::MatMul { transposed } => {
            let [a, b] = [inputs[0], inputs[1]];
            let (depth, columns) = match transposed {
                true => (b.channels, b.width),
                false => (b.width, b.channels),
            };
            if a.height != b.height || a.channels != depth {
                let turned = if *transposed { " (transposed)" } else { "" };
                return Err(format!("cannot multiply the matrices {a} and {b}{turned}"));
            }
            Ok(Shape::new(a.height, a.width, columns))
        }
        Op::Softmax => Ok(inputs[0]),
        Op::Rearrange(rearrange) => {
            rearrange.check(inputs[0])?;
            Ok(rearrange.shape)
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
