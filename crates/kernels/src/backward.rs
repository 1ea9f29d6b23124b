//! Backward passes of the operators that move data: pooling and reductions.
//!
//! Plain loops over the channels of a pixel, which the compiler vectorises;
//! none of them shows in a profile.

use crate::geometry::{Shape, Window};

/// Calls `visit(output pixel, input pixels in the window)`.
fn windows(input: Shape, window: &Window, mut visit: impl FnMut(usize, &[usize])) {
    let [height, width] = window
        .output(input.height, input.width)
        .expect("the window fits the input");
    let [sh, sw] = window.stride;
    let [dh, dw] = window.dilation;
    let mut inside = Vec::with_capacity(window.kernel[0] * window.kernel[1]);
    for oy in 0..height {
        for ox in 0..width {
            inside.clear();
            for ky in 0..window.kernel[0] {
                let y = (oy * sh + ky * dh).wrapping_sub(window.padding.top);
                for kx in 0..window.kernel[1] {
                    let x = (ox * sw + kx * dw).wrapping_sub(window.padding.left);
                    if y < input.height && x < input.width {
                        inside.push(y * input.width + x);
                    }
                }
            }
            visit(oy * width + ox, &inside);
        }
    }
}

/// Adds to `dx` what one image's maximum pooling passes back: each output's
/// gradient goes to the first maximum of its window.
pub fn max_pool(input: Shape, window: &Window, x: &[f32], dy: &[f32], dx: &mut [f32]) {
    let channels = input.channels;
    let (mut best, mut at) = (vec![0.0_f32; channels], vec![0_u32; channels]);
    windows(input, window, |o, pixels| {
        let Some(&first) = pixels.first() else { return };
        best.copy_from_slice(&x[first * channels..][..channels]);
        at.fill(first as u32);
        for &p in &pixels[1..] {
            let x = &x[p * channels..][..channels];
            for ((best, at), &x) in best.iter_mut().zip(&mut at).zip(x) {
                *at = if x > *best { p as u32 } else { *at };
                *best = if x > *best { x } else { *best };
            }
        }
        for (c, (&at, &dy)) in at.iter().zip(&dy[o * channels..][..channels]).enumerate() {
            dx[at as usize * channels + c] += dy;
        }
    });
}

/// Adds to `dx` what one image's average pooling passes back.
pub fn average_pool(
    input: Shape,
    window: &Window,
    count_padding: bool,
    dy: &[f32],
    dx: &mut [f32],
) {
    let channels = input.channels;
    let taps = window.kernel[0] * window.kernel[1];
    windows(input, window, |o, pixels| {
        let count = if count_padding {
            taps
        } else {
            pixels.len().max(1)
        };
        let share = 1.0 / count as f32;
        let dy = &dy[o * channels..][..channels];
        for &p in pixels {
            for (dx, dy) in dx[p * channels..][..channels].iter_mut().zip(dy) {
                *dx += share * dy;
            }
        }
    });
}

/// Adds to `dx` what the mean over all pixels of one image passes back.
pub fn global_average_pool(input: Shape, dy: &[f32], dx: &mut [f32]) {
    let share = 1.0 / input.pixels() as f32;
    for dx in dx.chunks_exact_mut(input.channels) {
        for (dx, dy) in dx.iter_mut().zip(dy) {
            *dx += share * dy;
        }
    }
}

/// Writes `sum_c = sum over rows of x_c`: the gradient of a bias.
pub fn sum_rows(x: &[f32], sum: &mut [f32]) {
    sum.fill(0.0);
    for row in x.chunks_exact(sum.len()) {
        for (sum, x) in sum.iter_mut().zip(row) {
            *sum += x;
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
        fn pools_agree_with_the_reference(
            (height, width, channels) in (1..9_usize, 1..9_usize, 1..5_usize),
            (kernel, stride, dilation) in ([1..4_usize, 1..4], [1..3_usize, 1..3], [1..3_usize, 1..3]),
            pads in [0..2_usize, 0..2, 0..2, 0..2],
            count_padding: bool,
            values in proptest::collection::vec(-3..3_i8, 2 * 9 * 9 * 5),
        ) {
            let [top, left, bottom, right] = pads;
            let padding = Padding { top, left, bottom, right };
            let window = Window { kernel, stride, padding, dilation };
            let input = Shape::new(height, width, channels);
            let Some([h, w]) = window.output(height, width) else { return Ok(()) };
            let values: Vec<f32> = values.iter().map(|&v| f32::from(v)).collect();
            let (x, dy) = (&values[..input.len()], &values[9 * 9 * 5..][..h * w * channels]);
            let mut want = vec![0.0; input.len()];
            reference::max_pool_gradient(input, &window, x, dy, &mut want);
            let mut got = vec![0.0; input.len()];
            max_pool(input, &window, x, dy, &mut got);
            prop_assert_eq!(&got, &want);

            reference::average_pool_gradient(input, &window, count_padding, dy, &mut want);
            got.fill(0.0);
            average_pool(input, &window, count_padding, dy, &mut got);
            for (got, want) in got.iter().zip(&want) {
                prop_assert!((got - want).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn a_mean_spreads_its_gradient_and_adds_to_what_is_there() {
        let mut dx = vec![1.0; 8];
        global_average_pool(Shape::new(2, 2, 2), &[4.0, -8.0], &mut dx);
        assert_eq!(dx, [2.0, -1.0].repeat(4));
        let mut sum = [f32::NAN; 2];
        sum_rows(&dx, &mut sum);
        assert_eq!(sum, [8.0, -4.0]);
    }
}
