//! Certified intervals of real values: how far the smoothed outputs can move.

use network::{Classify, Images, Purpose};
use record::{Guarantee, NoiseLaw, SmoothedValue};
use settings::{SettingError, settings};

use crate::CertifyError;
use crate::image::Image;
use crate::observer::{Mapped, OutcomeObserver};
use crate::plan::check_alpha;
use crate::sample::{Finished, Request, Start, Task, sample_all};
use crate::smoothing::Smoothing;
use crate::statistics::{MeanBound, normal_cdf, normal_quantile, quantile_rank};

settings! {
    /// What can be said about intervals of real values, besides n and alpha.
    pub struct IntervalParams {
        /// Real values only: certify how far the smoothed outputs can move under any
        /// perturbation of at most this norm.
        eps: Option<f64> = None,
        /// Real values only: certify their mean over the noise, cut off below this,
        /// rather than their median; with high.
        low: Option<f64> = None,
        /// Real values only: certify their mean over the noise, cut off above this,
        /// rather than their median; with low.
        high: Option<f64> = None,
    }
}

impl IntervalParams {
    /// The plan for this noise.
    ///
    /// # Errors
    /// Settings that are missing or contradict each other.
    pub fn plan(
        &self,
        smoothing: Smoothing,
        (n, alpha): (u32, f64),
        seed: u64,
    ) -> Result<IntervalPlan, SettingError> {
        let of = match (self.low, self.high) {
            (None, None) => SmoothedValue::Median,
            (Some(low), Some(high)) if low < high => {
                // Outputs are in single precision.
                for (name, end) in [("low", low), ("high", high)] {
                    if end.abs() > f64::from(f32::MAX) {
                        let expected = "between -3.4e38 and 3.4e38, as outputs are";
                        return Err(SettingError::value(name, format!("{end:e}"), expected));
                    }
                }
                SmoothedValue::Mean { low, high }
            }
            (Some(low), Some(_)) => return Err(SettingError::value("low", low, "less than high")),
            (Some(_), None) => return Err(SettingError::missing("high")),
            (None, Some(_)) => return Err(SettingError::missing("low")),
        };
        Ok(IntervalPlan {
            smoothing,
            eps: self.eps.ok_or_else(|| SettingError::missing("eps"))?,
            of,
            n,
            alpha,
            seed,
        })
    }
}

/// Intervals for all perturbations of norm up to eps, from n noisy copies of an image.
///
/// The median (Chiang et al. 2020): `P(v(x'+eta) <= y)` is at least
/// `Phi(Phi^-1(P(v(x+eta) <= y)) - eps/sigma)` wherever `||x' - x|| <= eps`, so every
/// median at x' lies between the quantiles of `v(x+eta)` at
///
/// ```text
/// Phi(-eps/sigma)   and   Phi(eps/sigma).
/// ```
///
/// Order statistics bound these: the i-th smallest of n draws is at most the q-quantile
/// except with probability `P(Binomial(n, q) < i)` ([`quantile_rank`]).
///
/// The mean m of values cut off at low and high: `Phi^-1((m - low)/(high - low))` is
/// 1/sigma-Lipschitz (Salman et al. 2019, appendix A), with bounds on the mean at x from
/// the samples ([`MeanBound`]). That is never wider than by the Lipschitz constant
/// itself, [`lipschitz`].
///
/// Alpha is split over both ends and all outputs. With exact noise
/// [`Smoothing::total_variation`] is taken off every probability.
#[derive(Clone, Debug, PartialEq)]
pub struct IntervalPlan {
    /// The noise, and the norm of perturbations.
    pub smoothing: Smoothing,
    /// The largest norm of a perturbation.
    pub eps: f64,
    /// What of the outputs is certified.
    pub of: SmoothedValue,
    /// Noisy copies of an image.
    pub n: u32,
    /// Failure probability, for each image.
    pub alpha: f64,
    /// Seed of the noise.
    pub seed: u64,
}

/// The Lipschitz constant of the Gaussian average of a function with values in
/// [low, high]: `(high - low) / (sigma sqrt(2 pi))`.
pub fn lipschitz(sigma: f64, low: f64, high: f64) -> f64 {
    (high - low) / (sigma * std::f64::consts::TAU.sqrt())
}

impl IntervalPlan {
    /// Refuses what makes no sense for this network.
    ///
    /// # Errors
    /// A value out of its range; too few samples for any interval; noise without a
    /// theorem.
    pub fn check(&self, model: &(impl Classify + ?Sized)) -> Result<(), CertifyError> {
        let noise = self.smoothing.id().noise;
        if !matches!(noise, NoiseLaw::Gaussian | NoiseLaw::Exact { .. }) {
            let expected = "Gaussian noise (exact or float) for intervals of real values";
            return Err(SettingError::value("noise", noise.word(), expected).into());
        }
        if !(self.eps > 0.0 && self.eps.is_finite()) {
            return Err(SettingError::value("eps", self.eps, "a positive number").into());
        }
        check_alpha(self.alpha)?;
        if self.n == 0 {
            return Err(SettingError::value("n", 0, "at least 1").into());
        }
        let (outputs, pixels) = (model.classes(), model.input().len());
        if self.of == SmoothedValue::Median && self.rank(outputs, pixels) == 0 {
            let q = self.lower_quantile(pixels);
            let needed = (self.alpha_each(outputs).ln() / (-q).ln_1p()).ceil();
            return Err(CertifyError::TooFewSamples {
                n: self.n,
                purpose: format!("bound the quantile at Phi(-eps/sigma) = {q:.3e}"),
                alpha: self.alpha,
                needed: (q > 0.0 && needed <= f64::from(u32::MAX)).then_some(needed as u32),
            });
        }
        Ok(())
    }

