//! Maximum and average pooling of one image, and their gradients.

use super::Real;
use crate::geometry::{Shape, Window};

/// For each output pixel, calls `visit(output pixel, input pixels in the
/// window)`; padding is skipped.
fn windows(input: Shape, window: &Window, mut visit: impl FnMut(usize, &[usize])) {
    let [height, width] = window
        .output(input.height, input.width)
        .expect("the window fits the input");
    let mut inside = Vec::new();
    for oy in 0..height {
        for ox in 0..width {
            inside.clear();
            for ky in 0..window.kernel[0] {
                for kx in 0..window.kernel[1] {
                    let iy = (oy * window.stride[0] + ky * window.dilation[0])
                        .checked_sub(window.padding.top);
                    let ix = (ox * window.stride[1] + kx * window.dilation[1])
                        .checked_sub(window.padding.left);
                    if let (Some(iy), Some(ix)) = (iy, ix)
                        && iy < input.height
                        && ix < input.width
                    {
                        inside.push(iy * input.width + ix);
                    }
                }
            }
            visit(oy * width + ox, &inside);
        }
    }
}

/// Index of the largest value of channel `c` among the pixels; the first one
/// wins a tie.
fn argmax<T: Real>(x: &[T], channels: usize, c: usize, pixels: &[usize]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for &p in pixels {
        let i = p * channels + c;
        if best.is_none_or(|b| x[i] > x[b]) {
            best = Some(i);
        }
    }
    best
}

/// `y = max over the window`; a window of padding alone gives 0.
pub fn max_pool<T: Real>(input: Shape, window: &Window, x: &[T], y: &mut [T]) {
    let channels = input.channels;
    windows(input, window, |o, pixels| {
        for c in 0..channels {
            y[o * channels + c] = argmax(x, channels, c, pixels).map_or(T::ZERO, |i| x[i]);
        }
    });
}

/// `dx` of [`max_pool`]: each output's gradient goes to its first maximum.
pub fn max_pool_gradient<T: Real>(input: Shape, window: &Window, x: &[T], dy: &[T], dx: &mut [T]) {
    let channels = input.channels;
    dx.fill(T::ZERO);
    windows(input, window, |o, pixels| {
        for c in 0..channels {
            if let Some(i) = argmax(x, channels, c, pixels) {
                dx[i] += dy[o * channels + c];
            }
        }
    });
}

/// Divisor of a window: all taps, or only those inside the image.
fn divisor<T: Real>(window: &Window, count_padding: bool, inside: usize) -> T {
    let taps = window.kernel[0] * window.kernel[1];
    T::from_f64(if count_padding { taps } else { inside.max(1) } as f64)
}

/// `y = mean over the window`; `count_padding` counts zeros of the padding.
pub fn average_pool<T: Real>(
    input: Shape,
    window: &Window,
    count_padding: bool,
    x: &[T],
    y: &mut [T],
) {
    let channels = input.channels;
    windows(input, window, |o, pixels| {
        let n = divisor(window, count_padding, pixels.len());
        for c in 0..channels {
            let mut sum = T::ZERO;
            for &p in pixels {
                sum += x[p * channels + c];
            }
            y[o * channels + c] = sum / n;
        }
    });
}

/// `dx` of [`average_pool`].
pub fn average_pool_gradient<T: Real>(
    input: Shape,
    window: &Window,
    count_padding: bool,
    dy: &[T],
    dx: &mut [T],
) {
    let channels = input.channels;
    dx.fill(T::ZERO);
    windows(input, window, |o, pixels| {
        let n = divisor(window, count_padding, pixels.len());
        for &p in pixels {
            for c in 0..channels {
                dx[p * channels + c] += dy[o * channels + c] / n;
            }
        }
    });
}
