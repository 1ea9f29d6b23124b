//! Laws of noise on the grid of multiples of `1/levels`, in whole multiples of
//! `2^-64`.
//!
//! Let q round every pixel to the nearest grid point. The classifier that is
//! smoothed is `v(q(z))`, which is defined for every real z. At a grid point x the
//! pixel `q(x + eta)` is the grid point j steps on, with
//!
//! ```text
//! P(j) = Phi((2j+1) / (2 levels sigma)) - Phi((2j-1) / (2 levels sigma)).
//! ```
//!
//! Such integers are drawn exactly, so that nothing is lost to floating point: what
//! Cohen's theorem says about `v(q(x + eta))` with real eta holds for what is
//! computed. (With noise in floating point it does not: the sum is rounded, and how
//! it is rounded depends on x. See Voracek and Hein, ICLR 2023.)

use network::GridNoise;
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
    /// Gaussian noise of this level.
    ///
    /// The tail `Q(z) = erfc(z/sqrt(2))/2` is computed in f64. The argument of erfc
    /// is off by four roundings at most, which changes erfc(t) by at most
    /// `4 (2t^2+1)` roundings of itself, since `t |erfc'(t)| <= (2t^2+1) erfc(t)`;
    /// `libm` gives erfc within one unit in the last place, two roundings. All of
    /// that is counted twice, and half a unit for becoming a multiple of 2^-64. An error e_j
    /// of `P(J > j)` changes two probabilities by e_j, so the total variation is at
    /// most the sum of all errors.
    ///
    /// # Errors
    /// A level at which there is no noise on this grid, or too many steps.
    pub fn gaussian(sigma: f64, levels: u32) -> Result<Self, SettingError> {
        let (mut tails, mut error) = (Vec::new(), 0.0);
        let wrong = |bound: f64, what: &str| {
            let expected = format!("{what} {bound:.2e} for exact noise on multiples of 1/{levels}");
            SettingError::value("sigma", sigma, expected)
        };
        loop {
            let j = tails.len() as f64;
            let t = (2.0 * j + 1.0) / (2.0 * f64::from(levels) * sigma)
                * std::f64::consts::FRAC_1_SQRT_2;
            let tail = 0.5 * libm::erfc(t);
            let relative = 2.0 * (4.0 * (2.0 * t * t + 1.0) + 2.0) * ROUNDING;
            error += 2.0 * (relative * tail + 0.5 / WHOLE);
            let units = (tail * WHOLE).round() as u64;
            tails.push(units);
            if units == 0 {
                // What lies beyond is given to the last integer.
                error += 2.0 * tail * (1.0 + relative);
                break;
            }
            if tails.len() as i32 > GridNoise::REACH {
                return Err(wrong(3500.0 / f64::from(levels), "at most"));
            }
        }
        if tails.len() < 2 {
            return Err(wrong(0.06 / f64::from(levels), "at least"));
        }
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

#[cfg(test)]
mod tests;
