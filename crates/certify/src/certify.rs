//! CERTIFY: one image's certificate from the votes of its noisy copies.

use network::{Classify, Images, Purpose};

use crate::CertifyError;
use crate::anytime::{Decision, Prior, Watch, next_check};
use crate::image::Image;
use crate::observer::{Mapped, OutcomeObserver};
use crate::pilot::Pilot;
use crate::plan::{Certify, Select};
use crate::sample::{Finished, Request, Start, Task, sample_all};
use crate::tally::Tally;
use network::logits::{argmax, in_top_k, softmax, top_k};

/// What the counts prove about one image.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// The certified class; `None`: abstained.
    pub predict: Option<usize>,
    /// The certified radius in the norm of the noise, 0 where abstained.
    pub radius: f64,
    /// Hits.
    pub n_a: u32,
    /// Samples counted.
    pub n: u32,
    /// Lower bound on the probability of a hit, or on the mean probability.
    pub p_lower: f64,
    /// Upper bound on that of every other class, at most `1 - p_lower`.
    pub p_upper: f64,
    /// The lower bound on the votes of the label's class (top-k: on its being among
    /// the top k).
    pub p_correct_lower: f64,
    /// Radius of Lecuyer et al. from the same counts; NaN unless one side of votes
    /// under Gaussian noise is bounded.
    pub lecuyer: f64,
    /// Radius of Li et al., likewise.
    pub li: f64,
    /// What the prior of an anytime certificate was centred on, unless it is flat, or what
    /// chose the number of samples: v's probability of the class, or its share of the
    /// pilot's votes.
    pub expected: Option<f64>,
    /// With [`StopRule::Radius`](crate::StopRule::Radius): what was decided. Class and radius are
    /// what `p_lower` proves in any case, so a smaller radius is not lost.
    pub decision: Option<Decision>,
}

/// One image's certificate and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct CertifyOutcome {
    /// The image.
    pub index: u32,
    /// Its class.
    pub label: usize,
    /// `argmax v(x)`.
    pub clean: usize,
    /// The certificate.
    pub certificate: Certificate,
    /// Not abstained, and the label is the class (top-k: is covered).
    pub correct: bool,
    /// Noisy copies evaluated, selection included.
    pub samples: u64,
    /// Wall-clock seconds of choosing the class: a clean pass or `n0` samples. The
    /// seconds of a batch are shared by its samples.
    pub classify_seconds: f64,
    /// Wall-clock seconds in all.
    pub seconds: f64,
}

/// Certifies all images, in order; at most `batch` noisy copies are evaluated at
/// once. Neither `batch` nor what else is in flight changes a result.
///
/// # Errors
/// A plan that makes no sense ([`Certify::check`]); an image of the wrong size,
/// outside [0, 1], NaN, or with an impossible label; a network whose output is not
/// finite. Images before the offending one have been delivered.
pub fn certify_all(
    model: &(impl Classify + ?Sized),
    images: impl IntoIterator<Item = Images>,
    plan: &Certify,
    batch: usize,
    observer: &mut (impl OutcomeObserver<CertifyOutcome> + ?Sized),
) -> Result<(), CertifyError> {
    plan.check(model)?;
    let loss = plan.smoothing.total_variation(model.input().len());
    let map = |finished: Finished<Certifier<'_>>| {
        let Finished {
            image,
            task,
            seconds,
        } = finished;
        let by_noise = plan.selects_by_noise();
        CertifyOutcome {
            index: image.index,
            label: image.label,
            clean: task.clean,
            correct: task.correct(),
            samples: u64::from(task.selected) + u64::from(task.n),
            classify_seconds: if by_noise {
                seconds.selection
            } else {
                seconds.clean
            },
            seconds: seconds.total(),
            certificate: task.certificate(),
        }
    };
    let pilot = Pilot::new(plan, loss);
    sample_all(
        model,
        images,
        &mut Plan {
            plan,
            loss,
            pilot: pilot.as_ref(),
        },
        batch,
        &mut Mapped { observer, map },
    )
}

