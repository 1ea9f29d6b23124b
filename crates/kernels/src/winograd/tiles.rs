//! One tile: from the image into `V`, and from `M` into the output.

use super::transform::Filtering;
use crate::conv::RawEpilogue;
use crate::geometry::Shape;
use crate::simd::Simd;
use std::mem::MaybeUninit;
use std::ops::Range;

/// An `A x A` patch of an image; it may reach beyond the border, where the
/// image is 0.
pub(crate) struct Patch<'a> {
    /// Of the image.
    pub shape: Shape,
    pub x: &'a [f32],
    /// As many pixels of zeros as a row of the patch has.
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
    assert!(patch.zeros.len() >= A * channels);
    assert!(v.len() >= (A * A - 1) * stride + channels.next_multiple_of(S::LANES));
    // Columns of the patch that are in the image.
    let from = (-patch.left).clamp(0, A.cast_signed()).cast_unsigned();
    let to = (width.cast_signed() - patch.left).clamp(0, A.cast_signed());
    let columns = from..to.cast_unsigned();
    // Addresses of the patch's rows, those beyond the border at the zeros.
    // Counted up: products would cost as much as the transform.
    let mut rows = [patch.zeros.as_ptr(); A];
    let row = (width * channels).cast_signed();
    let mut from_top = patch.top * row + patch.left * channels.cast_signed();
    for i in 0..A {
        let at = patch.top + i.cast_signed();
        if at >= 0 && at.cast_unsigned() < height {
            rows[i] = patch.x.as_ptr().wrapping_offset(from_top);
        }
        from_top += row;
    }
    let mut c = 0;
    while c < channels {
        let n = S::LANES.min(channels - c);
        // SAFETY: every row has its `columns` of `channels` floats, of which
        // `c .. c + n` are read: in the image, or in the zeros, which hold all
        // columns; `v` was checked above, and a whole vector fits behind its
        // channels.
        unsafe {
            let v = v.as_mut_ptr().add(c);
            if n == S::LANES {
                let load = |p: *const f32| s.load(p.wrapping_add(c));
                one::<S, F, A, M>(s, &rows, &columns, channels, v, stride, load);
            } else {
                let load = |p: *const f32| s.load_partial(p.wrapping_add(c), n);
                one::<S, F, A, M>(s, &rows, &columns, channels, v, stride, load);
            }
        }
        c += S::LANES;
    }
}

/// One vector of channels of a patch.
///
/// # Safety
/// `load` must be able to read at the `columns` of all `rows`, `pixel` floats
/// apart; `v + position * stride` must be writable for a vector.
#[inline(always)]
unsafe fn one<S: Simd, F: Filtering<A, M>, const A: usize, const M: usize>(
    s: S,
    rows: &[*const f32; A],
    columns: &Range<usize>,
    pixel: usize,
    mut v: *mut f32,
    stride: usize,
    load: impl Fn(*const f32) -> S::V,
) {
    // Zeros here would be written to memory and read by nobody.
    let mut half = [[MaybeUninit::uninit(); A]; A];
    for j in 0..A {
        let mut d = [s.zero(); A];
        if columns.contains(&j) {
            for i in 0..A {
                d[i] = load(rows[i].wrapping_add(j * pixel));
            }
            d = F::input(s, d);
        }
        for i in 0..A {
            half[i][j] = MaybeUninit::new(d[i]);
        }
    }
    // SAFETY: all of it was written.
    let half = unsafe { &*half.as_ptr().cast::<[[S::V; A]; A]>() };
    for i in 0..A {
        let d = F::input(s, half[i]);
        for j in 0..A {
            // SAFETY: by the contract.
            unsafe { s.store(v, d[j]) };
            v = v.wrapping_add(stride);
        }
    }
}

