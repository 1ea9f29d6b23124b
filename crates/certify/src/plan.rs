//! The parameters of CERTIFY, and whether they make sense.

use network::{Classify, Noise, Purpose};
use record::{About, Guarantee};
use settings::{SettingError, choices, settings};

use crate::CertifyError;
use crate::anytime::{Prior, Watch};
use crate::smoothing::Smoothing;
use crate::statistics::clopper_pearson_lower;
use crate::tally::Tally;

choices! {
    /// How the class to be certified is chosen.
    pub enum Select {
        /// The most frequent class of `n0` noisy copies: Cohen's, for stochastic
        /// models.
        Noise = "noise",
        /// `argmax v(x)`: the paper's, for a deterministic v. One clean pass, no
        /// selection samples.
        Clean = "clean",
    }
}

choices! {
    /// What a top-k certificate with k > 1 counts.
    pub enum TopKRule {
        /// The paper's: `argmax v(x+eta)` is in S, where S is the top k of v(x) (or of
        /// the `n0` votes). Correct if the label is in S. This bounds the mass of S; it
        /// does not say that the label stays among the top k.
        Paper = "paper",
        /// The label's class is among the top k of `v(x+eta)`. Its certificate
        /// says: for every perturbation below the radius, the label is among the top k of
        /// the perturbed image's noisy copies more often than not. (That set of
        /// classes has at most `2k-1` members.) No class is chosen, no selection
        /// samples.
        Sound = "sound",
    }
}

choices! {
    /// What a certificate rests on.
    pub enum Evidence {
        /// How often the class is the noisy copies' answer: Cohen's smoothed
        /// classifier, argmax_c P(v(x+eta) = c).
        Votes = "votes",
        /// The class's mean probability over noisy copies: the classifier argmax_c
        /// E softmax_c(v(x+eta)).
        MeanSoftmax = "mean-softmax",
    }
}

choices! {
    /// Which classes are bounded.
    pub enum Sides {
        /// The chosen class, from below; all others share the rest.
        One = "one",
        /// Every other class from above as well: for many classes, or a class with
        /// less than half of the votes.
        Both = "both",
    }
}

settings! {
    /// What can be said about a certification; [`CertifyParams::plan`] makes a
    /// [`Certify`] of it.
    pub struct CertifyParams {
        /// Samples that choose the class.
        n0: u32 = 100,
        /// Samples that estimate its probability; at most so many with anytime or
        /// pilot.
        n: u32 = 10_000,
        /// Failure probability, for each image.
        alpha: f64 = 0.001,
        /// How the class is chosen: noise (n0 samples) or clean (argmax v(x), for a
        /// deterministic v).
        select: Select = Select::Noise,
        /// How many classes count as right.
        top_k: usize = 1,
        /// What a top-k certificate counts: sound or paper.
        rule: TopKRule = TopKRule::Sound,
        /// What certifies a class: votes (how often noisy copies give it) or
        /// mean-softmax (its mean probability over them, another classifier).
        certificate: Evidence = Evidence::Votes,
        /// What is bounded: one (the class) or both (all other classes, too)
        /// [default: one for votes, both for mean-softmax].
        sides: Option<Sides> = None,
        /// Stop an image early, by an anytime confidence sequence.
        anytime: bool = false,
        /// Let the first n0 samples choose, image by image, how many of at most n are
        /// counted; images that would hardly be certified are given up.
        pilot: bool = false,
        /// With anytime: stop when "radius >= R" is decided. With pilot: as many samples
        /// as that most probably takes.
        radius: Option<f64> = None,
        /// With anytime or pilot: stop when the radius can hardly grow by more than this
        /// [default: sigma/50, read in the norm].
        tolerance: Option<f64> = None,
        /// With anytime: what is expected of an image before its votes, which need not
        /// be right but saves samples where it is: flat (nothing), one-pass (v's own
        /// answer on the clean image) or pilot (n0 noisy copies). Except with flat,
        /// images that would hardly be certified by more samples are given up.
        prior: Prior = Prior::Flat,
    }
}

