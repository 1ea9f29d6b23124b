//! The L-bound: a radius from the Lipschitz constant of a Gaussian average.

use network::{Classify, Images, Purpose};

use settings::settings;

use crate::CertifyError;
use crate::image::Image;
use crate::observer::{Mapped, OutcomeObserver};
use crate::one_pass::one_pass_radius;
use crate::plan::check_top_k;
use crate::sample::{Finished, Request, Start, Task, sample_all};
use crate::smoothing::Smoothing;
use crate::statistics::normal_quantile;
use network::logits::{argmax, in_top_k, softmax};

settings! {
    /// What can be said about an L-bound; [`LBoundParams::plan`] makes an
    /// [`LBound`] of it.
    pub struct LBoundParams {
        /// Average over M noisy copies, for stochastic models; 0: the network
        /// itself.
        samples: u32 = 0,
        /// How many classes count as right.
        top_k: usize = 1,
    }
}

impl LBoundParams {
    /// The plan for an average over this noise.
    pub fn plan(&self, smoothing: Smoothing, seed: u64) -> LBound {
        LBound {
            smoothing,
            samples: self.samples,
            top_k: self.top_k,
            seed,
        }
    }
}

/// The paper's L-bound (theorem 2). The Gaussian average of a function with values
/// in [0, 1] has Lipschitz constant `sqrt(2/pi)/sigma`, so ranks k and k+1 of its
/// outputs p cannot change places within
///
/// ```text
/// sigma * sqrt(pi/2) * (p_(k) - p_(k+1)).
/// ```
///
/// Beside it stands the probit bound (Salman et al. 2019, appendix A): Phi^-1 of such
/// an average is `1/sigma`-Lipschitz, so the same ranks are kept within
///
/// ```text
/// sigma/2 * (Phi^-1(p_(k)) - Phi^-1(p_(k+1))),
/// ```
///
/// which is never less, and not at most `1.25 sigma`.
///
/// For a deterministic v, p is `softmax v(x)` and the bound holds if v is exactly a
/// Gaussian average; for a stochastic model p is the mean softmax of `samples`
/// noisy copies (paper: 100, ImageNet 25), and it holds up to their sampling error.
#[derive(Clone, Debug, PartialEq)]
pub struct LBound {
    /// The noise that is averaged over.
    pub smoothing: Smoothing,
    /// Noisy copies to average over; 0: the deterministic v.
    pub samples: u32,
    /// How many classes count as right.
    pub top_k: usize,
    /// Seed of the noise.
    pub seed: u64,
}

impl LBound {
    /// The deterministic bound, top-1.
    pub fn new(smoothing: Smoothing) -> Self {
        LBoundParams::default().plan(smoothing, 0)
    }

    /// Refuses what makes no sense for this network.
    ///
    /// # Errors
    /// k out of range.
    pub fn check(&self, model: &(impl Classify + ?Sized)) -> Result<(), CertifyError> {
        check_top_k(self.top_k, model.classes())?;
        Ok(())
    }
}

/// The bound of one image.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The image.
    pub index: u32,
    /// Its class y.
    pub label: usize,
    /// The class with the largest p.
    pub predict: usize,
    /// Whether y is among the top k.
    pub correct: bool,
    /// [`lbound_radius`]: below 0 where y is not among the top k.
    pub radius: f64,
    /// The probit bound, of the same sign and at least as far from 0.
    pub probit: f64,
    /// p_y.
    pub p_label: f64,
    /// The k-th largest p of the other classes: `max_{i != y} p_i` for k = 1, and
    /// p_(k+1) where y is among the top k.
    pub p_other: f64,
    /// The one-pass radius of the predicted class ([`one_pass_radius`]); `None` for
    /// a mean over noisy copies, which is no single pass.
    pub one_pass: Option<f64>,
    /// Wall-clock seconds; those of a batch are shared by its samples.
    pub seconds: f64,
}

/// `sigma * sqrt(pi/2) * (p_label - p_other)`, the bound for a classifier that is
/// exactly an average over N(0, sigma^2 I).
pub fn lbound_radius(sigma: f64, p_label: f64, p_other: f64) -> f64 {
    sigma * std::f64::consts::FRAC_PI_2.sqrt() * (p_label - p_other)
}

