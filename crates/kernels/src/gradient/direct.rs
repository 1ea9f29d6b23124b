//! Weight gradient of any convolution, directly.
//!
//! `dW[column, oc] += sum over output pixels x[pixel, column] * dy[pixel, oc]`,
//! where a column is a tap and an input channel. A register tile of
//! a few columns by [`BLOCK`] output channels runs down the pixels, so that each
//! step is a broadcast for each of six columns and two vector loads for twelve
//! multiply-adds, or, with wide vectors, sixteen broadcasts and one load for
//! sixteen. Both operands are first copied into planes of [`BLOCK`]
//! channels: the copy adds the padding, and a pixel's values then sit on one
//! cache line whatever the number of channels.

use super::tile::{self, BLOCK, COLUMNS, NEAR_COLUMNS, WIDE_COLUMNS, Walk};
use super::weight::{Accumulate, total};
use crate::geometry::ConvShape;
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;

/// Weights of an output that are written together at the end.
const RUN: usize = 64;

/// Pixels that a register tile should see between its load and its store.
const PIXELS: usize = 192;

/// A plan for the weight gradient of one convolution.
#[derive(Clone, Debug)]
pub(super) struct Direct {
    shape: ConvShape,
    /// Channels of a packed input plane, at most [`BLOCK`].
    in_block: usize,
    /// Blocks of input and output channels of one group.
    in_blocks: usize,
    out_blocks: usize,
    /// Height and width of a packed input plane, of `rows` output rows.
    padded: [usize; 2],
    /// Offset in a plane of each column, rounded up to whole tiles.
    columns: Vec<usize>,
    /// Images, and output rows of them, that one pass packs.
    images: usize,
    rows: usize,
}

impl Direct {
    pub fn new(isa: Isa, shape: ConvShape) -> Self {
        let output = shape.output();
        let [kh, kw] = shape.window.kernel;
        let [sh, sw] = shape.window.stride;
        let [dh, dw] = shape.window.dilation;
        let in_block = shape.in_per_group().min(BLOCK);
        let rows = PIXELS.div_ceil(output.width).min(output.height);
        let padded = [
            (rows - 1) * sh + (kh - 1) * dh + 1,
            (output.width - 1) * sw + (kw - 1) * dw + 1,
        ];
        let mut columns = Vec::new();
        for ky in 0..kh {
            for kx in 0..kw {
                for c in 0..in_block {
                    columns.push((ky * dh * padded[1] + kx * dw) * in_block + c);
                }
            }
        }
        columns.resize(columns.len().next_multiple_of(tile::columns(isa)), 0);
        Self {
            shape,
            in_block,
            in_blocks: shape.in_per_group().div_ceil(in_block),
            out_blocks: (shape.out_channels / shape.groups).div_ceil(BLOCK),
            padded,
            columns,
            images: PIXELS.div_ceil(output.pixels()),
            rows,
        }
    }

    pub fn accumulator_len(&self) -> usize {
        self.shape.groups * self.in_blocks * self.out_blocks * self.columns.len() * BLOCK
    }

    pub fn scratch_len(&self) -> usize {
        self.images * (self.in_len() + self.out_len())
    }

    /// Packed elements of one image of the input and of the output.
    fn in_len(&self) -> usize {
        self.shape.groups * self.in_blocks * self.plane()
    }

    fn out_len(&self) -> usize {
        self.shape.groups * self.out_blocks * self.rows * self.shape.output().width * BLOCK
    }

    /// Elements of one packed input plane.
    fn plane(&self) -> usize {
        self.padded[0] * self.padded[1] * self.in_block
    }

    /// Whether the output's gradient already is one packed plane.
    fn out_is_packed(&self) -> bool {
        self.shape.out_channels == BLOCK && self.shape.groups == 1
    }

