//! Convolution of one image, and its two gradients.

use super::Real;
use crate::geometry::ConvShape;

/// Calls `visit(output index, input index, weight index)` for every product of
/// the convolution of one image. All three passes are this loop.
fn products(shape: &ConvShape, mut visit: impl FnMut(usize, usize, usize)) {
    let (input, output) = (shape.input, shape.output());
    let (in_group, out_group) = (shape.in_per_group(), shape.out_channels / shape.groups);
    let [kh, kw] = shape.window.kernel;
    let [sh, sw] = shape.window.stride;
    let [dh, dw] = shape.window.dilation;
    let pad = shape.window.padding;
    for oy in 0..output.height {
        for ox in 0..output.width {
            for ky in 0..kh {
                let Some(iy) = (oy * sh + ky * dh).checked_sub(pad.top) else {
                    continue;
                };
                if iy >= input.height {
                    continue;
                }
                for kx in 0..kw {
                    let Some(ix) = (ox * sw + kx * dw).checked_sub(pad.left) else {
                        continue;
                    };
                    if ix >= input.width {
                        continue;
                    }
                    for oc in 0..shape.out_channels {
                        let first = oc / out_group * in_group;
                        for ic in 0..in_group {
                            visit(
                                (oy * output.width + ox) * output.channels + oc,
                                (iy * input.width + ix) * input.channels + first + ic,
                                ((oc * in_group + ic) * kh + ky) * kw + kx,
                            );
                        }
                    }
                }
            }
        }
    }
}

/// `y = x * w` for one image; `weights` in OIHW order, no bias.
pub fn conv<T: Real>(shape: &ConvShape, x: &[T], weights: &[T], y: &mut [T]) {
    y.fill(T::ZERO);
    products(shape, |o, i, w| y[o] += x[i] * weights[w]);
}

/// `dx = dL/dx` of one image from `dy = dL/dy`.
pub fn conv_input_gradient<T: Real>(shape: &ConvShape, dy: &[T], weights: &[T], dx: &mut [T]) {
    dx.fill(T::ZERO);
    products(shape, |o, i, w| dx[i] += dy[o] * weights[w]);
}

/// Adds `dL/dw` of one image, in OIHW order, to `dweights`.
pub fn conv_weight_gradient<T: Real>(shape: &ConvShape, x: &[T], dy: &[T], dweights: &mut [T]) {
    products(shape, |o, i, w| dweights[w] += dy[o] * x[i]);
}
