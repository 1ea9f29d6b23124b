//! Fidelity over a data set: how much of the gap was closed, and at which sigma.

use crate::fidelity::{Fidelity, FidelityDistances, FidelityOutcome};

/// The noise level at which the average of f fits v best.
///
/// v is projected onto the piecewise linear path (in sigma^2, the heat equation's
/// time) through the averages at the levels, all images together; the nearest point
/// of the path gives the level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EffectiveSigma {
    /// The level.
    pub sigma: f64,
    /// Root mean square distance of v from the path there.
    pub distance: f64,
    /// Whether it is the smallest or largest level that was tried, so that the best
    /// may lie beyond.
    pub at_edge: bool,
}

/// Fidelity in one space (logits or probabilities), over all images.
///
/// Distances are root mean squares, free of the Monte-Carlo error: the expected
/// square of a distance to an average of m samples is the exact one plus the square
/// of the standard error, which is subtracted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Closeness {
    /// Of v from the average of f.
    pub v: f64,
    /// Of f from its average.
    pub f: f64,
    /// Root mean square of the standard errors.
    pub standard_error: f64,
    /// How much of the gap was closed: `1 - v/f`. 1: v is the average; 0: v is as far
    /// as f; NaN where f is its own average.
    pub closed: f64,
    /// Share of images where v chooses the average's class.
    pub v_agreement: f64,
    /// Share of images where f chooses the average's class.
    pub f_agreement: f64,
    /// The noise level that fits v best; `None` if f does not change with the level.
    pub effective_sigma: Option<EffectiveSigma>,
}

/// Sums over images; memory does not grow with them.
#[derive(Clone, Debug, PartialEq)]
pub struct FidelitySummary {
    sigma: f64,
    images: u64,
    logits: Vec<LevelSums>,
    probabilities: Vec<LevelSums>,
}

/// Sums of squares over images at one level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LevelSums {
    sigma: f64,
    v: f64,
    f: f64,
    error: f64,
    step: f64,
    /// Of the product of the standard errors here and one level lower.
    error_product: f64,
    v_agrees: u64,
    f_agrees: u64,
}

impl LevelSums {
    fn add(&mut self, at: &FidelityDistances, lower: Option<&FidelityDistances>) {
        self.v += at.v * at.v;
        self.f += at.f * at.f;
        self.error += at.standard_error * at.standard_error;
        self.step += at.step * at.step;
        self.error_product += at.standard_error * lower.map_or(0.0, |lower| lower.standard_error);
        self.v_agrees += u64::from(at.v_agrees);
        self.f_agrees += u64::from(at.f_agrees);
    }
}

impl FidelitySummary {
    /// No images yet.
    pub fn new(plan: &Fidelity) -> Self {
        let levels = plan.all_levels().into_iter();
        let sums: Vec<LevelSums> = levels
            .map(|sigma| LevelSums {
                sigma,
                ..LevelSums::default()
            })
            .collect();
        Self {
            sigma: plan.sigma,
            images: 0,
            logits: sums.clone(),
            probabilities: sums,
        }
    }

    /// Adds an image, measured with the plan that the summary was made for.
    pub fn add(&mut self, outcome: &FidelityOutcome) {
        self.images += 1;
        let mut lower = None;
        let spaces = self.logits.iter_mut().zip(&mut self.probabilities);
        for ((logits, probabilities), at) in spaces.zip(&outcome.levels) {
            let [lower_logits, lower_probabilities] = [
                lower.map(|lower: &crate::AtLevel| &lower.logits),
                lower.map(|lower| &lower.probabilities),
            ];
            logits.add(&at.logits, lower_logits);
            probabilities.add(&at.probabilities, lower_probabilities);
            lower = Some(at);
        }
    }

    /// Images so far.
    pub fn images(&self) -> u64 {
        self.images
    }

    /// In terms of logits; `None` without images.
    pub fn logits(&self) -> Option<Closeness> {
        self.closeness(&self.logits)
    }

    /// In terms of probabilities; `None` without images.
    pub fn probabilities(&self) -> Option<Closeness> {
        self.closeness(&self.probabilities)
    }

    fn closeness(&self, levels: &[LevelSums]) -> Option<Closeness> {
        let own = levels.iter().find(|level| level.sigma == self.sigma)?;
        if self.images == 0 {
            return None;
        }
        let n = self.images as f64;
        let root = |sum: f64| (sum.max(0.0) / n).sqrt();
        let (v, f) = (root(own.v - own.error), root(own.f - own.error));
        Some(Closeness {
            v,
            f,
            standard_error: root(own.error),
            closed: 1.0 - v / f,
            v_agreement: own.v_agrees as f64 / n,
            f_agreement: own.f_agrees as f64 / n,
            effective_sigma: nearest(levels).map(|(sigma, square)| EffectiveSigma {
                sigma,
                distance: root(square),
                at_edge: levels.first().is_some_and(|level| level.sigma == sigma)
                    || levels.last().is_some_and(|level| level.sigma == sigma),
            }),
        })
    }
}

/// The nearest point of the path to v: its level, and the squared distance.
///
/// On the segment from average a to average b, with squared distances `D_a`, `D_b` of
/// v and `L` between a and b, the foot of v is at the share
/// `1/2 + (D_a - D_b) / (2L)`. Monte-Carlo errors are subtracted; those of a and b
/// stem from the same noise, scaled, so (to first order in it) the error of b - a is
/// the difference of theirs.
fn nearest(levels: &[LevelSums]) -> Option<(f64, f64)> {
    let mut best: Option<(f64, f64)> = None;
    for pair in levels.windows(2) {
        let [a, b] = pair else { continue };
        let (d_a, d_b) = (a.v - a.error, b.v - b.error);
        let l = b.step - (a.error + b.error - 2.0 * b.error_product);
        if l <= 0.0 {
            continue;
        }
        let share = (0.5 + (d_a - d_b) / (2.0 * l)).clamp(0.0, 1.0);
        let square = (1.0 - share) * d_a + share * d_b - share * (1.0 - share) * l;
        if best.is_none_or(|(_, smallest)| square < smallest) {
            let time = a.sigma * a.sigma * (1.0 - share) + b.sigma * b.sigma * share;
            best = Some((time.sqrt(), square));
        }
    }
    best
}