    /// What its intervals guarantee.
    pub fn guarantee(&self) -> Guarantee {
        Guarantee::SoundInterval {
            alpha: self.alpha,
            eps: self.eps,
            of: self.of,
            smoothing: self.smoothing.id(),
        }
    }

    /// Alpha of one end of one output.
    fn alpha_each(&self, outputs: usize) -> f64 {
        self.alpha / (2.0 * outputs as f64)
    }

    /// `Phi(-eps/sigma)`, less what the noise that is drawn may be off.
    fn lower_quantile(&self, pixels: usize) -> f64 {
        let q = normal_cdf(-self.eps / self.smoothing.sigma());
        (q - self.smoothing.total_variation(pixels)).max(0.0)
    }

    /// The order statistic that is the lower end; its mirror image is the upper one.
    fn rank(&self, outputs: usize, pixels: usize) -> u64 {
        let q = self.lower_quantile(pixels);
        quantile_rank(self.n.into(), q, self.alpha_each(outputs))
    }

    /// The interval of one output from its values under noise, in the order of the
    /// samples.
    fn interval(&self, mut values: Vec<f32>, outputs: usize, pixels: usize) -> [f64; 3] {
        match self.of {
            SmoothedValue::Median => {
                let (n, rank) = (values.len(), self.rank(outputs, pixels) as usize);
                values.sort_unstable_by(f32::total_cmp);
                let at = |place: usize| f64::from(values[place]);
                [at(rank - 1), at((n - 1) / 2), at(n - rank)]
            }
            SmoothedValue::Mean { low, high } => {
                let mut bound = MeanBound::new(self.n, self.alpha_each(outputs));
                let mut sum = 0.0;
                for value in &values {
                    let share = (f64::from(*value).clamp(low, high) - low) / (high - low);
                    bound.add(share);
                    sum += share;
                }
                let loss = self.smoothing.total_variation(pixels);
                let moved = |share: f64, by: f64| normal_cdf(normal_quantile(share) + by);
                let by = self.eps / self.smoothing.sigma();
                let shares = [
                    moved((bound.lower() - loss).max(0.0), -by),
                    sum / values.len() as f64,
                    moved((bound.upper() + loss).min(1.0), by),
                ];
                shares.map(|share| low + (high - low) * share)
            }
        }
    }
}

/// The certified interval of one output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CertifiedInterval {
    /// One clean pass, v(x).
    pub value: f64,
    /// The smoothed output at x, as the samples estimate it.
    pub centre: f64,
    /// The smoothed output is nowhere lower.
    pub lower: f64,
    /// Nor higher.
    pub upper: f64,
}

/// The intervals of one image.
#[derive(Clone, Debug, PartialEq)]
pub struct IntervalOutcome {
    /// The image.
    pub index: u32,
    /// One an output.
    pub outputs: Vec<CertifiedInterval>,
    /// Wall-clock seconds; those of a batch are shared by its samples.
    pub seconds: f64,
}

/// Certifies the intervals of all images, in order.
///
/// # Errors
/// As [`certify_all`](crate::certify_all).
pub fn interval_all(
    model: &(impl Classify + ?Sized),
    images: impl IntoIterator<Item = Images>,
    plan: &IntervalPlan,
    batch: usize,
    observer: &mut (impl OutcomeObserver<IntervalOutcome> + ?Sized),
) -> Result<(), CertifyError> {
    plan.check(model)?;
    let pixels = model.input().len();
    let map = |Finished {
                   image,
                   task,
                   seconds,
               }: Finished<Draws<'_>>| IntervalOutcome {
        index: image.index,
        outputs: task.intervals(pixels),
        seconds: seconds.total(),
    };
    let mut start = Plan(plan);
    sample_all(
        model,
        images,
        &mut start,
        batch,
        &mut Mapped { observer, map },
    )
}

struct Plan<'p>(&'p IntervalPlan);

impl<'p> Start for Plan<'p> {
    type Task = Draws<'p>;

    fn first_request(&self) -> u32 {
        self.0.n
    }

    fn start(&mut self, images: &[Image], values: &[f32]) -> Vec<Result<Self::Task, CertifyError>> {
        let rows = values.chunks_exact(values.len() / images.len());
        images
            .iter()
            .zip(rows)
            .map(|(image, row)| {
                self.0.smoothing.check(image)?;
                Ok(Draws {
                    plan: self.0,
                    clean: row.to_vec(),
                    values: vec![Vec::with_capacity(self.0.n as usize); row.len()],
                })
            })
            .collect()
    }
}

/// The outputs of one image under noise.
struct Draws<'p> {
    plan: &'p IntervalPlan,
    clean: Vec<f32>,
    /// By output.
    values: Vec<Vec<f32>>,
}

impl Draws<'_> {
    fn intervals(self, pixels: usize) -> Vec<CertifiedInterval> {
        let outputs = self.values.len();
        let each = self.values.into_iter().zip(self.clean);
        each.map(|(values, value)| {
            let [lower, centre, upper] = self.plan.interval(values, outputs, pixels);
            CertifiedInterval {
                value: value.into(),
                centre,
                lower,
                upper,
            }
        })
        .collect()
    }
}

impl Task for Draws<'_> {
    fn request(&self) -> Option<Request> {
        let done = self.values[0].len() as u32;
        let plan = self.plan;
        (done < plan.n).then(|| Request {
            noise: plan.smoothing.noise(plan.seed, Purpose::Estimation),
            first: done,
            count: plan.n - done,
        })
    }

    fn receive(&mut self, outputs: &[f32]) {
        for (values, &output) in self.values.iter_mut().zip(outputs) {
            values.push(output);
        }
    }
}
