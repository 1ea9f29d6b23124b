//! Exact noise: integers with given probabilities, added to pixels that are
//! multiples of `1/levels`.
//!
//! An integer is drawn by Walker's alias method. `2^b` columns have the same
//! probability; column `c` gives the integer `own` if the uniform number within
//! it is below `threshold`, else `other`. With the 64-bit number `u = r 2^32 + s`,
//!
//! ```text
//! c = u >> (64 - b),    own if u mod 2^(64 - b) < threshold, else other.
//! ```
//!
//! The thresholds are whole multiples of `2^-64`, so every integer has exactly
//! the probability that it was given. `r` is word `i mod 4` of the counter
//! `(i/4, sample, image, purpose)`, as for [`add_noise`](super::add_noise). It
//! decides alone unless its bits equal those of the threshold; then `s` is drawn,
//! from the same counter with the highest bit of its last word set.

use super::{NoiseKey, philox};
use crate::isa::{Isa, Kernel};
use crate::random::{self, philox4x32};
use crate::simd::Simd;

/// Adding and subtracting it rounds a small float to a whole number.
const ROUND: f32 = 12_582_912.0;

/// A table from which integers are drawn, and the grid that they are steps on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridNoise {
    /// Steps from 0 to 1.
    levels: u32,
    /// `b`: the columns are `2^b`, at least 4.
    bits: u32,
    /// Of each column the high word of the threshold, and both integers: `own` in
    /// the low half, `other` in the high half.
    columns: Vec<[u32; 2]>,
    /// The low words of the thresholds.
    low: Vec<u32>,
}

impl GridNoise {
    /// The largest integer that a table can have, on either side.
    pub const REACH: i32 = i16::MAX as i32;

    /// Noise that is the integer `first + k` with probability `weights[k] / 2^64`,
    /// on the grid of multiples of `1/levels`.
    ///
    /// # Panics
    /// If the weights do not sum up to `2^64`, an integer is beyond
    /// [`GridNoise::REACH`], or `levels` is not between 1 and 65,535.
    pub fn new(levels: u32, first: i32, weights: &[u64]) -> Self {
        let total: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
        assert_eq!(total, 1 << 64, "the weights make no probability");
        let last = first + weights.len() as i32 - 1;
        assert!(-Self::REACH <= first && last <= Self::REACH);
        assert!((1..=65_535).contains(&levels), "{levels} levels");
        // Four columns or more, so that thresholds are positive as signed integers.
        let bits = weights.len().next_power_of_two().trailing_zeros().max(2);
        let capacity = 1_u64 << (64 - bits);
        let mut left = weights.to_vec();
        left.resize(1 << bits, 0);
        let mut other: Vec<usize> = (0..left.len()).collect();
        let mut threshold = vec![capacity; left.len()];
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..left.len()).partition(|&column| left[column] < capacity);
        // A column that its own integer does not fill is filled up by one that
        // has more than a column. All sums are of integers, so nothing is lost.
        while let (Some(poor), Some(&rich)) = (small.pop(), large.last()) {
            threshold[poor] = left[poor];
            other[poor] = rich;
            left[rich] -= capacity - left[poor];
            if left[rich] < capacity {
                large.pop();
                small.push(rich);
            }
        }
        let integer = |index: usize| {
            // A column beyond the integers has threshold 0 and never gives its own.
            let index = index.min(weights.len() - 1) as i32;
            u32::from(((first + index) as i16).cast_unsigned())
        };
        let column = |own: usize| {
            let packed = integer(own) | integer(other[own]) << 16;
            [(threshold[own] >> 32) as u32, packed]
        };
        Self {
            levels,
            bits,
            columns: (0..left.len()).map(column).collect(),
            low: threshold.iter().map(|&t| t as u32).collect(),
        }
    }

    /// Steps from 0 to 1.
    pub fn levels(&self) -> u32 {
        self.levels
    }

    /// `b`: the columns are `2^b`.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Of each column the high word of its threshold, and both integers as 16 bits:
    /// its own in the low half, the other in the high half. For devices that draw
    /// the same integers by programs of their own.
    pub fn columns(&self) -> &[[u32; 2]] {
        &self.columns
    }

    /// The low word of each column's threshold.
    pub fn low_words(&self) -> &[u32] {
        &self.low
    }

    /// The integer of a uniform number of 64 bits, the lower 32 of which are only
    /// asked for where they decide.
    pub fn integer(&self, high: u32, low: impl FnOnce() -> u32) -> i32 {
        let column = (high >> (32 - self.bits)) as usize;
        let rest = high & self.mask();
        let [threshold, packed] = self.columns[column];
        let own = match rest.cmp(&threshold) {
            std::cmp::Ordering::Equal => low() < self.low[column],
            order => order.is_lt(),
        };
        let half = if own { packed } else { packed >> 16 };
        i32::from((half as u16).cast_signed())
    }

    /// The bits of a word within its column.
    fn mask(&self) -> u32 {
        (1 << (32 - self.bits)) - 1
    }

    /// A grid point and an integer: the grid point so many steps on.
    fn step(&self, x: f32, integer: i32) -> f32 {
        let levels = self.levels as f32;
        let grid = (x * levels + ROUND) - ROUND;
        (grid + integer as f32) / levels
    }
}

