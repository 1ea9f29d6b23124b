//! Gradient of a convolution of any stride with respect to its input.
//!
//! An input row `y` takes part in tap `ky` of output row
//! `(y + pad - ky*dilation) / stride`, where that division leaves no
//! remainder: the taps depend on `y mod stride` only. So the gradient falls
//! apart into `stride^2` convolutions of stride 1, one per phase of the input
//! pixel, each with its own few taps. A register tile of a few pixels of
//! one phase by [`BLOCK`] input channels runs down taps and output channels.

use crate::geometry::ConvShape;
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;

/// Channels of a register tile: two vectors of eight, or one of sixteen.
const BLOCK: usize = 16;
/// Pixels of a register tile at most, with vectors of eight and of sixteen.
const PIXELS: usize = 6;
const WIDE_PIXELS: usize = 12;

/// The taps of one axis and one phase.
#[derive(Clone, Debug)]
struct Phase {
    /// First input coordinate; the next ones follow at the distance `stride`.
    first: usize,
    /// Input coordinates of this phase.
    count: usize,
    /// Index of each tap, and the padded output coordinate that it meets at
    /// the first input coordinate.
    taps: Vec<(usize, usize)>,
}

/// One axis: its phases, and the padding of the output that they need.
#[derive(Clone, Debug)]
struct Axis {
    phases: Vec<Phase>,
    before: usize,
    padded: usize,
}

impl Axis {
    fn new(
        input: usize,
        output: usize,
        kernel: usize,
        stride: usize,
        dilation: usize,
        pad: usize,
    ) -> Self {
        // Output coordinate of each tap at the first coordinate of a phase.
        let offset = |phase: usize, tap: usize| {
            let numerator = (phase + pad) as isize - (tap * dilation) as isize;
            (numerator.rem_euclid(stride as isize) == 0)
                .then_some(numerator.div_euclid(stride as isize))
        };
        let count = |phase: usize| (input - phase).div_ceil(stride);
        let (mut low, mut high) = (0, output as isize - 1);
        for phase in 0..stride.min(input) {
            for offset in (0..kernel).filter_map(|tap| offset(phase, tap)) {
                low = low.min(offset);
                high = high.max(offset + count(phase) as isize - 1);
            }
        }
        let phases = (0..stride.min(input)).map(|phase| Phase {
            first: phase,
            count: count(phase),
            taps: (0..kernel)
                .filter_map(|tap| Some((tap, (offset(phase, tap)? - low) as usize)))
                .collect(),
        });
        Self {
            phases: phases.collect(),
            before: (-low) as usize,
            padded: (high - low + 1) as usize,
        }
    }
}

/// The input gradient of one convolution, with its weights packed.
#[derive(Clone, Debug)]
pub struct InputGradient {
    isa: Isa,
    shape: ConvShape,
    axes: [Axis; 2],
    /// Blocks of input channels of one group.
    blocks: usize,
    /// `[group, block][ky][kx][oc][BLOCK]`.
    weights: Vec<f32>,
}

impl InputGradient {
    /// Plans for `shape` and packs `weights` (OIHW).
    ///
    /// # Panics
    /// If `weights` has the wrong length.
    pub fn new(isa: Isa, shape: ConvShape, weights: &[f32]) -> Self {
        let (input, output, window) = (shape.input, shape.output(), &shape.window);
        let axis = |axis: usize, input: usize, output: usize, pad: usize| {
            let (k, s, d) = (
                window.kernel[axis],
                window.stride[axis],
                window.dilation[axis],
            );
            Axis::new(input, output, k, s, d, pad)
        };
        let blocks = shape.in_per_group().div_ceil(BLOCK);
        let taps = window.kernel[0] * window.kernel[1];
        let out_group = shape.out_channels / shape.groups;
        let mut plan = Self {
            isa,
            shape,
            axes: [
                axis(0, input.height, output.height, window.padding.top),
                axis(1, input.width, output.width, window.padding.left),
            ],
            blocks,
            weights: vec![0.0; shape.groups * blocks * taps * out_group * BLOCK],
        };
        plan.set_weights(weights);
        plan
    }

