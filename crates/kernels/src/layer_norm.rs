//! Layer norm and group norm: statistics over the values of one image.

use crate::geometry::Shape;
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;

/// What is normalised together.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm {
    /// Of one image.
    pub shape: Shape,
    /// Groups of channels.
    pub groups: usize,
    /// Over all pixels instead of each on its own.
    pub over_pixels: bool,
    /// The mean is taken away.
    pub centred: bool,
    /// Added to the variance.
    pub epsilon: f32,
}

impl LayerNorm {
    /// `y = (x - mean) / sqrt(variance + epsilon) * scale + shift`, one factor and
    /// one offset a channel; 1 and 0 where there are none.
    ///
    /// # Panics
    /// If a length is wrong.
    pub fn forward(
        &self,
        isa: Isa,
        scale: Option<&[f32]>,
        shift: Option<&[f32]>,
        x: &[f32],
        y: &mut [f32],
    ) {
        assert!(x.len() == y.len() && x.len().is_multiple_of(self.shape.len()));
        let (ones, zeros) = self.neutral();
        isa.dispatch(Forward {
            norm: *self,
            scale: self.checked(scale, &ones),
            shift: self.checked(shift, &zeros),
            x,
            y,
        });
    }

    /// Adds to `dx` what `dy` becomes on its way back; and to `sums`, if wanted, the
    /// gradients of scale and shift.
    ///
    /// # Panics
    /// If a length is wrong.
    pub fn backward(
        &self,
        isa: Isa,
        scale: Option<&[f32]>,
        x: &[f32],
        dy: &[f32],
        dx: Option<&mut [f32]>,
        sums: Option<[&mut [f32]; 2]>,
    ) {
        assert!(x.len() == dy.len() && x.len().is_multiple_of(self.shape.len()));
        assert!(dx.as_ref().is_none_or(|dx| dx.len() == x.len()));
        let channels = self.shape.channels;
        assert!(
            sums.as_ref()
                .is_none_or(|s| s.iter().all(|s| s.len() == channels))
        );
        let (ones, _) = self.neutral();
        isa.dispatch(Backward {
            norm: *self,
            scale: self.checked(scale, &ones),
            x,
            dy,
            dx,
            sums,
        });
    }

    fn neutral(&self) -> (Vec<f32>, Vec<f32>) {
        let channels = self.shape.channels;
        (vec![1.0; channels], vec![0.0; channels])
    }

    fn checked<'a>(&self, values: Option<&'a [f32]>, or: &'a [f32]) -> &'a [f32] {
        let values = values.unwrap_or(or);
        assert_eq!(values.len(), self.shape.channels);
        values
    }

    /// Channels of a group.
    fn width(&self) -> usize {
        self.shape.channels / self.groups
    }

    /// Calls `visit(set)` for everything that is normalised together.
    #[inline(always)]
    fn each(&self, elements: usize, mut visit: impl FnMut(Set)) {
        let channels = self.shape.channels;
        let rows = if self.over_pixels {
            self.shape.pixels()
        } else {
            1
        };
        for first in (0..elements).step_by(rows * channels) {
            for group in 0..self.groups {
                let channel = group * self.width();
                visit(Set {
                    first: first + channel,
                    channel,
                    rows,
                    width: self.width(),
                    stride: channels,
                });
            }
        }
    }
}

/// Values that are normalised together: rows of neighbours.
#[derive(Clone, Copy)]
struct Set {
    first: usize,
    /// Of the first value.
    channel: usize,
    rows: usize,
    width: usize,
    stride: usize,
}

impl Set {
    /// First elements of the rows.
    #[inline(always)]
    fn rows(self) -> impl Iterator<Item = usize> {
        (0..self.rows).map(move |row| self.first + row * self.stride)
    }

    /// Sum of `of(element, channel)` over all values: vector by vector within a row,
    /// the rows in double precision.
    #[inline(always)]
    fn sum<S: Simd>(
        self,
        s: S,
        vector: impl Fn(usize, usize) -> S::V,
        single: impl Fn(usize, usize) -> f32,
    ) -> f64 {
        let mut total = 0.0;
        let full = self.width - self.width % S::LANES;
        for row in self.rows() {
            // Two chains, one vector each in turn.
            let (mut this, mut other) = (s.zero(), s.zero());
            for i in (0..full).step_by(S::LANES) {
                let sum = s.add(this, vector(row + i, self.channel + i));
                (this, other) = (other, sum);
            }
            let mut sum = s.sum(s.add(this, other));
            for i in full..self.width {
                sum += single(row + i, self.channel + i);
            }
            total += f64::from(sum);
        }
        total
    }

