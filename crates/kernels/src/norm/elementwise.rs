//! Backward passes that need nothing over the batch.

use super::Mask;
use super::rows::{ByChannels, by_channels, load, store};
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;

/// Masks `dy` in place; `x` is what [`Mask::Affine`] applies to.
///
/// # Panics
/// If the lengths do not fit.
pub fn mask(isa: Isa, mask: Mask<'_>, x: &[f32], dy: &mut [f32]) {
    match mask {
        Mask::None => {}
        Mask::Positive(y) => {
            assert_eq!(y.len(), dy.len());
            isa.dispatch(Gate::<false> {
                scale: &[],
                shift: &[],
                // Rows of any width will do.
                channels: y.len(),
                x: y,
                dy,
            });
        }
        Mask::Affine(scale, shift) => {
            let channels = scale.len();
            assert!(shift.len() == channels && x.len() == dy.len());
            assert!(x.len().is_multiple_of(channels));
            isa.dispatch(Gate::<true> {
                scale,
                shift,
                channels,
                x,
                dy,
            });
        }
    }
}

struct Gate<'a, const AFFINE: bool> {
    scale: &'a [f32],
    shift: &'a [f32],
    channels: usize,
    x: &'a [f32],
    dy: &'a mut [f32],
}

impl<const AFFINE: bool> Kernel for Gate<'_, AFFINE> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        by_channels(simd, self.channels, &mut self);
    }
}

impl<const AFFINE: bool> ByChannels for Gate<'_, AFFINE> {
    #[inline(always)]
    fn rows<S: Simd, const V: usize, const P: bool>(&mut self, simd: S, c: usize, n: usize) {
        // SAFETY: the channels from `c` on exist in each row of `x` and `dy`,
        // which are equally long, and, if `AFFINE`, in `scale` and `shift`.
        unsafe {
            let (mut scale, mut shift) = ([simd.zero(); V], [simd.zero(); V]);
            if AFFINE {
                scale = load::<S, V, P>(simd, self.scale.as_ptr().add(c), n);
                shift = load::<S, V, P>(simd, self.shift.as_ptr().add(c), n);
            }
            for at in (c..self.x.len()).step_by(self.channels) {
                let mut gate = load::<S, V, P>(simd, self.x.as_ptr().add(at), n);
                let mut g = load::<S, V, P>(simd, self.dy.as_ptr().add(at), n);
                for v in 0..V {
                    if AFFINE {
                        gate[v] = simd.mul_add(gate[v], scale[v], shift[v]);
                    }
                    g[v] = simd.select_gt(gate[v], simd.zero(), g[v], simd.zero());
                }
                store::<S, V, P>(simd, self.dy.as_mut_ptr().add(at), n, g);
            }
        }
    }
}

/// `dx = scale * dy` per channel.
///
/// # Panics
/// If the lengths do not fit.
pub fn scale(isa: Isa, scale: &[f32], dy: &[f32], dx: &mut [f32]) {
    assert!(dy.len().is_multiple_of(scale.len()) && dy.len() == dx.len());
    isa.dispatch(Scale { scale, dy, dx });
}

struct Scale<'a> {
    scale: &'a [f32],
    dy: &'a [f32],
    dx: &'a mut [f32],
}

impl Kernel for Scale<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        by_channels(simd, self.scale.len(), &mut self);
    }
}

impl ByChannels for Scale<'_> {
    #[inline(always)]
    fn rows<S: Simd, const V: usize, const P: bool>(&mut self, simd: S, c: usize, n: usize) {
        // SAFETY: the channels from `c` on exist in each row of `dy` and `dx`,
        // which are equally long, and in `scale`.
        unsafe {
            let scale = load::<S, V, P>(simd, self.scale.as_ptr().add(c), n);
            for at in (c..self.dy.len()).step_by(self.scale.len()) {
                let mut g = load::<S, V, P>(simd, self.dy.as_ptr().add(at), n);
                for v in 0..V {
                    g[v] = simd.mul(g[v], scale[v]);
                }
                store::<S, V, P>(simd, self.dx.as_mut_ptr().add(at), n, g);
            }
        }
    }
}
