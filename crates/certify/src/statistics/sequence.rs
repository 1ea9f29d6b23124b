//! The anytime confidence sequence for a probability.

use super::deviance::{deviance, half_stirling_error, stirling_error};
use super::mixture::BetaMixture;

/// Lower and upper bound on a probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbabilityInterval {
    /// The lower end.
    pub lower: f64,
    /// The upper end.
    pub upper: f64,
}

/// Bounds on the hit probability p of independent draws, valid at **every** number
/// of draws at once: the probability that p is ever outside is at most `alpha`.
/// So one may look after every draw and stop whenever one likes.
///
/// Under p, with `A` hits in `n` draws, the likelihood ratio of a
/// Beta(1/2, 1/2) mixture of Bernoulli sources against p,
///
/// ```text
/// M_n(p) = B(A+1/2, n-A+1/2) / ( B(1/2, 1/2) p^A (1-p)^(n-A) ),
/// ```
///
/// is a martingale that starts at 1 and is never negative, so it ever reaches
/// `1/alpha` with probability at most `alpha` (Ville's inequality; Robbins 1970).
/// The bounds are the ends of `{p : M_n(p) < 1/alpha}`, an interval around
/// `A/n`.
///
/// Nothing in this asks for that one mixture: any [`BetaMixture`] that is fixed before
/// the first draw gives a martingale, and one that expects what then happens gives
/// closer bounds ([`ConfidenceSequence::expecting`]).
#[derive(Clone, Debug, PartialEq)]
pub struct ConfidenceSequence {
    ln_threshold: f64,
    /// `None`: Beta(1/2, 1/2).
    prior: Option<BetaMixture>,
}

impl ConfidenceSequence {
    /// The sequence with failure probability `alpha`.
    ///
    /// # Panics
    /// If `alpha` is not between 0 and 1.
    pub fn new(alpha: f64) -> Self {
        assert!(alpha > 0.0 && alpha < 1.0, "alpha = {alpha}");
        Self {
            ln_threshold: -alpha.ln(),
            prior: None,
        }
    }

    /// The sequence with failure probability `alpha` and another mixture, which must
    /// not depend on the draws.
    ///
    /// # Panics
    /// If `alpha` is not between 0 and 1.
    pub fn expecting(prior: BetaMixture, alpha: f64) -> Self {
        Self {
            prior: Some(prior),
            ..Self::new(alpha)
        }
    }

    /// Lower end after `a` hits in `n` draws: 0 where `a = 0`.
    ///
    /// # Panics
    /// If `a > n`.
    pub fn lower(&self, a: u64, n: u64) -> f64 {
        assert!(a <= n, "{a} hits in {n} draws");
        if a == 0 {
            0.0
        } else {
            let (hits, misses) = (a as f64, (n - a) as f64);
            self.root(hits, misses, self.ln_mixture_at_centre(hits, misses))
        }
    }

    /// Upper end after `a` hits in `n` draws: 1 where `a = n`.
    ///
    /// # Panics
    /// If `a > n`.
    pub fn upper(&self, a: u64, n: u64) -> f64 {
        assert!(a <= n, "{a} hits in {n} draws");
        if a == n {
            1.0
        } else {
            let (hits, misses) = (a as f64, (n - a) as f64);
            1.0 - self.root(misses, hits, self.ln_mixture_at_centre(hits, misses))
        }
    }

    /// Both ends after `a` hits in `n` draws.
    ///
    /// # Panics
    /// If `a > n`.
    pub fn interval(&self, a: u64, n: u64) -> ProbabilityInterval {
        ProbabilityInterval {
            lower: self.lower(a, n),
            upper: self.upper(a, n),
        }
    }

    /// The root of `ln M_n(p) = ln 1/alpha` below `hits / n`, by Newton's method in
    /// the log-odds z of p, where `ln M_n` is convex with derivative `n p - hits`:
    /// after one step the iterates are left of the root and increase to it.
    fn root(&self, hits: f64, misses: f64, ln_mixture_at_centre: f64) -> f64 {
        let n = hits + misses;
        let at_centre = ln_mixture_at_centre - self.ln_threshold;
        // ln M_n is near a parabola around the centre (the half keeps misses = 0 finite).
        let deviation = (1.0 / hits + 1.0 / (misses + 0.5)).sqrt();
        let mut z = (hits / (misses + 0.5)).ln() - (-2.0 * at_centre).sqrt() * deviation;
        for _ in 0..200 {
            let p = 1.0 / (1.0 + (-z).exp());
            let complement = 1.0 / (1.0 + z.exp());
            let excess = at_centre + deviance(hits, n * p) + deviance(misses, n * complement);
            let step = excess / (hits * complement - misses * p);
            z += step;
            if step.abs() <= 1e-14 * (1.0 + z.abs()) {
                break;
            }
        }
        1.0 / (1.0 + (-z).exp())
    }

    /// `ln M_n(A/n)`, at most 0.
    fn ln_mixture_at_centre(&self, hits: f64, misses: f64) -> f64 {
        match &self.prior {
            None => ln_flat_mixture_at_centre(hits, misses),
            // A mixture of likelihoods is at most the largest one.
            Some(prior) => prior.ln_ratio_to_best(hits, misses).min(0.0),
        }
    }
}

/// The same of Beta(1/2, 1/2): with Stirling's formula divided out,
/// `ln(2/(pi n))/2` and three small errors.
fn ln_flat_mixture_at_centre(hits: f64, misses: f64) -> f64 {
    let n = hits + misses;
    // ln n! = ln Gamma(n) + ln n, so its error is that of ln Gamma(n)
    0.5 * (2.0 / (std::f64::consts::PI * n)).ln()
        + half_stirling_error(hits)
        + half_stirling_error(misses)
        - stirling_error(n)
}
