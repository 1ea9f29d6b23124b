//! The gradient of the inputs, tile by tile.

use super::{PATCH, TILE, TilePlace};
use crate::geometry::Shape;
use crate::gradient::InputPass;
use crate::norm::Mask;
use crate::simd::Simd;
use crate::winograd::tiles;
use crate::winograd::transform::{Filtering, Four};
use std::ptr::{null, null_mut};

const NONE: u8 = 0;
const POSITIVE: u8 = 1;
const AFFINE: u8 = 2;

/// Where `dx` goes, and what is done to it on the way, as addresses; null where
/// there is nothing to do.
pub(super) struct Outputs<'a> {
    /// Of one image.
    shape: Shape,
    images: usize,
    dx: &'a mut [f32],
    residual: *const f32,
    mask: u8,
    /// The ReLU's outputs, or the inputs of the batch norm.
    gate: *const f32,
    scale: *const f32,
    shift: *const f32,
    /// The inputs of the batch norm, their means, and the sums.
    x: *const f32,
    mean: *const f32,
    sum: *mut f32,
    dot: *mut f32,
}

impl<'a> Outputs<'a> {
    /// Checks the lengths, and starts the sums at 0.
    pub fn new(shape: Shape, pass: InputPass<'a>) -> Self {
        let (len, channels) = (pass.dx.len(), shape.channels);
        assert!(len.is_multiple_of(shape.len()));
        assert!(pass.residual.is_none_or(|r| r.len() == len));
        let mut outputs = Self {
            shape,
            images: len / shape.len(),
            dx: pass.dx,
            residual: pass.residual.map_or(null(), <[f32]>::as_ptr),
            mask: NONE,
            gate: null(),
            scale: null(),
            shift: null(),
            x: null(),
            mean: null(),
            sum: null_mut(),
            dot: null_mut(),
        };
        let Some(masking) = pass.masking else {
            return outputs;
        };
        match masking.mask {
            Mask::None => {}
            Mask::Positive(y) => {
                assert_eq!(y.len(), len);
                (outputs.mask, outputs.gate) = (POSITIVE, y.as_ptr());
            }
            Mask::Affine(scale, shift) => {
                assert!(scale.len() == channels && shift.len() == channels);
                assert_eq!(masking.x.len(), len);
                (outputs.mask, outputs.gate) = (AFFINE, masking.x.as_ptr());
                (outputs.scale, outputs.shift) = (scale.as_ptr(), shift.as_ptr());
            }
        }
        if let Some((sum, dot)) = masking.sums {
            assert!(masking.mean.len() == channels && masking.x.len() == len);
            assert!(sum.len() == channels && dot.len() == channels);
            sum.fill(0.0);
            dot.fill(0.0);
            (outputs.x, outputs.mean) = (masking.x.as_ptr(), masking.mean.as_ptr());
            (outputs.sum, outputs.dot) = (sum.as_mut_ptr(), dot.as_mut_ptr());
        }
        outputs
    }

    /// Asks for what the tile at `place` will be written with, and nothing else has read.
    #[inline(always)]
    pub fn prefetch<S: Simd>(&self, simd: S, (image, top, left): TilePlace) {
        let row = self.shape.width * self.shape.channels;
        let first = image * self.shape.len() + top * row + left * self.shape.channels;
        for values in [self.residual, self.x] {
            if values.is_null() {
                continue;
            }
            for i in 0..TILE {
                let values = values.wrapping_add(first + i * row);
                for line in (0..TILE * self.shape.channels).step_by(16) {
                    simd.prefetch(values.wrapping_add(line));
                }
            }
        }
    }

    /// Writes the tile at `place` from its products `m`.
    #[inline(always)]
    pub fn tile<S: Simd>(&mut self, simd: S, m: &[f32], stride: usize, place: TilePlace) {
        match (self.mask, self.sum.is_null()) {
            (NONE, true) => self.write::<S, NONE, false>(simd, m, stride, place),
            (NONE, false) => self.write::<S, NONE, true>(simd, m, stride, place),
            (POSITIVE, true) => self.write::<S, POSITIVE, false>(simd, m, stride, place),
            (POSITIVE, false) => self.write::<S, POSITIVE, true>(simd, m, stride, place),
            (_, true) => self.write::<S, AFFINE, false>(simd, m, stride, place),
            (_, false) => self.write::<S, AFFINE, true>(simd, m, stride, place),
        }
    }

    #[inline(always)]
    fn write<S: Simd, const MASK: u8, const SUMS: bool>(
        &mut self,
        simd: S,
        m: &[f32],
        stride: usize,
        (image, top, left): TilePlace,
    ) {
        let Shape {
            height,
            width,
            channels,
        } = self.shape;
        assert!(image < self.images && top < height && left < width);
        assert!(channels.is_multiple_of(S::LANES));
        assert!(m.len() >= (PATCH * PATCH - 1) * stride + channels);
        let (rows, columns) = (TILE.min(height - top), TILE.min(width - left));
        let first = image * self.shape.len() + (top * width + left) * channels;
        let zero = simd.zero();
        for c in (0..channels).step_by(S::LANES) {
            // SAFETY: `m` was checked above. All that is as long as `dx` is
            // addressed at rows below `rows`, columns below `columns` and
            // channels from `c` on of a tile inside the image, and what holds
            // one value a channel at `c`; the lengths were checked by `new`.
            unsafe {
                let half = tiles::half::<S, Four, PATCH, TILE>(simd, m.as_ptr().add(c), stride);
                let (mut scale, mut shift, mut mean) = (zero, zero, zero);
                if MASK == AFFINE {
                    scale = simd.load(self.scale.add(c));
                    shift = simd.load(self.shift.add(c));
                }
                if SUMS {
                    mean = simd.load(self.mean.add(c));
                }
                // Two chains each: one would take longer than the transform.
                let (mut sum, mut dot) = ([zero; 2], [zero; 2]);
                for j in 0..TILE {
                    if j >= columns {
                        break;
                    }
                    let mut column = [zero; PATCH];
                    for i in 0..PATCH {
                        column[i] = half[i][j];
                    }
                    let column = Four::output(simd, column);
                    for i in 0..TILE {
                        if i >= rows {
                            break;
                        }
                        let at = first + (i * width + j) * channels + c;
                        let mut g = column[i];
                        if !self.residual.is_null() {
                            g = simd.add(g, simd.load(self.residual.add(at)));
                        }
                        if MASK != NONE {
                            let mut gate = simd.load(self.gate.add(at));
                            if MASK == AFFINE {
                                gate = simd.mul_add(gate, scale, shift);
                            }
                            g = simd.select_gt(gate, zero, g, zero);
                        }
                        if SUMS {
                            let x = simd.load(self.x.add(at));
                            sum[i % 2] = simd.add(sum[i % 2], g);
                            dot[i % 2] = simd.mul_add(g, simd.sub(x, mean), dot[i % 2]);
                        }
                        simd.store(self.dx.as_mut_ptr().add(at), g);
                    }
                }
                if SUMS {
                    let (sums, dots) = (self.sum.add(c), self.dot.add(c));
                    let (sum, dot) = (simd.add(sum[0], sum[1]), simd.add(dot[0], dot[1]));
                    simd.store(sums, simd.add(simd.load(sums), sum));
                    simd.store(dots, simd.add(simd.load(dots), dot));
                }
            }
        }
    }
}
