//! Batch normalisation in training: statistics, application, backward pass.
//!
//! Activations are rows (pixels of one or more images) of `channels` values.
//! Given its statistics a batch norm is `y = scale * x + shift` per channel, so
//! [`apply`] also serves eval mode and constant input normalisation. What runs
//! over the batch ([`statistics`], [`backward_reduce`]) works on one share of
//! the rows; [`Moments`] and plain sums in `f64` join the shares in an order
//! that the caller fixes.

mod backward;
mod bits;
mod elementwise;
mod rows;

pub use backward::{BackwardTerms, Mask, Masking, backward_apply, backward_reduce};
pub use bits::{bit_bytes, keep_bits, positive_bits};
pub use elementwise::{mask, scale};

use crate::isa::{Isa, Kernel};
use crate::simd::{Simd, relu};
use rows::{ByChannels, by_channels, load, store};

/// Count, mean and sum of squared deviations per channel, in `f64`.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    /// Values per channel.
    pub rows: usize,
    /// `m_c`.
    pub mean: Vec<f64>,
    /// `sum of (x_c - m_c)^2`.
    pub deviation: Vec<f64>,
}

impl Moments {
    /// Of no rows.
    pub fn new(channels: usize) -> Self {
        Self {
            rows: 0,
            mean: vec![0.0; channels],
            deviation: vec![0.0; channels],
        }
    }

    /// Joins the [`statistics`] of `rows` further rows.
    pub fn join(&mut self, rows: usize, mean: &[f32], deviation: &[f32]) {
        self.add(rows, |c| (f64::from(mean[c]), f64::from(deviation[c])));
    }

    /// Joins the moments of further rows.
    pub fn merge(&mut self, more: &Moments) {
        self.add(more.rows, |c| (more.mean[c], more.deviation[c]));
    }

    /// Chan et al.: `M += M' + (m' - m)^2 n n' / (n + n')`.
    fn add(&mut self, rows: usize, more: impl Fn(usize) -> (f64, f64)) {
        let (n, further) = (self.rows as f64, rows as f64);
        let share = further / (n + further).max(1.0);
        for c in 0..self.mean.len() {
            let (mean, deviation) = more(c);
            let distance = mean - self.mean[c];
            self.mean[c] += distance * share;
            self.deviation[c] += deviation + distance * distance * n * share;
        }
        self.rows += rows;
    }

    /// Biased variance of channel `c`.
    pub fn variance(&self, c: usize) -> f64 {
        self.deviation[c] / self.rows.max(1) as f64
    }
}

/// Mean and sum of squared deviations of each channel of `x`, in two passes
/// over data that the cache still holds.
///
/// # Panics
/// If `x` is not whole rows of `mean.len()` channels, or `deviation` differs.
pub fn statistics(isa: Isa, x: &[f32], mean: &mut [f32], deviation: &mut [f32]) {
    assert!(x.len().is_multiple_of(mean.len()) && mean.len() == deviation.len());
    isa.dispatch(Statistics { x, mean, deviation });
}

struct Statistics<'a> {
    x: &'a [f32],
    mean: &'a mut [f32],
    deviation: &'a mut [f32],
}

impl Kernel for Statistics<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        by_channels(simd, self.mean.len(), &mut self);
    }
}

/// Rows summed side by side, for speed and for shorter chains of roundings.
const CHAINS: usize = 4;

/// `sum + x`, or `sum + (x - mean)^2` if `SQUARE`.
#[inline(always)]
fn add<S: Simd, const V: usize, const SQUARE: bool>(
    simd: S,
    sum: &mut [S::V; V],
    x: [S::V; V],
    mean: &[S::V; V],
) {
    for v in 0..V {
        sum[v] = if SQUARE {
            let d = simd.sub(x[v], mean[v]);
            simd.mul_add(d, d, sum[v])
        } else {
            simd.add(sum[v], x[v])
        };
    }
}

