//! Bilinear, antialiased resizing with Pillow's bits: the weights in 22 bits of fixed
//! point, first across, then down, with bytes in between.
//!
//! Own code because the crate that does it with SIMD takes minutes to compile, and
//! rounds otherwise.

use kernels::isa::{Isa, Kernel};
use kernels::simd::Simd;

use crate::decode::Pixels;

/// Left, top, width and height of a part of an image.
pub(crate) type CropBox = [usize; 4];

/// Bits behind the point of a weight.
const BITS: u32 = 22;
/// One half, so that cutting off rounds.
const HALF: i32 = 1 << (BITS - 1);

/// Weights of the source pixels from `first` on, for one output pixel.
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

/// The triangle filter along one axis: `source` pixels become `outputs`, of which the
/// `count` from `begin` on are wanted. Output pixel `i` is centred at
/// `c = (i + 1/2) * scale` with `scale = source / outputs`, and source pixel `j` weighs
/// `max(0, 1 - |j + 1/2 - c| / max(scale, 1))`, normalised.
fn taps(source: usize, outputs: usize, [begin, count]: [usize; 2]) -> Vec<Taps> {
    let scale = source as f64 / outputs as f64;
    let support = scale.max(1.0);
    let inverse = 1.0 / support;
    let one = |i: usize| {
        let centre = (i as f64 + 0.5) * scale;
        // Casts cut off towards zero, and below zero to it.
        let first = ((centre - support + 0.5) as usize).min(source - 1);
        let end = ((centre + support + 0.5) as usize).clamp(first + 1, source);
        let weight = |j: usize| (1.0 - ((j as f64 - centre + 0.5) * inverse).abs()).max(0.0);
        let sum: f64 = (first..end).map(weight).sum();
        let fixed = |w: f64| (0.5 + w / sum * f64::from(1 << BITS)) as i32;
        let weights = match sum > 0.0 {
            true => (first..end).map(|j| fixed(weight(j))).collect(),
            false => vec![1 << BITS],
        };
        Taps { first, weights }
    };
    (begin..begin + count).map(one).collect()
}

/// Source pixels along one axis that any of the wanted output pixels reads.
fn reach(source: usize, outputs: usize, [begin, count]: [usize; 2]) -> [usize; 2] {
    let ends = [begin, begin + count.max(1) - 1];
    let [first, last] = ends.map(|i| taps(source, outputs, [i, 1]));
    let end = |taps: &Taps| taps.first + taps.weights.len();
    match (&first[..], &last[..]) {
        ([first], [last]) => [first.first, end(last).max(end(first)) - first.first],
        _ => [0, source],
    }
}

/// The part of an image that [`resize`] reads for this window, size and part.
pub(crate) fn needed(window: CropBox, [height, width]: [usize; 2], part: CropBox) -> CropBox {
    let [left, top, window_width, window_height] = window;
    let [part_left, part_top, part_width, part_height] = part;
    let [x, across] = reach(window_width, width, [part_left, part_width]);
    let [y, down] = reach(window_height, height, [part_top, part_height]);
    [left + x, top + y, across, down]
}

/// Resizes the window of an image (one or three bytes a pixel) to `[height, width]`, and
/// gives the part of the result that is wanted. Nothing outside of the window is seen,
/// and nothing is computed that the part does not show; of the image only what is
/// [`needed`] must be there.
pub(crate) fn resize(
    image: &Pixels<'_>,
    window: CropBox,
    [height, width]: [usize; 2],
    part: CropBox,
) -> Vec<u8> {
    let [left, top, window_width, window_height] = window;
    let [part_left, part_top, part_width, part_height] = part;
    let [first_column, first_row, ..] = needed(window, [height, width], part);
    let mut rows = taps(window_height, height, [part_top, part_height]);
    let mut columns = taps(window_width, width, [part_left, part_width]);
    rows.iter_mut()
        .for_each(|taps| taps.first -= first_row - top);
    columns
        .iter_mut()
        .for_each(|taps| taps.first -= first_column - left);
    let lines = rows.iter().map(|taps| taps.first + taps.weights.len());
    let [held_left, held_top, held_width, _] = image.held;
    let (channels, stride) = (image.channels, held_width * image.channels);
    let start = (first_row - held_top) * stride + (first_column - held_left) * channels;
    Isa::detect().dispatch(TwoPasses {
        bytes: &image.bytes[start.min(image.bytes.len())..],
        stride,
        lines: lines.max().unwrap_or(0),
        channels,
        rows: &rows,
        columns: &columns,
    })
}

