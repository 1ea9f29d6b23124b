//! `Z`: tiles of the inputs, transformed.

use super::{PATCH, TILE, TilePlace};
use crate::geometry::Shape;
use crate::gradient::ConvInputs;
use crate::gradient::tile::BLOCK;
use crate::simd::Simd;
use crate::winograd::transform::{FAR, NEAR};

/// Where the transforms of tiles go: `[position][block][tile][BLOCK]`.
pub(super) struct Planes<'a> {
    pub inputs: ConvInputs<'a>,
    /// Of an input.
    pub shape: Shape,
    /// Floats of a block.
    pub plane: usize,
    /// Floats from one position to the next.
    pub stride: usize,
}

impl Planes<'_> {
    /// Writes `G g G^T` of the tile at `place` as number `tile`; zeros beyond
    /// the border.
    #[inline(always)]
    pub fn transform<S: Simd>(&self, simd: S, place: TilePlace, tile: usize, z: &mut [f32]) {
        match self.inputs.factors {
            None => self.channels::<S, false>(simd, (&[], &[]), place, tile, z),
            Some(factors) => self.channels::<S, true>(simd, factors, place, tile, z),
        }
    }

    /// Asks for the tile at `place`, which may lie beyond the last one: tiles jump
    /// from row to row, which the CPU does not foresee.
    #[inline(always)]
    pub fn prefetch<S: Simd>(&self, simd: S, (image, top, left): TilePlace) {
        let row = self.shape.width * self.shape.channels;
        let first = image * self.shape.len() + top * row + left * self.shape.channels;
        for i in 0..TILE {
            let x = self.inputs.x.as_ptr().wrapping_add(first + i * row);
            for line in (0..TILE * self.shape.channels).step_by(16) {
                simd.prefetch(x.wrapping_add(line));
            }
        }
    }

    #[inline(always)]
    fn channels<S: Simd, const FACTORS: bool>(
        &self,
        simd: S,
        (scale, shift): (&[f32], &[f32]),
        (image, top, left): TilePlace,
        tile: usize,
        z: &mut [f32],
    ) {
        const { assert!(BLOCK.is_multiple_of(S::LANES)) };
        let Shape {
            height,
            width,
            channels,
        } = self.shape;
        let rows = TILE.min(height - top);
        let columns = TILE.min(width - left);
        let first = image * self.shape.len() + (top * width + left) * channels;
        let last = first + ((rows - 1) * width + columns - 1) * channels;
        let end = (PATCH * PATCH - 1) * self.stride
            + (channels / BLOCK - 1) * self.plane
            + (tile + 1) * BLOCK;
        assert!(last + channels <= self.inputs.x.len() && end <= z.len());
        assert!(channels.is_multiple_of(BLOCK));
        assert!(!FACTORS || (scale.len() >= channels && shift.len() >= channels));
        let floor = simd.splat(if self.inputs.relu {
            0.0
        } else {
            f32::NEG_INFINITY
        });
        let full = rows == TILE && columns == TILE;
        for c in (0..channels).step_by(S::LANES) {
            // SAFETY: the assertions bound the tile's pixels in `x`, the channels
            // of the factors, and the last position, block and tile in `z`.
            unsafe {
                let x = self.inputs.x.as_ptr().add(first + c);
                let mut g = [[simd.zero(); TILE]; TILE];
                for i in 0..TILE {
                    for j in 0..TILE {
                        if full || (i < rows && j < columns) {
                            g[i][j] = simd.load(x.add((i * width + j) * channels));
                        }
                    }
                }
                if FACTORS {
                    let scale = simd.load(scale.as_ptr().add(c));
                    let shift = simd.load(shift.as_ptr().add(c));
                    for i in 0..TILE {
                        for j in 0..TILE {
                            if full || (i < rows && j < columns) {
                                let value = simd.mul_add(g[i][j], scale, shift);
                                g[i][j] = simd.max(floor, value);
                            }
                        }
                    }
                }
                let mut half = [[simd.zero(); TILE]; PATCH];
                for j in 0..TILE {
                    let column = spread(simd, [g[0][j], g[1][j], g[2][j], g[3][j]]);
                    for i in 0..PATCH {
                        half[i][j] = column[i];
                    }
                }
                let at = c / BLOCK * self.plane + tile * BLOCK + c % BLOCK;
                let mut z = z.as_mut_ptr().add(at);
                for i in 0..PATCH {
                    let row = spread(simd, half[i]);
                    for j in 0..PATCH {
                        simd.store(z, row[j]);
                        z = z.wrapping_add(self.stride);
                    }
                }
            }
        }
    }
}

/// Values of the polynomial with these coefficients at the points of F(4, 3).
#[inline(always)]
fn spread<S: Simd>(simd: S, g: [S::V; TILE]) -> [S::V; PATCH] {
    let at = |point: f64| (simd.splat(point as f32), simd.splat((point * point) as f32));
    let ((a, aa), (b, bb)) = (at(NEAR), at(FAR));
    let (even, odd) = (simd.mul_add(aa, g[2], g[0]), simd.mul_add(aa, g[3], g[1]));
    let far_even = simd.mul_add(bb, g[2], g[0]);
    let far_odd = simd.mul_add(bb, g[3], g[1]);
    [
        g[0],
        simd.mul_add(a, odd, even),
        simd.neg_mul_add(a, odd, even),
        simd.mul_add(b, far_odd, far_even),
        simd.neg_mul_add(b, far_odd, far_even),
        g[3],
    ]
}
