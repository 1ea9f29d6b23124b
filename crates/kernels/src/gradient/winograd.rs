//! Weight gradient of a 3x3 convolution of stride 1 by Winograd's filtering.
//!
//! The gradient of the nine taps is itself a convolution, of an input patch
//! `d` with a 4x4 tile `g` of the output's gradient, so that F(3x3, 4x4) gives
//! `dW = A^T [ sum over tiles (G g G^T) . (B^T d B) ] A` with 36 products where
//! the direct way has 144. `B^T` is that of the forward F(4x4, 3x3), with the
//! points 0, 1, -1, 2, -2 and infinity. The sum over tiles is 36 matrix
//! products `channels x tiles x outputs`; only the end is transformed back, so
//! the rational factors of `G` are put into `A`.

use super::tile::{BLOCK, COLUMNS, Walk};
use super::weight::Accumulate;
use crate::geometry::ConvShape;
use crate::isa::Kernel;
use crate::simd::Simd;
use crate::winograd::tiles::{self, Patch};
use crate::winograd::transform::Four;

/// Side of an input patch and of an output tile.
const PATCH: usize = 6;
const TILE: usize = 4;
const POSITIONS: usize = PATCH * PATCH;
/// Floats of transformed tiles that fit into the second-level cache.
const CHUNK: usize = 1 << 17;

/// `A^T`, with the factors that `G` leaves out.
const A: [[f64; PATCH]; 3] = {
    const S: f64 = 1.0 / 6.0;
    const T: f64 = 1.0 / 24.0;
    [
        [0.25, -S, -S, T, T, 0.0],
        [0.0, -S, S, 2.0 * T, -2.0 * T, 0.0],
        [0.0, -S, -S, 4.0 * T, 4.0 * T, 1.0],
    ]
};

#[derive(Clone, Debug)]
pub(super) struct Winograd {
    shape: ConvShape,
    /// Most tiles that are transformed together.
    chunk: usize,
}

impl Winograd {
    /// Whether this way can do the shape and is the faster one.
    pub fn pays(shape: &ConvShape) -> bool {
        let window = &shape.window;
        let (input, output) = (shape.input.channels, shape.out_channels);
        window.kernel == [3, 3]
            && window.stride == [1, 1]
            && window.dilation == [1, 1]
            && shape.groups == 1
            && input.is_multiple_of(BLOCK)
            && output.is_multiple_of(BLOCK)
            && shape.output().pixels() >= TILE * TILE
    }

    pub fn new(shape: ConvShape) -> Self {
        let floats = POSITIONS * (shape.input.channels + shape.out_channels);
        Self {
            shape,
            chunk: (CHUNK / floats).clamp(32, 64),
        }
    }

    pub fn accumulator_len(&self) -> usize {
        POSITIONS * self.shape.input.channels * self.shape.out_channels
    }

    /// Floats from one position to the next: one cache line more than the
    /// tiles need, lest all positions fall into the same cache set.
    fn strides(&self) -> [usize; 2] {
        [self.shape.input.channels, self.shape.out_channels].map(|c| self.chunk * c + 16)
    }

    pub fn scratch_len(&self) -> usize {
        let [v, z] = self.strides();
        PATCH * self.shape.input.channels + POSITIONS * (v + z)
    }

    pub fn add_to(&self, accumulator: &[f32], dweights: &mut [f32]) {
        let (inputs, outputs) = (self.shape.input.channels, self.shape.out_channels);
        for (o, dweights) in dweights.chunks_exact_mut(inputs * 9).enumerate() {
            for (i, dweights) in dweights.chunks_exact_mut(9).enumerate() {
                let at = (o / BLOCK * inputs + i) * BLOCK + o % BLOCK;
                let mut rows = [[0.0; PATCH]; 3];
                for (p, sums) in rows.iter_mut().enumerate() {
                    for (q, sum) in sums.iter_mut().enumerate() {
                        for (k, a) in A[p].iter().enumerate() {
                            let position = (k * PATCH + q) * inputs * outputs;
                            *sum += a * f64::from(accumulator[position + at]);
                        }
                    }
                }
                for (p, row) in rows.iter().enumerate() {
                    for q in 0..3 {
                        let sum: f64 = A[q].iter().zip(row).map(|(a, r)| a * r).sum();
                        dweights[p * 3 + q] += sum as f32;
                    }
                }
            }
        }
    }
}

