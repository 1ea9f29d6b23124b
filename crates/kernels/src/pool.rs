//! Maximum, average and global average pooling; vectors run along the channels.

use crate::geometry::{Shape, Window};
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;

/// `y = max over the window` for all images of `x`; a window of padding alone
/// gives 0.
///
/// # Panics
/// If the window does not fit or a length is wrong.
pub fn max_pool(isa: Isa, input: Shape, window: &Window, x: &[f32], y: &mut [f32]) {
    pool(isa, input, window, Reduction::Maximum, x, y);
}

/// `y = mean over the window` for all images of `x`; `count_padding` counts the
/// zeros of the padding.
///
/// # Panics
/// If the window does not fit or a length is wrong.
pub fn average_pool(
    isa: Isa,
    input: Shape,
    window: &Window,
    count_padding: bool,
    x: &[f32],
    y: &mut [f32],
) {
    let reduction = if count_padding {
        Reduction::MeanOfAll
    } else {
        Reduction::MeanInside
    };
    pool(isa, input, window, reduction, x, y);
}

/// `y = mean over all pixels`, one vector an image.
///
/// # Panics
/// If a length is wrong.
pub fn global_average_pool(isa: Isa, input: Shape, x: &[f32], y: &mut [f32]) {
    let window = Window {
        kernel: [input.height, input.width],
        ..Window::square(1, 1, 0)
    };
    pool(isa, input, &window, Reduction::MeanOfAll, x, y);
}

#[derive(Clone, Copy, PartialEq)]
enum Reduction {
    Maximum,
    MeanOfAll,
    MeanInside,
}

fn pool(isa: Isa, input: Shape, window: &Window, reduction: Reduction, x: &[f32], y: &mut [f32]) {
    let [height, width] = window
        .output(input.height, input.width)
        .expect("the window fits the input");
    let output = Shape::new(height, width, input.channels);
    assert_eq!(x.len() / input.len() * output.len(), y.len());
    assert!(x.len().is_multiple_of(input.len()));
    let images = x
        .chunks_exact(input.len())
        .zip(y.chunks_exact_mut(output.len()));
    for (x, y) in images {
        isa.dispatch(Pool {
            input,
            output,
            window,
            reduction,
            x,
            y,
        });
    }
}

struct Pool<'a> {
    input: Shape,
    output: Shape,
    window: &'a Window,
    reduction: Reduction,
    x: &'a [f32],
    y: &'a mut [f32],
}

/// Taps `from..to` along one axis that fall inside the image, and where tap
/// `from` does.
fn inside(window: &Window, axis: usize, output: usize, size: usize) -> (usize, usize, usize) {
    let padding = [window.padding.top, window.padding.left][axis];
    let (dilation, first) = (window.dilation[axis], output * window.stride[axis]);
    let from = padding.saturating_sub(first).div_ceil(dilation);
    let to = (size + padding).saturating_sub(first).div_ceil(dilation);
    let to = to.min(window.kernel[axis]);
    let from = from.min(to);
    (from, to, (first + from * dilation).saturating_sub(padding))
}

impl Kernel for Pool<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let channels = self.input.channels;
        let [kh, kw] = self.window.kernel;
        for (pixel, y) in self.y.chunks_exact_mut(channels).enumerate() {
            let (oy, ox) = (pixel / self.output.width, pixel % self.output.width);
            let (y0, y1, top) = inside(self.window, 0, oy, self.input.height);
            let (x0, x1, left) = inside(self.window, 1, ox, self.input.width);
            let count = match self.reduction {
                Reduction::MeanOfAll => kh * kw,
                _ => ((y1 - y0) * (x1 - x0)).max(1),
            };
            let empty = y0 == y1 || x0 == x1;
            let maximum = self.reduction == Reduction::Maximum;
            let divisor = s.splat(count as f32);
            let mut c = 0;
            while c < channels {
                let mut v = if maximum && !empty {
                    s.splat(f32::NEG_INFINITY)
                } else {
                    s.zero()
                };
                for row in 0..y1 - y0 {
                    let row = (top + row * self.window.dilation[0]) * self.input.width + left;
                    for column in 0..x1 - x0 {
                        let at = (row + column * self.window.dilation[1]) * channels;
                        let x = s.read_partial(&self.x[at + c..at + channels]);
                        v = if maximum { s.max(x, v) } else { s.add(v, x) };
                    }
                }
                if !maximum {
                    v = s.div(v, divisor);
                }
                s.write_partial(&mut y[c..], v);
                c += S::LANES;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Padding;
    use crate::reference;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_the_reference(
            (height, width, channels) in (1usize..10, 1usize..10, 1usize..20),
            kernel in [1usize..4, 1..4],
            stride in [1usize..4, 1..4],
            dilation in [1usize..3, 1..3],
            pads in [0usize..3, 0..3, 0..3, 0..3],
            count_padding: bool,
        ) {
            let input = Shape::new(height, width, channels);
            let [top, left, bottom, right] = pads;
            let padding = Padding { top, left, bottom, right };
            let window = Window { kernel, stride, padding, dilation };
            let Some([h, w]) = window.output(height, width) else { return Ok(()) };
            let len = h * w * channels;
            let x: Vec<f32> = (0..2 * input.len()).map(|i| ((i * 7919) % 101) as f32 - 50.0).collect();
            let mut want = vec![0.0; 2 * len];
            for isa in Isa::available() {
                let mut got = vec![f32::NAN; 2 * len];
                max_pool(isa, input, &window, &x, &mut got);
                for (x, y) in x.chunks_exact(input.len()).zip(want.chunks_exact_mut(len)) {
                    reference::max_pool(input, &window, x, y);
                }
                prop_assert_eq!(&got, &want);
                average_pool(isa, input, &window, count_padding, &x, &mut got);
                for (x, y) in x.chunks_exact(input.len()).zip(want.chunks_exact_mut(len)) {
                    reference::average_pool(input, &window, count_padding, x, y);
                }
                for (g, w) in got.iter().zip(&want) {
                    prop_assert!((g - w).abs() < 1e-5);
                }
            }
        }
    }

    #[test]
    fn global_average_is_the_mean() {
        let input = Shape::new(3, 5, 10);
        let x: Vec<f32> = (0..input.len()).map(|i| i as f32).collect();
        for isa in Isa::available() {
            let mut y = vec![f32::NAN; 10];
            global_average_pool(isa, input, &x, &mut y);
            assert!(
                (0..10).all(|c| (y[c] - (70 + c) as f32).abs() < 1e-4),
                "{isa}"
            );
        }
    }
}
