//! Backward pass of batch norm, with the ReLU behind it fused.

use super::rows::{ByChannels, by_channels, load, store};
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;

/// Where the gradient behind a batch norm passes.
#[derive(Clone, Copy, Debug)]
pub enum Mask<'a> {
    /// Everywhere.
    None,
    /// Where these values are positive: the output of the ReLU behind.
    Positive(&'a [f32]),
    /// Where `scale * x + shift` is: the ReLU's input computed once more, in
    /// the very arithmetic of [`super::apply`].
    Affine(&'a [f32], &'a [f32]),
}

/// What is done to a gradient when it is complete: it is masked and, in front of
/// a batch norm, summed up.
#[derive(Debug)]
pub struct Masking<'a> {
    /// Where it passes.
    pub mask: Mask<'a>,
    /// What [`Mask::Affine`] and the sums apply to.
    pub x: &'a [f32],
    /// Of the batch norm, if there are sums.
    pub mean: &'a [f32],
    /// `sum` and `dot` of [`backward_reduce`].
    pub sums: Option<(&'a mut [f32], &'a mut [f32])>,
}

impl Masking<'_> {
    /// Masks `dy` in place.
    ///
    /// # Panics
    /// If the lengths do not fit.
    pub fn apply(self, isa: Isa, dy: &mut [f32]) {
        match self.sums {
            Some(sums) => backward_reduce(isa, self.mask, self.mean, self.x, dy, sums),
            None => super::mask(isa, self.mask, self.x, dy),
        }
    }
}

const NONE: u8 = 0;
const POSITIVE: u8 = 1;
const AFFINE: u8 = 2;

/// Masks `dy` in place and adds up, per channel,
/// `sum = sum of dy`, `dot = sum of dy * (x - mean)` over the rows of `x`.
///
/// # Panics
/// If the lengths do not fit.
pub fn backward_reduce(
    isa: Isa,
    mask: Mask<'_>,
    mean: &[f32],
    x: &[f32],
    dy: &mut [f32],
    (sum, dot): (&mut [f32], &mut [f32]),
) {
    let channels = mean.len();
    assert!(x.len().is_multiple_of(channels) && x.len() == dy.len());
    assert!(sum.len() == channels && dot.len() == channels);
    let (a, b) = match mask {
        Mask::None => (x, x),
        Mask::Positive(y) => {
            assert_eq!(y.len(), x.len());
            (y, y)
        }
        Mask::Affine(scale, shift) => {
            assert!(scale.len() == channels && shift.len() == channels);
            (scale, shift)
        }
    };
    macro_rules! reduce {
        ($mask:ident) => {
            isa.dispatch(Reduce::<$mask> {
                a,
                b,
                mean,
                x,
                dy,
                sum,
                dot,
            })
        };
    }
    match mask {
        Mask::None => reduce!(NONE),
        Mask::Positive(_) => reduce!(POSITIVE),
        Mask::Affine(..) => reduce!(AFFINE),
    }
}

struct Reduce<'a, const MASK: u8> {
    /// The ReLU's output, or scale and shift.
    a: &'a [f32],
    b: &'a [f32],
    mean: &'a [f32],
    x: &'a [f32],
    dy: &'a mut [f32],
    sum: &'a mut [f32],
    dot: &'a mut [f32],
}

impl<const MASK: u8> Kernel for Reduce<'_, MASK> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        by_channels(simd, self.mean.len(), &mut self);
    }
}

/// Rows added up side by side.
const CHAINS: usize = 2;

impl<const MASK: u8> Reduce<'_, MASK> {
    /// Masks one row and adds it up. A function, not a closure: only what is
    /// always inlined is compiled for the instruction set.
    ///
    /// # Safety
    /// The vectors from `at` on must exist in `x`, in `dy` and, if they are the
    /// mask, in `a`.
    #[inline(always)]
    unsafe fn row<S: Simd, const V: usize, const P: bool>(
        &mut self,
        simd: S,
        (at, n): (usize, usize),
        [mean, scale, shift]: &[[S::V; V]; 3],
        sum: &mut [S::V; V],
        dot: &mut [S::V; V],
    ) {
        // SAFETY: by the contract of this function.
        unsafe {
            let x = load::<S, V, P>(simd, self.x.as_ptr().add(at), n);
            let mut g = load::<S, V, P>(simd, self.dy.as_ptr().add(at), n);
            if MASK != NONE {
                let mut gate = x;
                if MASK == POSITIVE {
                    gate = load::<S, V, P>(simd, self.a.as_ptr().add(at), n);
                }
                for v in 0..V {
                    if MASK == AFFINE {
                        gate[v] = simd.mul_add(x[v], scale[v], shift[v]);
                    }
                    g[v] = simd.select_gt(gate[v], simd.zero(), g[v], simd.zero());
                }
                store::<S, V, P>(simd, self.dy.as_mut_ptr().add(at), n, g);
            }
            for v in 0..V {
                sum[v] = simd.add(sum[v], g[v]);
                dot[v] = simd.mul_add(g[v], simd.sub(x[v], mean[v]), dot[v]);
            }
        }
    }
}