/// `out_i = x_i + j_i / levels`, with `j_i` an integer of the table's law that
/// depends on the key and `i` alone: the same on every CPU. `x` is rounded to the
/// grid first.
///
/// # Panics
/// If the lengths differ.
pub fn add_grid_noise(isa: Isa, key: NoiseKey, noise: &GridNoise, x: &[f32], out: &mut [f32]) {
    assert_eq!(x.len(), out.len());
    isa.dispatch(Add { key, noise, x, out });
}

struct Add<'a> {
    key: NoiseKey,
    noise: &'a GridNoise,
    x: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self {
            key, noise, x, out, ..
        } = self;
        let seed = random::key(key.seed);
        let columns = s.splat_u32(1 << noise.bits);
        let mask = s.splat_u32(noise.mask());
        let mut block = s.iota();
        let (xs, outs) = (x.chunks(4 * S::LANES), out.chunks_mut(4 * S::LANES));
        for (chunk, (x, out)) in xs.zip(outs).enumerate() {
            let counter = [
                block,
                s.splat_u32(key.sample),
                s.splat_u32(key.image),
                s.splat_u32(key.purpose as u32),
            ];
            let words = philox(s, counter, seed).map(|r| s.float_from_bits(r));
            for (v, word) in s.weave(words).into_iter().enumerate() {
                let at = x.len().min(v * S::LANES);
                let (x, out) = (&x[at..], &mut out[at..]);
                if x.is_empty() {
                    break;
                }
                let word = s.to_bits(word);
                // The product's high word is the word's highest bits.
                let (column, _) = s.mul_wide(word, columns);
                let rest = s.and(word, mask);
                // SAFETY: a column has `bits` bits, and the table `2^bits` entries.
                let (threshold, packed) = unsafe { s.gather(&noise.columns, column) };
                if s.any_equal(rest, threshold) {
                    let first = chunk * 4 * S::LANES + v * S::LANES;
                    decide(key, noise, first, x, out, S::LANES);
                    continue;
                }
                let own = s.shift_left::<16>(packed);
                let integer = s.select_less(rest, threshold, own, packed);
                // The integer in the high half, as a float of 16 bits.
                let integer = s.to_float(s.and(integer, s.splat_u32(0xFFFF_0000)));
                let integer = s.mul(integer, s.splat(1.0 / 65_536.0));
                let (levels, round) = (s.splat(noise.levels as f32), s.splat(ROUND));
                let read = if x.len() >= S::LANES {
                    s.read(x)
                } else {
                    s.read_partial(x)
                };
                let grid = s.sub(s.add(s.mul(read, levels), round), round);
                let noisy = s.div(s.add(grid, integer), levels);
                if x.len() >= S::LANES {
                    s.write(out, noisy);
                } else {
                    s.write_partial(out, noisy);
                }
            }
            block = s.add_u32(block, s.splat_u32(S::LANES as u32));
        }
    }
}

/// Pixels `first..first + lanes` one by one: at least one of them needs more than
/// 32 bits.
#[cold]
#[inline(never)]
fn decide(
    key: NoiseKey,
    noise: &GridNoise,
    first: usize,
    x: &[f32],
    out: &mut [f32],
    lanes: usize,
) {
    for (lane, (x, out)) in x.iter().zip(out).take(lanes).enumerate() {
        *out = noise.step(*x, integer_at(key, noise, first + lane));
    }
}

/// The integer that is added to pixel `i`.
fn integer_at(key: NoiseKey, noise: &GridNoise, i: usize) -> i32 {
    let word = |further: u32| {
        let purpose = key.purpose as u32 | further;
        let counter = [(i / 4) as u32, key.sample, key.image, purpose];
        philox4x32(counter, random::key(key.seed))[i % 4]
    };
    noise.integer(word(0), || word(random::FURTHER))
}

#[cfg(test)]
mod tests;