    /// Packs other weights (OIHW) of the same shape.
    ///
    /// # Panics
    /// If `weights` has the wrong length.
    pub fn set_weights(&mut self, weights: &[f32]) {
        assert_eq!(weights.len(), self.shape.weights());
        let [kh, kw] = self.shape.window.kernel;
        let (taps, in_group) = (kh * kw, self.shape.in_per_group());
        let out_group = self.shape.out_channels / self.shape.groups;
        for (oc, weights) in weights.chunks_exact(in_group * taps).enumerate() {
            let (group, o) = (oc / out_group, oc % out_group);
            for (ic, weights) in weights.chunks_exact(taps).enumerate() {
                let block = group * self.blocks + ic / BLOCK;
                for (tap, &w) in weights.iter().enumerate() {
                    let row = (block * taps + tap) * out_group + o;
                    self.weights[row * BLOCK + ic % BLOCK] = w;
                }
            }
        }
    }

    /// Length of the scratch of [`InputGradient::run`]: one padded output.
    pub fn scratch_len(&self) -> usize {
        self.axes[0].padded * self.axes[1].padded * self.shape.out_channels
    }

    /// Writes `dx = dL/dx + residual` of `images` images from `dy`, the
    /// gradients of the outputs.
    ///
    /// # Panics
    /// If a slice has the wrong length.
    pub fn run(
        &self,
        images: usize,
        dy: &[f32],
        residual: Option<&[f32]>,
        dx: &mut [f32],
        scratch: &mut [f32],
    ) {
        let (input, output) = (self.shape.input.len(), self.shape.output().len());
        assert_eq!(dx.len(), images * input);
        assert_eq!(dy.len(), images * output);
        assert!(residual.is_none_or(|r| r.len() == dx.len()));
        let scratch = &mut scratch[..self.scratch_len()];
        scratch.fill(0.0);
        for (i, dy) in dy.chunks_exact(output).enumerate() {
            self.pad(dy, scratch);
            self.isa.dispatch(Run {
                plan: self,
                dy: scratch,
                residual: residual.map(|r| &r[i * input..][..input]),
                dx: &mut dx[i * input..][..input],
            });
        }
    }

    /// Copies an output into the middle of a padded one.
    fn pad(&self, dy: &[f32], padded: &mut [f32]) {
        let [vertical, horizontal] = &self.axes;
        let channels = self.shape.out_channels;
        let row = self.shape.output().width * channels;
        let rows = padded
            .chunks_exact_mut(horizontal.padded * channels)
            .skip(vertical.before);
        for (padded, dy) in rows.zip(dy.chunks_exact(row)) {
            padded[horizontal.before * channels..][..row].copy_from_slice(dy);
        }
    }
}

struct Run<'a> {
    plan: &'a InputGradient,
    /// Padded.
    dy: &'a [f32],
    residual: Option<&'a [f32]>,
    dx: &'a mut [f32],
}

impl Kernel for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let shape = &self.plan.shape;
        let (input, [kh, kw]) = (shape.input, shape.window.kernel);
        let in_group = shape.in_per_group();
        let out_group = shape.out_channels / shape.groups;
        let [vertical, horizontal] = &self.plan.axes;
        let most = const {
            if S::LANES == BLOCK {
                WIDE_PIXELS
            } else {
                PIXELS
            }
        };
        let panels = self.plan.weights.chunks_exact(kh * kw * out_group * BLOCK);
        for (block, weights) in panels.enumerate() {
            let (group, b) = (block / self.plan.blocks, block % self.plan.blocks);
            let mut tile = Tile {
                weights,
                kernel_width: kw,
                dy: self.dy,
                dy_row: horizontal.padded * shape.out_channels,
                dy_pixel: shape.out_channels,
                dy_first: group * out_group,
                out_group,
                residual: self.residual,
                dx: &mut *self.dx,
                dx_pixel: shape.window.stride[1] * input.channels,
                channels: BLOCK.min(in_group - b * BLOCK),
            };
            let first_channel = group * in_group + b * BLOCK;
            for rows in &vertical.phases {
                for row in 0..rows.count {
                    let y = rows.first + row * shape.window.stride[0];
                    for columns in &horizontal.phases {
                        let tiles = columns.count.div_ceil(most);
                        let (mut done, count) = (0, columns.count);
                        for i in 0..tiles {
                            // Even shares: two tiles of 4 beat 6 and 2.
                            let pixels = (i + 1) * count / tiles - done;
                            let x = columns.first + done * shape.window.stride[1];
                            let at = (y * input.width + x) * input.channels + first_channel;
                            let taps = (&rows.taps[..], row, &columns.taps[..], done);
                            macro_rules! run {
                                ($vectors:literal: $($pixels:literal)*) => {
                                    match pixels {
                                        $($pixels => {
                                            tile.run::<S, $pixels, $vectors>(simd, taps, at)
                                        })*
                                        _ => unreachable!("at most {most} pixels"),
                                    }
                                };
                            }
                            if const { S::LANES == BLOCK } {
                                run!(1: 1 2 3 4 5 6 7 8 9 10 11 12);
                            } else {
                                run!(2: 1 2 3 4 5 6);
                            }
                            done += pixels;
                        }
                    }
                }
            }
        }
    }
}

