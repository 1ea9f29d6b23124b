//! Layer norm, products of matrices and softmax, both ways.

use kernels::geometry::Shape;
use kernels::reference::Real;

use crate::op::Op;

/// [`Op::LayerNorm`] on images of one shape.
pub(super) struct Norm<T> {
    input: Shape,
    groups: usize,
    over_pixels: bool,
    centred: bool,
    scale: bool,
    epsilon: T,
}

impl<T: Real> Norm<T> {
    pub fn of(op: &Op, input: Shape, epsilon: f32) -> Self {
        let Op::LayerNorm {
            groups,
            over_pixels,
            centred,
            scale,
            ..
        } = *op
        else {
            unreachable!("a layer norm")
        };
        Self {
            input,
            groups,
            over_pixels,
            centred,
            scale,
            epsilon: T::from_f32(epsilon),
        }
    }

    /// Calls `visit` with the elements of one image that are normalised together.
    fn each(&self, images: usize, mut visit: impl FnMut(Vec<usize>)) {
        let Shape { channels, .. } = self.input;
        let (pixels, width) = (self.input.pixels(), channels / self.groups);
        for image in 0..images {
            for group in 0..self.groups {
                let of = |pixel: usize| {
                    let first = (image * pixels + pixel) * channels + group * width;
                    first..first + width
                };
                if self.over_pixels {
                    visit((0..pixels).flat_map(of).collect());
                } else {
                    (0..pixels).for_each(|pixel| visit(of(pixel).collect()));
                }
            }
        }
    }

    /// Normalised values, and the factor that made them.
    fn normalised(&self, x: &[T], elements: &[usize]) -> (Vec<T>, T) {
        let n = T::from_f64(elements.len() as f64);
        let mut mean = T::ZERO;
        if self.centred {
            elements.iter().for_each(|&i| mean += x[i]);
            mean = mean / n;
        }
        let mut variance = T::ZERO;
        for &i in elements {
            variance += (x[i] - mean) * (x[i] - mean);
        }
        let inverse = T::ONE / (variance / n + self.epsilon).sqrt();
        let values = elements.iter().map(|&i| (x[i] - mean) * inverse);
        (values.collect(), inverse)
    }

    pub fn forward(&self, x: &[T], values: &[Vec<T>], y: &mut [T]) {
        let scale = self.scale.then(|| &values[0]);
        let shift = values.get(usize::from(self.scale));
        self.each(x.len() / self.input.len(), |elements| {
            let (normalised, _) = self.normalised(x, &elements);
            for (&i, value) in elements.iter().zip(normalised) {
                let c = i % self.input.channels;
                let scaled = scale.map_or(value, |scale| value * scale[c]);
                y[i] = shift.map_or(scaled, |shift| scaled + shift[c]);
            }
        });
    }

    pub fn backward(
        &self,
        x: &[T],
        values: &[Vec<T>],
        dy: &[T],
        dx: &mut [T],
        gradients: &mut [Vec<T>],
    ) {
        let scale = self.scale.then(|| &values[0]);
        self.each(x.len() / self.input.len(), |elements| {
            let (normalised, inverse) = self.normalised(x, &elements);
            let n = T::from_f64(elements.len() as f64);
            let (mut sum, mut dot) = (T::ZERO, T::ZERO);
            let channel = |i: usize| i % self.input.channels;
            let factor = |i: usize| scale.map_or(T::ONE, |scale| scale[channel(i)]);
            for (&i, &value) in elements.iter().zip(&normalised) {
                sum += dy[i] * factor(i);
                dot += dy[i] * factor(i) * value;
                if self.scale {
                    gradients[0][channel(i)] += dy[i] * value;
                }
                if let Some(shift) = gradients.get_mut(usize::from(self.scale)) {
                    shift[channel(i)] += dy[i];
                }
            }
            let mean = if self.centred { sum / n } else { T::ZERO };
            for (&i, &value) in elements.iter().zip(&normalised) {
                dx[i] = inverse * (dy[i] * factor(i) - mean - value * dot / n);
            }
        });
    }
}

/// Calls `visit` with the places of every pair of factors and of their product.
fn products(
    [a, b, y]: [Shape; 3],
    transposed: bool,
    images: usize,
    mut visit: impl FnMut([usize; 3]),
) {
    for matrix in 0..images * y.height {
        for row in 0..y.width {
            for column in 0..y.channels {
                for k in 0..a.channels {
                    let (down, right) = match transposed {
                        true => (column, k),
                        false => (k, column),
                    };
                    visit([
                        (matrix * a.width + row) * a.channels + k,
                        (matrix * b.width + down) * b.channels + right,
                        (matrix * y.width + row) * y.channels + column,
                    ]);
                }
            }
        }
    }
}

/// [`Op::MatMul`]: `y = a b`, of images of these shapes.
pub(super) fn mat_mul<T: Real>(
    transposed: bool,
    shapes: [Shape; 3],
    a: &[T],
    b: &[T],
    y: &mut [T],
) {
    let images = a.len() / shapes[0].len();
    products(shapes, transposed, images, |[i, j, o]| y[o] += a[i] * b[j]);
}

/// Gradients of both factors.
pub(super) fn mat_mul_backward<T: Real>(
    transposed: bool,
    shapes: [Shape; 3],
    a: &[T],
    b: &[T],
    dy: &[T],
) -> Vec<Vec<T>> {
    let images = a.len() / shapes[0].len();
    let (mut da, mut db) = (vec![T::ZERO; a.len()], vec![T::ZERO; b.len()]);
    products(shapes, transposed, images, |[i, j, o]| {
        da[i] += dy[o] * b[j];
        db[j] += dy[o] * a[i];
    });
    vec![da, db]
}

/// [`Op::Softmax`] of rows of so many channels.
pub(super) fn softmax<T: Real>(channels: usize, x: &[T], y: &mut [T]) {
    for (x, y) in x.chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
        let largest = x.iter().fold(x[0], |a, &b| if b > a { b } else { a });
        let mut sum = T::ZERO;
        for (y, &x) in y.iter_mut().zip(x) {
            *y = (x - largest).exp();
            sum += *y;
        }
        y.iter_mut().for_each(|y| *y = *y / sum);
    }
}

/// Its pull-back: `dx_i = y_i (dy_i - dy . y)`.
pub(super) fn softmax_backward<T: Real>(channels: usize, y: &[T], dy: &[T], dx: &mut [T]) {
    let rows = y.chunks_exact(channels).zip(dy.chunks_exact(channels));
    for ((y, dy), dx) in rows.zip(dx.chunks_exact_mut(channels)) {
        let mut dot = T::ZERO;
        y.iter().zip(dy).for_each(|(&y, &dy)| dot += y * dy);
        for ((dx, &y), &dy) in dx.iter_mut().zip(y).zip(dy) {
            *dx = y * (dy - dot);
        }
    }
}
