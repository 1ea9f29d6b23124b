//! Softmax of rows, and its pull-back.

use crate::exponential::exp;
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;

/// `y_i = e^(x_i) / sum e^(x_j)` for every row of `channels` values.
///
/// # Panics
/// If the lengths differ or are not whole rows.
pub fn softmax(isa: Isa, channels: usize, x: &[f32], y: &mut [f32]) {
    assert!(x.len() == y.len() && x.len().is_multiple_of(channels));
    isa.dispatch(Forward { channels, x, y });
}

/// Adds `y_i (dy_i - dy . y)` to `dx`, row by row.
///
/// # Panics
/// As [`softmax`].
pub fn softmax_gradient(isa: Isa, channels: usize, y: &[f32], dy: &[f32], dx: &mut [f32]) {
    assert!(y.len() == dy.len() && y.len() == dx.len() && y.len().is_multiple_of(channels));
    isa.dispatch(Backward {
        channels,
        y,
        dy,
        dx,
    });
}

struct Forward<'a> {
    channels: usize,
    x: &'a [f32],
    y: &'a mut [f32],
}

/// `x_i <- e^(scale x_i + biases_i - top)`, `top` being the largest of these sums; returns
/// the sum of the exponentials. Of each bias the values from `at` on are meant.
#[inline(always)]
pub(crate) fn weigh<S: Simd>(s: S, scale: f32, biases: &[&[f32]], at: usize, x: &mut [f32]) -> f32 {
    let full = x.len() - x.len() % S::LANES;
    let (vectors, rest) = x.split_at_mut(full);
    let (factor, mut top) = (s.splat(scale), s.splat(f32::MIN));
    for (i, x) in vectors.chunks_exact_mut(S::LANES).enumerate() {
        let mut y = s.mul(s.read(x), factor);
        for bias in biases {
            y = s.add(y, s.read(&bias[at + i * S::LANES..]));
        }
        top = s.max(top, y);
        s.write(x, y);
    }
    for (i, x) in rest.iter_mut().enumerate() {
        *x *= scale;
        for bias in biases {
            *x += bias[at + full + i];
        }
    }
    let mut lanes = [f32::MIN; 16];
    s.write(&mut lanes[..S::LANES], top);
    // A row with a value that is no number may have any.
    let lanes = lanes[..S::LANES].iter().chain(&*rest);
    let top = s.splat(lanes.fold(f32::NEG_INFINITY, |a, &b| a.max(b)));
    let mut sum = s.zero();
    for x in vectors.chunks_exact_mut(S::LANES) {
        let e = exp(s, s.sub(s.read(x), top));
        sum = s.add(sum, e);
        s.write(x, e);
    }
    let mut sum = s.sum(sum);
    if !rest.is_empty() {
        let e = exp(s, s.sub(s.read_partial(rest), top));
        s.write_partial(rest, e);
        rest.iter().for_each(|e| sum += e);
    }
    sum
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let rows = self.x.chunks_exact(self.channels);
        for (x, y) in rows.zip(self.y.chunks_exact_mut(self.channels)) {
            y.copy_from_slice(x);
            let sum = weigh(s, 1.0, &[], 0, y);
            let factor = s.splat(1.0 / sum);
            for y in y.chunks_mut(S::LANES) {
                let product = s.mul(s.read_partial(y), factor);
                s.write_partial(y, product);
            }
        }
    }
}

struct Backward<'a> {
    channels: usize,
    y: &'a [f32],
    dy: &'a [f32],
    dx: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let n = self.channels;
        let rows = self.y.chunks_exact(n).zip(self.dy.chunks_exact(n));
        for ((y, dy), dx) in rows.zip(self.dx.chunks_exact_mut(n)) {
            let mut dot = s.zero();
            for (y, dy) in y.chunks(S::LANES).zip(dy.chunks(S::LANES)) {
                dot = s.mul_add(s.read_partial(y), s.read_partial(dy), dot);
            }
            let dot = s.splat(s.sum(dot));
            let vectors = y.chunks(S::LANES).zip(dy.chunks(S::LANES));
            for ((y, dy), dx) in vectors.zip(dx.chunks_mut(S::LANES)) {
                let moved = s.sub(s.read_partial(dy), dot);
                let sum = s.mul_add(s.read_partial(y), moved, s.read_partial(dx));
                s.write_partial(dx, sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_double_precision() {
        for isa in Isa::available() {
            for channels in [1, 2, 7, 8, 9, 49, 197] {
                let x: Vec<f32> = (0..3 * channels)
                    .map(|i| ((i * 37) % 101) as f32 * 0.2 - 60.0)
                    .collect();
                let dy: Vec<f32> = (0..x.len())
                    .map(|i| ((i * 53) % 97) as f32 / 97.0 - 0.4)
                    .collect();
                let (mut y, mut dx) = (vec![f32::NAN; x.len()], vec![0.5; x.len()]);
                softmax(isa, channels, &x, &mut y);
                softmax_gradient(isa, channels, &y, &dy, &mut dx);
                for r in 0..3 {
                    let row = r * channels..(r + 1) * channels;
                    let e: Vec<f64> = x[row.clone()]
                        .iter()
                        .map(|&x| f64::from(x + 50.0).exp())
                        .collect();
                    let sum: f64 = e.iter().sum();
                    let dot: f64 = e
                        .iter()
                        .zip(&dy[row.clone()])
                        .map(|(e, &d)| e / sum * f64::from(d))
                        .sum();
                    for (i, e) in row.zip(e) {
                        let want = e / sum;
                        assert!((f64::from(y[i]) - want).abs() < 4e-7, "{isa} {channels}");
                        let want = 0.5 + want * (f64::from(dy[i]) - dot);
                        assert!((f64::from(dx[i]) - want).abs() < 1e-6, "{isa} {channels}");
                    }
                }
            }
        }
    }

    #[test]
    fn large_and_masked_values() {
        for isa in Isa::available() {
            let mut y = [0.0; 9];
            let x = [
                1e30,
                f32::NEG_INFINITY,
                -1e30,
                0.0,
                1e30,
                0.0,
                0.0,
                0.0,
                f32::NEG_INFINITY,
            ];
            softmax(isa, 9, &x, &mut y);
            assert!(
                (y[0] - 0.5).abs() < 1e-6 && (y[4] - 0.5).abs() < 1e-6,
                "{isa} {y:?}"
            );
            assert!(y[1] < 1e-30 && y[8] < 1e-30, "{isa} {y:?}");
        }
    }
}
