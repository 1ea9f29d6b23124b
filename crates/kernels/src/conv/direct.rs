//! Direct convolution as an implicit matrix product: rows are output pixels,
//! the depth runs over the window, columns are output channels.
//!
//! In NHWC the taps of one row of the window are contiguous, so a row of the
//! depth is one *run* of `kw * channels` floats per window row (without groups
//! and dilation; otherwise one run per tap). Nothing is gathered: a tile reads
//! the input in place, or a copy of it with its padding.

use super::padded::pad;
use super::{Filters, Part, RawEpilogue, padded_size};
use crate::buffer::Buffer;
use crate::gelu;
use crate::gemm::{Ahead, Panels, Sink, panel};
use crate::geometry::{ConvShape, Padding};
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;
use std::ops::Range;

/// Floats of depth whose panel of weights stays in the first-level cache.
const DEPTH_BLOCK: usize = 384;
/// Rows that are held against all panels before the next ones are read.
const ROW_BLOCK: usize = 192;
/// Parts are cut at multiples of this many rows: whole tiles.
const ROW_UNIT: usize = 12;

#[derive(Clone, Debug)]
pub(super) struct Direct {
    shape: ConvShape,
    panels: Panels,
    /// Offsets of the runs from a pixel's first tap.
    runs: Vec<usize>,
    /// Floats of a run.
    depth: usize,
    /// Offset of each output pixel's first tap in the padded image.
    pixels: Vec<usize>,
    /// `group x depth block x panel x run x depth x width`.
    weights: Buffer,
}

impl Direct {
    pub fn new(isa: Isa, shape: ConvShape, filters: Filters<'_>) -> Self {
        let window = shape.window;
        let [kh, kw] = window.kernel;
        let output = shape.output();
        let channels = shape.input.channels;
        let inputs = shape.in_per_group();
        let row = padded_size(shape.input, window.padding)[1] * channels;
        let joined = shape.groups == 1 && window.dilation[1] == 1;
        let (runs, depth): (Vec<usize>, usize) = if joined {
            let runs = (0..kh).map(|ky| ky * window.dilation[0] * row);
            (runs.collect(), kw * inputs)
        } else {
            let run =
                |t| t / kw * window.dilation[0] * row + t % kw * window.dilation[1] * channels;
            ((0..kh * kw).map(run).collect(), inputs)
        };
        let pixel = |p: usize| {
            p / output.width * window.stride[0] * row
                + p % output.width * window.stride[1] * channels
        };
        let panels = Panels::new(isa, shape.out_channels / shape.groups);
        let mut direct = Self {
            shape,
            panels,
            runs,
            depth,
            pixels: (0..output.pixels()).map(pixel).collect(),
            weights: Buffer::zeroed(shape.groups * kh * kw * inputs * panels.padded()),
        };
        direct.pack(filters);
        direct
    }

    pub fn pack(&mut self, filters: Filters<'_>) {
        let inputs = self.shape.in_per_group();
        let per_group = self.weights.len() / self.shape.groups;
        for group in 0..self.shape.groups {
            for (from, to) in self.depth_blocks() {
                let length = self.runs.len() * (to - from);
                let start = group * per_group + self.runs.len() * from * self.panels.padded();
                let block = &mut self.weights[start..start + length * self.panels.padded()];
                self.panels.pack(length, block, filters.weights, |k| {
                    // Position in the whole window: tap by tap, channels inside.
                    let (run, k) = (k / (to - from), k % (to - from) + from);
                    let at = run * self.depth + k;
                    filters.place(&self.shape, group, at % inputs, at / inputs)
                });
            }
        }
    }

    /// Cuts a run so that all runs together fill one block of depth.
    fn depth_blocks(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (runs, depth) = (self.runs.len(), self.depth);
        let blocks = (runs * depth).div_ceil(DEPTH_BLOCK).min(depth);
        (0..blocks).map(move |b| (b * depth / blocks, (b + 1) * depth / blocks))
    }

    fn padded_len(&self) -> usize {
        let [height, width] = padded_size(self.shape.input, self.shape.window.padding);
        height * width * self.shape.input.channels
    }

    /// Images that are worked on together: enough of them that reading the
    /// weights does not dominate.
    fn group_of(&self, images: usize) -> usize {
        let enough = self.weights.len().max(1 << 15);
        enough.div_ceil(self.padded_len()).clamp(1, images.max(1))
    }

    pub fn scratch_len(&self, images: usize) -> usize {
        if self.shape.window.padding == Padding::default() {
            0
        } else {
            self.group_of(images) * self.padded_len()
        }
    }