/// Both passes; compiled for each instruction set.
struct TwoPasses<'a> {
    bytes: &'a [u8],
    stride: usize,
    lines: usize,
    channels: usize,
    rows: &'a [Taps],
    columns: &'a [Taps],
}

impl Kernel for TwoPasses<'_> {
    type Output = Vec<u8>;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> Vec<u8> {
        let width = self.columns.len() * self.channels;
        let mut narrow = vec![0u8; self.lines * width];
        let (mut three, mut one) = (Vec::new(), Vec::new());
        let blocks = narrow.chunks_mut((LINES * width).max(1));
        for (block, out) in blocks.enumerate() {
            let lines = (&self.bytes[block * LINES * self.stride..], self.stride);
            match self.channels {
                3 => across::<3>(lines, self.columns, &mut three, out),
                _ => across::<1>(lines, self.columns, &mut one, out),
            }
        }
        let mut result = vec![0u8; self.rows.len() * width];
        for (taps, out) in self.rows.iter().zip(result.chunks_exact_mut(width.max(1))) {
            let rows = &narrow[taps.first * width..][..taps.weights.len() * width];
            let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
            let done = blocks.len() * BLOCK;
            for (block, out) in blocks.iter_mut().enumerate() {
                down((rows, width), block * BLOCK, &taps.weights, out);
            }
            for (at, out) in (done..).zip(rest) {
                down((rows, width), at, &taps.weights, std::array::from_mut(out));
            }
        }
        result
    }
}

/// Bytes that are gone through together.
const BLOCK: usize = 64;

/// Some bytes of an output row, from byte `at` of the rows that give it.
#[inline(always)]
fn down<const N: usize>(
    (rows, width): (&[u8], usize),
    at: usize,
    weights: &[i32],
    out: &mut [u8; N],
) {
    let mut sums = [HALF; N];
    for (row, &w) in rows.chunks_exact(width).zip(weights) {
        let Some(bytes) = row[at..].first_chunk::<N>() else {
            return;
        };
        for (sum, &v) in sums.iter_mut().zip(bytes) {
            *sum += w * i32::from(v);
        }
    }
    for (out, &sum) in out.iter_mut().zip(&sums) {
        *out = (sum >> BITS).clamp(0, 255) as u8;
    }
}

/// Lines that are gone through together.
const LINES: usize = 16;

/// The output pixels of up to [`LINES`] lines. They are first turned so that the pixels of a
/// column stand beside each other: then every weight meets many bytes at once.
#[inline(always)]
fn across<const CHANNELS: usize>(
    (lines, stride): (&[u8], usize),
    columns: &[Taps],
    tile: &mut Vec<[[u8; CHANNELS]; LINES]>,
    out: &mut [u8],
) {
    let width = columns.iter().map(|taps| taps.first + taps.weights.len());
    let width = width.max().unwrap_or(0);
    tile.resize(width, [[0; CHANNELS]; LINES]);
    let out_width = columns.len() * CHANNELS;
    let count = out.len() / out_width.max(1);
    for line in 0..count {
        let (pixels, _) = lines[line * stride..][..width * CHANNELS].as_chunks::<CHANNELS>();
        for (column, pixel) in tile.iter_mut().zip(pixels) {
            column[line] = *pixel;
        }
    }
    for (place, taps) in columns.iter().enumerate() {
        let mut sums = [[HALF; CHANNELS]; LINES];
        let pixels = &tile[taps.first..][..taps.weights.len()];
        for (pixels, &w) in pixels.iter().zip(&taps.weights) {
            let pixels = pixels.as_flattened();
            for (sum, &v) in sums.as_flattened_mut().iter_mut().zip(pixels) {
                *sum += w * i32::from(v);
            }
        }
        let mut bytes = [[0; CHANNELS]; LINES];
        let sums = sums.as_flattened();
        for (byte, &sum) in bytes.as_flattened_mut().iter_mut().zip(sums) {
            *byte = (sum >> BITS).clamp(0, 255) as u8;
        }
        let lines = out.chunks_exact_mut(out_width.max(1));
        for (line, bytes) in lines.zip(&bytes) {
            line[place * CHANNELS..][..CHANNELS].copy_from_slice(bytes);
        }
    }
}
