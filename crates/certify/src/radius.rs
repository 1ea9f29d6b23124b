//! Radii that follow from bounds on the probabilities of classes under noise.
//!
//! For noise N(0, sigma^2 I) there are three L2 radii. All of them hold for every
//! classifier and are functions of sigma and p alone; where `p_lower <= 1/2` there is
//! nothing to certify and the radius is 0. Only the chosen class is estimated; all
//! others together have at most `1 - p_lower`, which stands for p_B, the probability
//! of the runner-up.
//!
//! Where both p_A and p_B are bounded, Gaussian noise gives
//! `sigma/2 (Phi^-1(p_A) - Phi^-1(p_B))`. Mean probabilities give the same, because
//! Phi^-1 of a Gaussian average with values in [0, 1] is 1/sigma-Lipschitz (Salman et
//! al. 2019, appendix A). The L1 radii of uniform and Laplace noise take both, and
//! hold for mean probabilities because they bound how far the mean of any function
//! with values in [0, 1] can move.

use crate::statistics::normal_quantile;

/// The tight radius of Cohen, Rosenfeld and Kolter (ICML 2019, theorem 1):
/// `sigma * Phi^-1(p_lower)`.
///
/// The theorem gives `sigma/2 * (Phi^-1(p_A) - Phi^-1(p_B))`. With
/// `p_B = 1 - p_A` and `Phi^-1(1-p) = -Phi^-1(p)` both terms are equal. Why it
/// holds: among all sets of noise with probability `p_A` at x, a half-space loses
/// most when x moves, and at `x + perturbation` its probability is still
/// `Phi(Phi^-1(p_A) - |perturbation|/sigma)`, above 1/2 while
/// `|perturbation| < sigma * Phi^-1(p_A)`.
pub fn cohen(sigma: f64, p_lower: f64) -> f64 {
    if p_lower > 0.5 {
        sigma * normal_quantile(p_lower)
    } else {
        0.0
    }
}

/// The L1 radius of noise uniform on `[-a, a]` in every pixel, for a class with at
/// least `p_lower` where every other has at most `p_upper`: `a (p_lower - p_upper)`,
/// which is `2a (p_lower - 1/2)` where the others share the rest (Lee et al. 2019;
/// Yang et al. 2020, with their lambda = a). It is at most a.
///
/// Cubes of side 2a around x and x + perturbation have all but
/// `1 - prod(1 - |perturbation_i|/(2a)) <= |perturbation|_1 / (2a)` of their volume in
/// common, so no mean of a function with values in [0, 1] moves by more.
pub fn uniform(a: f64, p_lower: f64, p_upper: f64) -> f64 {
    (a * (p_lower - p_upper)).max(0.0)
}

/// The L1 radius of Laplace noise of scale `b`, likewise:
/// `max(-b ln(1 - p_lower + p_upper), b/2 ln(p_lower/p_upper))`, which is
/// `-b ln(2 (1 - p_lower))` where the others share the rest (Teng, Lee and Yuan
/// 2020; Yang et al. 2020).
///
/// The density changes by a factor between `e^-t` and `e^t`, `t = |perturbation|_1 /
/// b`, and so does every mean of a function with values in [0, 1]: that of the class,
/// that of its complement, and that of the other class.
pub fn laplace(b: f64, p_lower: f64, p_upper: f64) -> f64 {
    if p_lower <= p_upper {
        return 0.0;
    }
    let complement = -(1.0 - p_lower + p_upper).ln();
    let ratio = 0.5 * (p_lower / p_upper).ln();
    b * complement.max(ratio)
}

/// PixelDP: Lecuyer et al., "Certified robustness to adversarial examples with
/// differential privacy" (IEEE S&P 2019), proposition 1 with the Gaussian
/// mechanism; as a function of p in Cohen et al., appendix I:
///
/// ```text
/// sup over 0 < b <= min(1, ln(p_A/p_B)/2) of
///     sigma * b / sqrt( 2 ln( 1.25 (1 + e^b) / (p_A - e^(2b) p_B) ) )
/// ```
///
/// The Gaussian mechanism makes the prediction (b, d)-private for moves of length
/// `sigma * b / sqrt(2 ln(1.25/d))`, b at most 1, and the class survives while
/// `p_A > e^(2b) p_B + (1 + e^b) d`: the largest d that allows is put in.
pub fn lecuyer(sigma: f64, p_lower: f64) -> f64 {
    if p_lower <= 0.5 {
        return 0.0;
    }
    let p_other = 1.0 - p_lower;
    let largest = half_log_odds(p_lower).min(1.0);
    sigma
        * maximum(0.0, largest, |b: f64| {
            let d = (p_lower - (2.0 * b).exp() * p_other) / (1.0 + b.exp());
            if d > 0.0 {
                b / (2.0 * (1.25 / d).ln()).sqrt()
            } else {
                0.0
            }
        })
}