    /// Mean and `1 / sqrt(variance + epsilon)`.
    #[inline(always)]
    fn statistics<S: Simd>(self, s: S, norm: &LayerNorm, x: &[f32]) -> (f32, f32) {
        let n = (self.rows * self.width) as f64;
        let mut mean = 0.0;
        if norm.centred {
            mean = (self.sum(s, |i, _| s.read(&x[i..]), |i, _| x[i]) / n) as f32;
        }
        let at = s.splat(mean);
        let squares = self.sum(
            s,
            |i, _| {
                let d = s.sub(s.read(&x[i..]), at);
                s.mul(d, d)
            },
            |i, _| (x[i] - mean) * (x[i] - mean),
        );
        let variance = squares / n + f64::from(norm.epsilon);
        (mean, (1.0 / variance.sqrt()) as f32)
    }
}

struct Forward<'a> {
    norm: LayerNorm,
    scale: &'a [f32],
    shift: &'a [f32],
    x: &'a [f32],
    y: &'a mut [f32],
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (x, y) = (self.x, self.y);
        self.norm.each(x.len(), |set| {
            let (mean, inverse) = set.statistics(s, &self.norm, x);
            let (mean, inverse) = (s.splat(mean), s.splat(inverse));
            let (scale, shift) = (&self.scale[set.channel..], &self.shift[set.channel..]);
            let (scale, shift) = (&scale[..set.width], &shift[..set.width]);
            for row in set.rows() {
                let (x, y) = (&x[row..][..set.width], &mut y[row..][..set.width]);
                let mut x = x.chunks_exact(S::LANES);
                let mut y = y.chunks_exact_mut(S::LANES);
                let mut scale = scale.chunks_exact(S::LANES);
                let mut shift = shift.chunks_exact(S::LANES);
                // The compiler knows the length of whole vectors, and needs no masks.
                let factors = (&mut scale).zip(&mut shift);
                for ((x, y), (scale, shift)) in (&mut x).zip(&mut y).zip(factors) {
                    moved(s, [mean, inverse], [x, scale, shift], y);
                }
                let (scale, shift) = (scale.remainder(), shift.remainder());
                let rest = [x.remainder(), scale, shift];
                moved(s, [mean, inverse], rest, y.into_remainder());
            }
        });
    }
}

/// `(x - mean) * inverse * scale + shift` of up to a vector.
#[inline(always)]
fn moved<S: Simd>(s: S, [mean, inverse]: [S::V; 2], [x, scale, shift]: [&[f32]; 3], y: &mut [f32]) {
    let value = s.sub(s.read_partial(x), mean);
    let scale = s.mul(inverse, s.read_partial(scale));
    s.write_partial(y, s.mul_add(value, scale, s.read_partial(shift)));
}

struct Backward<'a> {
    norm: LayerNorm,
    scale: &'a [f32],
    x: &'a [f32],
    dy: &'a [f32],
    dx: Option<&'a mut [f32]>,
    sums: Option<[&'a mut [f32]; 2]>,
}

impl Kernel for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self {
            norm,
            scale,
            x,
            dy,
            mut dx,
            mut sums,
        } = self;
        norm.each(x.len(), |set| {
            let (mean, inverse) = set.statistics(s, &norm, x);
            let (at, by) = (s.splat(mean), s.splat(inverse));
            if let Some([dscale, dshift]) = &mut sums {
                for row in set.rows() {
                    for i in (0..set.width).step_by(S::LANES) {
                        let n = S::LANES.min(set.width - i);
                        let c = set.channel + i;
                        let dy = s.read_partial(&dy[row + i..][..n]);
                        let value = s.mul(s.sub(s.read_partial(&x[row + i..][..n]), at), by);
                        let dscale = &mut dscale[c..][..n];
                        s.write_partial(dscale, s.mul_add(dy, value, s.read_partial(dscale)));
                        let dshift = &mut dshift[c..][..n];
                        s.write_partial(dshift, s.add(s.read_partial(dshift), dy));
                    }
                }
            }
            let Some(dx) = &mut dx else { return };
            let n = (set.rows * set.width) as f64;
            let value = |i: usize| s.mul(s.sub(s.read(&x[i..]), at), by);
            let gradient = |i: usize, c: usize| s.mul(s.read(&dy[i..]), s.read(&scale[c..]));
            let single = |i: usize, c: usize| dy[i] * scale[c];
            let mut sum = 0.0;
            if norm.centred {
                sum = set.sum(s, gradient, single) / n;
            }
            let dot = set.sum(
                s,
                |i, c| s.mul(gradient(i, c), value(i)),
                |i, c| single(i, c) * (x[i] - mean) * inverse,
            ) / n;
            let (sum, dot) = (s.splat(sum as f32), s.splat(dot as f32));
            for row in set.rows() {
                for i in (0..set.width).step_by(S::LANES) {
                    let n = S::LANES.min(set.width - i);
                    let read = |from: &[f32], i: usize| s.read_partial(&from[i..][..n]);
                    let value = s.mul(s.sub(read(x, row + i), at), by);
                    let gradient = s.mul(read(dy, row + i), read(scale, set.channel + i));
                    let moved = s.neg_mul_add(value, dot, s.sub(gradient, sum));
                    let dx = &mut dx[row + i..][..n];
                    s.write_partial(dx, s.mul_add(by, moved, s.read_partial(dx)));
                }
            }
        });
    }
}