/// Vertical taps and row, horizontal taps and column, within their phases.
type Taps<'a> = (&'a [(usize, usize)], usize, &'a [(usize, usize)], usize);

/// What the register tiles of one block of channels share.
struct Tile<'a> {
    weights: &'a [f32],
    kernel_width: usize,
    dy: &'a [f32],
    dy_row: usize,
    dy_pixel: usize,
    /// First output channel of the group, and their number.
    dy_first: usize,
    out_group: usize,
    residual: Option<&'a [f32]>,
    dx: &'a mut [f32],
    /// Distance of two pixels of a phase in `dx`.
    dx_pixel: usize,
    /// Channels of this block.
    channels: usize,
}

impl Tile<'_> {
    /// Writes `P` pixels of a phase, the first one at `dx[at]`, in steps of `V`
    /// vectors of channels.
    #[inline(always)]
    fn run<S: Simd, const P: usize, const V: usize>(&mut self, simd: S, taps: Taps<'_>, at: usize) {
        assert!(BLOCK.is_multiple_of(V * S::LANES));
        let (vertical, row, horizontal, column) = taps;
        assert!(at + (P - 1) * self.dx_pixel + self.channels <= self.dx.len());
        for first in (0..self.channels).step_by(V * S::LANES) {
            let mut sums = [[simd.zero(); V]; P];
            for &(ky, oy) in vertical {
                for &(kx, ox) in horizontal {
                    let tap = (ky * self.kernel_width + kx) * self.out_group * BLOCK;
                    let weights = &self.weights[tap..][..self.out_group * BLOCK];
                    let start =
                        (oy + row) * self.dy_row + (ox + column) * self.dy_pixel + self.dy_first;
                    let dy = &self.dy[start..][..(P - 1) * self.dy_pixel + self.out_group];
                    // SAFETY: `weights` holds `BLOCK` floats for each output
                    // channel, `dy` all of them for `P` pixels, by the slices
                    // just taken; `first + V * LANES <= BLOCK`.
                    unsafe {
                        let (mut w, mut d) = (weights.as_ptr().add(first), dy.as_ptr());
                        for _ in 0..self.out_group {
                            let mut row = [simd.zero(); V];
                            for (v, row) in row.iter_mut().enumerate() {
                                *row = simd.load(w.add(v * S::LANES));
                            }
                            for (p, sums) in sums.iter_mut().enumerate() {
                                let d = simd.broadcast(d.add(p * self.dy_pixel));
                                for v in 0..V {
                                    sums[v] = simd.mul_add(d, row[v], sums[v]);
                                }
                            }
                            w = w.wrapping_add(BLOCK);
                            d = d.wrapping_add(1);
                        }
                    }
                }
            }
            for (p, sums) in sums.iter().enumerate() {
                let pixel = at + p * self.dx_pixel;
                for (half, &sum) in sums.iter().enumerate() {
                    let from = first + half * S::LANES;
                    if from + S::LANES <= self.channels {
                        let range = pixel + from..pixel + from + S::LANES;
                        let sum = match self.residual {
                            Some(r) => simd.add(sum, simd.read(&r[range.clone()])),
                            None => sum,
                        };
                        simd.write(&mut self.dx[range], sum);
                    } else if from < self.channels {
                        let to = self.channels.min(from + S::LANES);
                        let range = pixel + from..pixel + to;
                        let sum = match self.residual {
                            Some(r) => simd.add(sum, simd.read_partial(&r[range.clone()])),
                            None => sum,
                        };
                        simd.write_partial(&mut self.dx[range], sum);
                    }
                }
            }
        }
    }
}
