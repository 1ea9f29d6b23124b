//! Products of matrices that are both computed, as in attention.

use crate::gemm::{Ahead, Panels, Sink, panel};
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;

/// A factor: `rows x columns` row by row, or turned around.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// Its values.
    pub values: &'a [f32],
    /// They are those of the transposed matrix.
    pub transposed: bool,
}

impl<'a> Matrix<'a> {
    /// As it lies there.
    pub fn new(values: &'a [f32]) -> Self {
        Self {
            values,
            transposed: false,
        }
    }

    /// The transposed of what lies there.
    pub fn transposed(values: &'a [f32]) -> Self {
        Self {
            values,
            transposed: true,
        }
    }
}

/// Sizes of a product: `rows x depth` times `depth x columns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Of the first factor and of the result.
    pub rows: usize,
    /// Of the second factor, and columns of the first.
    pub depth: usize,
    /// Of the second factor and of the result.
    pub columns: usize,
}

impl Product {
    /// Floats of scratch that [`Product::run`] needs.
    pub fn scratch_len(&self, isa: Isa) -> usize {
        self.depth * (Panels::new(isa, self.columns).padded() + self.rows)
    }

    /// `y = a b`, or `y += a b`.
    ///
    /// # Panics
    /// If a length is wrong.
    pub fn run(
        &self,
        isa: Isa,
        a: Matrix<'_>,
        b: Matrix<'_>,
        accumulate: bool,
        y: &mut [f32],
        scratch: &mut [f32],
    ) {
        let Self {
            rows,
            depth,
            columns,
        } = *self;
        assert_eq!(a.values.len(), rows * depth);
        assert_eq!(b.values.len(), depth * columns);
        assert_eq!(y.len(), rows * columns);
        let panels = Panels::new(isa, columns);
        let (packed, rest) = scratch.split_at_mut(depth * panels.padded());
        pack(&panels, depth, b, packed);
        let mut left = a.values;
        if a.transposed {
            let turned = &mut rest[..rows * depth];
            turn(a.values, depth, rows, turned);
            left = turned;
        }
        isa.dispatch(Run {
            product: *self,
            panels,
            a: left,
            packed,
            accumulate,
            y,
        });
    }
}

/// `y = x^T` for `x` of `rows x columns`, in blocks that stay in the cache.
fn turn(x: &[f32], rows: usize, columns: usize, y: &mut [f32]) {
    const BLOCK: usize = 16;
    for first in (0..columns).step_by(BLOCK) {
        let last = columns.min(first + BLOCK);
        for (row, x) in x.chunks_exact(columns).enumerate() {
            for column in first..last {
                y[column * rows + row] = x[column];
            }
        }
    }
}

/// The second factor in panels; see [`Panels::pack`].
pub(crate) fn pack(panels: &Panels, depth: usize, b: Matrix<'_>, packed: &mut [f32]) {
    let n = panels.n;
    let mut rest = packed;
    for p in 0..panels.count() {
        let (first, width) = (p * panels.width(), panels.width_of(p));
        let (panel, tail) = rest.split_at_mut(depth * width);
        rest = tail;
        let real = width.min(n - first);
        if b.transposed {
            if real < width {
                panel.fill(0.0);
            }
            for j in 0..real {
                let column = &b.values[(first + j) * depth..][..depth];
                for (row, &value) in panel.chunks_exact_mut(width).zip(column) {
                    row[j] = value;
                }
            }
        } else {
            for (k, row) in panel.chunks_exact_mut(width).enumerate() {
                row[..real].copy_from_slice(&b.values[k * n + first..][..real]);
                row[real..].fill(0.0);
            }
        }
    }
}

struct Run<'a> {
    product: Product,
    panels: Panels,
    a: &'a [f32],
    packed: &'a [f32],
    accumulate: bool,
    y: &'a mut [f32],
}

impl Kernel for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Product { depth, columns, .. } = self.product;
        let rows: Vec<*const f32> = self.a.chunks_exact(depth).map(<[f32]>::as_ptr).collect();
        let mut w = self.packed;
        for p in 0..self.panels.count() {
            let (first, width) = (p * self.panels.width(), self.panels.width_of(p));
            let sink = Sink {
                accumulate: self.accumulate,
                ..Sink::plain(
                    self.y[first..].as_mut_ptr(),
                    columns,
                    width.min(columns - first),
                )
            };
            // SAFETY: every row has `depth` floats, the panel `depth * width`, and the
            // outputs are the panel's columns of all rows of `y`, whose length `run`
            // has checked.
            unsafe {
                panel(
                    s,
                    &rows,
                    &[0],
                    depth,
                    w.as_ptr(),
                    width / S::LANES,
                    sink,
                    Ahead::NOTHING,
                )
            };
            w = &w[depth * width..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_agree_with_plain_loops() {
        let values = |n: usize, key: usize| -> Vec<f32> {
            (0..n)
                .map(|i| ((i * 37 + key * 11) % 101) as f32 / 50.0 - 1.0)
                .collect()
        };
        for isa in Isa::available() {
            for (rows, depth, columns) in [
                (1, 1, 1),
                (3, 5, 7),
                (6, 16, 16),
                (17, 9, 33),
                (49, 32, 49),
                (4, 3, 40),
            ] {
                let product = Product {
                    rows,
                    depth,
                    columns,
                };
                let (a, b) = (values(rows * depth, 1), values(depth * columns, 2));
                let (mut at, mut bt) = (a.clone(), b.clone());
                turn(&a, rows, depth, &mut at);
                turn(&b, depth, columns, &mut bt);
                let mut scratch = vec![f32::NAN; product.scratch_len(isa)];
                for a_form in [Matrix::new(&a), Matrix::transposed(&at)] {
                    for b_form in [Matrix::new(&b), Matrix::transposed(&bt)] {
                        for accumulate in [false, true] {
                            let mut y = vec![0.5; rows * columns];
                            product.run(isa, a_form, b_form, accumulate, &mut y, &mut scratch);
                            for (i, &y) in y.iter().enumerate() {
                                let (r, c) = (i / columns, i % columns);
                                let sum: f64 = (0..depth)
                                    .map(|k| {
                                        f64::from(a[r * depth + k]) * f64::from(b[k * columns + c])
                                    })
                                    .sum();
                                let want = sum + if accumulate { 0.5 } else { 0.0 };
                                assert!((f64::from(y) - want).abs() < 1e-5, "{isa} {product:?}");
                            }
                        }
                    }
                }
            }
        }
    }
}