    pub fn add_to(&self, accumulators: &[&[f32]], first: usize, dweights: &mut [f32]) {
        let taps = self.shape.window.kernel[0] * self.shape.window.kernel[1];
        let in_group = self.shape.in_per_group();
        let out_group = self.shape.out_channels / self.shape.groups;
        let row = in_group * taps;
        let end = first + dweights.len() / row;
        let mut oc = first;
        while oc < end {
            // As many outputs as lie beside each other in a block.
            let (group, o) = (oc / out_group, oc % out_group);
            let count = (BLOCK - o % BLOCK).min(out_group - o).min(end - oc);
            let dweights = &mut dweights[(oc - first) * row..][..count * row];
            for block in 0..self.in_blocks {
                let tile = (group * self.in_blocks + block) * self.out_blocks + o / BLOCK;
                let channels = self.in_block.min(in_group - block * self.in_block);
                let len = channels * taps;
                let (mut c, mut tap) = (0, 0);
                for from in (0..len).step_by(RUN) {
                    // Outputs lie far apart, often at a power of two, so that their lines
                    // drive each other out of the cache: each is written in one go.
                    let mut beside = [[0.0; RUN]; BLOCK];
                    let n = RUN.min(len - from);
                    for i in 0..n {
                        let column = tile * self.columns.len() + tap * self.in_block + c;
                        let sums = total(accumulators, column * BLOCK);
                        for (output, sum) in beside.iter_mut().zip(&sums[o % BLOCK..][..count]) {
                            output[i] = *sum;
                        }
                        (c, tap) = match tap + 1 == taps {
                            true => (c + 1, 0),
                            false => (c, tap + 1),
                        };
                    }
                    let at = block * self.in_block * taps + from;
                    for (dweights, sums) in dweights.chunks_exact_mut(row).zip(&beside) {
                        for (dw, sum) in dweights[at..][..n].iter_mut().zip(sums) {
                            *dw += sum;
                        }
                    }
                }
            }
            oc += count;
        }
    }

    /// Copies the input rows under the output rows from `first_row` on into
    /// planes `[group, block][image][row][column][channel]`.
    fn pack_input(&self, x: &[f32], first_row: usize, packed: &mut [f32]) {
        let input = self.shape.input;
        let pad = self.shape.window.padding;
        let images = x.len() / input.len();
        let [height, width] = self.padded;
        let in_group = self.shape.in_per_group();
        let left = pad.left.min(width);
        let inside = input.width.min(width - left);
        let mut packed = packed.chunks_exact_mut(width * self.in_block);
        for block in 0..self.shape.groups * self.in_blocks {
            let (group, b) = (block / self.in_blocks, block % self.in_blocks);
            let first = b * self.in_block;
            let channels = self.in_block.min(in_group - first);
            for image in 0..images {
                for row in 0..height {
                    let packed = packed.next().expect("the scratch holds every row");
                    let y = (first_row * self.shape.window.stride[0] + row).checked_sub(pad.top);
                    let Some(y) = y.filter(|&y| y < input.height) else {
                        packed.fill(0.0);
                        continue;
                    };
                    packed[..left * self.in_block].fill(0.0);
                    packed[(left + inside) * self.in_block..].fill(0.0);
                    let start = image * input.len()
                        + y * input.width * input.channels
                        + group * in_group
                        + first;
                    copy_channels(
                        &x[start..],
                        input.channels,
                        &mut packed[left * self.in_block..][..inside * self.in_block],
                        self.in_block,
                        channels,
                    );
                }
            }
        }
    }

    /// Copies output rows into planes `[group, block][image][pixel][channel]`.
    fn pack_output(&self, dy: &[f32], first_row: usize, rows: usize, packed: &mut [f32]) {
        let output = self.shape.output();
        let out_group = output.channels / self.shape.groups;
        let pixels = rows * output.width;
        let mut packed = packed.chunks_exact_mut(pixels * BLOCK);
        for block in 0..self.shape.groups * self.out_blocks {
            let (group, b) = (block / self.out_blocks, block % self.out_blocks);
            for dy in dy.chunks_exact(output.len()) {
                copy_channels(
                    &dy[first_row * output.width * output.channels
                        + group * out_group
                        + b * BLOCK..],
                    output.channels,
                    packed.next().expect("the scratch holds every plane"),
                    BLOCK,
                    BLOCK.min(out_group - b * BLOCK),
                );
            }
        }
    }
}

impl Direct {
    /// One block of inputs against all blocks of outputs, whose planes are so far apart
    /// in `dy`.
    #[inline(always)]
    fn tiles<S: Simd>(
        &self,
        simd: S,
        walk: &Walk,
        x: &[f32],
        (dy, dy_plane): (&[f32], usize),
        sums: &mut [f32],
        fresh: bool,
    ) {
        let blocks = sums.chunks_exact_mut(self.columns.len() * BLOCK);
        for (out_block, sums) in blocks.enumerate() {
            let dy = &dy[out_block * dy_plane..];
            if const { tile::is_wide::<S>() } {
                let tiles = sums.chunks_exact_mut(WIDE_COLUMNS * BLOCK);
                for (columns, tile) in self.columns.as_chunks().0.iter().zip(tiles) {
                    walk.tile::<S, WIDE_COLUMNS, 1>(simd, x, columns, dy, tile, fresh);
                }
            } else {
                let tiles = sums.chunks_exact_mut(COLUMNS * BLOCK);
                for (columns, tile) in self.columns.as_chunks().0.iter().zip(tiles) {
                    walk.tile::<S, COLUMNS, 2>(simd, x, columns, dy, tile, fresh);
                }
            }
        }
    }

