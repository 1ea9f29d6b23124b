//! Weight gradient of a 3x3 convolution of stride 1 by Winograd's filtering.
//!
//! The gradient of the nine taps is itself a convolution, of a patch `d` of the
//! output's gradient with a 4x4 tile `g` of the input, so that F(3x3, 4x4) gives
//! `dW = A^T [ sum over tiles (G g G^T) . (B^T d B) ] A`, turned by 180 degrees,
//! with 36 products where the direct way has 144. `B^T` is that of the forward
//! F(4x4, 3x3), with its points. The sum over tiles
//! is 36 matrix products `channels x tiles x outputs`; only the end is
//! transformed back, so the rational factors of `G` are put into `A`.
//!
//! The patch is the one that the input's gradient of the same tile is made of,
//! so `B^T d B` serves both gradients.

mod outputs;
mod planes;

use super::tile::{BLOCK, COLUMNS, NEAR_COLUMNS, WIDE_COLUMNS, Walk, is_wide};
use super::weight::{Accumulate, total};
use crate::geometry::ConvShape;
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;
use crate::winograd::tiles::{self, Patch};
use crate::winograd::transform::{FAR, Four, NEAR, PARTS};
use crate::winograd::{MOST_TILES, products};
use outputs::Outputs;
use planes::Planes;

/// Side of a patch of the output's gradient and of an input tile.
const PATCH: usize = 6;
const TILE: usize = 4;
const POSITIONS: usize = PATCH * PATCH;
/// Floats of transformed tiles that fit into the second-level cache.
const CHUNK: usize = 1 << 17;
/// Most tiles of a chunk.
const MOST: usize = 64;
/// Tiles whose input gradient is made together.
const PULLED: usize = 24;
const _: () = assert!(PULLED <= MOST_TILES);

/// Floats of sums that the second-level cache does not hold, and tiles of an image that
/// pay for them.
const LARGE: usize = 1 << 18;
const MANY_TILES: usize = 16;

/// `A^T`, with the factors that `G` leaves out.
const A: [[f64; PATCH]; 3] = {
    let [zero, near, far] = PARTS;
    let (a, b) = (near * NEAR, far * FAR);
    [
        [zero, near, near, far, far, 0.0],
        [0.0, a, -a, b, -b, 0.0],
        [0.0, a * NEAR, a * NEAR, b * FAR, b * FAR, 1.0],
    ]
};

/// Image, top and left of a tile of the input.
type TilePlace = (usize, usize, usize);

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
        let tiles = shape.input.height.div_ceil(TILE) * shape.input.width.div_ceil(TILE);
        // Sums that no cache holds have to be worth their way to memory and back.
        let worth = POSITIONS * input * output <= LARGE || tiles >= MANY_TILES;
        worth
            && window.kernel == [3, 3]
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
            chunk: (CHUNK / floats).clamp(32, MOST),
        }
    }

    pub fn accumulator_len(&self) -> usize {
        POSITIONS * self.shape.input.channels * self.shape.out_channels
    }

    /// Floats from one position to the next in `V`, `Z` and `M`: one cache line
    /// more than the tiles need, lest all positions fall into the same cache set.
    fn strides(&self) -> [usize; 3] {
        let (inputs, outputs) = (self.shape.input.channels, self.shape.out_channels);
        [self.chunk * outputs, self.chunk * inputs, PULLED * inputs].map(|len| len + 16)
    }

    pub fn scratch_len(&self) -> usize {
        let positions: usize = self.strides().into_iter().sum();
        PATCH * self.shape.out_channels + POSITIONS * positions
    }

    pub fn add_to(&self, isa: Isa, accumulators: &[&[f32]], first: usize, dweights: &mut [f32]) {
        isa.dispatch(TransformBack {
            inputs: self.shape.input.channels,
            outputs: self.shape.out_channels,
            accumulators,
            first,
            dweights,
        });
    }
}

/// Adds `A^T sums A`, turned by 180 degrees, to the weights of some outputs.
struct TransformBack<'a> {
    inputs: usize,
    outputs: usize,
    /// The sums are theirs together, in this order.
    accumulators: &'a [&'a [f32]],
    first: usize,
    dweights: &'a mut [f32],
}

