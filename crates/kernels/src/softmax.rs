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

/// The largest of a row; a row with a value that is no number may give any.
#[inline(always)]
pub(crate) fn largest<S: Simd>(s: S, x: &[f32]) -> f32 {
    let mut top = s.splat(x[0]);
    let (full, rest) = x.split_at(x.len() - x.len() % S::LANES);
    for x in full.chunks_exact(S::LANES) {
        top = s.max(top, s.read(x));
    }
    let mut lanes = [f32::MIN; 16];
    s.write(&mut lanes[..S::LANES], top);
    let lanes = lanes[..S::LANES].iter().chain(rest);
    lanes.fold(f32::NEG_INFINITY, |a, &b| a.max(b))
}

/// `x_i <- e^(x_i - top)`; returns the sum.
#[inline(always)]
pub(crate) fn exponentials<S: Simd>(s: S, top: f32, x: &[f32], y: &mut [f32]) -> f32 {
    let top = s.splat(top);
    let mut sum = s.zero();
    let full = x.len() - x.len() % S::LANES;
    for (x, y) in x[..full]
        .chunks_exact(S::LANES)
        .zip(y[..full].chunks_exact_mut(S::LANES))
    {
        let e = exp(s, s.sub(s.read(x), top));
        sum = s.add(sum, e);
        s.write(y, e);
    }
    let mut sum = s.sum(sum);
    if full < x.len() {
        let y = &mut y[full..x.len()];
        s.write_partial(y, exp(s, s.sub(s.read_partial(&x[full..]), top)));
        y.iter().for_each(|y| sum += y);
    }
    sum
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let rows = self.x.chunks_exact(self.channels);
        for (x, y) in rows.zip(self.y.chunks_exact_mut(self.channels)) {
            let sum = exponentials(s, largest(s, x), x, y);
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
