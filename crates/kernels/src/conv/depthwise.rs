//! Depthwise convolution: every channel has its own window.
//!
//! A vector of channels is taken through the whole image before the next one: its
//! padded image, copied to lie tightly, stays in the cache while every window over it
//! is read. A tile of neighbouring pixels shares each tap's weights and, with enough
//! registers, a row's values, and its sums are so many chains that the multipliers never
//! wait for one of them.

use super::{Filters, Part, RawEpilogue, padded_size};
use crate::buffer::Buffer;
use crate::gemm::Panels;
use crate::geometry::ConvShape;
use crate::isa::{Isa, Kernel};
use crate::simd::{Simd, relu};

/// Pixels of the largest tile.
const TILE: usize = 8;
/// Values in a row under such a tile, with seven taps.
const MOST: usize = TILE + 6;

#[derive(Clone, Debug)]
pub(super) struct Depthwise {
    shape: ConvShape,
    /// Floats in a vector.
    lanes: usize,
    /// `block x tap x lanes`, zeros where the last block has no channel.
    weights: Buffer,
    /// Offset of each tap from the window's first one, in the padded image of a block.
    taps: Vec<usize>,
}

impl Depthwise {
    pub fn new(isa: Isa, shape: ConvShape, filters: Filters<'_>) -> Self {
        let [kh, kw] = shape.window.kernel;
        let [dh, dw] = shape.window.dilation;
        let panels = Panels::new(isa, shape.input.channels);
        let lanes = panels.lanes;
        let row = padded_size(shape.input, shape.window.padding)[1] * lanes;
        let mut depthwise = Self {
            shape,
            lanes,
            weights: Buffer::zeroed(kh * kw * panels.padded()),
            taps: (0..kh * kw)
                .map(|t| t / kw * dh * row + t % kw * dw * lanes)
                .collect(),
        };
        depthwise.pack(filters);
        depthwise
    }

    pub fn pack(&mut self, filters: Filters<'_>) {
        let blocks = self.weights.chunks_exact_mut(self.taps.len() * self.lanes);
        for (block, to) in blocks.enumerate() {
            let first = block * self.lanes;
            for (t, to) in to.chunks_exact_mut(self.lanes).enumerate() {
                for (c, to) in (first..self.shape.input.channels).zip(to) {
                    *to = filters.weights[filters.place(&self.shape, c, 0, t).0];
                }
            }
        }
    }

    pub fn scratch_len(&self) -> usize {
        let [height, width] = padded_size(self.shape.input, self.shape.window.padding);
        height * width * self.lanes
    }

    /// Parts are rows of the output.
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
        let (in_len, output) = (self.shape.input.len(), self.shape.output());
        let rows = part.of(output.height, 1);
        let row_len = output.width * output.channels;
        for image in 0..images {
            let at = image * output.len() + rows.start * row_len;
            // SAFETY: the part's rows of this image lie inside the output and
            // are ours alone.
            let (epilogue, y) = unsafe {
                (
                    epilogue.from(at),
                    std::slice::from_raw_parts_mut(y.add(at), rows.len() * row_len),
                )
            };
            isa.dispatch(Run {
                depthwise: self,
                first_row: rows.start,
                x: &x[image * in_len..][..in_len],
                padded: &mut scratch[..self.scratch_len()],
                epilogue,
                y,
            });
        }
    }
}

struct Run<'a> {
    depthwise: &'a Depthwise,
    first_row: usize,
    x: &'a [f32],
    padded: &'a mut [f32],
    epilogue: RawEpilogue,
    y: &'a mut [f32],
}

impl Kernel for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        assert_eq!(self.depthwise.lanes, S::LANES);
        self.padded.fill(0.0);
        for first in (0..self.depthwise.shape.input.channels).step_by(S::LANES) {
            self.copy(s, first);
            self.block(s, first);
        }
    }
}

