//! Which class wins, and by how many others a class is beaten.

use std::cmp::Ordering;

use super::cross_entropy::log_sum_exp;

/// Votes for every class, over the noisy copies of one image.
///
/// Classes are ordered by votes, then by mean probability (by logit, if there is
/// one copy only), then by number: so the top k are defined even where few
/// classes get a vote.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    votes: Vec<u32>,
    scores: Vec<f64>,
}

impl Standing {
    pub(super) fn new(classes: usize) -> Self {
        Self {
            votes: vec![0; classes],
            scores: vec![0.0; classes],
        }
    }

    /// Counts a copy's logits; `single` if there will be no other copy.
    pub(super) fn add(&mut self, logits: &[f32], single: bool) {
        let best = (1..logits.len()).fold(0, |b, j| if logits[j] > logits[b] { j } else { b });
        self.votes[best] += 1;
        let values = logits.iter().map(|&z| f64::from(z));
        let total = log_sum_exp(values.clone());
        for (score, z) in self.scores.iter_mut().zip(values) {
            *score += if single { z } else { (z - total).exp() };
        }
    }

    /// Votes of each class.
    pub fn votes(&self) -> &[u32] {
        &self.votes
    }

    /// The class that stands first: the majority vote.
    pub fn predict(&self) -> u32 {
        let classes = 0..self.votes.len() as u32;
        let first = classes.min_by(|&a, &b| self.order(a, b));
        first.unwrap_or(0)
    }

    /// Number of classes that stand before `class`.
    pub fn rank(&self, class: u32) -> usize {
        let classes = 0..self.votes.len() as u32;
        classes.filter(|&c| self.order(c, class).is_lt()).count()
    }

    fn order(&self, a: u32, b: u32) -> Ordering {
        let key = |c: u32| (self.votes[c as usize], self.scores[c as usize]);
        let ((votes_a, score_a), (votes_b, score_b)) = (key(a), key(b));
        let by_number = || a.cmp(&b);
        votes_b
            .cmp(&votes_a)
            .then(score_b.total_cmp(&score_a))
            .then_with(by_number)
    }
}

/// Loss and standing of each image.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// `-log(mean over copies of p_y)`, with `y` from the points' classes.
    pub losses: Vec<f64>,
    /// Who wins.
    pub standings: Vec<Standing>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(copies: &[&[f32]]) -> Standing {
        let mut standing = Standing::new(copies[0].len());
        for logits in copies {
            standing.add(logits, copies.len() == 1);
        }
        standing
    }

    #[test]
    fn one_copy_is_ordered_by_logits() {
        let s = standing(&[&[-800.0, 3.0, -900.0, 3.0]]);
        assert_eq!(s.predict(), 1);
        assert_eq!([0, 1, 2, 3].map(|c| s.rank(c)), [2, 0, 3, 1]);
    }

    #[test]
    fn votes_come_before_probabilities() {
        // Class 0 wins two close votes, class 1 one landslide.
        let s = standing(&[&[0.1, 0.0, -5.0], &[0.1, 0.0, -9.0], &[0.0, 9.0, 1.0]]);
        assert_eq!(s.votes(), [2, 1, 0]);
        assert_eq!([0, 1, 2].map(|c| s.rank(c)), [0, 1, 2]);
        // A tie of votes is decided by the mean probability.
        let s = standing(&[&[0.1, 0.0], &[0.0, 9.0]]);
        assert_eq!((s.predict(), s.rank(0)), (1, 1));
    }
}
