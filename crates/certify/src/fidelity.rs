//! Fidelity: how close v(x) is to the average of f over noise at x.

use network::{Classify, Distribution, Images, Noise, Purpose};

use settings::{SettingError, settings};

use crate::CertifyError;
use crate::image::{Image, finite};
use crate::observer::{Mapped, OutcomeObserver};
use crate::plan::check_sigma;
use crate::sample::{Finished, Request, Start, Task, sample_all};
use network::logits::{argmax, softmax, vote};

settings! {
    /// What can be said about a measurement of fidelity;
    /// [`FidelityParams::plan`] makes a [`Fidelity`] of it.
    pub struct FidelityParams {
        /// Noisy copies an average.
        samples: u32 = 100,
        /// Compare with the averages at other noise levels, too, from 0 to 4 sigma,
        /// and so find the effective sigma: eleven times the passes; true or false
        /// [default: true].
        sweep: bool = true,
    }
}

impl FidelityParams {
    /// The plan for Gaussian noise of this level.
    pub fn plan(&self, sigma: f64, seed: u64) -> Fidelity {
        const FACTORS: [f64; 11] = [0.0, 0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0];
        Fidelity {
            distribution: Distribution::Gaussian,
            sigma,
            samples: self.samples,
            levels: match self.sweep {
                true => FACTORS.map(|f| f * sigma).to_vec(),
                false => vec![],
            },
            seed,
        }
    }
}

/// Compares v with the Monte-Carlo average of f over `samples` noisy copies, at
/// `sigma` and at each of `levels`, with the same noise scaled, so that the
/// distance is a smooth function of the level.
#[derive(Clone, Debug, PartialEq)]
pub struct Fidelity {
    /// How the noise is distributed that v claims to average over.
    pub distribution: Distribution,
    /// Its standard deviation.
    pub sigma: f64,
    /// Noisy copies an average.
    pub samples: u32,
    /// Further noise levels, 0 allowed (f itself), among which the
    /// [effective sigma](crate::EffectiveSigma) is sought.
    pub levels: Vec<f64>,
    /// Seed of the noise.
    pub seed: u64,
}

impl Fidelity {
    /// The defaults at this sigma.
    pub fn new(sigma: f64) -> Self {
        FidelityParams::default().plan(sigma, 0)
    }

    /// Sigma and the levels, in increasing order, each once.
    pub fn all_levels(&self) -> Vec<f64> {
        let mut levels = self.levels.clone();
        levels.push(self.sigma);
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        levels
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// Sigma or a level out of range, fewer than 2 samples.
    pub fn check(&self) -> Result<(), CertifyError> {
        check_sigma(self.sigma)?;
        if let Some(level) = self
            .levels
            .iter()
            .find(|level| !(**level >= 0.0 && level.is_finite()))
        {
            return Err(SettingError::value("noise level", level, "at least 0").into());
        }
        if self.samples < 2 {
            return Err(SettingError::value("samples", self.samples, "at least 2").into());
        }
        Ok(())
    }
}

/// Distances to the average `mean f(x + eta)`, in one space (logits,
/// probabilities or votes).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FidelityDistances {
    /// `||v(x) - mean||`.
    pub v: f64,
    /// `||f(x) - mean||`: what no smoothing at all scores.
    pub f: f64,
    /// `sqrt(sum of the squared standard errors of the mean's components)`: how far
    /// from the exact average the Monte-Carlo one is expected to be.
    pub standard_error: f64,
    /// Distance from the mean at the next lower level; 0 at the lowest.
    pub step: f64,
    /// Whether v(x) and the mean choose the same class.
    pub v_agrees: bool,
    /// Whether f(x) and the mean choose the same class.
    pub f_agrees: bool,
}

/// Distances at one noise level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtLevel {
    /// The noise.
    pub sigma: f64,
    /// Of logits.
    pub logits: FidelityDistances,
    /// Of softmax outputs.
    pub probabilities: FidelityDistances,
    /// Of v's softmax outputs from the shares of the noise for which f chooses
    /// each class; f itself gives its whole vote to one.
    pub votes: FidelityDistances,
}

/// The fidelity of one image.
#[derive(Clone, Debug, PartialEq)]
pub struct FidelityOutcome {
    /// The image.
    pub index: u32,
    /// Its class.
    pub label: usize,
    /// At all levels, the plan's sigma included, in increasing order.
    pub levels: Vec<AtLevel>,
    /// Wall-clock seconds; those of a batch are shared by its samples.
    pub seconds: f64,
}

impl FidelityOutcome {
    /// Distances at one of the plan's levels, or at its sigma.
    pub fn at(&self, sigma: f64) -> Option<&AtLevel> {
        self.levels.iter().find(|at| at.sigma == sigma)
    }
}

/// Measures all images, in order.
///
/// # Errors
/// As [`certify_all`](crate::certify_all); networks of different shape.
pub fn fidelity_all(
    v: &(impl Classify + ?Sized),
    f: &(impl Classify + ?Sized),
    images: impl IntoIterator<Item = Images>,
    plan: &Fidelity,
    batch: usize,
    observer: &mut (impl OutcomeObserver<FidelityOutcome> + ?Sized),
) -> Result<(), CertifyError> {
    plan.check()?;
    if (v.input(), v.classes()) != (f.input(), f.classes()) {
        return Err(CertifyError::Networks {
            first: (v.input().to_string(), v.classes()),
            second: (f.input().to_string(), f.classes()),
        });
    }
    let map = |Finished {
                   image,
                   task,
                   seconds,
               }: Finished<Averages<'_>>| FidelityOutcome {
        index: image.index,
        label: image.label,
        levels: task.distances(),
        seconds: seconds.total(),
    };
    let mut start = Plan { plan, v };
    sample_all(f, images, &mut start, batch, &mut Mapped { observer, map })
}