    /// The same for a whole block of inputs and wide vectors: the columns of a tap lie
    /// beside each other, and two blocks of outputs share their broadcasts.
    #[inline(always)]
    fn near_tiles<S: Simd>(
        &self,
        simd: S,
        walk: &Walk,
        x: &[f32],
        (dy, dy_plane): (&[f32], usize),
        sums: &mut [f32],
        fresh: bool,
    ) {
        let width = self.columns.len() * BLOCK;
        for (pair, sums) in sums.chunks_mut(2 * width).enumerate() {
            let dy = (&dy[2 * pair * dy_plane..], dy_plane);
            let both = sums.len() > width;
            for (i, columns) in self.columns.chunks_exact(NEAR_COLUMNS).enumerate() {
                let sums = (&mut sums[i * NEAR_COLUMNS * BLOCK..], width);
                if both {
                    walk.wide::<S, NEAR_COLUMNS, 2>(simd, x, columns[0], dy, sums, fresh);
                } else {
                    walk.wide::<S, NEAR_COLUMNS, 1>(simd, x, columns[0], dy, sums, fresh);
                }
            }
        }
    }
}

impl Kernel for Accumulate<'_, Direct> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { plan, pass } = self;
        let (input, output) = (plan.shape.input.len(), plan.shape.output());
        let [stride_y, stride_x] = plan.shape.window.stride;
        let (packed_x, packed_dy) = pass.scratch.split_at_mut(plan.images * plan.in_len());
        let mut fresh = pass.fresh;
        let images = pass.inputs.x.chunks(plan.images * input);
        for (x, dy) in images.zip(pass.dy.chunks(plan.images * output.len())) {
            let images = x.len() / input;
            for first_row in (0..output.height).step_by(plan.rows) {
                let rows = plan.rows.min(output.height - first_row);
                plan.pack_input(x, first_row, packed_x);
                let dy_plane = images * rows * output.width * BLOCK;
                let dy = if plan.out_is_packed() {
                    &dy[first_row * output.width * BLOCK..]
                } else {
                    plan.pack_output(dy, first_row, rows, packed_dy);
                    &*packed_dy
                };
                let mut walk = Walk {
                    images,
                    rows,
                    width: output.width,
                    x_image: plan.plane(),
                    x_row: stride_y * plan.padded[1] * plan.in_block,
                    x_pixel: stride_x * plan.in_block,
                };
                walk.merge_rows();
                let width = plan.columns.len() * BLOCK;
                let blocks = pass.accumulator.chunks_exact_mut(plan.out_blocks * width);
                for (in_block, sums) in blocks.enumerate() {
                    let x = &packed_x[in_block * images * plan.plane()..];
                    let group = in_block / plan.in_blocks;
                    let dy = (&dy[group * plan.out_blocks * dy_plane..], dy_plane);
                    if const { tile::is_wide::<S>() } && plan.in_block == BLOCK {
                        plan.near_tiles(simd, &walk, x, dy, sums, fresh);
                    } else {
                        plan.tiles(simd, &walk, x, dy, sums, fresh);
                    }
                }
                fresh = false;
            }
        }
    }
}

/// Copies `channels` values of each pixel, from pixels of stride `from_stride`
/// to pixels of stride `to_stride`, the rest of which becomes zero.
fn copy_channels(
    from: &[f32],
    from_stride: usize,
    to: &mut [f32],
    to_stride: usize,
    channels: usize,
) {
    if from_stride == to_stride && channels == to_stride {
        to.copy_from_slice(&from[..to.len()]);
    } else if channels == BLOCK && to_stride == BLOCK {
        // The common case with a length that the compiler knows.
        let (to, _) = to.as_chunks_mut::<BLOCK>();
        for (to, from) in to.iter_mut().zip(from.chunks(from_stride)) {
            to.copy_from_slice(&from[..BLOCK]);
        }
    } else {
        for (to, from) in to.chunks_exact_mut(to_stride).zip(from.chunks(from_stride)) {
            to[..channels].copy_from_slice(&from[..channels]);
            to[channels..].fill(0.0);
        }
    }
}
