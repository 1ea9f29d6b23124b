//! Figures over many outcomes.

use crate::outcome::{AttackOutcome, Status};

/// Median and mean of L2 distances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttackDistances {
    /// The middle one.
    pub median: f64,
    /// Their average.
    pub mean: f64,
}

/// Counts and distances of an attack on many images.
#[derive(Clone, Debug, PartialEq)]
pub struct AttackSummary {
    /// All images.
    pub images: usize,
    /// Of these, not attacked because the clean image met the goal.
    pub already_wrong: usize,
    /// Attacked with success.
    pub broken: usize,
    /// Attacked in vain.
    pub failed: usize,
    /// Not attacked because the label is the target.
    pub left_out: usize,
    /// Broken among the attacked; `None` if nothing was attacked.
    pub success_rate: Option<f64>,
    /// Over the broken images; `None` if there are none.
    pub distances: Option<AttackDistances>,
    /// Broken images whose distance is set by the number of steps.
    pub at_floor: usize,
}

impl AttackSummary {
    /// Counts outcomes. A failure is a failure, never a distance.
    pub fn new(outcomes: &[AttackOutcome]) -> Self {
        let count = |status| outcomes.iter().filter(|o| o.status == status).count();
        let (broken, failed) = (count(Status::Broken), count(Status::Failed));
        let attacked = broken + failed;
        let mut distances: Vec<f64> = outcomes
            .iter()
            .filter(|o| o.status == Status::Broken)
            .filter_map(|o| o.l2)
            .collect();
        Self {
            images: outcomes.len(),
            already_wrong: count(Status::AlreadyWrong),
            broken,
            failed,
            left_out: count(Status::LeftOut),
            success_rate: (attacked > 0).then(|| broken as f64 / attacked as f64),
            distances: statistics(&mut distances),
            at_floor: outcomes.iter().filter(|o| o.at_floor).count(),
        }
    }
}

impl AttackDistances {
    /// The paper's convention: over all images that are not left out, those already wrong at 0 and
    /// failures at the norm of what the attack gave back (about `eps` for PGD,
    /// 0 for DDN).
    pub fn paper_convention(outcomes: &[AttackOutcome]) -> Option<Self> {
        let counted = outcomes.iter().filter(|o| o.status != Status::LeftOut);
        let mut distances: Vec<f64> = counted.map(|o| o.last_l2).collect();
        statistics(&mut distances)
    }
}

fn statistics(values: &mut [f64]) -> Option<AttackDistances> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    values.sort_by(f64::total_cmp);
    Some(AttackDistances {
        median: (values[(n - 1) / 2] + values[n / 2]) / 2.0,
        mean: values.iter().sum::<f64>() / n as f64,
    })
}