impl CertifyParams {
    /// The plan for this noise.
    ///
    /// # Errors
    /// Settings that contradict each other.
    pub fn plan(&self, smoothing: Smoothing, seed: u64) -> Result<Certify, SettingError> {
        if !self.anytime && self.prior != Prior::Flat {
            return Err(SettingError::Ineffective {
                name: "prior".into(),
                reason: "only an anytime certificate expects something".into(),
            });
        }
        if self.anytime && self.pilot {
            return Err(SettingError::Ineffective {
                name: "pilot".into(),
                reason: "an anytime certificate chooses by itself how many samples it takes; its \
                         prior may be a pilot's"
                    .into(),
            });
        }
        let rule = match (self.anytime || self.pilot, self.radius, self.tolerance) {
            (true, Some(_), Some(_)) => {
                return Err(SettingError::Ineffective {
                    name: "tolerance".into(),
                    reason: "radius says when to stop".into(),
                });
            }
            (false, None, None) => None,
            (false, radius, _) => {
                let name = if radius.is_some() {
                    "radius"
                } else {
                    "tolerance"
                };
                return Err(SettingError::Ineffective {
                    name: name.into(),
                    reason: "only an anytime certificate, or one with a pilot, takes fewer than \
                             n samples"
                        .into(),
                });
            }
            (true, Some(radius), None) => Some(StopRule::Radius(radius)),
            (true, None, tolerance) => {
                let usual = smoothing.scale() / 50.0;
                Some(StopRule::Tolerance(tolerance.unwrap_or(usual)))
            }
        };
        Ok(Certify {
            smoothing,
            n0: self.n0,
            n: self.n,
            alpha: self.alpha,
            select: self.select,
            top_k: self.top_k,
            rule: self.rule,
            evidence: self.certificate,
            sides: self.sides.unwrap_or(match self.certificate {
                Evidence::Votes => Sides::One,
                Evidence::MeanSoftmax => Sides::Both,
            }),
            anytime: rule.filter(|_| self.anytime),
            pilot: rule.filter(|_| self.pilot),
            prior: self.prior,
            seed,
        })
    }
}

/// When an anytime certificate stops before `n` samples, and what a pilot chooses them
/// for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StopRule {
    /// When "radius >= R" is decided either way.
    Radius(f64),
    /// When the radius can hardly grow by more than this, at the cap `n`.
    Tolerance(f64),
}

/// CERTIFY of Cohen et al., the paper's variant for a deterministic v, top-k, and
/// anytime certificates.
///
/// With c the chosen class and A hits in n noisy copies:
///
/// ```text
/// p_lower = Beta^-1(alpha; A, n-A+1)            (Clopper-Pearson), or
///           inf { p < A/n : M_n(p) < 1/alpha }   (anytime, ConfidenceSequence)
/// radius  = sigma * Phi^-1(p_lower)   if p_lower > 1/2, else abstain
/// ```
///
/// M_n is a mixture of likelihood ratios; its prior may be centred on what is known
/// before the n samples ([`Prior`]). With a pilot, n is chosen for each image by `n0` other
/// samples, and Clopper-Pearson is taken at this n.
///
/// With both sides, p_lower is taken at alpha/2, p_upper is the largest upper bound
/// of the K-1 other classes, each at alpha/(2(K-1)), and at most 1-p_lower, and
///
/// ```text
/// radius  = sigma/2 * (Phi^-1(p_lower) - Phi^-1(p_upper))   if p_lower > p_upper.
/// ```
///
/// With mean-softmax, both are bounds on mean probabilities
/// ([`MeanBound`](crate::statistics::MeanBound)).
///
/// These are the radii of Gaussian noise; [`Smoothing`] has those of others. With exact noise
/// [`Smoothing::total_variation`] is taken off `p_lower`.
#[derive(Clone, Debug, PartialEq)]
pub struct Certify {
    /// The noise, and the norm of the radii.
    pub smoothing: Smoothing,
    /// Samples for selection.
    pub n0: u32,
    /// Samples for estimation.
    pub n: u32,
    /// Failure probability.
    pub alpha: f64,
    /// How the class is chosen.
    pub select: Select,
    /// How many classes count as right.
    pub top_k: usize,
    /// What is counted where `top_k > 1`.
    pub rule: TopKRule,
    /// What a certificate rests on.
    pub evidence: Evidence,
    /// Which classes are bounded.
    pub sides: Sides,
    /// When to stop early.
    pub anytime: Option<StopRule>,
    /// What the first `n0` samples choose the number of the others for.
    pub pilot: Option<StopRule>,
    /// What is expected of an image where it may stop early.
    pub prior: Prior,
    /// Seed of the noise.
    pub seed: u64,
}

