//! Bilinear, antialiased resizing with Pillow's bits: the weights in 22 bits of fixed
//! point, first across, then down, with bytes in between.
//!
//! Own code because the crate that does it with SIMD takes minutes to compile, and
//! rounds otherwise.

use kernels::isa::{Isa, Kernel};
use kernels::simd::Simd;

use crate::Shape;

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

/// Resizes the window of an image (one or three bytes a pixel) to `[height, width]`, and
/// gives the part of the result that is wanted. Nothing outside of the window is seen,
/// and nothing is computed that the part does not show.
pub(crate) fn resize(
    bytes: &[u8],
    source: Shape,
    window: CropBox,
    [height, width]: [usize; 2],
    part: CropBox,
) -> Vec<u8> {
    let [left, top, window_width, window_height] = window;
    let [part_left, part_top, part_width, part_height] = part;
    let mut rows = taps(window_height, height, [part_top, part_height]);
    let columns = taps(window_width, width, [part_left, part_width]);
    // Source rows that any output row reads.
    let begin = rows.first().map_or(0, |taps| taps.first);
    let end = rows
        .iter()
        .map(|taps| taps.first + taps.weights.len())
        .max();
    let end = end.unwrap_or(begin);
    rows.iter_mut().for_each(|taps| taps.first -= begin);
    let stride = source.width * source.channels;
    let start = (top + begin) * stride + left * source.channels;
    let channels = source.channels;
    Isa::detect().dispatch(TwoPasses {
        bytes: &bytes[start.min(bytes.len())..],
        stride,
        lines: end - begin,
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
        for (line, out) in narrow.chunks_exact_mut(width.max(1)).enumerate() {
            let line = &self.bytes[line * self.stride..];
            match self.channels {
                3 => across::<3>(line, self.columns, out),
                _ => across::<1>(line, self.columns, out),
            }
        }
        let mut result = vec![0u8; self.rows.len() * width];
        let mut sums = vec![0i32; width];
        for (taps, out) in self.rows.iter().zip(result.chunks_exact_mut(width.max(1))) {
            sums.fill(HALF);
            for (row, &w) in (taps.first..).zip(&taps.weights) {
                let row = &narrow[row * width..][..width];
                for (sum, &v) in sums.iter_mut().zip(row) {
                    *sum += w * i32::from(v);
                }
            }
            for (out, &sum) in out.iter_mut().zip(&sums) {
                *out = (sum >> BITS).clamp(0, 255) as u8;
            }
        }
        result
    }
}

/// The output pixels of one line.
#[inline(always)]
fn across<const CHANNELS: usize>(line: &[u8], columns: &[Taps], out: &mut [u8]) {
    let (pixels, _) = line.as_chunks::<CHANNELS>();
    let (out, _) = out.as_chunks_mut::<CHANNELS>();
    for (taps, out) in columns.iter().zip(out) {
        let mut sums = [HALF; CHANNELS];
        let pixels = &pixels[taps.first..][..taps.weights.len()];
        for (pixel, &w) in pixels.iter().zip(&taps.weights) {
            for (sum, &v) in sums.iter_mut().zip(pixel) {
                *sum += w * i32::from(v);
            }
        }
        *out = sums.map(|sum| (sum >> BITS).clamp(0, 255) as u8);
    }
}