/// The L-bounds of all images, in order.
///
/// # Errors
/// As [`certify_all`](crate::certify_all).
pub fn lbound_all(
    model: &(impl Classify + ?Sized),
    images: impl IntoIterator<Item = Images>,
    plan: &LBound,
    batch: usize,
    observer: &mut (impl OutcomeObserver<Bound> + ?Sized),
) -> Result<(), CertifyError> {
    plan.check(model)?;
    let map = |Finished {
                   image,
                   task,
                   seconds,
               }: Finished<Mean<'_>>| {
        let p = task.mean();
        let k = plan.top_k;
        let p_label = p[image.label];
        let other = largest_other(&p, image.label, k);
        let p_other = p[other];
        let probits = probit(&p, image.label) - probit(&p, other);
        Bound {
            index: image.index,
            label: image.label,
            predict: argmax(&p),
            correct: in_top_k(&p, image.label, k),
            radius: lbound_radius(plan.smoothing.sigma(), p_label, p_other),
            probit: 0.5 * plan.smoothing.sigma() * probits,
            p_label,
            p_other,
            one_pass: (plan.samples == 0).then(|| one_pass_radius(plan.smoothing.sigma(), &p)),
            // A stochastic model has no clean pass.
            seconds: if plan.samples == 0 {
                seconds.clean
            } else {
                seconds.other
            },
        }
    };
    sample_all(
        model,
        images,
        &mut Plan(plan),
        batch,
        &mut Mapped { observer, map },
    )
}

/// The class with the k-th largest value among those other than `class`.
fn largest_other(p: &[f64], class: usize, k: usize) -> usize {
    let mut others: Vec<usize> = (0..p.len()).filter(|other| *other != class).collect();
    others.sort_by(|a, b| p[*b].total_cmp(&p[*a]));
    others[k - 1]
}

/// `Phi^-1` of a class's probability. Near 1 it is taken from what the other classes
/// have, which keeps its digits; probabilities that are 0 in f64 count as the
/// smallest positive number.
fn probit(p: &[f64], class: usize) -> f64 {
    let quantile = |p: f64| normal_quantile(p.max(f64::MIN_POSITIVE));
    if p[class] <= 0.5 {
        return quantile(p[class]);
    }
    let others = p.iter().enumerate().filter(|(other, _)| *other != class);
    -quantile(others.map(|(_, p)| p).sum())
}

struct Plan<'p>(&'p LBound);

impl<'p> Start for Plan<'p> {
    type Task = Mean<'p>;

    fn first_request(&self) -> u32 {
        self.0.samples
    }

    fn start(&mut self, images: &[Image], logits: &[f32]) -> Vec<Result<Self::Task, CertifyError>> {
        let classes = logits.len() / images.len();
        let mean = |(row, image): (&[f32], &Image)| {
            self.0.smoothing.check(image)?;
            let mut task = Mean {
                plan: self.0,
                n: 0,
                sum: vec![0.0; classes],
            };
            if self.0.samples == 0 {
                task.add(row);
            }
            Ok(task)
        };
        let rows = logits.chunks_exact(classes).zip(images);
        rows.map(mean).collect()
    }
}

/// The mean softmax.
struct Mean<'p> {
    plan: &'p LBound,
    n: u32,
    sum: Vec<f64>,
}

impl Mean<'_> {
    fn add(&mut self, logits: &[f32]) {
        for (sum, p) in self.sum.iter_mut().zip(softmax(logits)) {
            *sum += p;
        }
        self.n += 1;
    }

    fn mean(self) -> Vec<f64> {
        self.sum
            .into_iter()
            .map(|sum| sum / f64::from(self.n))
            .collect()
    }
}

impl Task for Mean<'_> {
    fn request(&self) -> Option<Request> {
        let LBound {
            smoothing,
            samples,
            seed,
            ..
        } = self.plan;
        (self.n < *samples).then(|| Request {
            noise: smoothing.noise(*seed, Purpose::Prediction),
            first: self.n,
            count: samples - self.n,
        })
    }

    fn receive(&mut self, logits: &[f32]) {
        self.add(logits);
    }
}

/// Median and mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Centre {
    /// Half are larger.
    pub median: f64,
    /// The mean.
    pub mean: f64,
}

impl Centre {
    /// Of some values; `None` if there are none.
    fn of(mut values: Vec<f64>) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let half = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[half]
        } else {
            0.5 * (values[half - 1] + values[half])
        };
        Some(Self {
            median,
            mean: values.iter().sum::<f64>() / values.len() as f64,
        })
    }
}

/// The L-bound's entries in a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LBoundSummary {
    /// The paper's figure: over entries above 0 only.
    pub positive: Option<Centre>,
    /// How many those are.
    pub positive_images: usize,
    /// Over all images, an image that is already wrong counting as 0.
    pub all: Option<Centre>,
    /// How many those are.
    pub images: usize,
}

impl LBoundSummary {
    /// Of these radii.
    pub fn of(radii: impl IntoIterator<Item = f64>) -> Self {
        let all: Vec<f64> = radii.into_iter().map(|radius| radius.max(0.0)).collect();
        let positive: Vec<f64> = all.iter().copied().filter(|radius| *radius > 0.0).collect();
        Self {
            positive_images: positive.len(),
            images: all.len(),
            positive: Centre::of(positive),
            all: Centre::of(all),
        }
    }
}