    /// Parts are output pixels.
    ///
    /// # Safety
    /// As [`super::Conv::run_part`].
    #[expect(clippy::too_many_arguments, reason = "one signature for all methods")]
    pub unsafe fn run(
        &self,
        isa: Isa,
        part: Part,
        images: usize,
        x: &[f32],
        epilogue: RawEpilogue,
        y: *mut f32,
        scratch: &mut [f32],
    ) {
        let (in_len, out_len) = (self.shape.input.len(), self.shape.output().len());
        let padding = self.shape.window.padding;
        let group = self.group_of(images);
        for (g, x) in x.chunks(group * in_len).enumerate() {
            let images = x.len() / in_len;
            let input = if padding == Padding::default() {
                x
            } else {
                let padded = &mut scratch[..images * self.padded_len()];
                for (x, to) in x
                    .chunks_exact(in_len)
                    .zip(padded.chunks_exact_mut(self.padded_len()))
                {
                    pad(self.shape.input, padding, x, to);
                }
                padded
            };
            let at = g * group * out_len;
            // SAFETY: this group's outputs start at `at`.
            let (epilogue, y) = unsafe { (epilogue.from(at), y.add(at)) };
            isa.dispatch(Run {
                direct: self,
                images,
                rows: part.of(images * self.pixels.len(), ROW_UNIT),
                first: g == 0,
                x: input,
                epilogue,
                y,
            });
        }
    }
}

struct Run<'a> {
    direct: &'a Direct,
    images: usize,
    /// Which pixels of all images.
    rows: Range<usize>,
    /// The first images of a call: the sums begin here.
    first: bool,
    /// Padded.
    x: &'a [f32],
    epilogue: RawEpilogue,
    /// Of all images; only `rows` are written.
    y: *mut f32,
}

impl Kernel for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let d = self.direct;
        let pixels = d.pixels.len();
        let image_len = d.padded_len();
        let stride = d.shape.out_channels;
        let per_group = d.weights.len() / d.shape.groups;
        let mut pointers = [std::ptr::null::<f32>(); ROW_BLOCK];
        assert_eq!(self.x.len(), self.images * image_len);
        assert!(self.rows.end <= self.images * pixels);
        for group in 0..d.shape.groups {
            let first_out = group * d.panels.n;
            for (from, to) in d.depth_blocks() {
                let w = group * per_group + d.runs.len() * from * d.panels.padded();
                let length = d.runs.len() * (to - from);
                let (first_block, last_block) = (from == 0, to == d.depth);
                // Blocks of about one size: few rows do not pay for their panels.
                let rows = self.rows.len();
                let blocks = rows.div_ceil(ROW_BLOCK).max(1);
                let largest = rows.div_ceil(blocks).next_multiple_of(ROW_UNIT);
                let mut row = self.rows.start;
                while row < self.rows.end {
                    let block = largest.min(self.rows.end - row);
                    let (mut image, mut pixel) = (row / pixels, row % pixels);
                    for p in &mut pointers[..block] {
                        let at = image * image_len
                            + d.pixels[pixel]
                            + group * d.shape.in_per_group()
                            + from;
                        // SAFETY: the first tap of a pixel lies inside its
                        // padded image.
                        *p = unsafe { self.x.as_ptr().add(at) };
                        pixel += 1;
                        if pixel == pixels {
                            (image, pixel) = (image + 1, 0);
                        }
                    }
                    let more = row + block < self.rows.end;
                    for p in 0..d.panels.count() {
                        let c = p * d.panels.width();
                        let width = d.panels.width_of(p);
                        let at = row * stride + first_out + c;
                        // SAFETY: a pixel's runs lie inside its padded image
                        // because the window fits; the weights of the panel
                        // start at `w + length * c` and are `length * width`;
                        // the sink covers `block` rows of the output, channels
                        // `first_out + c ..` of this group.
                        unsafe {
                            debug_assert!(w + length * (c + width) <= d.weights.len());
                            let last = |p: *const f32, by: usize| {
                                if last_block && !p.is_null() {
                                    p.add(by)
                                } else {
                                    std::ptr::null()
                                }
                            };
                            // Panels lie one behind the other, those of the next block
                            // of depth behind the last.
                            let (mut next, mut ahead) = (c + width, width);
                            if next >= d.panels.padded() {
                                ahead = d.panels.width_of(0);
                                next = if more { 0 } else { next };
                            }
                            let next = d.weights.as_ptr().wrapping_add(w + length * next);
                            panel(
                                s,
                                &pointers[..block],
                                &d.runs,
                                to - from,
                                d.weights.as_ptr().add(w + length * c),
                                width / S::LANES,
                                Sink {
                                    y: self.y.add(at),
                                    stride,
                                    channels: width.min(d.panels.n - c),
                                    accumulate: !first_block,
                                    bias: last(self.epilogue.bias, first_out + c),
                                    residual: last(self.epilogue.residual, at),
                                    relu: last_block && self.epilogue.relu,
                                },
                                Ahead::new(next, length * ahead),
                            );
                            if let (true, Some(form)) = (last_block, self.epilogue.gelu) {
                                let y = self.y.add(at);
                                let rows = (0..block).map(|i| y.add(i * stride));
                                gelu::rows(s, form, width.min(d.panels.n - c), rows);
                            }
                            if last_block && !self.epilogue.sums.is_none() {
                                let sums = self.epilogue.sums.from(first_out + c);
                                let first = self.first && row == self.rows.start;
                                let y = self.y.add(at).cast_const();
                                let rows = (0..block).map(|i| y.add(i * stride));
                                sums.rows(s, width.min(d.panels.n - c), rows, first);
                            }
                        }
                    }
                    row += block;
                }
            }
        }
    }
}
