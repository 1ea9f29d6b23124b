//! Gelu, `x Phi(x)`, and its derivative.

use crate::exponential::exp;
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;

/// How `Phi` is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// By the error function, to 1e-7.
    Erf,
    /// `(1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2`.
    Tanh,
}

/// `y = x Phi(x)`.
///
/// # Panics
/// If the lengths differ.
pub fn gelu(isa: Isa, form: Form, x: &[f32], y: &mut [f32]) {
    assert_eq!(x.len(), y.len());
    isa.dispatch(Forward { form, x, y });
}

/// Adds to `dx` what `dy` becomes on its way back through [`gelu`].
///
/// # Panics
/// If the lengths differ.
pub fn gelu_gradient(isa: Isa, form: Form, x: &[f32], dy: &[f32], dx: &mut [f32]) {
    assert!(x.len() == dy.len() && x.len() == dx.len());
    isa.dispatch(Backward { form, x, dy, dx });
}

/// `Phi(x)` and, for the derivative, `Phi'(x)`.
#[inline(always)]
fn normal<S: Simd>(s: S, form: Form, x: S::V) -> (S::V, S::V) {
    let one = s.splat(1.0);
    match form {
        Form::Erf => {
            // erfc(a) = p(t) e^(-a^2) with t = 1 / (1 + 0.3275911 a), a = |x| / sqrt 2;
            // Abramowitz and Stegun, 7.1.26.
            let a = s.mul(
                s.max(x, s.sub(s.zero(), x)),
                s.splat(std::f32::consts::FRAC_1_SQRT_2),
            );
            let t = s.div(one, s.mul_add(a, s.splat(0.327_591_1), one));
            let mut p = s.splat(0.5 * 1.061_405_4);
            for c in [-1.453_152, 1.421_413_7, -0.284_496_72, 0.254_829_6] {
                p = s.mul_add(p, t, s.splat(0.5 * c));
            }
            let bell = exp(s, s.neg_mul_add(a, a, s.zero()));
            let tail = s.mul(s.mul(p, t), bell);
            let phi = s.select_gt(x, s.zero(), s.sub(one, tail), tail);
            (phi, s.mul(bell, s.splat(0.398_942_3)))
        }
        Form::Tanh => {
            // (1 + tanh u) / 2 = 1 / (1 + e^(-2u)).
            let c = 2.0 * 0.797_884_6_f32;
            let square = s.mul(x, x);
            let slope = s.mul_add(square, s.splat(c * 0.044_715), s.splat(c));
            let e = exp(s, s.neg_mul_add(x, slope, s.zero()));
            let phi = s.div(one, s.add(one, e));
            let du = s.mul_add(square, s.splat(3.0 * c * 0.044_715), s.splat(c));
            // 1 - phi = phi e, without the digits that a difference would lose.
            (phi, s.mul(s.mul(phi, s.mul(phi, e)), du))
        }
    }
}

struct Forward<'a> {
    form: Form,
    x: &'a [f32],
    y: &'a mut [f32],
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // The compiler knows the length of whole vectors, and needs no masks.
        let (mut x, mut y) = (
            self.x.chunks_exact(S::LANES),
            self.y.chunks_exact_mut(S::LANES),
        );
        for (x, y) in (&mut x).zip(&mut y) {
            value(s, self.form, x, y);
        }
        value(s, self.form, x.remainder(), y.into_remainder());
    }
}

/// Of up to a vector.
#[inline(always)]
fn value<S: Simd>(s: S, form: Form, x: &[f32], y: &mut [f32]) {
    let x = s.read_partial(x);
    s.write_partial(y, s.mul(x, normal(s, form, x).0));
}

