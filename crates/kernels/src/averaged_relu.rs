//! The ReLU's own Gaussian average, `E max(x + width z, 0)` with `z ~ N(0, 1)`.
//!
//! With `u = x / width` it is `x Phi(u) + width phi(u)`, and its derivative is
//! `Phi(u)`. Written as `max(x, 0) + width t(|u|)` with
//! `t(a) = phi(a) - a Phi(-a)`, all that is left to compute is a bump that is
//! gone (below 1e-7) at `a = 5`; `t` and its slope `-Phi(-a)` are polynomials here,
//! within 2e-7 of the exact functions.

use crate::isa::{Isa, Kernel};
use crate::simd::{Simd, relu};

/// Where the bump ends.
const END: f32 = 5.0;

/// Chebyshev fit of `t(a)` in powers of `2 a / END - 1`, constant first.
#[expect(clippy::excessive_precision, reason = "as fitted")]
const BUMP: [f32; 14] = [
    2.004126522e-03,
    -1.552489290e-02,
    5.477732842e-02,
    -1.140889930e-01,
    1.497479298e-01,
    -1.162014240e-01,
    2.736817831e-02,
    4.624033879e-02,
    -5.116170923e-02,
    7.808058326e-03,
    1.964387908e-02,
    -1.000385508e-02,
    -2.908573747e-03,
    2.299699159e-03,
];

/// The same for `Phi(-a)`.
#[expect(clippy::excessive_precision, reason = "as fitted")]
const TAIL: [f32; 15] = [
    6.209690221e-03,
    -4.382255671e-02,
    1.369366887e-01,
    -2.395744804e-01,
    2.318646999e-01,
    -6.588349302e-02,
    -1.258852948e-01,
    1.644788603e-01,
    -3.938449338e-02,
    -7.997139936e-02,
    6.205773579e-02,
    1.517937918e-02,
    -2.617237834e-02,
    -4.060750640e-04,
    4.373520833e-03,
];

/// `y = E max(x + width z, 0)`, one width a channel; 0 is the ReLU itself.
///
/// # Panics
/// If the lengths differ, or are not whole pixels.
pub fn averaged_relu(isa: Isa, width: &[f32], x: &[f32], y: &mut [f32]) {
    assert!(x.len() == y.len() && x.len().is_multiple_of(width.len()));
    let inverse = &inverses(width);
    isa.dispatch(Forward {
        width,
        inverse,
        x,
        y,
    });
}

/// Adds to `dx` what `dy` becomes on its way back through [`averaged_relu`].
///
/// # Panics
/// As [`averaged_relu`].
pub fn averaged_relu_gradient(isa: Isa, width: &[f32], x: &[f32], dy: &[f32], dx: &mut [f32]) {
    assert!(x.len() == dy.len() && x.len() == dx.len() && x.len().is_multiple_of(width.len()));
    let inverse = &inverses(width);
    isa.dispatch(Backward { inverse, x, dy, dx });
}

/// `2 / (END width)`: large, but finite, for a width of 0.
fn inverses(width: &[f32]) -> Vec<f32> {
    width.iter().map(|w| 2.0 / (END * w.max(1e-30))).collect()
}

/// `|x|`.
#[inline(always)]
fn magnitude<S: Simd>(s: S, x: S::V) -> S::V {
    s.max(x, s.sub(s.zero(), x))
}

/// The polynomial at `min(|x| inverse, 2) - 1`.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(s: S, c: &[f32; N], x: S::V, inverse: S::V) -> S::V {
    let scaled = s.mul(magnitude(s, x), inverse);
    // A value that is not a number stays one.
    let at = s.sub(s.min(s.splat(2.0), scaled), s.splat(1.0));
    let mut sum = s.splat(c[N - 1]);
    for k in (0..N - 1).rev() {
        sum = s.mul_add(sum, at, s.splat(c[k]));
    }
    sum
}

struct Forward<'a> {
    width: &'a [f32],
    inverse: &'a [f32],
    x: &'a [f32],
    y: &'a mut [f32],
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let channels = self.width.len();
        let pixels = self.x.chunks_exact(channels);
        for (x, y) in pixels.zip(self.y.chunks_exact_mut(channels)) {
            for (i, y) in y.chunks_mut(S::LANES).enumerate() {
                let at = i * S::LANES;
                let read = |from: &[f32]| s.read_partial(&from[at..]);
                let (x, width) = (read(x), read(self.width));
                let bump = polynomial(s, &BUMP, x, read(self.inverse));
                s.write_partial(y, s.mul_add(width, bump, relu(s, x)));
            }
        }
    }
}

struct Backward<'a> {
    inverse: &'a [f32],
    x: &'a [f32],
    dy: &'a [f32],
    dx: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let channels = self.inverse.len();
        let pixels = self.x.chunks_exact(channels);
        let gradients = self.dy.chunks_exact(channels);
        let both = pixels
            .zip(gradients)
            .zip(self.dx.chunks_exact_mut(channels));
        for ((x, dy), dx) in both {
            for (i, dx) in dx.chunks_mut(S::LANES).enumerate() {
                let at = i * S::LANES;
                let read = |from: &[f32]| s.read_partial(&from[at..]);
                let x = read(x);
                let tail = polynomial(s, &TAIL, x, read(self.inverse));
                let slope = s.select_gt(x, s.zero(), s.sub(s.splat(1.0), tail), tail);
                let sum = s.mul_add(read(dy), slope, s.read_partial(dx));
                s.write_partial(dx, sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `t(a)` and `Phi(-a)`.
    fn exact(a: f64) -> (f64, f64) {
        let tail = 0.5 * libm::erfc(a * std::f64::consts::FRAC_1_SQRT_2);
        let density = (-0.5 * a * a).exp() / (2.0 * std::f64::consts::PI).sqrt();
        (density - a * tail, tail)
    }

    #[test]
    fn is_the_average_of_the_relu() {
        let width = [0.5, 2.0, 0.0, 1e-3, 1.0];
        let x: Vec<f32> = (0..5 * 801).map(|i| (i / 5) as f32 * 0.02 - 8.0).collect();
        for isa in Isa::available() {
            let mut y = vec![f32::NAN; x.len()];
            averaged_relu(isa, &width, &x, &mut y);
            let mut dx = vec![1.0; x.len()];
            averaged_relu_gradient(isa, &width, &x, &vec![2.0; x.len()], &mut dx);
            for (i, &x) in x.iter().enumerate() {
                let (x, width) = (f64::from(x), f64::from(width[i % 5]));
                let (bump, tail) = match width {
                    0.0 => (0.0, if x == 0.0 { 0.5 } else { 0.0 }),
                    width => exact(x.abs() / width),
                };
                let value = x.max(0.0) + width * bump;
                let slope = if x > 0.0 { 1.0 - tail } else { tail };
                assert!(
                    (f64::from(y[i]) - value).abs() < 1e-6,
                    "{isa:?} {x} {width}"
                );
                let error = f64::from(dx[i]) - (1.0 + 2.0 * slope);
                assert!(error.abs() < 2e-6, "{isa:?} {x} {width} {error}");
            }
        }
    }

    #[test]
    fn what_is_not_a_number_stays_one() {
        for isa in Isa::available() {
            let mut y = [0.0; 9];
            averaged_relu(isa, &[1.0], &[f32::NAN; 9], &mut y);
            assert!(y.iter().all(|y| y.is_nan()), "{isa:?}");
        }
    }
}
