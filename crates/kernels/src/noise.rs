//! Noise as a pure function of its key, eight numbers at a time.
//!
//! Philox (see [`crate::random`]) turns the counter `(i/4, sample, image,
//! purpose)` under the key `seed` into four words `r`, and these become the numbers
//! `4*(i/4) .. 4*(i/4)+3`, of mean 0 and variance 1. Gaussian ones by Box and
//! Muller's transform: with `u(r) = (r + 1/2) / 2^32`,
//!
//! ```text
//! z0, z1 = sqrt(-2 ln u(r0)) * (cos, sin)(2 pi u(r1)),    z2, z3 from r2, r3
//! ```
//!
//! Uniform and Laplace numbers take a word each:
//!
//! ```text
//! uniform:  z = sqrt(3) (r + 1/2) / 2^31,    r read as a signed number
//! Laplace:  z = +- ln((2 r' + 1) / 2^32) / sqrt(2),    r' and the sign from r
//! ```

mod grid;

pub use grid::{GridNoise, add_grid_noise};

use std::fmt;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use crate::isa::{Isa, Kernel};
use crate::random::{self, MULTIPLIERS, Purpose};
use crate::simd::Simd;

/// What identifies one image's worth of noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NoiseKey {
    /// The run's seed.
    pub seed: u64,
    /// What the noise is for.
    pub purpose: Purpose,
    /// Number of the image.
    pub image: u32,
    /// Number of the sample.
    pub sample: u32,
}

/// How noise is distributed, up to its scale: its standard deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// `N(0, sigma^2)`.
    #[default]
    Gaussian,
    /// Uniform between `-sqrt(3) sigma` and `sqrt(3) sigma`.
    Uniform,
    /// With density `exp(-|z|/b) / (2b)`, `b = sigma / sqrt(2)`.
    Laplace,
}

/// As people write it.
impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Gaussian => "Gaussian",
            Self::Uniform => "uniform",
            Self::Laplace => "Laplace",
        })
    }
}

/// `out_i = x_i + sigma * z_i`, with `z_i` a number of this distribution, of mean 0
/// and variance 1, that depends on the key and `i` alone.
///
/// # Panics
/// If the lengths differ.
pub fn add_noise(
    isa: Isa,
    key: NoiseKey,
    (distribution, sigma): (Distribution, f32),
    x: &[f32],
    out: &mut [f32],
) {
    assert_eq!(x.len(), out.len());
    match distribution {
        Distribution::Gaussian => isa.dispatch(Add::<Gaussian>::new(key, sigma, x, out)),
        Distribution::Uniform => isa.dispatch(Add::<Uniform>::new(key, sigma, x, out)),
        Distribution::Laplace => isa.dispatch(Add::<Laplace>::new(key, sigma, x, out)),
    }
}

/// Numbers of mean 0 and variance 1, four a lane from four words.
trait Numbers {
    fn of<S: Simd>(s: S, words: [S::U; 4]) -> [S::V; 4];
}

struct Add<'a, N> {
    key: NoiseKey,
    sigma: f32,
    x: &'a [f32],
    out: &'a mut [f32],
    numbers: PhantomData<N>,
}

impl<'a, N> Add<'a, N> {
    fn new(key: NoiseKey, sigma: f32, x: &'a [f32], out: &'a mut [f32]) -> Self {
        let numbers = PhantomData;
        Self {
            key,
            sigma,
            x,
            out,
            numbers,
        }
    }
}

