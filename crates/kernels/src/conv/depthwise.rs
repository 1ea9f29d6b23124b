//! Depthwise convolution: every channel has its own window.

use super::padded::pad;
use super::{Filters, Part, RawEpilogue, padded_size};
use crate::buffer::Buffer;
use crate::geometry::ConvShape;
use crate::isa::{Isa, Kernel};
use crate::simd::{Simd, relu};

#[derive(Clone, Debug)]
pub(super) struct Depthwise {
    shape: ConvShape,
    /// `tap x channels`.
    weights: Buffer,
    /// Offset of each tap from the window's first one, in the padded image.
    taps: Vec<usize>,
}

impl Depthwise {
    pub fn new(shape: ConvShape, filters: Filters<'_>) -> Self {
        let [kh, kw] = shape.window.kernel;
        let [dh, dw] = shape.window.dilation;
        let channels = shape.input.channels;
        let row = padded_size(shape.input, shape.window.padding)[1] * channels;
        let mut depthwise = Self {
            shape,
            weights: Buffer::zeroed(filters.len()),
            taps: (0..kh * kw)
                .map(|t| t / kw * dh * row + t % kw * dw * channels)
                .collect(),
        };
        depthwise.pack(filters);
        depthwise
    }

    pub fn pack(&mut self, filters: Filters<'_>) {
        let rows = self.weights.chunks_exact_mut(self.shape.input.channels);
        for (t, to) in rows.enumerate() {
            for (c, to) in to.iter_mut().enumerate() {
                *to = filters.weights[filters.place(&self.shape, c, 0, t).0];
            }
        }
    }

    pub fn scratch_len(&self) -> usize {
        let [height, width] = padded_size(self.shape.input, self.shape.window.padding);
        height * width * self.shape.input.channels
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
        let padded = &mut scratch[..self.scratch_len()];
        let rows = part.of(output.height, 1);
        let row_len = output.width * output.channels;
        for image in 0..images {
            let x = &x[image * in_len..][..in_len];
            pad(self.shape.input, self.shape.window.padding, x, padded);
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
                x: padded,
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
    epilogue: RawEpilogue,
    y: &'a mut [f32],
}

impl Kernel for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let d = self.depthwise;
        let (output, window) = (d.shape.output(), d.shape.window);
        let channels = output.channels;
        let row = padded_size(d.shape.input, window.padding)[1] * channels;
        for (pixel, y) in self.y.chunks_exact_mut(channels).enumerate() {
            let (oy, ox) = (self.first_row + pixel / output.width, pixel % output.width);
            let first = oy * window.stride[0] * row + ox * window.stride[1] * channels;
            let mut c = 0;
            while c < channels {
                let n = S::LANES.min(channels - c);
                // SAFETY: a pixel's taps lie inside the padded image because
                // the window fits; bias and residual were checked by the
                // caller; at most `channels - c` floats are touched.
                unsafe {
                    let mut sum = s.zero();
                    for (t, &tap) in d.taps.iter().enumerate() {
                        debug_assert!(first + tap + c + n <= self.x.len());
                        let x = s.load_partial(self.x.as_ptr().add(first + tap + c), n);
                        let w = s.load_partial(d.weights.as_ptr().add(t * channels + c), n);
                        sum = s.mul_add(x, w, sum);
                    }
                    let e = &self.epilogue;
                    if !e.bias.is_null() {
                        sum = s.add(sum, s.load_partial(e.bias.add(c), n));
                    }
                    if !e.residual.is_null() {
                        let r = e.residual.add(pixel * channels + c);
                        sum = s.add(sum, s.load_partial(r, n));
                    }
                    if e.relu {
                        sum = relu(s, sum);
                    }
                    s.store_partial(y.as_mut_ptr().add(c), n, sum);
                }
                c += S::LANES;
            }
        }
    }
}