/// [`gelu`] in place, for rows of so many channels.
///
/// # Safety
/// Every row must be ours alone, for that many floats.
#[inline(always)]
pub(crate) unsafe fn rows<S: Simd>(
    s: S,
    form: Form,
    channels: usize,
    rows: impl Iterator<Item = *mut f32>,
) {
    let full = channels - channels % S::LANES;
    for row in rows {
        // SAFETY: `c < channels`, and as many floats from there on as are left of them;
        // by the contract.
        unsafe {
            for c in (0..full).step_by(S::LANES) {
                let x = s.load(row.add(c));
                s.store(row.add(c), s.mul(x, normal(s, form, x).0));
            }
            if full < channels {
                let (row, n) = (row.add(full), channels - full);
                let x = s.load_partial(row, n);
                s.store_partial(row, n, s.mul(x, normal(s, form, x).0));
            }
        }
    }
}

/// [`gelu`] in place.
pub(crate) struct InPlace<'a> {
    pub form: Form,
    pub y: &'a mut [f32],
}

impl Kernel for InPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: the slice is one row.
        unsafe {
            rows(
                s,
                self.form,
                self.y.len(),
                std::iter::once(self.y.as_mut_ptr()),
            );
        }
    }
}

struct Backward<'a> {
    form: Form,
    x: &'a [f32],
    dy: &'a [f32],
    dx: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (mut x, mut dy, mut dx) = (
            self.x.chunks_exact(S::LANES),
            self.dy.chunks_exact(S::LANES),
            self.dx.chunks_exact_mut(S::LANES),
        );
        let vectors = (&mut x).zip(&mut dy).zip(&mut dx);
        for ((x, dy), dx) in vectors {
            add_slope(s, self.form, x, dy, dx);
        }
        let dx = dx.into_remainder();
        add_slope(s, self.form, x.remainder(), dy.remainder(), dx);
    }
}

/// Adds the gradient to up to a vector.
#[inline(always)]
fn add_slope<S: Simd>(s: S, form: Form, x: &[f32], dy: &[f32], dx: &mut [f32]) {
    let x = s.read_partial(x);
    let (phi, density) = normal(s, form, x);
    let slope = s.mul_add(x, density, phi);
    let sum = s.mul_add(s.read_partial(dy), slope, s.read_partial(dx));
    s.write_partial(dx, sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(form: Form, x: f64) -> (f64, f64) {
        match form {
            Form::Erf => {
                let phi = 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
                let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
                (x * phi, phi + x * density)
            }
            Form::Tanh => {
                let c = (2.0 / std::f64::consts::PI).sqrt();
                let t = (c * (x + 0.044715 * x * x * x)).tanh();
                let du = c * (1.0 + 3.0 * 0.044715 * x * x);
                (
                    0.5 * x * (1.0 + t),
                    0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * du,
                )
            }
        }
    }

    #[test]
    fn agrees_with_double_precision() {
        let x: Vec<f32> = (0..4003).map(|i| i as f32 * 0.01 - 20.0).collect();
        for isa in Isa::available() {
            for form in [Form::Erf, Form::Tanh] {
                let (mut y, mut dx) = (vec![f32::NAN; x.len()], vec![1.0; x.len()]);
                gelu(isa, form, &x, &mut y);
                gelu_gradient(isa, form, &x, &vec![2.0; x.len()], &mut dx);
                for (i, &x) in x.iter().enumerate() {
                    let (value, slope) = exact(form, x.into());
                    let error = (f64::from(y[i]) - value).abs();
                    assert!(
                        error < 3e-7 * (1.0 + value.abs()),
                        "{isa} {form:?} {x}: {error}"
                    );
                    let error = (f64::from(dx[i]) - 1.0 - 2.0 * slope).abs();
                    assert!(error < 2e-6, "{isa} {form:?} {x}: {error}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_a_number_stays_one() {
        for isa in Isa::available() {
            for form in [Form::Erf, Form::Tanh] {
                let mut y = [0.0; 9];
                gelu(isa, form, &[f32::NAN; 9], &mut y);
                assert!(y.iter().all(|y| y.is_nan()), "{isa} {form:?}");
            }
        }
    }
}
