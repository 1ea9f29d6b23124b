//! What a result promises, in words.

use std::fmt;

use crate::plan::{Certify, TopKRule};

/// What a result promises, and about which classifier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Guarantee {
    /// A certificate.
    Smoothed {
        /// Failure probability, per image.
        alpha: f64,
        /// What the certificate is about.
        about: About,
    },
    /// The L-bound of a deterministic v.
    Approximate,
    /// What was observed, nothing more.
    Empirical,
}

/// What a certificate is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The most frequent class.
    TopOne,
    /// The paper's set of k classes.
    Set(usize),
    /// The label's being among the top k.
    LabelInTop(usize),
}

impl Certify {
    /// What this plan's certificates promise.
    pub fn guarantee(&self) -> Guarantee {
        let about = match (self.top_k, self.rule) {
            (1, _) => About::TopOne,
            (k, TopKRule::Paper) => About::Set(k),
            (k, TopKRule::Sound) => About::LabelInTop(k),
        };
        Guarantee::Smoothed {
            alpha: self.alpha,
            about,
        }
    }
}

impl Guarantee {
    /// The short form that stands in records and reports.
    pub fn sentence(&self) -> &'static str {
        match self {
            Self::Smoothed { .. } => "sound for the smoothed classifier, with probability 1-alpha",
            Self::Approximate => "approximate: holds if v is exactly a Gaussian average",
            Self::Empirical => "empirical",
        }
    }
}

/// The whole of it: which classifier, which probability, per image or for the set.
impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.sentence())?;
        let Self::Smoothed { alpha, about } = self else {
            return Ok(());
        };
        match about {
            About::TopOne => write!(
                f,
                ": g(x) = argmax_c P(v(x+eta) = c), not argmax v(x), keeps the certified class \
                 for every perturbation below the radius"
            ),
            About::Set(k) => write!(
                f,
                ": for every perturbation below the radius, argmax v(x+eta) is in the set of {k} \
                 classes more often than not; not that the label stays among the top {k}"
            ),
            About::LabelInTop(k) => write!(
                f,
                ": for every perturbation below the radius, the label is among the top {k} of \
                 v(x+eta) more often than not; not about the top {k} of v(x)"
            ),
        }?;
        write!(
            f,
            "; alpha = {alpha} for each image by itself, so some {} of 100 certificates may be \
             wrong",
            alpha * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_says_what_it_promises() {
        let plan = |top_k, rule| Certify {
            top_k,
            rule,
            ..Certify::new(0.25)
        };
        let text = |top_k, rule| plan(top_k, rule).guarantee().to_string();
        for (top_k, rule, words) in [
            (1, TopKRule::Paper, "not argmax v(x)"),
            (1, TopKRule::Sound, "not argmax v(x)"),
            (
                5,
                TopKRule::Paper,
                "not that the label stays among the top 5",
            ),
            (
                5,
                TopKRule::Sound,
                "the label is among the top 5 of v(x+eta)",
            ),
        ] {
            let text = text(top_k, rule);
            assert!(text.contains(words), "{text}");
            assert!(text.contains("alpha = 0.001 for each image"), "{text}");
            assert!(
                text.starts_with("sound for the smoothed classifier, with probability 1-alpha")
            );
        }
        assert_eq!(Guarantee::Empirical.to_string(), "empirical");
    }
}