struct Plan<'p, V: ?Sized> {
    plan: &'p Fidelity,
    v: &'p V,
}

impl<'p, V: Classify + ?Sized> Start for Plan<'p, V> {
    type Task = Averages<'p>;

    fn first_request(&self) -> u32 {
        self.plan.samples
    }

    fn start(&mut self, images: &[Image], f: &[f32]) -> Vec<Result<Self::Task, CertifyError>> {
        let classes = self.v.classes();
        let pixels: Vec<f32> = images
            .iter()
            .flat_map(|image| image.pixels.iter().copied())
            .collect();
        let mut v = vec![0.0; images.len() * classes];
        if let Err(error) = self.v.logits(&pixels, &mut v) {
            let failed = || Err(CertifyError::from(error.clone()));
            return images.iter().map(|_| failed()).collect();
        }
        let rows = v.chunks_exact(classes).zip(f.chunks_exact(classes));
        images
            .iter()
            .zip(rows)
            .map(|(image, (v, f))| finite(v, image.index).map(|()| Averages::new(self.plan, v, f)))
            .collect()
    }
}

/// Running sums at one level, in one space.
#[derive(Clone)]
struct Sums {
    v: Vec<f64>,
    f: Vec<f64>,
    /// Of `x - f`: the shift keeps the squares free of cancellation.
    sum: Vec<f64>,
    squares: Vec<f64>,
    n: u32,
}

impl Sums {
    fn new(v: Vec<f64>, f: Vec<f64>) -> Self {
        let zeros = vec![0.0; v.len()];
        Self {
            v,
            f,
            sum: zeros.clone(),
            squares: zeros,
            n: 0,
        }
    }

    fn add(&mut self, values: &[f64]) {
        for (class, value) in values.iter().enumerate() {
            let shifted = value - self.f[class];
            self.sum[class] += shifted;
            self.squares[class] += shifted * shifted;
        }
        self.n += 1;
    }

    /// At level 0, which has no samples, it is f.
    fn mean(&self) -> Vec<f64> {
        let n = f64::from(self.n.max(1));
        self.sum
            .iter()
            .zip(&self.f)
            .map(|(sum, f)| f + sum / n)
            .collect()
    }

    fn distances(&self, lower: Option<&Self>) -> FidelityDistances {
        let n = f64::from(self.n.max(1));
        let mean = self.mean();
        let distance = |point: &[f64]| {
            point
                .iter()
                .zip(&mean)
                .map(|(a, b)| (a - b) * (a - b))
                .sum::<f64>()
                .sqrt()
        };
        let variance = |(sum, squares): (&f64, &f64)| {
            (squares - sum * sum / n).max(0.0) / ((n - 1.0).max(1.0) * n)
        };
        let variances: f64 = self.sum.iter().zip(&self.squares).map(variance).sum();
        FidelityDistances {
            v: distance(&self.v),
            f: distance(&self.f),
            standard_error: variances.sqrt(),
            step: lower.map_or(0.0, |lower| distance(&lower.mean())),
            v_agrees: argmax(&self.v) == argmax(&mean),
            f_agrees: argmax(&self.f) == argmax(&mean),
        }
    }
}

/// A noise level, and the sums of logits, of probabilities and of votes.
type Level = (f64, [Sums; 3]);

fn wide(row: &[f32]) -> Vec<f64> {
    row.iter().map(|&x| f64::from(x)).collect()
}

/// The averages of one image, by level.
struct Averages<'p> {
    plan: &'p Fidelity,
    levels: Vec<Level>,
}

impl<'p> Averages<'p> {
    fn new(plan: &'p Fidelity, v: &[f32], f: &[f32]) -> Self {
        let sums = [
            Sums::new(wide(v), wide(f)),
            Sums::new(softmax(v), softmax(f)),
            Sums::new(softmax(v), vote(f)),
        ];
        Self {
            plan,
            levels: plan
                .all_levels()
                .into_iter()
                .map(|level| (level, sums.clone()))
                .collect(),
        }
    }

    fn distances(&self) -> Vec<AtLevel> {
        let lower = std::iter::once(None).chain(self.levels.iter().map(Some));
        let at = |((sigma, sums), lower): (&Level, Option<&Level>)| {
            let of = |space: usize| sums[space].distances(lower.map(|(_, sums)| &sums[space]));
            AtLevel {
                sigma: *sigma,
                logits: of(0),
                probabilities: of(1),
                votes: of(2),
            }
        };
        self.levels.iter().zip(lower).map(at).collect()
    }

    /// The level that is being sampled; level 0 needs no samples.
    fn current(&self) -> Option<usize> {
        self.levels
            .iter()
            .position(|(level, sums)| *level > 0.0 && sums[0].n < self.plan.samples)
    }
}

impl Task for Averages<'_> {
    fn request(&self) -> Option<Request> {
        let (level, sums) = &self.levels[self.current()?];
        let Fidelity {
            distribution, seed, ..
        } = *self.plan;
        let noise = Noise::float(seed, Purpose::Fidelity, distribution, *level);
        Some(Request {
            noise,
            first: sums[0].n,
            count: self.plan.samples - sums[0].n,
        })
    }

    fn receive(&mut self, row: &[f32]) {
        let Some(current) = self.current() else {
            return;
        };
        let [logits, probabilities, votes] = &mut self.levels[current].1;
        logits.add(&wide(row));
        probabilities.add(&softmax(row));
        votes.add(&vote(row));
    }
}