impl Kernel for TransformBack<'_> {
    type Output = ();

    // Plain loops over `BLOCK` inputs: the compiler vectorises them for the
    // instruction set in question.
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let position = self.inputs * self.outputs;
        for block in 0..self.inputs / BLOCK {
            let rows = self.dweights.chunks_exact_mut(self.inputs * 9);
            for (o, dweights) in rows.enumerate() {
                let at = (block * self.outputs + self.first + o) * BLOCK;
                let mut half = [[[0.0; BLOCK]; PATCH]; 3];
                for q in 0..PATCH {
                    for k in 0..PATCH {
                        let at = (k * PATCH + q) * position + at;
                        let sums = total(self.accumulators, at);
                        for p in 0..3 {
                            for i in 0..BLOCK {
                                half[p][q][i] += A[p][k] * f64::from(sums[i]);
                            }
                        }
                    }
                }
                // In the order of the weights, so that they are added as they lie there.
                let mut taps = [0.0; BLOCK * 9];
                for p in 0..3 {
                    for q in 0..3 {
                        let mut sums = [0.0; BLOCK];
                        for k in 0..PATCH {
                            for i in 0..BLOCK {
                                sums[i] += A[q][k] * half[p][k][i];
                            }
                        }
                        for i in 0..BLOCK {
                            taps[i * 9 + (2 - p) * 3 + 2 - q] = sums[i] as f32;
                        }
                    }
                }
                let dweights = &mut dweights[block * BLOCK * 9..][..BLOCK * 9];
                for (dweight, tap) in dweights.iter_mut().zip(taps) {
                    *dweight += tap;
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
        // How far a patch reaches beyond its tile, above and to the left.
        let reach = [padding.top, padding.left].map(|p| 2 - p.cast_signed());
        let [down, across] = [input.height.div_ceil(TILE), input.width.div_ceil(TILE)];
        let tiles = pass.inputs.x.len() / input.len() * down * across;
        let [v_stride, z_stride, m_stride] = plan.strides();
        let (zeros, rest) = pass.scratch.split_at_mut(PATCH * outputs);
        zeros.fill(0.0);
        let (v, rest) = rest.split_at_mut(POSITIONS * v_stride);
        let (z, m) = rest.split_at_mut(POSITIONS * z_stride);
        let pulled = pass.input.as_ref().and_then(|p| p.conv.winograd4());
        let mut pull = pass
            .input
            .map(|input| Outputs::new(plan.shape.input, input));
        // Even shares: what a chunk costs beside its tiles is the same for all.
        let chunk = tiles.div_ceil(tiles.div_ceil(plan.chunk).max(1)).max(1);
        let mut places: [TilePlace; MOST] = [(0, 0, 0); MOST];
        let mut next = (0, 0, 0);
        for first in (0..tiles).step_by(chunk) {
            let count = chunk.min(tiles - first);
            let planes = Planes {
                inputs: pass.inputs,
                shape: input,
                plane: count * BLOCK,
                stride: z_stride,
            };
            for (t, place) in places[..count].iter_mut().enumerate() {
                *place = next;
                let (image, top, left) = next;
                // Counted up: divisions would cost as much as a transform.
                next.2 += TILE;
                if next.2 >= across * TILE {
                    (next.1, next.2) = (next.1 + TILE, 0);
                }
                if next.1 >= down * TILE {
                    (next.0, next.1) = (next.0 + 1, 0);
                }
                let patch = Patch {
                    shape: output,
                    x: &pass.dy[image * output.len()..][..output.len()],
                    zeros,
                    top: top.cast_signed() - reach[0],
                    left: left.cast_signed() - reach[1],
                };
                let v = &mut v[t * outputs..];
                tiles::forward::<S, Four, PATCH, TILE>(simd, &patch, v, v_stride);
                planes.prefetch(simd, next);
                planes.transform(simd, *place, t, z);
                if let Some(pull) = &pull {
                    pull.prefetch(simd, *place);
                }
            }
            if let (Some(w), Some(pull)) = (pulled, &mut pull) {
                for part in (0..count).step_by(PULLED) {
                    let n = PULLED.min(count - part);
                    let v = &v[part * outputs..];
                    let panels = w.all_panels();
                    products::<S, PATCH>(simd, w, panels, n, v, v_stride, m, m_stride);
                    for (t, &place) in places[part..part + n].iter().enumerate() {
                        pull.tile(simd, &m[t * channels..], m_stride, place);
                    }
                }
            }
            let walk = Walk {
                images: 1,
                rows: 1,
                width: count,
                x_image: 0,
                x_row: 0,
                x_pixel: outputs,
            };
            let sums = pass.accumulator.chunks_exact_mut(outputs * channels);
            for (position, sums) in sums.enumerate() {
                let v = &v[position * v_stride..][..count * outputs];
                let z = &z[position * z_stride..][..count * channels];
                product(simd, &walk, v, z, sums, pass.fresh && first == 0);
            }
        }
    }
}

/// Adds `V^T Z` of one position to `sums`, or overwrites `fresh` ones.
#[inline(always)]
fn product<S: Simd>(simd: S, walk: &Walk, v: &[f32], z: &[f32], sums: &mut [f32], fresh: bool) {
    let (outputs, plane) = (walk.x_pixel, walk.width * BLOCK);
    let block = outputs * BLOCK;
    if const { is_wide::<S>() } {
        for (pair, sums) in sums.chunks_mut(2 * block).enumerate() {
            let z = (&z[2 * pair * plane..], plane);
            if sums.len() > block {
                for c in (0..outputs).step_by(NEAR_COLUMNS) {
                    let sums = (&mut sums[c * BLOCK..], block);
                    walk.wide::<S, NEAR_COLUMNS, 2>(simd, v, c, z, sums, fresh);
                }
            } else {
                for c in (0..outputs).step_by(WIDE_COLUMNS) {
                    let sums = (&mut sums[c * BLOCK..], block);
                    walk.wide::<S, WIDE_COLUMNS, 1>(simd, v, c, z, sums, fresh);
                }
            }
        }
        return;
    }
    for (z, sums) in z.chunks_exact(plane).zip(sums.chunks_exact_mut(block)) {
        macro_rules! columns {
            ($n:expr, $first:expr) => {{
                let columns: [usize; $n] = std::array::from_fn(|i| $first + i);
                let sums = &mut sums[$first * BLOCK..][..$n * BLOCK];
                walk.tile::<S, { $n }, 2>(simd, v, &columns, z, sums, fresh);
            }};
        }
        let (mut c, rest) = (0, outputs % COLUMNS);
        while c + COLUMNS <= outputs {
            columns!(COLUMNS, c);
            c += COLUMNS;
        }
        // Outputs come in sixteens: 0, 2 or 4 are left.
        match rest {
            4 => columns!(4, c),
            2 => columns!(2, c),
            _ => {}
        }
    }
}