impl Kernel for Accumulate<'_, Winograd> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { plan, pass } = self;
        let (input, output) = (plan.shape.input, plan.shape.output());
        let (channels, outputs) = (input.channels, output.channels);
        let padding = plan.shape.window.padding;
        let [down, across] = [output.height.div_ceil(TILE), output.width.div_ceil(TILE)];
        let tiles = pass.x.len() / input.len() * down * across;
        let [v_stride, z_stride] = plan.strides();
        let (zeros, rest) = pass.scratch.split_at_mut(PATCH * channels);
        zeros.fill(0.0);
        let (v, z) = rest.split_at_mut(POSITIONS * v_stride);
        // Even shares: what a chunk costs beside its tiles is the same for all.
        let chunk = tiles.div_ceil(tiles.div_ceil(plan.chunk).max(1)).max(1);
        for first in (0..tiles).step_by(chunk) {
            let count = chunk.min(tiles - first);
            for t in 0..count {
                let (image, tile) = ((first + t) / (down * across), (first + t) % (down * across));
                let corner = [tile / across * TILE, tile % across * TILE];
                let patch = Patch {
                    shape: input,
                    x: &pass.x[image * input.len()..][..input.len()],
                    zeros,
                    top: corner[0].cast_signed() - padding.top.cast_signed(),
                    left: corner[1].cast_signed() - padding.left.cast_signed(),
                };
                let v = &mut v[t * channels..];
                tiles::forward::<S, Four, PATCH, TILE>(simd, &patch, v, v_stride);
                let dy = &pass.dy[image * output.len()..][..output.len()];
                let into = Planes {
                    tile: t,
                    plane: count * BLOCK,
                    stride: z_stride,
                };
                into.transform(simd, dy, [output.height, output.width], corner, outputs, z);
            }
            let walk = Walk {
                images: 1,
                rows: 1,
                width: count,
                x_image: 0,
                x_row: 0,
                x_pixel: channels,
            };
            let sums = pass.accumulator.chunks_exact_mut(channels * BLOCK);
            for (i, sums) in sums.enumerate() {
                let (position, block) = (i / (outputs / BLOCK), i % (outputs / BLOCK));
                let v = &v[position * v_stride..][..count * channels];
                let z = &z[position * z_stride + block * count * BLOCK..][..count * BLOCK];
                product(simd, &walk, v, z, sums, pass.fresh && first == 0);
            }
        }
    }
}

/// Adds `V^T Z` of one position and one block of outputs to `sums`, or
/// overwrites `fresh` ones.
#[inline(always)]
fn product<S: Simd>(simd: S, walk: &Walk, v: &[f32], z: &[f32], sums: &mut [f32], fresh: bool) {
    let channels = walk.x_pixel;
    macro_rules! columns {
        ($n:expr, $first:expr) => {{
            let columns: [usize; $n] = std::array::from_fn(|i| $first + i);
            let sums = &mut sums[$first * BLOCK..][..$n * BLOCK];
            walk.tile::<S, { $n }>(simd, v, &columns, z, sums, fresh);
        }};
    }
    let (mut c, rest) = (0, channels % COLUMNS);
    while c + COLUMNS <= channels {
        columns!(COLUMNS, c);
        c += COLUMNS;
    }
    // Channels come in sixteens: 0, 2 or 4 are left.
    match rest {
        4 => columns!(4, c),
        2 => columns!(2, c),
        _ => {}
    }
}

/// Where the transform of a tile goes: `[position][block][tile][BLOCK]`.
struct Planes {
    tile: usize,
    plane: usize,
    stride: usize,
}

impl Planes {
    /// Writes `G g G^T` of the tile at `corner`; zeros beyond the border.
    #[inline(always)]
    fn transform<S: Simd>(
        &self,
        simd: S,
        dy: &[f32],
        [height, width]: [usize; 2],
        corner: [usize; 2],
        outputs: usize,
        z: &mut [f32],
    ) {
        let rows = TILE.min(height - corner[0]);
        let columns = TILE.min(width - corner[1]);
        for block in 0..outputs / BLOCK {
            for lane in (0..BLOCK).step_by(S::LANES) {
                let c = block * BLOCK + lane;
                let mut g = [[simd.zero(); TILE]; TILE];
                for (i, row) in g.iter_mut().enumerate().take(rows) {
                    for (j, g) in row.iter_mut().enumerate().take(columns) {
                        let pixel = (corner[0] + i) * width + corner[1] + j;
                        *g = simd.read(&dy[pixel * outputs + c..]);
                    }
                }
                let mut half = [[simd.zero(); TILE]; PATCH];
                for j in 0..TILE {
                    let column = spread(simd, [g[0][j], g[1][j], g[2][j], g[3][j]]);
                    for (half, column) in half.iter_mut().zip(column) {
                        half[j] = column;
                    }
                }
                let at = block * self.plane + self.tile * BLOCK + lane;
                for (i, half) in half.iter().enumerate() {
                    for (j, value) in spread(simd, *half).into_iter().enumerate() {
                        simd.write(&mut z[(i * PATCH + j) * self.stride + at..], value);
                    }
                }
            }
        }
    }
}

/// Values of the polynomial with these coefficients at the points 0, 1, -1, 2,
/// -2 and infinity.
#[inline(always)]
fn spread<S: Simd>(simd: S, g: [S::V; TILE]) -> [S::V; PATCH] {
    let (four, eight) = (simd.splat(4.0), simd.splat(8.0));
    let (even, odd) = (simd.add(g[0], g[2]), simd.add(g[1], g[3]));
    let far_even = simd.mul_add(four, g[2], g[0]);
    let far_odd = simd.mul_add(eight, g[3], simd.add(g[1], g[1]));
    [
        g[0],
        simd.add(even, odd),
        simd.sub(even, odd),
        simd.add(far_even, far_odd),
        simd.sub(far_even, far_odd),
        g[3],
    ]
}
