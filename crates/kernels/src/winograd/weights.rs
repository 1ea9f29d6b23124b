//! `U = G g G^T`, in f64 and rounded once.

use super::transform::{Filtering, Four, Two};
use crate::conv::Filters;
use crate::gemm::Panels;
use crate::geometry::ConvShape;
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;

/// Output channels that are transformed together; divides every panel width.
const WIDTH: usize = 8;

/// Writes `position x panel x channel x width`.
pub(super) fn pack(
    isa: Isa,
    shape: &ConvShape,
    filters: Filters<'_>,
    size: usize,
    panels: Panels,
    packed: &mut [f32],
) {
    if size == 2 {
        pack_for::<Two, 4, 2>(isa, shape, filters, panels, packed);
    } else {
        pack_for::<Four, 6, 4>(isa, shape, filters, panels, packed);
    }
}

fn pack_for<F: Filtering<A, M>, const A: usize, const M: usize>(
    isa: Isa,
    shape: &ConvShape,
    filters: Filters<'_>,
    panels: Panels,
    packed: &mut [f32],
) {
    isa.dispatch(Pack::<A> {
        g: F::G,
        shape,
        panels,
        filters,
        packed,
    });
}

struct Pack<'a, const A: usize> {
    g: [[f64; 3]; A],
    shape: &'a ConvShape,
    panels: Panels,
    filters: Filters<'a>,
    packed: &'a mut [f32],
}

impl<const A: usize> Kernel for Pack<'_, A> {
    type Output = ();

    // Plain loops over `WIDTH` values: the compiler vectorises them for the
    // instruction set in question.
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let channels = self.shape.input.channels;
        let position = channels * self.panels.padded();
        for p in 0..self.panels.count() {
            let (first, width) = (p * self.panels.width(), self.panels.width_of(p));
            for c in 0..channels {
                for part in (0..width).step_by(WIDTH) {
                    let mut g = [[0.0; WIDTH]; 9];
                    let (tap, step) = self.filters.place(self.shape, 0, c, 0);
                    for j in 0..WIDTH.min(self.panels.n.saturating_sub(first + part)) {
                        let at = tap + (first + part + j) * step;
                        if self.filters.rotated {
                            let taps = &self.filters.weights[at - 8..=at];
                            for t in 0..9 {
                                g[t][j] = f64::from(taps[8 - t]);
                            }
                        } else {
                            let taps = &self.filters.weights[at..at + 9];
                            for t in 0..9 {
                                g[t][j] = f64::from(taps[t]);
                            }
                        }
                    }
                    let at = channels * first + c * width + part;
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
