//! Anytime certificates: when to look, and when to stop.

use crate::plan::{Certify, StopRule};
use crate::statistics::ConfidenceSequence;

/// The answer to "is the radius at least R?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes: certified.
    AtLeast,
    /// No: the smoothed classifier's own probability gives a smaller radius.
    Below,
    /// The cap `n` leaves it open: abstained.
    Undecided,
}

/// When to look at the counts next: at the end, or, where it may stop early, at
/// sizes that grow by an eighth. A function of the counts alone, so that no batch
/// size changes where an image stops.
pub(crate) fn next_check(plan: &Certify, n: u32) -> u32 {
    match plan.anytime {
        None => plan.n,
        Some(_) => n.saturating_add((n / 8).max(64)).min(plan.n),
    }
}

/// Whether to stop after `n_a` hits in `n` samples, and what is decided then;
/// `loss` widens every interval.
///
/// The probability is in the confidence sequence's interval at all n at once with
/// probability 1-alpha, so an answer may be read off at any time and the rule for
/// stopping is free. These are used:
/// - Radius: the interval decides, or not even hits only until the cap could.
/// - Tolerance: at the cap, if from now on hits come two standard errors more often
///   than they did, the radius would be larger by no more than that.
pub(crate) fn look(plan: &Certify, loss: f64, n_a: u32, n: u32) -> (bool, Option<Decision>) {
    let Some(goal) = plan.anytime else {
        return (true, None);
    };
    let sequence = ConfidenceSequence::new(plan.alpha);
    let lower = |hits: u64, n: u32| sequence.lower(hits, n.into()) - loss;
    let p_lower = lower(n_a.into(), n);
    let radius = plan.smoothing.radius(p_lower);
    // p_lower at the cap, if the remaining samples hit at this rate
    let remaining = f64::from(plan.n - n);
    let at_cap = |rate: f64| {
        let hits = u64::from(n_a) + (rate * remaining).ceil() as u64;
        lower(hits, plan.n)
    };
    match goal {
        StopRule::Radius(goal) => {
            let reaches = |p: f64| p > 0.5 && plan.smoothing.radius(p) >= goal;
            if reaches(p_lower) {
                (true, Some(Decision::AtLeast))
            } else if !reaches((sequence.upper(n_a.into(), n.into()) + loss).min(1.0)) {
                (true, Some(Decision::Below))
            } else {
                (!reaches(at_cap(1.0)), Some(Decision::Undecided))
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

#[cfg(test)]
mod tests;
