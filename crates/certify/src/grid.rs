//! Laws of noise on the grid of multiples of `1/levels`, in whole multiples of
//! `2^-64`.
//!
//! Let q round every pixel to the nearest grid point. The classifier that is
//! smoothed is `v(q(z))`, which is defined for every real z. At a grid point x the
//! pixel `q(x + eta)` is the grid point j steps on, with probability
//!
//! ```text
//! P(j) = P(2j-1 < 2 levels eta < 2j+1).
//! ```
//!
//! Such integers are drawn exactly, so that nothing is lost to floating point: what
//! a theorem says about `v(q(x + eta))` with real eta (Cohen's for Gaussian noise)
//! holds for what is computed. (With noise in floating point it does not: the sum is rounded, and how
//! it is rounded depends on x. See Voracek and Hein, ICLR 2023.)

use network::{Distribution, GridNoise};
use settings::SettingError;

/// 2^64 and 2^-53.
const WHOLE: f64 = 18_446_744_073_709_551_616.0;
const ROUNDING: f64 = f64::EPSILON / 2.0;

/// Integer noise with symmetric probabilities.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GridLaw {
    /// `P(J > j)` for j = 0, 1, ..., in units of 2^-64; the last one is 0.
    tails: Vec<u64>,
    /// Total variation between these probabilities and the exact ones, at most.
    pub error: f64,
}

impl GridLaw {
    /// Noise of this level.
    ///
    /// # Errors
    /// A level at which there is no noise on this grid, or too many steps.
    pub fn new(distribution: Distribution, sigma: f64, levels: u32) -> Result<Self, SettingError> {
        // What the limits of sigma are, in steps: below, every integer is 0; above,
        // one is beyond what a table can have.
        let (least, most, scale, tail): (f64, f64, f64, fn(f64) -> Tail) = match distribution {
            Distribution::Gaussian => (0.06, 3500.0, sigma, gaussian),
            Distribution::Uniform => (0.29, 18_900.0, half_width(sigma), uniform),
            Distribution::Laplace => (0.016, 1020.0, laplace_scale(sigma), laplace),
        };
        let wrong = |steps: f64, what: &str| {
            let bound = steps / f64::from(levels);
            let expected = format!("{what} {bound:.2e} for exact noise on multiples of 1/{levels}");
            SettingError::value("sigma", sigma, expected)
        };
        let (mut tails, mut total) = (Vec::new(), 0.0);
        loop {
            let j = tails.len() as f64;
            let t = (2.0 * j + 1.0) / (2.0 * f64::from(levels) * scale);
            let Tail { value, error } = tail(t);
            total += 2.0 * (error + 0.5 / WHOLE);
            let units = (value * WHOLE).round() as u64;
            tails.push(units);
            if units == 0 {
                // What lies beyond is given to the last integer.
                total += 2.0 * (value + error);
                break;
            }
            if tails.len() as i32 > GridNoise::REACH {
                return Err(wrong(most, "at most"));
            }
        }
        if tails.len() < 2 {
            return Err(wrong(least, "at least"));
        }
        let error = total;
        Ok(Self { tails, error })
    }

    /// The table to draw from.
    pub fn table(&self, levels: u32) -> GridNoise {
        let reach = self.tails.len() - 1;
        // P(J = j) = P(J > j-1) - P(J > j); P(J = 0) is what both sides leave.
        let side = (1..=reach).map(|j| self.tails[j - 1] - self.tails[j]);
        let side: Vec<u64> = side.collect();
        let centre = 0_u64
            .wrapping_sub(self.tails[0])
            .wrapping_sub(self.tails[0]);
        let left = side.iter().rev().copied();
        let weights: Vec<u64> = left.chain([centre]).chain(side.iter().copied()).collect();
        GridNoise::new(levels, -(reach as i32), &weights)
    }
}

/// The probability that the noise, in units of its scale, is above t, and twice what
/// that may be off, t having two roundings. An error e_j of `P(J > j)` changes two
/// probabilities by e_j, so the total variation is at most the sum of all errors,
/// those of both sides.
struct Tail {
    value: f64,
    error: f64,
}

/// `a` of uniform noise on [-a, a] with this standard deviation. Law and radius
/// take this very number, so that its rounding changes nothing.
pub(crate) fn half_width(sigma: f64) -> f64 {
    3f64.sqrt() * sigma
}

/// `b` of Laplace noise with this standard deviation, likewise.
pub(crate) fn laplace_scale(sigma: f64) -> f64 {
    std::f64::consts::FRAC_1_SQRT_2 * sigma
}

/// `Q(t) = erfc(t/sqrt(2))/2`. The argument u of erfc is off by four roundings at
/// most, which changes erfc(u) by at most `4 (2u^2+1)` roundings of itself, since
/// `u |erfc'(u)| <= (2u^2+1) erfc(u)`; `libm` gives erfc within one unit in the last
/// place, two roundings.
fn gaussian(t: f64) -> Tail {
    let u = t * std::f64::consts::FRAC_1_SQRT_2;
    let value = 0.5 * libm::erfc(u);
    let relative = 2.0 * (4.0 * (2.0 * u * u + 1.0) + 2.0) * ROUNDING;
    let error = relative * value;
    Tail { value, error }
}

/// `(1 - t)/2`, 0 beyond 1: two roundings of t, which is at most 1, and one of the
/// difference, which is too.
fn uniform(t: f64) -> Tail {
    Tail {
        value: 0.5 * (1.0 - t).max(0.0),
        error: 2.0 * 1.5 * ROUNDING,
    }
}

/// `exp(-t)/2`: two roundings of t change it by 2t roundings of itself; `libm` gives
/// exp within one unit in the last place.
fn laplace(t: f64) -> Tail {
    let value = 0.5 * libm::exp(-t);
    let error = 2.0 * (2.0 * t + 2.0) * ROUNDING * value;
    Tail { value, error }
}

#[cfg(test)]
mod tests;