impl<N: Numbers> Kernel for Add<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let NoiseKey {
            seed,
            purpose,
            image,
            sample,
        } = self.key;
        let key = random::key(seed);
        let sigma = s.splat(self.sigma);
        let mut block = s.iota();
        let (xs, outs) = (
            self.x.chunks(4 * S::LANES),
            self.out.chunks_mut(4 * S::LANES),
        );
        for (x, out) in xs.zip(outs) {
            let counter = [
                block,
                s.splat_u32(sample),
                s.splat_u32(image),
                s.splat_u32(purpose as u32),
            ];
            let z = s.weave(N::of(s, philox(s, counter, key)));
            for (v, &z) in z.iter().enumerate() {
                let (x, out) = (
                    &x[x.len().min(v * S::LANES)..],
                    &mut out[x.len().min(v * S::LANES)..],
                );
                if x.len() >= S::LANES {
                    s.write(out, s.mul_add(sigma, z, s.read(x)));
                } else {
                    s.write_partial(out, s.mul_add(sigma, z, s.read_partial(x)));
                }
            }
            block = s.add_u32(block, s.splat_u32(S::LANES as u32));
        }
    }
}

struct Gaussian;

impl Numbers for Gaussian {
    #[inline(always)]
    fn of<S: Simd>(s: S, r: [S::U; 4]) -> [S::V; 4] {
        let (z0, z1) = box_muller(s, r[0], r[1]);
        let (z2, z3) = box_muller(s, r[2], r[3]);
        [z0, z1, z2, z3]
    }
}

struct Uniform;

impl Numbers for Uniform {
    #[inline(always)]
    fn of<S: Simd>(s: S, words: [S::U; 4]) -> [S::V; 4] {
        // Read as a signed integer, a word is uniform around -1/2.
        let unit = 3f32.sqrt() / 2_147_483_648.0;
        words.map(|r| s.mul_add(s.to_float(r), s.splat(unit), s.splat(0.5 * unit)))
    }
}

struct Laplace;

impl Numbers for Laplace {
    #[inline(always)]
    fn of<S: Simd>(s: S, words: [S::U; 4]) -> [S::V; 4] {
        words.map(|r| {
            // The highest bit is the sign; the others make an odd number below 2^32.
            let odd = s.or(s.shift_left::<1>(r), s.splat_u32(1));
            let log = ln_over_2_32(s, to_float(s, odd, 0.0));
            let size = s.mul(log, s.splat(-std::f32::consts::FRAC_1_SQRT_2));
            let size = s.to_bits(s.max(s.zero(), size));
            s.float_from_bits(s.xor(size, s.and(r, s.splat_u32(1 << 31))))
        })
    }
}

/// [`random::philox4x32`] in every lane.
#[inline(always)]
fn philox<S: Simd>(s: S, mut c: [S::U; 4], mut k: [u32; 2]) -> [S::U; 4] {
    let [a, b] = MULTIPLIERS.map(|m| s.splat_u32(m));
    for _ in 0..10 {
        let (high_a, low_a) = s.mul_wide(c[0], a);
        let (high_b, low_b) = s.mul_wide(c[2], b);
        c = [
            s.xor(s.xor(high_b, c[1]), s.splat_u32(k[0])),
            low_b,
            s.xor(s.xor(high_a, c[3]), s.splat_u32(k[1])),
            low_a,
        ];
        k = random::next_key(k);
    }
    c
}

/// Two normal numbers per lane from two words.
#[inline(always)]
fn box_muller<S: Simd>(s: S, radius: S::U, angle: S::U) -> (S::V, S::V) {
    let log = ln_over_2_32(s, to_float(s, radius, 0.5));
    let radius = s.sqrt(s.max(s.zero(), s.mul(log, s.splat(-2.0))));
    let (sin, cos) = sin_cos(s, angle);
    (s.mul(radius, cos), s.mul(radius, sin))
}

/// A word and a little more, rounded once.
#[inline(always)]
fn to_float<S: Simd>(s: S, word: S::U, more: f32) -> S::V {
    let high = s.to_float(s.shift_right::<16>(word));
    let low = s.to_float(s.and(word, s.splat_u32(0xFFFF)));
    s.mul_add(high, s.splat(65536.0), s.add(low, s.splat(more)))
}

