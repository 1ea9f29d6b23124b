//! Anytime certificates: when to look, and when to stop.

mod prior;

use crate::plan::{Certify, StopRule};
use crate::statistics::{BetaMixture, ConfidenceSequence};
pub use prior::Prior;

/// The answer to "is the radius at least R?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes: certified.
    AtLeast,
    /// No: the smoothed classifier's own probability gives a smaller radius.
    Below,
    /// Hardly: by what was seen, more samples up to the cap would most probably not
    /// certify it. Nothing is proven about it.
    GivenUp,
    /// The cap `n` leaves it open: abstained.
    Undecided,
}

/// An image with a smaller chance than this to be certified at the cap is given up.
pub(crate) const HOPELESS: f64 = 0.05;

/// When to look at the counts next: at the end, or, where it may stop early, at
/// sizes that grow by an eighth (with a prior, which decides sooner, more often). A
/// function of the counts alone, so that no batch size changes where an image stops.
pub(crate) fn next_check(plan: &Certify, n: u32) -> u32 {
    match (plan.anytime, plan.prior) {
        (None, _) => plan.n,
        (Some(_), Prior::Flat) => n.saturating_add((n / 8).max(64)).min(plan.n),
        (Some(_), _) => n.saturating_add((n / 24).max(8)).min(plan.n),
    }
}

/// The bounds on one image's votes.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    sequence: ConfidenceSequence,
    /// What was expected, and the hits that would certify at the cap; nothing is given
    /// up without.
    expected: Option<(BetaMixture, Option<u32>)>,
}

impl Watch {
    /// Of an image whose class has probability `answer` by what the plan's prior is
    /// centred on; `loss` widens every interval.
    pub fn new(plan: &Certify, answer: f64, loss: f64) -> Self {
        if plan.anytime.is_none() || plan.prior == Prior::Flat {
            let sequence = ConfidenceSequence::new(plan.alpha);
            let expected = None;
            return Self { sequence, expected };
        }
        let mixture = plan.expects(answer);
        let sequence = ConfidenceSequence::expecting(mixture.clone(), plan.alpha);
        let expected = plan.goal().map(|goal| {
            let enough = |hits: u32| {
                let p_lower = sequence.lower(hits.into(), plan.n.into()) - loss;
                reaches(plan, goal, p_lower)
            };
            (mixture, crate::plan::smallest(plan.n, enough))
        });
        Self { sequence, expected }
    }

    /// The lower bound on the probability of a hit after so many of them.
    pub fn lower(&self, hits: u32, n: u32) -> f64 {
        self.sequence.lower(hits.into(), n.into())
    }

    /// Whether to stop after `n_a` hits in `n` samples, and what is decided then.
    ///
    /// The probability is in the confidence sequence's interval at all n at once with
    /// probability 1-alpha, so an answer may be read off at any time and the rule for
    /// stopping is free. These are used:
    /// - Radius: the interval decides, or not even hits only until the cap could; with
    ///   a prior also where it is improbable that more samples would certify it.
    /// - Tolerance: at the cap, if from now on hits come two standard errors more often
    ///   than they did, the radius would be larger by no more than that.
    pub fn look(&self, plan: &Certify, loss: f64, n_a: u32, n: u32) -> (bool, Option<Decision>) {
        let Some(goal) = plan.anytime else {
            return (true, None);
        };
        let p_lower = self.lower(n_a, n) - loss;
        let radius = plan.smoothing.radius(p_lower);
        // p_lower at the cap, if the remaining samples hit at this rate
        let remaining = f64::from(plan.n - n);
        let at_cap = |rate: f64| {
            let hits = n_a + (rate * remaining).ceil() as u32;
            self.lower(hits, plan.n) - loss
        };
        match goal {
            StopRule::Radius(goal) => {
                let upper = self.sequence.upper(n_a.into(), n.into()) + loss;
                if reaches(plan, goal, p_lower) {
                    (true, Some(Decision::AtLeast))
                } else if !reaches(plan, goal, upper.min(1.0)) {
                    (true, Some(Decision::Below))
                } else if self.hopeless(plan, n_a, n) {
                    (true, Some(Decision::GivenUp))
                } else {
                    let over = !reaches(plan, goal, at_cap(1.0));
                    (over, Some(Decision::Undecided))
                }
            }
            StopRule::Tolerance(tolerance) => {
                let share = (f64::from(n_a) + 1.0) / (f64::from(n) + 2.0);
                let error = (share * (1.0 - share) / f64::from(n)).sqrt();
                let rate = (share + 2.0 * error).min(1.0);
                let gain = plan.smoothing.radius(at_cap(rate)) - radius;
                (gain <= tolerance, None)
            }
        }
    }

    /// Whether, by the prior and the votes, the cap would hardly certify.
    fn hopeless(&self, plan: &Certify, n_a: u32, n: u32) -> bool {
        let Some((mixture, needed)) = &self.expected else {
            return false;
        };
        let Some(needed) = needed else {
            return true;
        };
        let (hits, misses) = (f64::from(n_a), f64::from(n - n_a));
        let more = f64::from(*needed) - hits;
        mixture.chance(hits, misses, more, f64::from(plan.n - n)) < HOPELESS
    }
}

/// Whether a lower bound on the probability certifies the radius in question.
pub(crate) fn reaches(plan: &Certify, goal: f64, p: f64) -> bool {
    p > 0.5 && plan.smoothing.radius(p) >= goal
}

#[cfg(test)]
mod tests;