impl Certify {
    /// The defaults for this noise.
    pub fn new(smoothing: Smoothing) -> Self {
        let plan = CertifyParams::default().plan(smoothing, 0);
        plan.expect("the defaults make sense")
    }

    /// Refuses what makes no sense for this network.
    ///
    /// # Errors
    /// Alpha, a goal or k out of range; no selection samples; an `n` that
    /// could not certify even if every sample were a hit.
    pub fn check(&self, model: &(impl Classify + ?Sized)) -> Result<(), CertifyError> {
        check_alpha(self.alpha)?;
        check_top_k(self.top_k, model.classes())?;
        if self.first_votes() && self.n0 == 0 {
            return Err(SettingError::value("n0", 0, "at least 1").into());
        }
        self.check_evidence()?;
        let at_least = match self.anytime.or(self.pilot) {
            Some(StopRule::Radius(radius)) if !(radius >= 0.0 && radius.is_finite()) => {
                return Err(SettingError::value("radius", radius, "at least 0").into());
            }
            Some(StopRule::Tolerance(tolerance)) if !(tolerance > 0.0 && tolerance.is_finite()) => {
                return Err(SettingError::value("tolerance", tolerance, "above 0").into());
            }
            Some(StopRule::Radius(radius)) => radius,
            _ => 0.0,
        };
        let loss = self.smoothing.total_variation(model.input().len());
        let enough = |n| {
            let (lower, upper) = Tally::best(self, model.classes(), n);
            let p_lower = lower - loss;
            let p_upper = (upper + loss).min(1.0 - p_lower);
            p_lower > p_upper && self.smoothing.radius_between(p_lower, p_upper) >= at_least
        };
        if self.n > 0 && enough(self.n) {
            return Ok(());
        }
        let purpose = if at_least > 0.0 {
            format!("certify a radius of {at_least}")
        } else {
            "certify anything".to_owned()
        };
        Err(CertifyError::TooFewSamples {
            n: self.n,
            purpose,
            alpha: self.alpha,
            needed: match self.evidence {
                Evidence::Votes => smallest(u32::MAX, enough),
                // Takes as many steps as samples.
                Evidence::MeanSoftmax => smallest(1 << 20, enough),
            },
        })
    }

    /// Top-k and anytime certificates, and those with a pilot, count one thing.
    fn check_evidence(&self) -> Result<(), SettingError> {
        if self.top_k > 1 && self.prior != Prior::Flat {
            let expected = "flat, for top-k certificates";
            return Err(SettingError::value("prior", self.prior, expected));
        }
        if self.top_k > 1 && self.pilot.is_some() {
            return Err(SettingError::value("top-k", self.top_k, "1, with a pilot"));
        }
        let usual = self.evidence == Evidence::Votes && self.sides == Sides::One;
        let fixed = self.anytime.is_none() && self.pilot.is_none();
        if usual || (self.top_k == 1 && fixed) {
            return Ok(());
        }
        let what = match (self.anytime, self.pilot) {
            (Some(_), _) => "for anytime certificates",
            (None, Some(_)) => "with a pilot",
            (None, None) => "for top-k certificates",
        };
        Err(match self.evidence {
            Evidence::MeanSoftmax => {
                let expected = format!("votes, {what}");
                SettingError::value("certificate", self.evidence, expected)
            }
            Evidence::Votes => {
                let expected = format!("one, {what}");
                SettingError::value("sides", self.sides, expected)
            }
        })
    }

    /// The lower bound on the probability of a hit under the noise that is drawn, of an
    /// image that is watched like this.
    pub(crate) fn p_lower(&self, watch: &Watch, hits: u32, n: u32) -> f64 {
        if self.anytime.is_some() {
            watch.lower(hits, n)
        } else {
            clopper_pearson_lower(hits.into(), n.into(), self.alpha)
        }
    }