/// `ln(x / 2^32)` of positive normal floats: `x = 2^e m` with `m` near 1, and
/// `ln m` by the polynomial of Cephes' `logf`.
#[inline(always)]
fn ln_over_2_32<S: Simd>(s: S, x: S::V) -> S::V {
    // Subtracting the bits of sqrt(1/2) puts m into sqrt(1/2) .. sqrt(2).
    let half = s.splat_u32(std::f32::consts::FRAC_1_SQRT_2.to_bits());
    let shifted = s.sub_u32(s.to_bits(x), half);
    // x >= 1/2 here, so the exponent of `shifted` is not negative but for
    // x < sqrt(1/2): arithmetic shift by way of an offset.
    let offset = s.add_u32(shifted, s.splat_u32(64 << 23));
    let exponent = s.sub_u32(s.shift_right::<23>(offset), s.splat_u32(64 + 32));
    let m = s.float_from_bits(s.add_u32(s.and(shifted, s.splat_u32(0x007F_FFFF)), half));
    let e = s.to_float(exponent);
    let z = s.sub(m, s.splat(1.0));
    let mut p = s.splat(7.037_683_6e-2);
    for c in [
        -1.151_461e-1,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_7e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ] {
        p = s.mul_add(p, z, s.splat(c));
    }
    let square = s.mul(z, z);
    let tail = s.mul(s.mul(p, z), square);
    // ln 2 in two parts, the first one exact in products with small integers.
    let tail = s.mul_add(e, s.splat(-2.121_944_4e-4), tail);
    let tail = s.neg_mul_add(s.splat(0.5), square, tail);
    s.mul_add(e, s.splat(355.0 / 512.0), s.add(z, tail))
}

/// Sine and cosine of `2 pi (r + 1/2) / 2^32`.
#[inline(always)]
fn sin_cos<S: Simd>(s: S, r: S::U) -> (S::V, S::V) {
    // r = quadrant * 2^30 + rest, rest in -2^29 .. 2^29: an angle within
    // pi/4 of 0.
    let quadrant = s.shift_right::<30>(s.add_u32(r, s.splat_u32(1 << 29)));
    let rest = s.to_float(s.sub_u32(r, s.shift_left::<30>(quadrant)));
    let unit = std::f32::consts::PI / 2_147_483_648.0;
    let x = s.mul_add(rest, s.splat(unit), s.splat(0.5 * unit));
    let square = s.mul(x, x);
    // Taylor's coefficients, adjusted for the interval (Cephes' `sinf`, `cosf`).
    let mut p = s.splat(-1.951_529_6e-4);
    for c in [8.332_161e-3, -1.666_665_5e-1] {
        p = s.mul_add(p, square, s.splat(c));
    }
    let sin = s.mul_add(s.mul(p, square), x, x);
    let mut q = s.splat(2.443_315_7e-5);
    for c in [-1.388_731_6e-3, 4.166_664_6e-2] {
        q = s.mul_add(q, square, s.splat(c));
    }
    let cos = s.mul_add(
        s.mul(q, square),
        square,
        s.neg_mul_add(s.splat(0.5), square, s.splat(1.0)),
    );
    // Odd quadrants exchange both; the signs follow the quadrant's second bit.
    let odd = s.sub_u32(s.splat_u32(0), s.and(quadrant, s.splat_u32(1)));
    let (sin, cos) = (s.to_bits(sin), s.to_bits(cos));
    let change = s.and(s.xor(sin, cos), odd);
    let (sin, cos) = (s.xor(sin, change), s.xor(cos, change));
    let sign = |q| s.shift_left::<30>(s.and(q, s.splat_u32(2)));
    let next = s.add_u32(quadrant, s.splat_u32(1));
    (
        s.float_from_bits(s.xor(sin, sign(quadrant))),
        s.float_from_bits(s.xor(cos, sign(next))),
    )
}

#[cfg(test)]
mod tests;
