//! The parameters of CERTIFY, and whether they make sense.

use network::{Noise, Purpose};

use crate::Error;
use crate::radius::cohen;
use crate::statistics::{ConfidenceSequence, clopper_pearson_lower};

/// How the class to be certified is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Select {
    /// The most frequent class of `n0` noisy copies: Cohen's, for stochastic
    /// models.
    #[default]
    Noise,
    /// `argmax v(x)`: the paper's, for a deterministic v. One clean pass, no
    /// selection samples.
    Clean,
}

/// What a top-k certificate with k > 1 counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopKRule {
    /// The paper's: `argmax v(x+eta)` is in S, where S is the top k of v(x) (or of
    /// the `n0` votes). Correct if the label is in S. This bounds the mass of S; it
    /// does not say that the label stays among the top k.
    Paper,
    /// The label's class is among the top k of `v(x+eta)`. Its certificate
    /// says: for every perturbation below the radius, the label is among the top k of
    /// the perturbed image's noisy copies more often than not. (That set of
    /// classes has at most `2k-1` members.) No class is chosen, no selection
    /// samples.
    #[default]
    Sound,
}

/// When an anytime certificate stops before `n` samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
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
/// | field | default | purpose | range |
/// |---|---|---|---|
/// | `sigma` | - | noise, in units of pixels scaled to [0, 1] | above 0 |
/// | `n0` | 100 | samples that choose the class | at least 1 with [`Select::Noise`] |
/// | `n` | 10,000 | samples that estimate its probability (anytime: at most) | enough to certify at `alpha` |
/// | `alpha` | 0.001 | probability of a wrong certificate, per image | between 0 and 1 |
/// | `select` | noise | how the class is chosen | |
/// | `top_k` | 1 | how many classes count as right | below the number of classes |
/// | `rule` | sound | what is counted where `top_k` > 1 | |
/// | `anytime` | none | when to stop early | at least 0, above 0 |
/// | `seed` | 0 | of the noise | |
#[derive(Clone, Debug, PartialEq)]
pub struct Certify {
    /// Standard deviation of the noise.
    pub sigma: f64,
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
    /// When to stop early.
    pub anytime: Option<Goal>,
    /// Seed of the noise.
    pub seed: u64,
}

impl Certify {
    /// The defaults at this sigma.
    pub fn new(sigma: f64) -> Self {
        Self {
            sigma,
            n0: 100,
            n: 10_000,
            alpha: 0.001,
            select: Select::default(),
            top_k: 1,
            rule: TopKRule::default(),
            anytime: None,
            seed: 0,
        }
    }

    /// Refuses what makes no sense for a network with this number of classes.
    ///
    /// # Errors
    /// Sigma, alpha, a goal or k out of range; no selection samples; an `n` that
    /// could not certify even if every sample were a hit.
    pub fn check(&self, classes: usize) -> Result<(), Error> {
        check_sigma(self.sigma)?;
        check_alpha(self.alpha)?;
        if self.top_k == 0 || self.top_k >= classes {
            return Err(Error::TopK {
                got: self.top_k,
                classes,
            });
        }
        if self.selects_by_noise() && self.n0 == 0 {
            return Err(Error::Zero { name: "n0" });
        }
        let at_least = match self.anytime {
            Some(Goal::Radius(radius)) if !(radius >= 0.0 && radius.is_finite()) => {
                return Err(Error::Number {
                    name: "radius",
                    at_least: "of at least",
                    got: radius,
                });
            }
            Some(Goal::Tolerance(tolerance)) if !(tolerance > 0.0 && tolerance.is_finite()) => {
                return Err(Error::Number {
                    name: "tolerance",
                    at_least: "above",
                    got: tolerance,
                });
            }
            Some(Goal::Radius(radius)) => radius,
            _ => 0.0,
        };
        let enough = |n| {
            let p_lower = self.p_lower(n, n);
            p_lower > 0.5 && cohen(self.sigma, p_lower) >= at_least
        };
        if self.n > 0 && enough(self.n) {
            return Ok(());
        }
        let purpose = if at_least > 0.0 {
            format!("certify a radius of {at_least}")
        } else {
            "certify anything".to_owned()
        };
        Err(Error::TooFewSamples {
            n: self.n,
            purpose,
            alpha: self.alpha,
            needed: smallest(enough),
        })
    }

    /// The lower bound on the probability of a hit.
    pub(crate) fn p_lower(&self, hits: u32, n: u32) -> f64 {
        if self.anytime.is_some() {
            ConfidenceSequence::new(self.alpha).lower(hits.into(), n.into())
        } else {
            clopper_pearson_lower(hits.into(), n.into(), self.alpha)
        }
    }

    /// Whether the class comes from noisy votes.
    pub(crate) fn selects_by_noise(&self) -> bool {
        self.select == Select::Noise && !self.follows_label()
    }

    /// Whether the class is the label's.
    pub(crate) fn follows_label(&self) -> bool {
        self.top_k > 1 && self.rule == TopKRule::Sound
    }

    pub(crate) fn noise(&self, purpose: Purpose) -> Noise {
        Noise {
            seed: self.seed,
            purpose,
            sigma: self.sigma as f32,
        }
    }
}

pub(crate) fn check_sigma(sigma: f64) -> Result<(), Error> {
    if sigma > 0.0 && sigma.is_finite() {
        Ok(())
    } else {
        Err(Error::Sigma { got: sigma })
    }
}

pub(crate) fn check_alpha(alpha: f64) -> Result<(), Error> {
    if alpha > 0.0 && alpha < 1.0 {
        Ok(())
    } else {
        Err(Error::Alpha { got: alpha })
    }
}

/// The smallest n that is enough, where more than enough is enough.
pub(crate) fn smallest(enough: impl Fn(u32) -> bool) -> Option<u32> {
    if !enough(u32::MAX) {
        return None;
    }
    let (mut too_few, mut sufficient) = (0, u32::MAX);
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