/// Li, Chen, Wang and Carin, "Certified adversarial robustness with additive
/// noise" (NeurIPS 2019), theorem 2, from the Renyi divergence of order `r`
/// (their alpha, a name that is taken here):
///
/// ```text
/// sup over r > 1 of  sigma * sqrt( -2/r * ln( 1 - p_A - p_B
///                        + 2 ( (p_A^(1-r) + p_B^(1-r)) / 2 )^(1/(1-r)) ) )
/// ```
///
/// With `p_B = 1 - p_A` and `u = ln(p_A/p_B)/2` the logarithm is
/// `-( ln cosh u + ln cosh((r-1)u) / (r-1) )`, which loses no digits near
/// p = 1/2. The maximum lies at r between 1 (p near 1) and 3/2 (p near 1/2).
pub fn li(sigma: f64, p_lower: f64) -> f64 {
    if p_lower <= 0.5 {
        return 0.0;
    }
    let u = half_log_odds(p_lower);
    sigma
        * maximum(0.0, 1.0, |order_less_one: f64| {
            let s = order_less_one;
            let second = if s > 0.0 { ln_cosh(s * u) / s } else { 0.0 };
            (2.0 / (1.0 + s) * (ln_cosh(u) + second)).sqrt()
        })
}

/// `ln(p / (1-p)) / 2 = atanh(2p - 1)`.
fn half_log_odds(p: f64) -> f64 {
    (2.0 * p - 1.0).atanh()
}

fn ln_cosh(x: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 {
        0.5 * (x.sinh() * x.sinh()).ln_1p()
    } else {
        x + (-2.0 * x).exp().ln_1p() - std::f64::consts::LN_2
    }
}

/// Maximum of a function with one peak, by golden sections. Its value is one that
/// was attained, so an inexact maximiser can only make a radius smaller.
fn maximum(mut from: f64, mut to: f64, value: impl Fn(f64) -> f64) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_894_8;
    let mut best = value(from).max(value(to));
    let mut left = to - RATIO * (to - from);
    let mut right = from + RATIO * (to - from);
    let (mut at_left, mut at_right) = (value(left), value(right));
    for _ in 0..60 {
        best = best.max(at_left).max(at_right);
        if at_left < at_right {
            (from, left, at_left) = (left, right, at_right);
            right = from + RATIO * (to - from);
            at_right = value(right);
        } else {
            (to, right, at_right) = (right, left, at_left);
            left = to - RATIO * (to - from);
            at_left = value(left);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::normal_cdf;

    #[test]
    fn both_older_radii_are_looser_than_cohens_and_grow_with_p() {
        let mut before = [0.0; 3];
        for step in 1..=800 {
            let p = normal_cdf(f64::from(step) * 0.01); // up to 1 - 6e-16
            let now = [lecuyer(0.25, p), li(0.25, p), cohen(0.25, p)];
            assert!(
                0.0 < now[0] && now[0] < now[1] && now[1] < now[2],
                "p = {p}: {now:?}"
            );
            assert!(
                now.iter().zip(before).all(|(now, before)| *now >= before),
                "p = {p}"
            );
            before = now;
        }
    }

    /// (p, Lecuyer, Li) at sigma 1, from tests/goldens/radii.py: mpmath with 40
    /// digits, the formulas as the papers print them.
    const GOLDENS: [(f64, f64, f64); 7] = [
        (0.5001, 3.81704714116472e-5, 0.000200000002166645),
        (0.6, 0.059223611477844, 0.202216291705768),
        (0.75, 0.18100547611829, 0.539563482799934),
        (0.9, 0.390267154442557, 1.03192956370802),
        (0.99, 0.554866734953791, 1.90800904685847),
        (0.999, 0.568911482902883, 2.5757396310985),
        (0.999999, 0.570467525586485, 4.09431177205188),
    ];

    #[test]
    fn radii_agree_with_the_papers_formulas() {
        for (p, expected_lecuyer, expected_li) in GOLDENS {
            let (got_lecuyer, got_li) = (lecuyer(1.0, p), li(1.0, p));
            assert!(
                (got_lecuyer / expected_lecuyer - 1.0).abs() < 1e-9,
                "{p}: {got_lecuyer}"
            );
            assert!((got_li / expected_li - 1.0).abs() < 1e-9, "{p}: {got_li}");
        }
    }

    /// What is left of the two classes at the radius, by the bounds themselves: they
    /// are equal there, and the class is ahead within it.
    #[test]
    fn at_an_l1_radius_the_bounds_meet() {
        for (p, q) in [
            (0.6, 0.4),
            (0.9, 0.1),
            (0.999, 0.0005),
            (0.3, 0.2),
            (0.45, 0.01),
        ] {
            let r = uniform(2.0, p, q);
            assert!((p - r / 4.0 - (q + r / 4.0)).abs() < 1e-12, "{p} {q}: {r}");
            let r = laplace(2.0, p, q);
            let least = |t: f64| (p * (-t).exp()).max(1.0 - (1.0 - p) * t.exp());
            let ahead = |r: f64| least(r / 2.0) > q * (r / 2.0).exp();
            assert!(ahead(r - 1e-9) && !ahead(r + 1e-9), "{p} {q}: {r}");
        }
        assert!((laplace(0.5, 0.9, 0.1) + 0.5 * 0.2f64.ln()).abs() < 1e-12);
        assert!((uniform(0.5, 0.9, 0.1) - 0.4).abs() < 1e-12);
    }

    #[test]
    fn nothing_is_certified_at_one_half() {
        for p in [0.0, 0.3, 0.5] {
            assert_eq!([cohen(1.0, p), lecuyer(1.0, p), li(1.0, p)], [0.0; 3]);
            assert_eq!(
                [uniform(1.0, p, 1.0 - p), laplace(1.0, p, 1.0 - p)],
                [0.0; 2]
            );
        }
    }
}
