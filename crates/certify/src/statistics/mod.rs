//! The statistics of certification, in `f64`.
//!
//! | function | what | source |
//! |---|---|---|
//! | [`clopper_pearson_lower`], [`clopper_pearson_upper`] | exact one-sided bounds on a probability | Clopper and Pearson, Biometrika 26 (1934) |
//! | [`binomial_test`] | two-sided exact test of p = 1/2 | as in PREDICT of Cohen et al., ICML 2019 |
//! | [`ConfidenceSequence`] | bounds that hold at every sample size at once | Robbins, Ann. Math. Stat. 41 (1970); see there |
//! | [`BetaMixture`] | what is expected of a probability before any draw | see there |
//! | [`quantile_rank`] | an exact bound on a quantile by order statistics | Thompson, Ann. Math. Stat. 7 (1936) |
//! | [`MeanBound`] | a bound on the mean of draws from [0, 1] | Waudby-Smith and Ramdas, JRSS B (2024) |
//! | [`normal_cdf`], [`normal_quantile`] | Phi and its inverse | the `libm` and `statrs` crates |
//! | [`high_probability_accuracy`] | accuracy over a data set despite alpha | Cohen et al., appendix D |
//!
//! Crate or own code was decided by `tests/it/statistics.rs`: goldens with 17
//! digits up to n = 1,000,000 and alpha = 1e-9, to be met to 1e-9. The normal
//! quantile of `statrs` 0.19 is within 4e-16 there and is used (its Phi only within
//! 1e-10, that of `libm` within 2e-13). The
//! inverse incomplete beta functions of `statrs` 0.19 and `special` 0.14 are off
//! by up to 1e-4 and those of `puruspe` 0.4 by up to 0.6 (or panic), and the
//! binomial tails of `statrs` by up to 2e-3, all at large shapes, so these
//! stand here; they are within 1e-11.

mod bernstein;
mod beta;
mod deviance;
mod mixture;
mod sequence;
mod weibull;

use statrs::distribution::{ContinuousCDF, Normal};

pub use bernstein::MeanBound;
pub(crate) use beta::inverse_regularised as beta_quantile;
pub use mixture::BetaMixture;
pub use sequence::{ConfidenceSequence, ProbabilityInterval};
pub use weibull::ReverseWeibull;

/// Phi(x), the distribution function of N(0, 1).
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

/// Phi^-1(p); minus infinity at `p <= 0`, infinity at `p >= 1`.
pub fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 {
        f64::NEG_INFINITY
    } else if p >= 1.0 {
        f64::INFINITY
    } else {
        Normal::standard().inverse_cdf(p)
    }
}

/// The largest p of which `a` or more hits in `n` draws have probability at most
/// `alpha`: a lower bound on the hit probability that is wrong with probability
/// at most `alpha`.
///
/// `P(Binomial(n, p) >= a) = I_p(a, n-a+1)`, so the bound is
/// `Beta^-1(alpha; a, n-a+1)`, which is `alpha^(1/n)` where `a = n` and 0 where
/// `a = 0`.
///
/// # Panics
/// If `a > n` or `alpha` is not between 0 and 1.
pub fn clopper_pearson_lower(a: u64, n: u64, alpha: f64) -> f64 {
    assert!(a <= n, "{a} hits in {n} draws");
    assert!(alpha > 0.0 && alpha < 1.0, "alpha = {alpha}");
    if a == 0 {
        0.0
    } else if a == n {
        (alpha.ln() / n as f64).exp()
    } else {
        beta::inverse_regularised(a as f64, (n - a + 1) as f64, alpha)
    }
}

/// The upper counterpart of [`clopper_pearson_lower`]: `1 - lower(n - a)`.
///
/// # Panics
/// If `a > n` or `alpha` is not between 0 and 1.
pub fn clopper_pearson_upper(a: u64, n: u64, alpha: f64) -> f64 {
    assert!(a <= n, "{a} hits in {n} draws");
    1.0 - clopper_pearson_lower(n - a, n, alpha)
}

/// Two-sided exact test of p = 1/2 after `k` hits in `n` draws: the probability
/// of a count at least as uneven.
///
/// By symmetry it is twice the tail from the larger count on,
/// `2 I_{1/2}(k, n-k+1)`, and 1 where the counts are equal.
///
/// # Panics
/// If `k > n`.
pub fn binomial_test(k: u64, n: u64) -> f64 {
    assert!(k <= n, "{k} hits in {n} draws");
    let larger = k.max(n - k);
    if 2 * larger == n {
        return 1.0;
    }
    2.0 * beta::regularised(larger as f64, (n - larger + 1) as f64, 0.5)
}

/// `P(Binomial(n, p) >= a)`, the exact upper tail.
///
/// # Panics
/// If `p` is not between 0 and 1.
pub fn binomial_upper_tail(a: u64, n: u64, p: f64) -> f64 {
    assert!((0.0..=1.0).contains(&p), "p = {p}");
    if a == 0 {
        1.0
    } else if a > n || p == 0.0 {
        0.0
    } else if p == 1.0 {
        1.0
    } else {
        beta::regularised(a as f64, (n - a + 1) as f64, p)
    }
}

/// The largest i for which the i-th smallest of `n` draws is at most the `q`-quantile
/// of what they are drawn from, `inf {y : P(X <= y) >= q}`, except with probability at
/// most `alpha`; 0: there is none.
///
/// It is not if fewer than i draws are at most the quantile, each of which is with
/// probability q or more: `P(Binomial(n, q) < i)`. By symmetry the i-th largest is at
/// least the (1-q)-quantile.
///
/// # Panics
/// If `q` is not between 0 and 1.
pub fn quantile_rank(n: u64, q: f64, alpha: f64) -> u64 {
    // P(Binomial(n, q) < i) as an upper tail, which keeps its digits.
    let fails = |i: u64| binomial_upper_tail(n - i + 1, n, 1.0 - q);
    let (mut good, mut bad) = (0, n + 1);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fails(middle) <= alpha {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good
}

/// A lower bound, true with probability at least `1 - rho`, on the certified
/// accuracy over a data set, where each of the `images` certificates is wrong
/// with probability at most `alpha` (Cohen et al., appendix D, by Bernstein's
/// inequality):
///
/// ```text
/// accuracy - alpha - sqrt(alpha (1-alpha) ln(1/rho) / N) - ln(1/rho) / (3N)
/// ```
///
/// At least 0, which needs no samples. No image at all gives 0.
pub fn high_probability_accuracy(accuracy: f64, images: u64, alpha: f64, rho: f64) -> f64 {
    if images == 0 {
        return 0.0;
    }
    let n = images as f64;
    let log = -rho.ln();
    (accuracy - alpha - (alpha * (1.0 - alpha) * log / n).sqrt() - log / (3.0 * n)).max(0.0)
}