impl Certify {
    /// What so many hits among so many samples of images with so many pixel
    /// values prove by themselves, with a prior that was centred on `expected` (no
    /// matter what with a flat one, or none): the lower bound on the probability of a
    /// hit, and the radius.
    pub fn proves(&self, hits: u32, n: u32, pixels: usize, expected: f64) -> (f64, f64) {
        let loss = self.smoothing.total_variation(pixels);
        let watch = Watch::new(self, expected, loss);
        let p_lower = (self.p_lower(&watch, hits, n) - loss).max(0.0);
        (p_lower, self.smoothing.radius(p_lower))
    }
}

impl Certify {
    /// How its pilot, if it has one, chooses the number of samples of images with so many
    /// pixel values.
    pub fn sizes(&self, pixels: usize) -> Option<Pilot> {
        Pilot::new(self, self.smoothing.total_variation(pixels))
    }
}

#[derive(Clone, Copy)]
struct Plan<'p> {
    plan: &'p Certify,
    /// What is taken off lower bounds.
    loss: f64,
    pilot: Option<&'p Pilot>,
}

impl<'p> Start for Plan<'p> {
    type Task = Certifier<'p>;

    fn first_request(&self) -> u32 {
        let plan = self.plan;
        if plan.first_votes() {
            plan.n0
        } else {
            next_check(plan, 0)
        }
    }

    fn start(&mut self, images: &[Image], logits: &[f32]) -> Vec<Result<Self::Task, CertifyError>> {
        let rows = logits.chunks_exact(logits.len() / images.len());
        images
            .iter()
            .zip(rows)
            .map(|(image, row)| {
                self.plan.smoothing.check(image)?;
                Ok(Certifier::new(self, image, row))
            })
            .collect()
    }
}

/// The work on one image.
struct Certifier<'p> {
    plan: &'p Certify,
    loss: f64,
    pilot: Option<&'p Pilot>,
    label: usize,
    clean: usize,
    /// S: the chosen class, or the paper's top k; empty while it is being chosen.
    chosen: Vec<usize>,
    classes: usize,
    /// Votes of the copies that come before those that are counted.
    votes: Vec<u32>,
    tally: Tally,
    selected: u32,
    expected: Option<f64>,
    watch: Watch,
    n_a: u32,
    n_label: u32,
    n: u32,
    /// The number of samples at which to look next.
    check: u32,
    decision: Option<Decision>,
    finished: bool,
}

impl<'p> Certifier<'p> {
    fn new(plan: &Plan<'p>, image: &Image, clean_logits: &[f32]) -> Self {
        let Plan { plan, loss, pilot } = *plan;
        let chosen = match plan.select {
            _ if plan.follows_label() => vec![image.label],
            Select::Clean => top_k(clean_logits, plan.top_k),
            Select::Noise => Vec::new(),
        };
        let classes = clean_logits.len();
        let expected = match (plan.anytime, plan.prior, chosen.first()) {
            (Some(_), Prior::OnePass, Some(&class)) => Some(softmax(clean_logits)[class]),
            // Noise chooses the class: v's answer is about its own.
            (Some(_), Prior::OnePass, None) => Some(largest(&softmax(clean_logits))),
            _ => None,
        };
        Self {
            plan,
            loss,
            pilot,
            classes,
            expected,
            watch: Watch::new(plan, expected.unwrap_or(0.5), loss),
            tally: match chosen.first() {
                Some(class) => Tally::new(plan, *class, classes),
                None => Tally::Hits,
            },
            label: image.label,
            clean: argmax(clean_logits),
            votes: if plan.first_votes() {
                vec![0; classes]
            } else {
                Vec::new()
            },
            chosen,
            selected: 0,
            n_a: 0,
            n_label: 0,
            n: 0,
            check: next_check(plan, 0),
            decision: None,
            finished: false,
        }
    }

    /// Whether the next copy is one of the first `n0`.
    fn is_first(&self) -> bool {
        self.plan.first_votes() && self.selected < self.plan.n0
    }