impl<const MASK: u8> ByChannels for Reduce<'_, MASK> {
    #[inline(always)]
    fn rows<S: Simd, const V: usize, const P: bool>(&mut self, simd: S, c: usize, n: usize) {
        let channels = self.mean.len();
        let rows = self.x.len() / channels;
        // SAFETY: the channels from `c` on exist in each row of `x`, `dy` and
        // of the mask's values, and in everything that is per channel.
        unsafe {
            let mean = load::<S, V, P>(simd, self.mean.as_ptr().add(c), n);
            let mut terms = [mean; 3];
            if MASK == AFFINE {
                terms[1] = load::<S, V, P>(simd, self.a.as_ptr().add(c), n);
                terms[2] = load::<S, V, P>(simd, self.b.as_ptr().add(c), n);
            }
            let mut sums = [[simd.zero(); V]; CHAINS];
            let mut dots = [[simd.zero(); V]; CHAINS];
            for r in 0..rows / CHAINS {
                for i in 0..CHAINS {
                    let at = ((r * CHAINS + i) * channels + c, n);
                    self.row::<S, V, P>(simd, at, &terms, &mut sums[i], &mut dots[i]);
                }
            }
            for r in rows / CHAINS * CHAINS..rows {
                let at = (r * channels + c, n);
                self.row::<S, V, P>(simd, at, &terms, &mut sums[0], &mut dots[0]);
            }
            for v in 0..V {
                sums[0][v] = simd.add(sums[0][v], sums[1][v]);
                dots[0][v] = simd.add(dots[0][v], dots[1][v]);
            }
            let (sum, dot) = (self.sum.as_mut_ptr().add(c), self.dot.as_mut_ptr().add(c));
            store::<S, V, P>(simd, sum, n, sums[0]);
            store::<S, V, P>(simd, dot, n, dots[0]);
        }
    }
}

/// `dx = gain * dy + slope * (x - mean) + offset` per channel.
///
/// Train-mode batch norm with `s = sqrt(variance + epsilon)` over `N` rows:
/// `gain = scale/s`, `slope = -scale/s * dot/(N s^2)`,
/// `offset = -scale/s * sum/N`. In eval mode the last two are 0.
#[derive(Clone, Copy, Debug)]
pub struct BackwardTerms<'a> {
    /// Factor of `dy`.
    pub gain: &'a [f32],
    /// Factor of `x - mean`.
    pub slope: &'a [f32],
    /// Added.
    pub offset: &'a [f32],
    /// Of the forward pass.
    pub mean: &'a [f32],
}

/// Writes `dx` from the masked `dy`.
///
/// # Panics
/// If the lengths do not fit.
pub fn backward_apply(isa: Isa, terms: BackwardTerms<'_>, x: &[f32], dy: &[f32], dx: &mut [f32]) {
    let channels = terms.mean.len();
    assert!(x.len().is_multiple_of(channels) && x.len() == dy.len() && x.len() == dx.len());
    for values in [terms.gain, terms.slope, terms.offset] {
        assert_eq!(values.len(), channels);
    }
    isa.dispatch(BackwardApply { terms, x, dy, dx });
}

struct BackwardApply<'a> {
    terms: BackwardTerms<'a>,
    x: &'a [f32],
    dy: &'a [f32],
    dx: &'a mut [f32],
}

impl Kernel for BackwardApply<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        by_channels(simd, self.terms.mean.len(), &mut self);
    }
}

impl ByChannels for BackwardApply<'_> {
    #[inline(always)]
    fn rows<S: Simd, const V: usize, const P: bool>(&mut self, simd: S, c: usize, n: usize) {
        let channels = self.terms.mean.len();
        // SAFETY: the channels from `c` on exist in each row of `x`, `dy` and
        // `dx`, which are equally long, and in all terms.
        unsafe {
            let gain = load::<S, V, P>(simd, self.terms.gain.as_ptr().add(c), n);
            let slope = load::<S, V, P>(simd, self.terms.slope.as_ptr().add(c), n);
            let offset = load::<S, V, P>(simd, self.terms.offset.as_ptr().add(c), n);
            let mean = load::<S, V, P>(simd, self.terms.mean.as_ptr().add(c), n);
            for at in (c..self.x.len()).step_by(channels) {
                let x = load::<S, V, P>(simd, self.x.as_ptr().add(at), n);
                let mut g = load::<S, V, P>(simd, self.dy.as_ptr().add(at), n);
                for v in 0..V {
                    let x = simd.mul_add(simd.sub(x[v], mean[v]), slope[v], offset[v]);
                    g[v] = simd.mul_add(g[v], gain[v], x);
                }
                store::<S, V, P>(simd, self.dx.as_mut_ptr().add(at), n, g);
            }
        }
    }
}
