//! Bilinear, antialiased resizing, as PIL and torchvision do it.
//!
//! Own code because the crate that does it with SIMD takes minutes to compile.

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

/// Resizes a region of an image with `channels` bytes a pixel to
/// `[height, width]`. Only rows and columns that the region needs are read.
pub(crate) fn resize(
    bytes: &[u8],
    [source_height, source_width, channels]: [usize; 3],
    [left, top, region_width, region_height]: Region,
    [height, width]: [usize; 2],
) -> Vec<u8> {
    let columns = taps(source_width, left, region_width, width);
    let rows = taps(source_height, top, region_height, height);
    // Source rows that any output row reads.
    let begin = rows.iter().map(|t| t.first).min().unwrap_or(0);
    let end = rows.iter().map(|t| t.first + t.weights.len()).max();
    let end = end.unwrap_or(0);
    let mut narrow = vec![0f32; (end - begin) * width * channels];
    for (y, out) in narrow.chunks_exact_mut(width * channels).enumerate() {
        let row = &bytes[(begin + y) * source_width * channels..];
        for (taps, out) in columns.iter().zip(out.chunks_exact_mut(channels)) {
            let pixels = row[taps.first * channels..].chunks_exact(channels);
            for (pixel, w) in pixels.zip(&taps.weights) {
                for (out, &v) in out.iter_mut().zip(pixel) {
                    *out += w * f32::from(v);
                }
            }
        }
    }
    let mut result = Vec::with_capacity(height * width * channels);
    let mut sum = vec![0f32; width * channels];
    for taps in &rows {
        sum.fill(0.0);
        let lines =
            narrow[(taps.first - begin) * width * channels..].chunks_exact(width * channels);
        for (line, w) in lines.zip(&taps.weights) {
            for (sum, v) in sum.iter_mut().zip(line) {
                *sum += w * v;
            }
        }
        result.extend(sum.iter().map(|v| v.round().clamp(0.0, 255.0) as u8));
    }
    result
}
