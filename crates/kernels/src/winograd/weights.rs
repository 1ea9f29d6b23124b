//! `U = G g G^T`, in f64 and rounded once.

use super::transform::{Filtering, Four, Two};
use crate::buffer::Buffer;
use crate::gemm::Panels;
use crate::geometry::ConvShape;
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;

/// Output channels that are transformed together; divides every panel width.
const WIDTH: usize = 8;

/// `position x panel x channel x width`.
pub(super) fn packed(
    isa: Isa,
    shape: &ConvShape,
    weights: &[f32],
    size: usize,
    panels: Panels,
) -> Buffer {
    if size == 2 {
        packed_for::<Two, 4, 2>(isa, shape, weights, panels)
    } else {
        packed_for::<Four, 6, 4>(isa, shape, weights, panels)
    }
}

fn packed_for<F: Filtering<A, M>, const A: usize, const M: usize>(
    isa: Isa,
    shape: &ConvShape,
    weights: &[f32],
    panels: Panels,
) -> Buffer {
    let mut packed = Buffer::zeroed(A * A * shape.input.channels * panels.padded());
    isa.dispatch(Pack::<A> {
        g: F::G,
        channels: shape.input.channels,
        panels,
        weights,
        packed: &mut packed,
    });
    packed
}

struct Pack<'a, const A: usize> {
    g: [[f64; 3]; A],
    channels: usize,
    panels: Panels,
    weights: &'a [f32],
    packed: &'a mut [f32],
}

impl<const A: usize> Kernel for Pack<'_, A> {
    type Output = ();

    // Plain loops over `WIDTH` values: the compiler vectorises them for the
    // instruction set in question.
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let position = self.channels * self.panels.padded();
        for p in 0..self.panels.count() {
            let (first, width) = (p * self.panels.width(), self.panels.width_of(p));
            for c in 0..self.channels {
                for part in (0..width).step_by(WIDTH) {
                    let mut g = [[0.0; WIDTH]; 9];
                    for j in 0..WIDTH.min(self.panels.n.saturating_sub(first + part)) {
                        let at = ((first + part + j) * self.channels + c) * 9;
                        for (t, &w) in self.weights[at..at + 9].iter().enumerate() {
                            g[t][j] = f64::from(w);
                        }
                    }
                    let at = self.channels * first + c * width + part;
                    for (i, g_i) in self.g.iter().enumerate() {
                        let mut rows = [[0.0; WIDTH]; 3];
                        for t in 0..3 {
                            for j in 0..WIDTH {
                                rows[t][j] =
                                    g_i[0] * g[t][j] + g_i[1] * g[3 + t][j] + g_i[2] * g[6 + t][j];
                            }
                        }
                        for (k, g_k) in self.g.iter().enumerate() {
                            let to = &mut self.packed[(i * A + k) * position + at..][..WIDTH];
                            for j in 0..WIDTH {
                                to[j] = (rows[0][j] * g_k[0]
                                    + rows[1][j] * g_k[1]
                                    + rows[2][j] * g_k[2])
                                    as f32;
                            }
                        }
                    }
                }
            }
        }
    }
}
