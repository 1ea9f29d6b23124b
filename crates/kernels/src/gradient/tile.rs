//! The register tile of weight gradients.

use crate::isa::{Isa, Kernel};
use crate::simd::Simd;

/// Channels of a packed plane: two vectors of eight, or one of sixteen.
pub(super) const BLOCK: usize = 16;
/// Columns of a register tile of vectors of eight: with two each, twelve sums.
pub(super) const COLUMNS: usize = 6;
/// The same of sixteen, one vector each.
pub(super) const WIDE_COLUMNS: usize = 16;
/// The same of sixteen where columns lie beside each other: with two vectors each,
/// sixteen sums for ten loads.
pub(super) const NEAR_COLUMNS: usize = 8;

/// Whether a vector is a whole block.
pub(super) const fn is_wide<S: Simd>() -> bool {
    S::LANES == BLOCK
}

/// Columns of a register tile on this instruction set.
pub(super) fn columns(isa: Isa) -> usize {
    struct Columns;
    impl Kernel for Columns {
        type Output = usize;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> usize {
            if is_wide::<S>() {
                WIDE_COLUMNS
            } else {
                COLUMNS
            }
        }
    }
    isa.dispatch(Columns)
}

/// The pixels of one pass: how to step through packed input planes.
pub(super) struct Walk {
    pub images: usize,
    pub rows: usize,
    pub width: usize,
    /// Floats from one image, row or pixel to the next.
    pub x_image: usize,
    pub x_row: usize,
    pub x_pixel: usize,
}

impl Walk {
    /// Rows that follow each other without a gap are one long row.
    pub fn merge_rows(&mut self) {
        if self.x_row == self.width * self.x_pixel {
            self.width *= self.rows;
            self.rows = 1;
        }
        if self.rows == 1 && self.x_image == self.width * self.x_pixel {
            self.width *= self.images;
            self.images = 1;
        }
    }

    /// Adds one register tile, `C` columns by [`BLOCK`] in steps of `V` vectors,
    /// to `tile`; a `fresh` one is overwritten.
    #[inline(always)]
    pub fn tile<S: Simd, const C: usize, const V: usize>(
        &self,
        simd: S,
        x: &[f32],
        columns: &[usize; C],
        dy: &[f32],
        tile: &mut [f32],
        fresh: bool,
    ) {
        assert!(BLOCK.is_multiple_of(V * S::LANES));
        let pixels = self.images * self.rows * self.width;
        let last_pixel = (self.images - 1) * self.x_image
            + (self.rows - 1) * self.x_row
            + (self.width - 1) * self.x_pixel;
        let last_column = columns.iter().max().expect("a tile has columns");
        assert!(last_pixel + last_column < x.len());
        assert!(pixels * BLOCK <= dy.len() && tile.len() == C * BLOCK);
        for first in (0..BLOCK).step_by(V * S::LANES) {
            // SAFETY: the assertions above bound every address formed here:
            // `x` by the last pixel and column, `dy` by the number of pixels,
            // `tile` by its length; `first + V * LANES <= BLOCK`.
            unsafe {
                let tile = tile.as_mut_ptr().add(first);
                let mut dy = dy.as_ptr().add(first);
                let mut sums = [[simd.zero(); V]; C];
                for image in 0..self.images {
                    for row in 0..self.rows {
                        let mut x = x.as_ptr().add(image * self.x_image + row * self.x_row);
                        for _ in 0..self.width {
                            let mut d = [simd.zero(); V];
                            for (v, d) in d.iter_mut().enumerate() {
                                *d = simd.load(dy.add(v * S::LANES));
                            }
                            for (sums, &column) in sums.iter_mut().zip(columns) {
                                let x = simd.broadcast(x.add(column));
                                for v in 0..V {
                                    sums[v] = simd.mul_add(x, d[v], sums[v]);
                                }
                            }
                            x = x.wrapping_add(self.x_pixel);
                            dy = dy.wrapping_add(BLOCK);
                        }
                    }
                }
                for (column, sums) in sums.iter().enumerate() {
                    for (half, &sum) in sums.iter().enumerate() {
                        let p = tile.add(column * BLOCK + half * S::LANES);
                        let sum = if fresh {
                            sum
                        } else {
                            simd.add(simd.load(p), sum)
                        };
                        simd.store(p, sum);
                    }
                }
            }
        }
    }

    /// Adds one register tile of wide vectors to `sums`: `C` columns that lie beside
    /// each other, from `column` on, by `V` blocks of outputs. The blocks' planes are
    /// `plane` floats apart in `dy`, their sums `block` floats apart. Fresh sums are
    /// overwritten.
    ///
    /// With columns at constant distances the addresses of a step need two registers.
    #[inline(always)]
    pub fn wide<S: Simd, const C: usize, const V: usize>(
        &self,
        simd: S,
        x: &[f32],
        column: usize,
        (dy, plane): (&[f32], usize),
        (sums, block): (&mut [f32], usize),
        fresh: bool,
    ) {
        assert_eq!(S::LANES, BLOCK);
        let pixels = self.images * self.rows * self.width;
        let last_pixel = (self.images - 1) * self.x_image
            + (self.rows - 1) * self.x_row
            + (self.width - 1) * self.x_pixel;
        assert!(last_pixel + column + C <= x.len());
        assert!((V - 1) * plane + pixels * BLOCK <= dy.len());
        assert!((V - 1) * block + C * BLOCK <= sums.len());
        // SAFETY: the assertions above bound every address formed here: `x` by the last
        // pixel and column, `dy` by the last plane's pixels, `sums` by the last block.
        unsafe {
            let mut dy = dy.as_ptr();
            let mut tile = [[simd.zero(); V]; C];
            for image in 0..self.images {
                for row in 0..self.rows {
                    let start = image * self.x_image + row * self.x_row + column;
                    let mut x = x.as_ptr().add(start);
                    for _ in 0..self.width {
                        let mut d = [simd.zero(); V];
                        for v in 0..V {
                            d[v] = simd.load(dy.add(v * plane));
                        }
                        for c in 0..C {
                            let x = simd.broadcast(x.add(c));
                            for v in 0..V {
                                tile[c][v] = simd.mul_add(x, d[v], tile[c][v]);
                            }
                        }
                        x = x.wrapping_add(self.x_pixel);
                        dy = dy.wrapping_add(BLOCK);
                    }
                }
            }
            for c in 0..C {
                for v in 0..V {
                    let p = sums.as_mut_ptr().add(v * block + c * BLOCK);
                    if !fresh {
                        tile[c][v] = simd.add(simd.load(p), tile[c][v]);
                    }
                    simd.store(p, tile[c][v]);
                }
            }
        }
    }
}