impl Run<'_> {
    /// The channels of a block, with what is left of the zeros around them.
    #[inline(always)]
    fn copy<S: Simd>(&mut self, s: S, first: usize) {
        let shape = self.depthwise.shape;
        let (input, padding) = (shape.input, shape.window.padding);
        let width = padded_size(input, padding)[1];
        let n = S::LANES.min(input.channels - first);
        let rows = self.x.chunks_exact(input.width * input.channels);
        for (row, x) in rows.enumerate() {
            let at = ((padding.top + row) * width + padding.left) * S::LANES;
            let to = self.padded[at..].chunks_exact_mut(S::LANES);
            for (x, to) in x.chunks_exact(input.channels).zip(to) {
                s.write(to, s.read_partial(&x[first..first + n]));
            }
        }
    }

    /// All rows of the output, for the channels of a block.
    #[inline(always)]
    fn block<S: Simd>(&mut self, s: S, first: usize) {
        let d = self.depthwise;
        let (output, window) = (d.shape.output(), d.shape.window);
        let row = padded_size(d.shape.input, window.padding)[1] * S::LANES;
        let step = window.stride[1] * S::LANES;
        let weights = &d.weights[first * d.taps.len()..][..d.taps.len() * S::LANES];
        let tiles = output.width.div_ceil(TILE);
        let rows = self.y.len() / (output.width * output.channels);
        let epilogue = self.epilogue;
        for oy in 0..rows {
            let x = (self.first_row + oy) * window.stride[0] * row;
            // Tiles of about one size: a small one would wait for its sums.
            for part in 0..tiles {
                let [from, to] = [part, part + 1].map(|t| t * output.width / tiles);
                let x = &self.padded[x + from * step..];
                let last = d.taps[d.taps.len() - 1] + (to - from - 1) * step;
                assert!(last + S::LANES <= x.len());
                let at = (oy * output.width + from) * output.channels + first;
                let place = Place {
                    taps: &d.taps,
                    weights,
                    x,
                    step,
                    channels: output.channels,
                    first,
                    at,
                };
                // Where pixels share most of their taps, and registers hold a row of them.
                let shared = S::REGISTERS >= 32 && (window.stride[1], window.dilation[1]) == (1, 1);
                macro_rules! run {
                    ($pixels:literal) => {
                        match window.kernel[1] {
                            7 if shared => tile::<S, $pixels, 7>(s, &place, epilogue, self.y),
                            5 if shared => tile::<S, $pixels, 5>(s, &place, epilogue, self.y),
                            3 if shared => tile::<S, $pixels, 3>(s, &place, epilogue, self.y),
                            _ => tile::<S, $pixels, 1>(s, &place, epilogue, self.y),
                        }
                    };
                }
                match to - from {
                    1 => run!(1),
                    2 => run!(2),
                    3 => run!(3),
                    4 => run!(4),
                    5 => run!(5),
                    6 => run!(6),
                    7 => run!(7),
                    _ => run!(8),
                }
            }
        }
    }
}

/// A tile: neighbouring pixels of one row, one vector of channels.
struct Place<'a> {
    taps: &'a [usize],
    /// `tap x lanes`.
    weights: &'a [f32],
    /// From the first pixel's first tap on.
    x: &'a [f32],
    /// Floats from a pixel's window to the next one's.
    step: usize,
    /// Of the output.
    channels: usize,
    /// Channel of the first lane.
    first: usize,
    /// The first pixel's element of the output.
    at: usize,
}

/// `T` pixels. `ROW` taps lie beside each other, as far apart as the pixels do: their
/// values are read once for all pixels. Or it is 1.
#[inline(always)]
fn tile<S: Simd, const T: usize, const ROW: usize>(
    s: S,
    place: &Place<'_>,
    epilogue: RawEpilogue,
    y: &mut [f32],
) {
    let n = S::LANES.min(place.channels - place.first);
    assert!(place.at + (T - 1) * place.channels + n <= y.len());
    assert_eq!(place.weights.len(), place.taps.len() * S::LANES);
    // SAFETY: the last pixel's last tap lies inside the padded image, as the caller has
    // checked, and all others before it; the outputs and the weights were checked
    // above; bias and residual are as long as the channels and the outputs.
    unsafe {
        let mut sums = [s.zero(); T];
        if const { ROW == 1 } {
            for (t, &tap) in place.taps.iter().enumerate() {
                let w = s.load(place.weights.as_ptr().add(t * S::LANES));
                let x = place.x.as_ptr().add(tap);
                for (i, sum) in sums.iter_mut().enumerate() {
                    *sum = s.mul_add(s.load(x.add(i * place.step)), w, *sum);
                }
            }
        } else {
            for (row, taps) in place.taps.chunks_exact(ROW).enumerate() {
                let w = place.weights.as_ptr().add(row * ROW * S::LANES);
                let x = place.x.as_ptr().add(taps[0]);
                let mut values = [s.zero(); MOST];
                for i in 0..T + ROW - 1 {
                    values[i] = s.load(x.add(i * S::LANES));
                }
                for t in 0..ROW {
                    let w = s.load(w.add(t * S::LANES));
                    for i in 0..T {
                        sums[i] = s.mul_add(values[i + t], w, sums[i]);
                    }
                }
            }
        }
        for (i, mut sum) in sums.into_iter().enumerate() {
            let at = place.at + i * place.channels;
            if !epilogue.bias.is_null() {
                sum = s.add(sum, s.load_partial(epilogue.bias.add(place.first), n));
            }
            if !epilogue.residual.is_null() {
                sum = s.add(sum, s.load_partial(epilogue.residual.add(at), n));
            }
            if epilogue.relu {
                sum = relu(s, sum);
            }
            s.store_partial(y.as_mut_ptr().add(at), n, sum);
        }
    }
}
