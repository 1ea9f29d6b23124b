//! What the noisy copies of an image say about its classes.

use network::logits::{argmax, softmax};

use crate::anytime::Watch;
use crate::plan::{Certify, Evidence, Sides};
use crate::statistics::{MeanBound, clopper_pearson_lower, clopper_pearson_upper};

/// What is gathered beside the hits of the chosen class.
pub(crate) enum Tally {
    /// Nothing: the hits are enough.
    Hits,
    /// The votes of every class.
    Votes(Vec<u32>),
    /// The mean softmax of every class, or of the chosen one only (the others:
    /// `None`).
    Means(Vec<Option<MeanBound>>),
}

impl Tally {
    /// For a class that has been chosen.
    pub fn new(plan: &Certify, chosen: usize, classes: usize) -> Self {
        let (own, other) = alphas(plan, classes);
        let mean = |class: usize| {
            if class == chosen {
                Some(MeanBound::new(plan.n, own))
            } else {
                other.map(|alpha| MeanBound::new(plan.n, alpha))
            }
        };
        match (plan.evidence, plan.sides) {
            (Evidence::Votes, Sides::One) => Self::Hits,
            (Evidence::Votes, Sides::Both) => Self::Votes(vec![0; classes]),
            (Evidence::MeanSoftmax, _) => Self::Means((0..classes).map(mean).collect()),
        }
    }

    /// The logits of the next copy.
    pub fn receive(&mut self, logits: &[f32]) {
        match self {
            Self::Hits => {}
            Self::Votes(votes) => votes[argmax(logits)] += 1,
            Self::Means(means) => {
                for (mean, p) in means.iter_mut().zip(softmax(logits)) {
                    if let Some(mean) = mean {
                        mean.add(p);
                    }
                }
            }
        }
    }

    /// A lower bound on the chosen class and an upper bound on every other one,
    /// after `hits` of the chosen class in `n` copies. Both hold with probability
    /// 1-alpha.
    pub fn bounds(
        &self,
        plan: &Certify,
        watch: &Watch,
        chosen: usize,
        (hits, n): (u32, u32),
    ) -> (f64, f64) {
        match self {
            Self::Hits => (plan.p_lower(watch, hits, n), 1.0),
            Self::Votes(votes) => {
                let others = votes.iter().enumerate().filter(|(c, _)| *c != chosen);
                let most = others.map(|(_, votes)| *votes).max().unwrap_or(0);
                two_sided(plan, votes.len(), hits, most, n)
            }
            Self::Means(means) => {
                let bound = |class: usize| means[class].as_ref();
                let lower = bound(chosen).map_or(0.0, MeanBound::lower);
                let others = (0..means.len()).filter(|class| *class != chosen);
                let upper = others.map(|class| bound(class).map_or(1.0, MeanBound::upper));
                (lower, upper.fold(0.0, f64::max))
            }
        }
    }

    /// The bounds if all of `n` copies, and what was expected of them, are as one would
    /// like them.
    pub fn best(plan: &Certify, classes: usize, n: u32) -> (f64, f64) {
        let (own, other) = alphas(plan, classes);
        match (plan.evidence, plan.sides) {
            (Evidence::Votes, Sides::One) => {
                let watch = Watch::new(plan, 1.0, 0.0);
                (plan.p_lower(&watch, n, n), 1.0)
            }
            (Evidence::Votes, Sides::Both) => two_sided(plan, classes, n, 0, n),
            (Evidence::MeanSoftmax, _) => {
                let constant = |alpha: f64, x: f64| {
                    let mut bound = MeanBound::new(n, alpha);
                    (0..n).for_each(|_| bound.add(x));
                    bound
                };
                let upper = other.map(|alpha| constant(alpha, 0.0).upper());
                (constant(own, 1.0).lower(), upper.unwrap_or(1.0))
            }
        }
    }
}

/// The failure probability of the chosen class's bound, and of each other one's
/// where these are bounded, too: half of alpha, and the other half shared.
fn alphas(plan: &Certify, classes: usize) -> (f64, Option<f64>) {
    match plan.sides {
        Sides::One => (plan.alpha, None),
        Sides::Both => {
            let half = 0.5 * plan.alpha;
            (half, Some(half / (classes - 1) as f64))
        }
    }
}

/// Clopper and Pearson's bounds on the chosen class and on that with the most
/// votes of all others, whose bound is the largest.
fn two_sided(plan: &Certify, classes: usize, hits: u32, most: u32, n: u32) -> (f64, f64) {
    let (own, other) = alphas(plan, classes);
    let lower = clopper_pearson_lower(hits.into(), n.into(), own);
    let upper = other.map(|alpha| clopper_pearson_upper(most.into(), n.into(), alpha));
    (lower, upper.unwrap_or(1.0))
}

#[cfg(test)]
mod tests;