    /// The one radius that is to be decided, if there is one.
    pub(crate) fn goal(&self) -> Option<f64> {
        match self.anytime {
            Some(StopRule::Radius(goal)) => Some(goal),
            _ => None,
        }
    }

    /// What this plan's certificates promise.
    pub fn guarantee(&self) -> Guarantee {
        let about = match (self.top_k, self.rule) {
            (1, _) if self.evidence == Evidence::MeanSoftmax => About::MeanSoftmax,
            (1, _) => About::TopOne,
            (k, TopKRule::Paper) => About::Set(k),
            (k, TopKRule::Sound) => About::LabelInTop(k),
        };
        Guarantee::SoundSmoothed {
            alpha: self.alpha,
            about,
            smoothing: self.smoothing.id(),
        }
    }

    /// Whether the class comes from noisy votes.
    pub(crate) fn selects_by_noise(&self) -> bool {
        self.select == Select::Noise && !self.follows_label()
    }

    /// Whether `n0` noisy copies come before those that are counted.
    pub(crate) fn first_votes(&self) -> bool {
        self.selects_by_noise()
            || self.pilot.is_some()
            || (self.anytime.is_some() && self.prior == Prior::Pilot)
    }

    /// Whether the class is the label's.
    pub(crate) fn follows_label(&self) -> bool {
        self.top_k > 1 && self.rule == TopKRule::Sound
    }

    pub(crate) fn noise(&self, purpose: Purpose) -> Noise {
        self.smoothing.noise(self.seed, purpose)
    }
}

/// Pixels are in [0, 1] and single precision: far below this, noise adds nothing to them,
/// and far above its inverse networks overflow.
const LEAST_SIGMA: f64 = 1e-6;

pub(crate) fn check_sigma(sigma: f64) -> Result<(), SettingError> {
    if (LEAST_SIGMA..=1.0 / LEAST_SIGMA).contains(&sigma) {
        return Ok(());
    }
    let expected = match sigma > 0.0 {
        true => "0.000001 to 1000000",
        false => "a positive number",
    };
    // A number with hundreds of digits helps nobody.
    let got = match sigma > 0.0 {
        true => format!("{sigma:e}"),
        false => sigma.to_string(),
    };
    Err(SettingError::value("sigma", got, expected))
}

pub(crate) fn check_alpha(alpha: f64) -> Result<(), SettingError> {
    if alpha > 0.0 && alpha < 1.0 {
        return Ok(());
    }
    Err(SettingError::value(
        "alpha",
        alpha,
        "strictly between 0 and 1",
    ))
}

/// k is at least 1 and below the number of classes.
pub(crate) fn check_top_k(top_k: usize, classes: usize) -> Result<(), SettingError> {
    if (1..classes).contains(&top_k) {
        return Ok(());
    }
    let most = classes.saturating_sub(1);
    Err(SettingError::value("top-k", top_k, format!("1 to {most}")))
}

/// The smallest n up to `most` that is enough, where more than enough is enough.
pub(crate) fn smallest(most: u32, enough: impl Fn(u32) -> bool) -> Option<u32> {
    if !enough(most) {
        return None;
    }
    let (mut too_few, mut sufficient) = (0, most);
    while sufficient - too_few > 1 {
        let middle = too_few + (sufficient - too_few) / 2;
        if enough(middle) {
            sufficient = middle;
        } else {
            too_few = middle;
        }
    }
    Some(sufficient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_says_what_it_promises() {
        for (top_k, rule, about) in [
            (1, TopKRule::Paper, About::TopOne),
            (1, TopKRule::Sound, About::TopOne),
            (5, TopKRule::Paper, About::Set(5)),
            (5, TopKRule::Sound, About::LabelInTop(5)),
        ] {
            let plan = Certify {
                top_k,
                rule,
                ..Certify::new(Smoothing::gaussian(0.25).unwrap())
            };
            let expected = Guarantee::SoundSmoothed {
                alpha: 0.001,
                about,
                smoothing: record::SmoothingId::default(),
            };
            assert_eq!(plan.guarantee(), expected);
        }
    }
}
