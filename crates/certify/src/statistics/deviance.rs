//! Binomial probabilities without cancellation, after Loader, "Fast and accurate
//! computation of binomial probabilities" (2000).
//!
//! The logarithm of a binomial probability is a small number that textbook
//! formulas get as a difference of numbers near n ln n. Here Stirling's formula is
//! divided out: what remains is a [`deviance`] and a small [`stirling_error`].

/// `x ln(x/mean) + mean - x`, at least 0, for `x >= 0` and `mean > 0`.
pub(crate) fn deviance(x: f64, mean: f64) -> f64 {
    let difference = x - mean;
    if difference.abs() >= 0.1 * (x + mean) {
        return if x == 0.0 {
            mean
        } else {
            x * (x / mean).ln() - difference
        };
    }
    // ln(x/mean) = 2 atanh(v) = 2 sum_j v^(2j+1)/(2j+1); |v| < 0.1
    let v = difference / (x + mean);
    let mut total = difference * v;
    let mut power = 2.0 * x * v;
    for j in 1..40 {
        power *= v * v;
        let next = total + power / f64::from(2 * j + 1);
        if next == total {
            break;
        }
        total = next;
    }
    total
}

/// `ln Gamma(z) - ((z - 1/2) ln z - z + ln(2 pi)/2)` for `z > 0`: the error of
/// Stirling's formula.
pub(crate) fn stirling_error(z: f64) -> f64 {
    // ln Gamma(z+1) = ln Gamma(z) + ln z moves small z to where the series is exact.
    let (mut z, mut error) = (z, 0.0);
    while z < 12.0 {
        error += (z + 0.5) * (1.0 / z).ln_1p() - 1.0;
        z += 1.0;
    }
    // The Bernoulli series, cut where a term at z = 12 is below 1e-17.
    let w = 1.0 / (z * z);
    let series = 1.0 / 1188.0 - w * (691.0 / 360_360.0 - w / 156.0);
    error
        + (1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w * (1.0 / 1680.0 - w * series))))
            / z
}

/// `ln Gamma(z + 1/2) - (z ln z - z + ln(2 pi)/2)` for `z >= 0`.
pub(crate) fn half_stirling_error(z: f64) -> f64 {
    let shift = if z == 0.0 { 0.0 } else { z * (0.5 / z).ln_1p() };
    shift - 0.5 + stirling_error(z + 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stirling_errors_agree_with_exact_factorials() {
        let mut ln_factorial = 0.0_f64; // ln (z-1)! = ln Gamma(z)
        for z in 1..=20_u32 {
            let z_f = f64::from(z);
            let stirling = (z_f - 0.5) * z_f.ln() - z_f + 0.5 * std::f64::consts::TAU.ln();
            assert!(
                (stirling_error(z_f) - (ln_factorial - stirling)).abs() < 1e-13,
                "{z}"
            );
            ln_factorial += z_f.ln();
        }
        // Gamma(1/2) = sqrt(pi)
        assert!((half_stirling_error(0.0) + 0.5 * 2.0_f64.ln()).abs() < 1e-15);
    }

    #[test]
    fn deviance_is_smooth_where_its_two_formulas_meet() {
        for x in [1.0, 37.0, 1e6] {
            let edge: f64 = x * 0.9 / 1.1; // |x - mean| = 0.1 (x + mean)
            for mean in [edge * (1.0 - 1e-12), edge * (1.0 + 1e-12)] {
                let direct = x * (x / mean).ln() + mean - x;
                assert!(
                    (deviance(x, mean) / direct - 1.0).abs() < 1e-10,
                    "{x} {mean}"
                );
            }
        }
        assert_eq!(deviance(0.0, 3.0), 3.0);
        assert_eq!(deviance(5.0, 5.0), 0.0);
    }
}
