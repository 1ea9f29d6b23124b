//! A pilot: the first votes choose how many more are counted.
//!
//! The votes that are counted are others than the pilot's. So whatever the pilot makes of
//! its own, and however it chooses n, the hits among them are Binomial(n, p), and
//! Clopper and Pearson's bound at this n holds at level alpha. A bad choice costs samples
//! or certificates, never soundness.

use crate::anytime::{HOPELESS, reaches};
use crate::plan::{Certify, StopRule, smallest};
use crate::statistics::{BetaMixture, beta_quantile, clopper_pearson_lower};

/// The share of the chance to certify at the cap that a smaller n must keep.
const KEPT: f64 = 0.95;

/// Quantiles of p at which radii are compared.
const QUANTILES: [f64; 8] = [
    0.0625, 0.1875, 0.3125, 0.4375, 0.5625, 0.6875, 0.8125, 0.9375,
];

/// How many samples a pilot lets an image have: see [`Certify::pilot`].
#[derive(Clone, Debug)]
pub struct Pilot {
    plan: Certify,
    rule: StopRule,
    loss: f64,
    /// Numbers of samples up to the cap, each an eighth more than the one before, and the
    /// hits with which they certify the radius in question, or anything.
    sizes: Vec<(u32, u32)>,
}

impl Pilot {
    /// Of a plan that has one; `loss` is taken off every lower bound.
    pub(crate) fn new(plan: &Certify, loss: f64) -> Option<Self> {
        let rule = plan.pilot?;
        let goal = match rule {
            StopRule::Radius(goal) => goal,
            StopRule::Tolerance(_) => 0.0,
        };
        let enough = |hits: u32, n: u32| {
            let lower = clopper_pearson_lower(hits.into(), n.into(), plan.alpha);
            reaches(plan, goal, lower - loss)
        };
        // The plan was checked: the cap can certify.
        let mut n = smallest(plan.n, |n| enough(n, n)).unwrap_or(plan.n);
        let mut sizes = Vec::new();
        loop {
            let needed = smallest(n, |hits| enough(hits, n)).unwrap_or(n);
            sizes.push((n, needed));
            if n == plan.n {
                let plan = plan.clone();
                return Some(Self {
                    plan,
                    rule,
                    loss,
                    sizes,
                });
            }
            n = n.saturating_add((n / 8).max(8)).min(plan.n);
        }
    }

    /// How many samples to count of an image whose class had so many of the `n0` first
    /// votes; 0: it would hardly be certified, and is given up.
    ///
    /// By the posterior of p after a Beta(1/2, 1/2) prior:
    /// - Radius: the smallest n with nearly the chance to certify it that the cap has.
    /// - Tolerance: the smallest n whose radius is expected to be smaller than the cap's by
    ///   no more than that.
    pub fn samples(&self, votes: u32) -> u32 {
        let (hits, misses) = (f64::from(votes), f64::from(self.plan.n0 - votes));
        let flat = BetaMixture::new(&[(1.0, 0.5, 0.5)]);
        let chance = |&(n, needed): &(u32, u32)| flat.chance(hits, misses, needed.into(), n.into());
        let cap = self.sizes.last().map_or(0.0, chance);
        if cap < HOPELESS {
            return 0;
        }
        let found = match self.rule {
            StopRule::Radius(_) => self.sizes.iter().find(|size| chance(size) >= KEPT * cap),
            StopRule::Tolerance(tolerance) => {
                let posterior = QUANTILES.map(|q| beta_quantile(hits + 0.5, misses + 0.5, q));
                let most = self.expected_radius(&posterior, self.plan.n);
                let loses = |n| most - self.expected_radius(&posterior, n);
                self.sizes.iter().find(|(n, _)| loses(*n) <= tolerance)
            }
        };
        found.map_or(self.plan.n, |(n, _)| *n)
    }

    /// The mean over some probabilities of the radius that n samples would certify.
    fn expected_radius(&self, probabilities: &[f64], n: u32) -> f64 {
        let radius = |p: &f64| {
            let hits = (p * f64::from(n)) as u64;
            let lower = clopper_pearson_lower(hits, n.into(), self.plan.alpha);
            self.plan.smoothing.radius(lower - self.loss)
        };
        probabilities.iter().map(radius).sum::<f64>() / probabilities.len() as f64
    }
}

#[cfg(test)]
mod tests;
