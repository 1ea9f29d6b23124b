//! What is expected of a probability before any draw: a mixture of Beta
//! distributions.

use super::beta::{ln_beta, regularised};

/// A mixture of Beta distributions of a hit probability.
///
/// As the prior of a [`ConfidenceSequence`](super::ConfidenceSequence) it may be
/// anything that was fixed before the draws: bounds hold whether it is right or not,
/// and are close where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct BetaMixture {
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    ln_weight: f64,
    a: f64,
    b: f64,
    ln_beta: f64,
}

impl BetaMixture {
    /// From weights (any positive numbers; their shares count) and shapes:
    /// `(weight, a, b)`. Parts without weight are left out.
    ///
    /// # Panics
    /// If no part has weight, or a shape is not a positive number.
    pub fn new(parts: &[(f64, f64, f64)]) -> Self {
        let total: f64 = parts.iter().map(|(weight, ..)| weight).sum();
        assert!(total > 0.0 && total.is_finite(), "weights of {parts:?}");
        let part = |&(weight, a, b): &(f64, f64, f64)| {
            assert!(a > 0.0 && b > 0.0 && (a + b).is_finite(), "Beta({a}, {b})");
            Part {
                ln_weight: (weight / total).ln(),
                a,
                b,
                ln_beta: ln_beta(a, b),
            }
        };
        let weighty = parts.iter().filter(|(weight, ..)| *weight > 0.0);
        Self {
            parts: weighty.map(part).collect(),
        }
    }

    /// The shares and shapes of its parts.
    pub fn parts(&self) -> impl Iterator<Item = (f64, f64, f64)> + '_ {
        let parts = self.parts.iter();
        parts.map(|part| (part.ln_weight.exp(), part.a, part.b))
    }

    /// `ln` of each part's weight times the probability that it gives to a sequence of
    /// so many hits and misses.
    fn ln_evidence(&self, hits: f64, misses: f64) -> impl Iterator<Item = f64> + '_ {
        self.parts.iter().map(move |part| {
            part.ln_weight + ln_beta(hits + part.a, misses + part.b) - part.ln_beta
        })
    }

    /// `ln` of the probability that the mixture gives to a sequence of so many hits and
    /// misses, beside the probability that its own share of hits gives to it.
    pub(crate) fn ln_ratio_to_best(&self, hits: f64, misses: f64) -> f64 {
        let n = hits + misses;
        let best = |count: f64| match count > 0.0 {
            true => count * (count / n).ln(),
            false => 0.0,
        };
        ln_sum(self.ln_evidence(hits, misses)) - best(hits) - best(misses)
    }

    /// After so many hits and misses: about how probable it is that at least `needed`
    /// of the next `rest` draws are hits. The spread of these draws is put into that of
    /// the probability, which is as good as exact where `rest` is large.
    pub(crate) fn chance(&self, hits: f64, misses: f64, needed: f64, rest: f64) -> f64 {
        if needed <= 0.0 || needed > rest {
            return if needed <= 0.0 { 1.0 } else { 0.0 };
        }
        let ln_total = ln_sum(self.ln_evidence(hits, misses));
        let share = ((needed - 0.5) / rest).min(1.0 - 1e-12);
        let parts = self.parts.iter().zip(self.ln_evidence(hits, misses));
        parts
            .map(|(part, ln_evidence)| {
                let (a, b) = (hits + part.a, misses + part.b);
                let shrunk = rest / (rest + a + b);
                let above = regularised(b * shrunk, a * shrunk, 1.0 - share);
                (ln_evidence - ln_total).exp() * above
            })
            .sum()
    }
}

/// `ln` of a sum, from the logarithms of what is summed.
fn ln_sum(logarithms: impl Iterator<Item = f64>) -> f64 {
    let all: Vec<f64> = logarithms.collect();
    let largest = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + all.iter().map(|ln| (ln - largest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::ConfidenceSequence;

    #[test]
    fn the_flat_mixture_gives_the_flat_sequence() {
        let flat = ConfidenceSequence::expecting(BetaMixture::new(&[(1.0, 0.5, 0.5)]), 0.001);
        let usual = ConfidenceSequence::new(0.001);
        for (a, n) in [(0, 1), (1, 1), (64, 64), (700, 1000), (99_990, 100_000)] {
            let (found, expected) = (flat.interval(a, n), usual.interval(a, n));
            assert!((found.lower - expected.lower).abs() < 1e-11, "{a} of {n}");
            assert!((found.upper - expected.upper).abs() < 1e-11, "{a} of {n}");
        }
    }

    /// One factor a draw: the predictive probability of each part, Bayes' rule for the
    /// weights.
    #[test]
    fn evidence_is_the_product_of_predictive_probabilities() {
        let mut parts = [(0.3, 7.5, 0.5), (0.2, 2.0, 3.0), (0.5, 0.5, 0.5)];
        let mixture = BetaMixture::new(&parts);
        let (mut hits, mut misses, mut ln_product) = (0.0, 0.0, 0.0_f64);
        for draw in 0..200 {
            let hit = draw % 5 != 3;
            let predictive = |(_, a, b): (f64, f64, f64)| match hit {
                true => a / (a + b),
                false => b / (a + b),
            };
            let joint: f64 = parts.iter().map(|part| part.0 * predictive(*part)).sum();
            ln_product += joint.ln();
            for part in &mut parts {
                part.0 *= predictive(*part) / joint;
                match hit {
                    true => part.1 += 1.0,
                    false => part.2 += 1.0,
                }
            }
            match hit {
                true => hits += 1.0,
                false => misses += 1.0,
            }
        }
        let found = ln_sum(mixture.ln_evidence(hits, misses));
        assert!((found - ln_product).abs() < 1e-9, "{found} {ln_product}");
    }

    /// Against the exact sum over a grid of probabilities.
    #[test]
    fn chances_are_near_those_of_the_beta_binomial_law() {
        let (hits, misses, rest) = (45.0, 5.0, 400);
        let mixture = BetaMixture::new(&[(1.0, 0.5, 0.5)]);
        for needed in [330_u64, 350, 365, 380] {
            let (mut total, mut above) = (0.0, 0.0);
            for step in 1..2000 {
                let p = f64::from(step) / 2000.0;
                let weight = ((hits - 0.5) * p.ln() + (misses - 0.5) * (1.0 - p).ln()).exp();
                total += weight;
                above += weight * crate::statistics::binomial_upper_tail(needed, rest, p);
            }
            let found = mixture.chance(hits, misses, needed as f64, rest as f64);
            assert!(
                (found - above / total).abs() < 0.01,
                "{needed}: {found} for {}",
                above / total
            );
        }
        assert_eq!(mixture.chance(hits, misses, 0.0, 10.0), 1.0);
        assert_eq!(mixture.chance(hits, misses, 11.0, 10.0), 0.0);
    }
}