    /// The first votes choose the class, and say what to expect of it.
    fn end_first_votes(&mut self) {
        let plan = self.plan;
        if self.chosen.is_empty() {
            self.chosen = top_k(&self.votes, plan.top_k);
            self.tally = Tally::new(plan, self.chosen[0], self.classes);
        }
        if plan.anytime.is_some() && plan.prior == Prior::Pilot {
            let votes = self.votes[self.chosen[0]];
            let share = f64::from(votes) / f64::from(plan.n0);
            self.expected = Some(share);
            self.watch = Watch::new(plan, share, self.loss);
        }
        if let Some(pilot) = self.pilot {
            let votes = self.votes[self.chosen[0]];
            self.expected = Some(f64::from(votes) / f64::from(plan.n0));
            self.check = pilot.samples(votes);
            self.finished = self.check == 0;
        }
        self.votes = Vec::new();
    }

    /// Whether a noisy copy counts for the chosen class.
    fn is_hit(&self, logits: &[f32]) -> bool {
        if self.plan.follows_label() {
            in_top_k(logits, self.label, self.plan.top_k)
        } else {
            self.chosen.contains(&argmax(logits))
        }
    }

    /// The lower bound after so many hits in all samples.
    fn p_lower(&self, hits: u32) -> f64 {
        (self.plan.p_lower(&self.watch, hits, self.n) - self.loss).max(0.0)
    }

    /// The bounds on the chosen class and on every other one.
    fn bounds(&self) -> (f64, f64) {
        let chosen = self.chosen[0];
        let counts = (self.n_a, self.n);
        let (lower, upper) = self.tally.bounds(self.plan, &self.watch, chosen, counts);
        let lower = (lower - self.loss).max(0.0);
        (lower, (upper + self.loss).min(1.0 - lower))
    }

    fn certificate(&self) -> Certificate {
        let plan = self.plan;
        let (p_lower, p_upper) = self.bounds();
        let [lecuyer, li] = match self.tally {
            Tally::Hits => plan.smoothing.other_radii(p_lower),
            _ => [f64::NAN; 2],
        };
        Certificate {
            predict: (p_lower > p_upper).then_some(self.chosen[0]),
            radius: plan.smoothing.radius_between(p_lower, p_upper),
            n_a: self.n_a,
            n: self.n,
            p_lower,
            p_upper,
            p_correct_lower: self.p_lower(self.n_label),
            lecuyer,
            li,
            expected: self.expected,
            decision: self.decision,
        }
    }

    fn correct(&self) -> bool {
        let (p_lower, p_upper) = self.bounds();
        self.chosen.contains(&self.label) && p_lower > p_upper
    }
}

fn largest(p: &[f64]) -> f64 {
    p.iter().copied().fold(0.0, f64::max)
}

impl Task for Certifier<'_> {
    fn request(&self) -> Option<Request> {
        if self.finished {
            None
        } else if self.is_first() {
            let noise = self.plan.noise(Purpose::Selection);
            Some(Request {
                noise,
                first: self.selected,
                count: self.plan.n0 - self.selected,
            })
        } else {
            let noise = self.plan.noise(Purpose::Estimation);
            Some(Request {
                noise,
                first: self.n,
                count: self.check - self.n,
            })
        }
    }

    fn receive(&mut self, logits: &[f32]) {
        if self.is_first() {
            self.votes[argmax(logits)] += 1;
            self.selected += 1;
            if self.selected == self.plan.n0 {
                self.end_first_votes();
            }
            return;
        }
        self.tally.receive(logits);
        self.n += 1;
        self.n_a += u32::from(self.is_hit(logits));
        self.n_label += u32::from(in_top_k(logits, self.label, self.plan.top_k));
        if self.n == self.check {
            let looked = self.watch.look(self.plan, self.loss, self.n_a, self.n);
            (self.finished, self.decision) = looked;
            self.check = next_check(self.plan, self.n);
        }
    }
}