impl Statistics<'_> {
    /// Sum over all rows of the values, or of their squared deviations.
    #[inline(always)]
    fn sum<S: Simd, const V: usize, const P: bool, const SQUARE: bool>(
        &self,
        simd: S,
        (c, n): (usize, usize),
        mean: [S::V; V],
    ) -> [S::V; V] {
        let channels = self.mean.len();
        let rows = self.x.len() / channels;
        let mut sums = [[simd.zero(); V]; CHAINS];
        // SAFETY: the channels from `c` on exist in each row of `x`.
        unsafe {
            for r in 0..rows / CHAINS {
                for (i, sum) in sums.iter_mut().enumerate() {
                    let at = self.x.as_ptr().add((r * CHAINS + i) * channels + c);
                    add::<S, V, SQUARE>(simd, sum, load::<S, V, P>(simd, at, n), &mean);
                }
            }
            for r in rows / CHAINS * CHAINS..rows {
                let at = self.x.as_ptr().add(r * channels + c);
                add::<S, V, SQUARE>(simd, &mut sums[0], load::<S, V, P>(simd, at, n), &mean);
            }
        }
        let [mut a, b, mut c, d] = sums;
        add::<S, V, false>(simd, &mut a, b, &mean);
        add::<S, V, false>(simd, &mut c, d, &mean);
        add::<S, V, false>(simd, &mut a, c, &mean);
        a
    }
}

impl ByChannels for Statistics<'_> {
    #[inline(always)]
    fn rows<S: Simd, const V: usize, const P: bool>(&mut self, simd: S, c: usize, n: usize) {
        let rows = self.x.len() / self.mean.len();
        let scale = simd.splat(1.0 / rows.max(1) as f32);
        let mut mean = self.sum::<S, V, P, false>(simd, (c, n), [simd.zero(); V]);
        for mean in &mut mean {
            *mean = simd.mul(*mean, scale);
        }
        let deviation = self.sum::<S, V, P, true>(simd, (c, n), mean);
        // SAFETY: both hold one value per channel.
        unsafe {
            store::<S, V, P>(simd, self.mean.as_mut_ptr().add(c), n, mean);
            store::<S, V, P>(simd, self.deviation.as_mut_ptr().add(c), n, deviation);
        }
    }
}

/// `y = scale * x + shift (+ residual)`, then `max(y, 0)` if `relu`, in one
/// pass.
///
/// # Panics
/// If the lengths do not fit.
pub fn apply(
    isa: Isa,
    (scale, shift): (&[f32], &[f32]),
    x: &[f32],
    residual: Option<&[f32]>,
    relu: bool,
    y: &mut [f32],
) {
    assert!(x.len().is_multiple_of(scale.len()) && scale.len() == shift.len());
    assert!(x.len() == y.len() && residual.is_none_or(|r| r.len() == x.len()));
    match (residual, relu) {
        (None, false) => isa.dispatch(Apply::<false, false> {
            scale,
            shift,
            x,
            residual: x,
            y,
        }),
        (None, true) => isa.dispatch(Apply::<false, true> {
            scale,
            shift,
            x,
            residual: x,
            y,
        }),
        (Some(residual), false) => {
            isa.dispatch(Apply::<true, false> {
                scale,
                shift,
                x,
                residual,
                y,
            });
        }
        (Some(residual), true) => {
            isa.dispatch(Apply::<true, true> {
                scale,
                shift,
                x,
                residual,
                y,
            });
        }
    }
}

struct Apply<'a, const RESIDUAL: bool, const RELU: bool> {
    scale: &'a [f32],
    shift: &'a [f32],
    x: &'a [f32],
    residual: &'a [f32],
    y: &'a mut [f32],
}

impl<const RESIDUAL: bool, const RELU: bool> Kernel for Apply<'_, RESIDUAL, RELU> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        by_channels(simd, self.scale.len(), &mut self);
    }
}

impl<const RESIDUAL: bool, const RELU: bool> ByChannels for Apply<'_, RESIDUAL, RELU> {
    #[inline(always)]
    fn rows<S: Simd, const V: usize, const P: bool>(&mut self, simd: S, c: usize, n: usize) {
        let channels = self.scale.len();
        // SAFETY: the channels from `c` on exist in each row of `x`, `residual`
        // and `y`, which are equally long, and in `scale` and `shift`.
        unsafe {
            let scale = load::<S, V, P>(simd, self.scale.as_ptr().add(c), n);
            let shift = load::<S, V, P>(simd, self.shift.as_ptr().add(c), n);
            for at in (c..self.x.len()).step_by(channels) {
                let mut y = load::<S, V, P>(simd, self.x.as_ptr().add(at), n);
                for v in 0..V {
                    y[v] = simd.mul_add(y[v], scale[v], shift[v]);
                }
                if RESIDUAL {
                    let residual = load::<S, V, P>(simd, self.residual.as_ptr().add(at), n);
                    for v in 0..V {
                        y[v] = simd.add(y[v], residual[v]);
                    }
                }
                if RELU {
                    for y in &mut y {
                        *y = relu(simd, *y);
                    }
                }
                store::<S, V, P>(simd, self.y.as_mut_ptr().add(at), n, y);
            }
        }
    }
}

#[cfg(test)]
mod tests;
