//! Bilinear, antialiased resizing, as PIL and torchvision do it.
//!
//! Own code because the crate that does it with SIMD takes minutes to compile.

use crate::Shape;

/// Left, top, width and height of what is resized, in pixels of the source.
pub(crate) type Region = [f64; 4];

/// Weights of the source pixels from `first` on, for one output pixel.
struct Taps {
    first: usize,
    weights: Vec<f32>,
}

/// The triangle filter along one axis: output pixel `i` is centred at
/// `c = start + (i + 1/2) * scale` with `scale = length / outputs`, and source
/// pixel `j` weighs `max(0, 1 - |j + 1/2 - c| / max(scale, 1))`, normalised.
fn taps(source: usize, start: f64, length: f64, outputs: usize) -> Vec<Taps> {
    let scale = length / outputs as f64;
    let support = scale.max(1.0);
    let one = |i: usize| {
        let centre = start + (i as f64 + 0.5) * scale;
        let first = (centre - support + 0.5)
            .floor()
            .clamp(0.0, (source - 1) as f64) as usize;
        let end = ((centre + support + 0.5).floor() as usize).clamp(first + 1, source);
        let weight = |j: usize| (1.0 - ((j as f64 + 0.5 - centre) / support).abs()).max(0.0);
        let mut weights: Vec<f64> = (first..end).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        if sum <= 0.0 {
            weights.fill(0.0);
            weights[0] = 1.0;
        } else {
            weights.iter_mut().for_each(|w| *w /= sum);
        }
        Taps {
            first,
            weights: weights.into_iter().map(|w| w as f32).collect(),
        }
    };
    (0..outputs).map(one).collect()
}

/// Resizes a region of an image with one or three bytes a pixel to
/// `[height, width]`. Only rows and columns that the region needs are read.
pub(crate) fn resize(
    bytes: &[u8],
    source: Shape,
    [left, top, region_width, region_height]: Region,
    [height, width]: [usize; 2],
) -> Vec<u8> {
    let mut columns = taps(source.width, left, region_width, width);
    let rows = taps(source.height, top, region_height, height);
    // Source columns that any output pixel reads.
    let begin = columns.iter().map(|t| t.first).min().unwrap_or(0);
    let end = columns.iter().map(|t| t.first + t.weights.len()).max();
    let end = end.unwrap_or(begin);
    columns.iter_mut().for_each(|taps| taps.first -= begin);
    // Down first: whole rows are added up, which the compiler vectorises, and
    // the slower way across is left with as few rows as there are outputs.
    let mut line = vec![0f32; (end - begin) * source.channels];
    let mut result = Vec::with_capacity(height * width * source.channels);
    for taps in &rows {
        line.fill(0.0);
        for (row, w) in (taps.first..).zip(&taps.weights) {
            let row = &bytes[(row * source.width + begin) * source.channels..][..line.len()];
            for (sum, &v) in line.iter_mut().zip(row) {
                *sum += w * f32::from(v);
            }
        }
        match source.channels {
            3 => across::<3>(&line, &columns, &mut result),
            _ => across::<1>(&line, &columns, &mut result),
        }
    }
    result
}

/// Appends the output pixels of one line, rounded to bytes.
fn across<const CHANNELS: usize>(line: &[f32], columns: &[Taps], result: &mut Vec<u8>) {
    let (pixels, _) = line.as_chunks::<CHANNELS>();
    for taps in columns {
        let mut sums = [0f32; CHANNELS];
        for (pixel, w) in pixels[taps.first..].iter().zip(&taps.weights) {
            for (sum, v) in sums.iter_mut().zip(pixel) {
                *sum += w * v;
            }
        }
        // Adding a half and cutting off rounds; the cast keeps to 0..=255.
        result.extend(sums.map(|sum| (sum + 0.5) as u8));
    }
}
