//! PREDICT: the class of the smoothed classifier, or an abstention.

use network::{Classify, Images, Purpose};

use settings::settings;

use crate::CertifyError;
use crate::image::Image;
use crate::observer::{Mapped, OutcomeObserver};
use crate::plan::{check_alpha, smallest};
use crate::sample::{Finished, Request, Start, Task, sample_all};
use crate::smoothing::Smoothing;
use crate::statistics::binomial_test;
use network::logits::{argmax, top_k};

settings! {
    /// What can be said about PREDICT; [`PredictParams::plan`] makes a [`Predict`]
    /// of it.
    pub struct PredictParams {
        /// Noisy copies that vote.
        samples: u32 = 1000,
        /// Failure probability of the vote, for each image.
        alpha: f64 = 0.001,
    }
}

impl PredictParams {
    /// The plan for this noise.
    pub fn plan(&self, smoothing: Smoothing, seed: u64) -> Predict {
        Predict {
            smoothing,
            n: self.samples,
            alpha: self.alpha,
            seed,
        }
    }
}

/// PREDICT of Cohen et al.: `n` noisy copies vote; if the two largest counts differ
/// significantly (two-sided binomial test at `alpha`), the larger one's class,
/// else none. A class other than the smoothed classifier's is returned with
/// probability at most `alpha`.
///
/// With exact noise, `n` times [`Smoothing::total_variation`] is added to the test's
/// p-value: by so much the votes' distribution may differ from that of exact votes.
#[derive(Clone, Debug, PartialEq)]
pub struct Predict {
    /// The noise.
    pub smoothing: Smoothing,
    /// Votes.
    pub n: u32,
    /// Failure probability.
    pub alpha: f64,
    /// Seed of the noise.
    pub seed: u64,
}

impl Predict {
    /// The defaults for this noise.
    pub fn new(smoothing: Smoothing) -> Self {
        PredictParams::default().plan(smoothing, 0)
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// Alpha out of range; an `n` at which even unanimity abstains.
    pub fn check(&self, model: &(impl Classify + ?Sized)) -> Result<(), CertifyError> {
        check_alpha(self.alpha)?;
        let loss = self.smoothing.total_variation(model.input().len());
        let enough = |n: u32| binomial_test(n.into(), n.into()) + f64::from(n) * loss <= self.alpha;
        if self.n > 0 && enough(self.n) {
            return Ok(());
        }
        Err(CertifyError::TooFewSamples {
            n: self.n,
            purpose: "predict any class".to_owned(),
            alpha: self.alpha,
            // Beyond, what n votes may be off exceeds half of alpha.
            needed: smallest((0.5 * self.alpha / loss) as u32, enough),
        })
    }
}

/// What the votes say about one image.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The image.
    pub index: u32,
    /// Its class.
    pub label: usize,
    /// The smoothed classifier's class; `None`: abstained.
    pub predict: Option<usize>,
    /// The class with most votes.
    pub first: usize,
    /// Its votes.
    pub n_a: u32,
    /// Votes of the runner-up.
    pub n_b: u32,
    /// Of the binomial test.
    pub p_value: f64,
    /// Wall-clock seconds; those of a batch are shared by its samples.
    pub seconds: f64,
}

/// Predicts the classes of all images, in order.
///
/// # Errors
/// As [`certify_all`](crate::certify_all).
pub fn predict_all(
    model: &(impl Classify + ?Sized),
    images: impl IntoIterator<Item = Images>,
    plan: &Predict,
    batch: usize,
    observer: &mut (impl OutcomeObserver<Prediction> + ?Sized),
) -> Result<(), CertifyError> {
    let loss = plan.smoothing.total_variation(model.input().len());
    plan.check(model)?;
    let map = |Finished {
                   image,
                   task,
                   seconds,
               }: Finished<Votes<'_>>| {
        let ranked = top_k(&task.counts, 2);
        let n_a = task.counts[ranked[0]];
        let n_b = ranked.get(1).map_or(0, |&class| task.counts[class]);
        let p_value = binomial_test(n_a.into(), (n_a + n_b).into());
        Prediction {
            index: image.index,
            label: image.label,
            predict: (p_value + f64::from(plan.n) * loss <= plan.alpha).then_some(ranked[0]),
            first: ranked[0],
            n_a,
            n_b,
            p_value,
            seconds: seconds.total(),
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

struct Plan<'p>(&'p Predict);

impl<'p> Start for Plan<'p> {
    type Task = Votes<'p>;

    fn first_request(&self) -> u32 {
        self.0.n
    }

    fn start(&mut self, images: &[Image], logits: &[f32]) -> Vec<Result<Self::Task, CertifyError>> {
        let counts = vec![0; logits.len() / images.len()];
        images
            .iter()
            .map(|image| {
                self.0.smoothing.check(image)?;
                Ok(Votes {
                    plan: self.0,
                    n: 0,
                    counts: counts.clone(),
                })
            })
            .collect()
    }
}

struct Votes<'p> {
    plan: &'p Predict,
    n: u32,
    counts: Vec<u32>,
}

impl Task for Votes<'_> {
    fn request(&self) -> Option<Request> {
        let Predict {
            smoothing, n, seed, ..
        } = self.plan;
        (self.n < *n).then(|| Request {
            noise: smoothing.noise(*seed, Purpose::Prediction),
            first: self.n,
            count: n - self.n,
        })
    }

    fn receive(&mut self, logits: &[f32]) {
        self.counts[argmax(logits)] += 1;
        self.n += 1;
    }
}
