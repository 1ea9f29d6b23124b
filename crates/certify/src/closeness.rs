//! Fidelity over a data set: how much of the gap was closed, and at which sigma.

use crate::fidelity::{AtLevel, Fidelity, FidelityDistances, FidelityOutcome};
use crate::statistics::clopper_pearson_lower;

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

/// Fidelity in one space (logits, probabilities or votes), over all images.
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
    /// Standard error of `closed`, for images drawn like these (delta method).
    pub closed_error: f64,
    /// How many images there are.
    pub images: u64,
    /// Share of images where v chooses the average's class.
    pub v_agreement: f64,
    /// Share of images where f chooses the average's class.
    pub f_agreement: f64,
    /// The noise level that fits v best; `None` if f does not change with the level.
    pub effective_sigma: Option<EffectiveSigma>,
}

impl Closeness {
    /// What can be said about inputs like these images: with this confidence, v
    /// names the average's class on at least this share of them (one-sided
    /// Clopper-Pearson).
    pub fn agreement_at_least(&self, confidence: f64) -> f64 {
        let agrees = (self.v_agreement * self.images as f64).round() as u64;
        clopper_pearson_lower(agrees, self.images, 1.0 - confidence)
    }

    /// Both ends of the 95 % interval of `closed`.
    pub fn closed_interval(&self) -> [f64; 2] {
        [-1.96, 1.96].map(|z| self.closed + z * self.closed_error)
    }
}

/// Sums over images; memory does not grow with them.
#[derive(Clone, Debug, PartialEq)]
pub struct FidelitySummary {
    sigma: f64,
    images: u64,
    /// Of logits, of probabilities and of votes.
    spaces: [Vec<LevelSums>; 3],
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
    /// Of squares and products of what `v` and `f` add, without their errors.
    vv: f64,
    vf: f64,
    ff: f64,
    v_agrees: u64,
    f_agrees: u64,
}

impl LevelSums {
    fn add(&mut self, at: &FidelityDistances, lower: Option<&FidelityDistances>) {
        self.v += at.v * at.v;
        self.f += at.f * at.f;
        let error = at.standard_error * at.standard_error;
        let (v, f) = (at.v * at.v - error, at.f * at.f - error);
        self.vv += v * v;
        self.vf += v * f;
        self.ff += f * f;
        self.error += at.standard_error * at.standard_error;
        self.step += at.step * at.step;
        self.error_product += at.standard_error * lower.map_or(0.0, |lower| lower.standard_error);
        self.v_agrees += u64::from(at.v_agrees);
        self.f_agrees += u64::from(at.f_agrees);
    }
}

impl LevelSums {
    /// Standard error of `1 - sqrt(A/B)`, with A and B the means over `n` images
    /// of what v and f add: by its derivative, the standard deviation of
    /// `sqrt(A/B)/2 * (a/A - b/B)`, over the root of n.
    fn closed_error(&self, n: f64) -> f64 {
        let (a, b) = ((self.v - self.error) / n, (self.f - self.error) / n);
        let variance = self.vv / n / (a * a) - 2.0 * self.vf / n / (a * b) + self.ff / n / (b * b);
        0.5 * (a.max(0.0) / b).sqrt() * (variance.max(0.0) / n).sqrt()
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
            spaces: [sums.clone(), sums.clone(), sums],
        }
    }

    /// Adds an image, measured with the plan that the summary was made for.
    pub fn add(&mut self, outcome: &FidelityOutcome) {
        self.images += 1;
        let of: [fn(&AtLevel) -> &FidelityDistances; 3] =
            [|at| &at.logits, |at| &at.probabilities, |at| &at.votes];
        for (sums, of) in self.spaces.iter_mut().zip(of) {
            let mut lower = None;
            for (sums, at) in sums.iter_mut().zip(&outcome.levels) {
                sums.add(of(at), lower);
                lower = Some(of(at));
            }
        }
    }

    /// Images so far.
    pub fn images(&self) -> u64 {
        self.images
    }

    /// In terms of logits; `None` without images.
    pub fn logits(&self) -> Option<Closeness> {
        self.closeness(&self.spaces[0])
    }

    /// In terms of probabilities; `None` without images.
    pub fn probabilities(&self) -> Option<Closeness> {
        self.closeness(&self.spaces[1])
    }

    /// In terms of votes; `None` without images.
    pub fn votes(&self) -> Option<Closeness> {
        self.closeness(&self.spaces[2])
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
            closed_error: own.closed_error(n),
            images: self.images,
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
