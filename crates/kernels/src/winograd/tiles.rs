//! One tile: from the image into `V`, and from `M` into the output.

use super::transform::Filtering;
use crate::conv::RawEpilogue;
use crate::geometry::Shape;
use crate::simd::{Simd, relu};
use std::ops::Range;

/// An `A x A` patch of an image; it may reach beyond the border, where the
/// image is 0.
pub(crate) struct Patch<'a> {
    /// Of the image.
    pub shape: Shape,
    pub x: &'a [f32],
    /// One pixel of zeros.
    pub zeros: &'a [f32],
    pub top: isize,
    pub left: isize,
}

/// Writes `B^T d B` of a patch to `v[position * stride + channel]`.
#[inline(always)]
pub(crate) fn forward<S: Simd, F: Filtering<A, M>, const A: usize, const M: usize>(
    s: S,
    patch: &Patch<'_>,
    v: &mut [f32],
    stride: usize,
) {
    let Shape {
        height,
        width,
        channels,
    } = patch.shape;
    assert_eq!(patch.x.len(), patch.shape.len());
    assert!(patch.zeros.len() >= channels);
    assert!(v.len() >= (A * A - 1) * stride + channels.next_multiple_of(S::LANES));
    let inside = |at: isize, size: usize| at >= 0 && at.cast_unsigned() < size;
    let fits = |at: isize, size: usize| at >= 0 && at.cast_unsigned() + A <= size;
    // Addresses of the pixels, those beyond the border at the zeros.
    let mut pixels = [[patch.zeros.as_ptr(); A]; A];
    if fits(patch.top, height) && fits(patch.left, width) {
        let first = (patch.top.cast_unsigned() * width + patch.left.cast_unsigned()) * channels;
        for i in 0..A {
            for j in 0..A {
                // SAFETY: all of the patch lies inside the image.
                pixels[i][j] = unsafe { patch.x.as_ptr().add(first + (i * width + j) * channels) };
            }
        }
    } else {
        for i in 0..A {
            let y = patch.top + i.cast_signed();
            for j in 0..A {
                let x = patch.left + j.cast_signed();
                if inside(y, height) && inside(x, width) {
                    let at = (y.cast_unsigned() * width + x.cast_unsigned()) * channels;
                    // SAFETY: this pixel lies inside the image.
                    pixels[i][j] = unsafe { patch.x.as_ptr().add(at) };
                }
            }
        }
    }
    let mut c = 0;
    while c < channels {
        let n = S::LANES.min(channels - c);
        // SAFETY: every address has `channels` floats behind it, of which
        // `c .. c + n` are read; `v` was checked above, and a whole vector fits
        // behind its channels.
        unsafe {
            if n == S::LANES {
                one::<S, F, A, M>(s, &pixels, v.as_mut_ptr().add(c), stride, |p| {
                    s.load(p.add(c))
                });
            } else {
                one::<S, F, A, M>(s, &pixels, v.as_mut_ptr().add(c), stride, |p| {
                    s.load_partial(p.add(c), n)
                });
            }
        }
        c += S::LANES;
    }
}

/// One vector of channels of a patch.
///
/// # Safety
/// `load` must be able to read at all addresses; `v + position * stride` must
/// be writable for a vector.
#[inline(always)]
unsafe fn one<S: Simd, F: Filtering<A, M>, const A: usize, const M: usize>(
    s: S,
    pixels: &[[*const f32; A]; A],
    v: *mut f32,
    stride: usize,
    load: impl Fn(*const f32) -> S::V,
) {
    let mut half = [[s.zero(); A]; A];
    for j in 0..A {
        let mut d = [s.zero(); A];
        for i in 0..A {
            d[i] = load(pixels[i][j]);
        }
        let d = F::input(s, d);
        for i in 0..A {
            half[i][j] = d[i];
        }
    }
    for i in 0..A {
        let d = F::input(s, half[i]);
        for j in 0..A {
            // SAFETY: by the contract.
            unsafe { s.store(v.add((i * A + j) * stride), d[j]) };
        }
    }
}

/// Writes `A^T m A`, through the epilogue, to the output tile at `corner`; `m`
/// is read at `position * stride + channel`.
///
/// # Safety
/// `y` and the residual must hold one image of shape `output`, the bias one
/// value a channel; nobody else may touch the tile's `channels` meanwhile.
#[inline(always)]
#[expect(
    clippy::too_many_arguments,
    reason = "a tile, its place and its epilogue"
)]
pub(super) unsafe fn backward<S: Simd, F: Filtering<A, M>, const A: usize, const M: usize>(
    s: S,
    m: &[f32],
    stride: usize,
    output: Shape,
    corner: [usize; 2],
    channels: Range<usize>,
    epilogue: RawEpilogue,
    y: *mut f32,
) {
    let pixel = output.channels;
    assert!(channels.end <= pixel && channels.start.is_multiple_of(S::LANES));
    assert!(m.len() >= (A * A - 1) * stride + channels.end.next_multiple_of(S::LANES));
    assert!(corner[0] < output.height && corner[1] < output.width);
    let rows = M.min(output.height - corner[0]);
    let columns = M.min(output.width - corner[1]);
    let first = (corner[0] * output.width + corner[1]) * pixel;
    let mut c = channels.start;
    while c < channels.end {
        let n = S::LANES.min(channels.end - c);
        let whole = n == S::LANES;
        // SAFETY: `m` was checked above. Outputs and residuals are addressed
        // at rows below `rows`, columns below `columns`, channels `c .. c + n`
        // of the tile, all inside the image; the bias has one value a channel.
        unsafe {
            let mut half = [[s.zero(); A]; M];
            for j in 0..A {
                let mut d = [s.zero(); A];
                for i in 0..A {
                    d[i] = s.load(m.as_ptr().add((i * A + j) * stride + c));
                }
                let d = F::output(s, d);
                for i in 0..M {
                    half[i][j] = d[i];
                }
            }
            let bias = if epilogue.bias.is_null() {
                s.zero()
            } else if whole {
                s.load(epilogue.bias.add(c))
            } else {
                s.load_partial(epilogue.bias.add(c), n)
            };
            for i in 0..M {
                let d = F::output(s, half[i]);
                if i >= rows {
                    break;
                }
                for j in 0..M {
                    if j >= columns {
                        break;
                    }
                    let at = first + (i * output.width + j) * pixel + c;
                    debug_assert!(at + n <= output.len());
                    let mut sum = s.add(d[j], bias);
                    if !epilogue.residual.is_null() {
                        let r = epilogue.residual.add(at);
                        let r = if whole {
                            s.load(r)
                        } else {
                            s.load_partial(r, n)
                        };
                        sum = s.add(sum, r);
                    }
                    if epilogue.relu {
                        sum = relu(s, sum);
                    }
                    if whole {
                        s.store(y.add(at), sum);
                    } else {
                        s.store_partial(y.add(at), n, sum);
                    }
                }
            }
        }
        c += S::LANES;
    }
}