/// Writes `A^T m A`, through the epilogue, to the output tile at `corner`; `m`
/// is read at `position * stride + channel`.
///
/// # Safety
/// `y` and the residual must hold one image of shape `output`, the bias and the sums one
/// value a channel; nobody else may touch the tile's `channels` or the sums meanwhile.
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
    let floor = s.splat(if epilogue.relu {
        0.0
    } else {
        f32::NEG_INFINITY
    });
    let mut c = channels.start;
    while c < channels.end {
        let n = S::LANES.min(channels.end - c);
        let whole = n == S::LANES;
        // SAFETY: `m` was checked above. Outputs and residuals are addressed
        // at rows below `rows`, columns below `columns`, channels `c .. c + n`
        // of the tile, all inside the image; the bias has one value a channel.
        unsafe {
            let half = half::<S, F, A, M>(s, m.as_ptr().add(c), stride);
            let bias = if epilogue.bias.is_null() {
                s.zero()
            } else if whole {
                s.load(epilogue.bias.add(c))
            } else {
                s.load_partial(epilogue.bias.add(c), n)
            };
            let (y, residual) = (y.add(first + c), epilogue.residual.wrapping_add(first + c));
            let at = |i: usize, j: usize| (i * output.width + j) * pixel;
            let full = whole && rows == M && columns == M;
            if !epilogue.sums.is_none() {
                let sums = epilogue.sums.from(c);
                let pivot = sums.pivot(s, n);
                // Two chains each: one would take longer than the transform.
                let (mut sum, mut square) = ([s.zero(); 2], [s.zero(); 2]);
                finish::<S, F, A, M>(s, &half, bias, |i, j, value| {
                    if !full && (i >= rows || j >= columns) {
                        return;
                    }
                    let distance = s.sub(value, pivot);
                    sum[i % 2] = s.add(sum[i % 2], distance);
                    square[i % 2] = s.mul_add(distance, distance, square[i % 2]);
                    if full {
                        s.store(y.add(at(i, j)), value);
                    } else {
                        s.store_partial(y.add(at(i, j)), n, value);
                    }
                });
                sums.add(s, n, s.add(sum[0], sum[1]), s.add(square[0], square[1]));
            } else if full && epilogue.residual.is_null() {
                finish::<S, F, A, M>(s, &half, bias, |i, j, sum| {
                    s.store(y.add(at(i, j)), s.max(floor, sum));
                });
            } else if full {
                finish::<S, F, A, M>(s, &half, bias, |i, j, sum| {
                    let sum = s.add(sum, s.load(residual.add(at(i, j))));
                    s.store(y.add(at(i, j)), s.max(floor, sum));
                });
            } else {
                finish::<S, F, A, M>(s, &half, bias, |i, j, mut sum| {
                    if i >= rows || j >= columns {
                        return;
                    }
                    debug_assert!(first + at(i, j) + c + n <= output.len());
                    if !epilogue.residual.is_null() {
                        sum = s.add(sum, s.load_partial(residual.add(at(i, j)), n));
                    }
                    s.store_partial(y.add(at(i, j)), n, s.max(floor, sum));
                });
            }
        }
        c += S::LANES;
    }
}

/// The first half of `A^T m A`: `m A`, row by row, so that the addresses follow
/// each other at one distance.
///
/// # Safety
/// `m + position * stride` must be readable for a vector at every position.
#[inline(always)]
pub(crate) unsafe fn half<S: Simd, F: Filtering<A, M>, const A: usize, const M: usize>(
    s: S,
    mut m: *const f32,
    stride: usize,
) -> [[S::V; M]; A] {
    // Zeros here would be written to memory and read by nobody.
    let mut half = [[MaybeUninit::uninit(); M]; A];
    for i in 0..A {
        let mut d = [s.zero(); A];
        for j in 0..A {
            // SAFETY: by the contract.
            d[j] = unsafe { s.load(m) };
            m = m.wrapping_add(stride);
        }
        let d = F::output(s, d);
        for j in 0..M {
            half[i][j] = MaybeUninit::new(d[j]);
        }
    }
    // SAFETY: all of it was written.
    unsafe { *half.as_ptr().cast::<[[S::V; M]; A]>() }
}

/// The second half: hands every output of a tile to `put`.
#[inline(always)]
pub(crate) fn finish<S: Simd, F: Filtering<A, M>, const A: usize, const M: usize>(
    s: S,
    half: &[[S::V; M]; A],
    bias: S::V,
    mut put: impl FnMut(usize, usize, S::V),
) {
    for j in 0..M {
        let mut column = [s.zero(); A];
        for i in 0..A {
            column[i] = half[i][j];
        }
        let d = F::output(s, column);
        for i in 0..M {
            put(i, j, s.add(d[i], bias));
        }
    }
}
