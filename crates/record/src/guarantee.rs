//! What a figure promises, in the words every record and report uses.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::SmoothingId;

/// What a result guarantees, and about which classifier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub enum Guarantee {
    /// A certificate: about the smoothed classifier, not about argmax v(x).
    SoundSmoothed {
        /// Failure probability, per image.
        alpha: f64,
        /// What the certificate is about.
        about: About,
        /// The noise of the classifier, and the norm of the radius.
        smoothing: SmoothingId,
    },
    /// Certified intervals of real values: about the smoothed outputs, not about
    /// v(x).
    SoundInterval {
        /// Failure probability, per image: all outputs and both ends together.
        alpha: f64,
        /// The largest norm of a perturbation.
        eps: f64,
        /// What of the outputs stays in the interval.
        of: SmoothedValue,
        /// The noise, and the norm of perturbations.
        smoothing: SmoothingId,
    },
    /// The L-bound of a deterministic v.
    ApproximateIfAverage,
    /// The calibrated one-pass radius: about a population of inputs, not about
    /// each of them.
    Calibrated {
        /// The share of inputs that may get a radius that g does not have.
        miss: f64,
        /// With which confidence it is no more.
        confidence: f64,
    },
    /// Attacks, distances: what was observed, nothing more.
    Empirical,
    /// CLEVER: a statistical estimate of a distance, which may be too large.
    Estimate,
}

/// What of an output under noise an interval is about.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SmoothedValue {
    /// Its median.
    Median,
    /// Its mean, cut off at both ends.
    Mean {
        /// Lower values count as this.
        low: f64,
        /// Higher values count as this.
        high: f64,
    },
}

/// What a certificate is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum About {
    /// The class that is most frequent under noise.
    #[default]
    TopOne,
    /// The class of x itself, which a vote found: no radius.
    Vote,
    /// The class with the largest mean probability under noise.
    MeanSoftmax,
    /// The paper's set of k classes.
    Set(usize),
    /// The label's being among the top k.
    LabelInTop(usize),
}

impl Guarantee {
    /// The short form, without alpha and without what the certificate is about.
    pub fn sentence(&self) -> &'static str {
        match self {
            Self::SoundSmoothed { .. } => {
                "sound for the smoothed classifier, with probability 1-alpha"
            }
            Self::SoundInterval { .. } => {
                "sound for the smoothed outputs, with probability 1-alpha"
            }
            Self::ApproximateIfAverage => "approximate: holds if v is exactly a Gaussian average",
            Self::Calibrated { .. } => {
                "calibrated: for inputs drawn like the calibration images, with the confidence \
                 said at most the share said gets a radius that g does not have"
            }
            Self::Empirical => "empirical",
            Self::Estimate => "estimate, not a bound",
        }
    }

    /// The short form with alpha and what the certificate is about, for the cell
    /// of a table.
    pub fn brief(&self) -> String {
        if let Self::Calibrated { miss, confidence } = self {
            return format!("calibrated (miss {miss}, confidence {confidence})");
        }
        let sentence = self.sentence();
        if let Self::SoundInterval { alpha, eps, of, .. } = self {
            let of = match of {
                SmoothedValue::Median => "medians",
                SmoothedValue::Mean { .. } => "means",
            };
            return format!("{sentence} (alpha = {alpha}, per image; {of} within eps = {eps})");
        }
        let Self::SoundSmoothed { alpha, about, .. } = self else {
            return sentence.into();
        };
        let about = match about {
            About::TopOne => String::new(),
            About::Vote => "; about the class of x itself".into(),
            About::MeanSoftmax => "; about the largest mean probability".into(),
            About::Set(k) => format!("; about a set of {k} classes"),
            About::LabelInTop(k) => format!("; about the label being in the top {k}"),
        };
        format!("{sentence} (alpha = {alpha}, per image{about})")
    }
}

/// The whole of it: about which classifier, with which probability, and that it
/// holds for each image by itself.
impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Calibrated { miss, confidence } = self {
            return write!(
                f,
                "for inputs drawn like the calibration images, with confidence {} % at most {} % \
                 of them get a radius that g, the smoothed reference, does not have; an attacked \
                 input is not such an input",
                percent(*confidence),
                percent(*miss)
            );
        }
        f.write_str(self.sentence())?;
        if let Self::SoundInterval {
            alpha,
            eps,
            of,
            smoothing,
        } = self
        {
            let copy = copy(smoothing);
            match of {
                SmoothedValue::Median => write!(f, ": the median of each output of v({copy})")?,
                SmoothedValue::Mean { low, high } => write!(
                    f,
                    ": the mean of each output of v({copy}), cut off at {low} and {high}"
                )?,
            }
            write!(
                f,
                " over the noise, not v(x), stays in its interval for every perturbation of {} \
                 norm up to {eps}; alpha = {alpha} for each image by itself, all outputs and both \
                 ends together, so some {} of 100 images may have a wrong interval",
                smoothing.norm,
                alpha * 100.0
            )?;
            return rounding(f, smoothing);
        }
        let Self::SoundSmoothed {
            alpha,
            about,
            smoothing,
        } = self
        else {
            if *self == Self::Estimate {
                f.write_str(": a class may change at a smaller distance")?;
            }
            return Ok(());
        };
        let copy = copy(smoothing);
        let within = format!(
            "every perturbation of {} norm below the radius",
            smoothing.norm
        );
        match about {
            About::TopOne => write!(
                f,
                ": g(x) = argmax_c P(v({copy}) = c), not argmax v(x), keeps the certified class \
                 for {within}"
            ),
            About::Vote => write!(
                f,
                ": the class, unless it abstains, is g(x) = argmax_c P(v({copy}) = c), not argmax \
                 v(x); about x itself, not about perturbations of it"
            ),
            About::MeanSoftmax => write!(
                f,
                ": g(x) = argmax_c E softmax_c(v({copy})), not argmax v(x) nor the votes of noisy \
                 copies, keeps the certified class for {within}"
            ),
            About::Set(k) => write!(
                f,
                ": for {within}, argmax v({copy}) is in the set of {k} classes more often than \
                 not; not that the label stays among the top {k}"
            ),
            About::LabelInTop(k) => write!(
                f,
                ": for {within}, the label is among the top {k} of v({copy}) more often than not; \
                 not about the top {k} of v(x)"
            ),
        }?;
        let those = match about {
            About::Vote => "votes",
            _ => "certificates",
        };
        write!(
            f,
            "; alpha = {alpha} for each image by itself, so some {} of 100 {those} may be wrong",
            alpha * 100.0
        )?;
        rounding(f, smoothing)
    }
}

/// What v is applied to.
fn copy(smoothing: &SmoothingId) -> &'static str {
    match smoothing.noise.levels() {
        None => "x+eta",
        Some(_) => "q(x+eta)",
    }
}

/// What the proof says about rounding.
fn rounding(f: &mut fmt::Formatter<'_>, smoothing: &SmoothingId) -> fmt::Result {
    let noise = match smoothing.noise.word() {
        "Gaussian" => "noise".to_owned(),
        word => format!("{word} noise"),
    };
    match smoothing.noise.levels() {
        None => write!(
            f,
            "; the {noise} is drawn and added in single precision, whose rounding the proof \
             leaves out"
        ),
        Some(levels) => write!(
            f,
            "; proven for what is computed: q rounds pixels to multiples of 1/{levels}, and \
             the rounded {noise} is drawn exactly"
        ),
    }
}

/// `0.07` as `7`, not as 7.000000000000001.
fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

/// On disk: the tag for programs, the words for people.
#[derive(Serialize, Deserialize)]
struct Written {
    #[serde(flatten)]
    tag: Tag,
    #[serde(default)]
    in_words: String,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Tag {
    SoundSmoothed {
        alpha: f64,
        #[serde(default, skip_serializing_if = "is_top_one")]
        about: About,
        #[serde(default, skip_serializing_if = "SmoothingId::is_default")]
        smoothing: SmoothingId,
    },
    SoundInterval {
        alpha: f64,
        eps: f64,
        of: SmoothedValue,
        #[serde(default, skip_serializing_if = "SmoothingId::is_default")]
        smoothing: SmoothingId,
    },
    ApproximateIfAverage,
    Calibrated {
        miss: f64,
        confidence: f64,
    },
    Empirical,
    Estimate,
}

fn is_top_one(about: &About) -> bool {
    *about == About::TopOne
}

impl From<Written> for Guarantee {
    fn from(written: Written) -> Self {
        match written.tag {
            Tag::SoundSmoothed {
                alpha,
                about,
                smoothing,
            } => Self::SoundSmoothed {
                alpha,
                about,
                smoothing,
            },
            Tag::SoundInterval {
                alpha,
                eps,
                of,
                smoothing,
            } => Self::SoundInterval {
                alpha,
                eps,
                of,
                smoothing,
            },
            Tag::ApproximateIfAverage => Self::ApproximateIfAverage,
            Tag::Calibrated { miss, confidence } => Self::Calibrated { miss, confidence },
            Tag::Empirical => Self::Empirical,
            Tag::Estimate => Self::Estimate,
        }
    }
}

impl From<Guarantee> for Written {
    fn from(guarantee: Guarantee) -> Self {
        let tag = match guarantee {
            Guarantee::SoundSmoothed {
                alpha,
                about,
                smoothing,
            } => Tag::SoundSmoothed {
                alpha,
                about,
                smoothing,
            },
            Guarantee::SoundInterval {
                alpha,
                eps,
                of,
                smoothing,
            } => Tag::SoundInterval {
                alpha,
                eps,
                of,
                smoothing,
            },
            Guarantee::ApproximateIfAverage => Tag::ApproximateIfAverage,
            Guarantee::Calibrated { miss, confidence } => Tag::Calibrated { miss, confidence },
            Guarantee::Empirical => Tag::Empirical,
            Guarantee::Estimate => Tag::Estimate,
        };
        Self {
            tag,
            in_words: guarantee.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoiseLaw, Norm};
    use serde_json::json;

    fn smoothed(about: About) -> Guarantee {
        Guarantee::SoundSmoothed {
            alpha: 0.001,
            about,
            smoothing: SmoothingId::default(),
        }
    }

    fn interval(of: SmoothedValue) -> Guarantee {
        Guarantee::SoundInterval {
            alpha: 0.001,
            eps: 0.5,
            of,
            smoothing: SmoothingId::default(),
        }
    }

    #[test]
    fn an_interval_says_what_stays_in_it() {
        let words = interval(SmoothedValue::Median).to_string();
        for part in [
            "the median of each output",
            "not v(x)",
            "L2 norm up to 0.5",
            "0.1 of 100",
        ] {
            assert!(words.contains(part), "{words}");
        }
        let mean = SmoothedValue::Mean {
            low: 0.0,
            high: 1.0,
        };
        let words = interval(mean).to_string();
        assert!(words.contains("cut off at 0 and 1"), "{words}");
        assert_eq!(
            interval(mean).brief(),
            "sound for the smoothed outputs, with probability 1-alpha (alpha = 0.001, per image; \
             means within eps = 0.5)"
        );
    }

    fn exact() -> Guarantee {
        Guarantee::SoundSmoothed {
            alpha: 0.001,
            about: About::TopOne,
            smoothing: SmoothingId {
                noise: NoiseLaw::Exact { levels: 255 },
                ..SmoothingId::default()
            },
        }
    }

    #[test]
    fn exact_noise_says_what_is_proven_and_float_noise_what_is_not() {
        let words = exact().to_string();
        assert!(words.contains("P(v(q(x+eta)) = c)"), "{words}");
        assert!(words.contains("proven for what is computed"), "{words}");
        let words = smoothed(About::TopOne).to_string();
        assert!(words.contains("rounding the proof leaves out"), "{words}");
        let json = serde_json::to_value(exact()).unwrap();
        let smoothing = json!({"noise": "exact", "levels": 255, "norm": "l2"});
        assert_eq!(json["smoothing"], smoothing);
    }

    #[test]
    fn stands_in_json_as_tag_and_words() {
        let top_one = serde_json::to_value(smoothed(About::TopOne)).unwrap();
        assert_eq!(
            top_one,
            json!({
                "kind": "sound-smoothed",
                "alpha": 0.001,
                "in_words": "sound for the smoothed classifier, with probability 1-alpha: g(x) = \
                             argmax_c P(v(x+eta) = c), not argmax v(x), keeps the certified class \
                             for every perturbation of L2 norm below the radius; alpha = 0.001 for \
                             each image by itself, so some 0.1 of 100 certificates may be wrong; \
                             the noise is drawn and added in single precision, whose rounding \
                             the proof leaves out",
            })
        );
        for guarantee in [
            smoothed(About::TopOne),
            smoothed(About::MeanSoftmax),
            smoothed(About::Set(5)),
            smoothed(About::LabelInTop(5)),
            exact(),
            interval(SmoothedValue::Median),
            interval(SmoothedValue::Mean {
                low: -1.0,
                high: 2.5,
            }),
            Guarantee::ApproximateIfAverage,
            Guarantee::Calibrated {
                miss: 0.07,
                confidence: 0.95,
            },
            Guarantee::Empirical,
            Guarantee::Estimate,
        ] {
            let json = serde_json::to_value(guarantee).unwrap();
            let back: Guarantee = serde_json::from_value(json).unwrap();
            assert_eq!(back, guarantee);
        }
        let set = serde_json::to_value(smoothed(About::Set(5))).unwrap();
        assert_eq!(set["about"], json!({"set": 5}));
        let label = serde_json::to_value(smoothed(About::LabelInTop(5))).unwrap();
        assert_eq!(label["about"], json!({"label-in-top": 5}));
    }

    #[test]
    fn noise_and_norm_stand_in_the_words() {
        let certificate = |noise| Guarantee::SoundSmoothed {
            alpha: 0.001,
            about: About::TopOne,
            smoothing: SmoothingId {
                noise,
                norm: Norm::L1,
            },
        };
        let words = certificate(NoiseLaw::Uniform { levels: Some(255) }).to_string();
        assert!(words.contains("perturbation of L1 norm below"), "{words}");
        assert!(words.ends_with("rounded uniform noise is drawn exactly"));
        let words = certificate(NoiseLaw::Laplace { levels: None }).to_string();
        assert!(words.contains("the Laplace noise is drawn and added in single precision"));
        assert!(words.contains("P(v(x+eta) = c)"), "{words}");
        assert!(
            Guarantee::Estimate
                .to_string()
                .starts_with("estimate, not a bound")
        );
    }

    #[test]
    fn the_words_of_a_file_do_not_matter() {
        let old = json!({
            "kind": "sound-smoothed", "alpha": 0.001,
            "in_words": "sound for the smoothed classifier, with probability 1-alpha (alpha = \
                         0.001, per image)",
        });
        let old: Guarantee = serde_json::from_value(old).unwrap();
        assert_eq!(old, smoothed(About::TopOne));
        let bare: Guarantee = serde_json::from_value(json!({"kind": "empirical"})).unwrap();
        assert_eq!(bare, Guarantee::Empirical);
    }

    #[test]
    fn each_says_what_it_does_not_promise() {
        for (about, words) in [
            (About::TopOne, "not argmax v(x)"),
            (About::MeanSoftmax, "nor the votes of noisy copies"),
            (About::Set(5), "not that the label stays among the top 5"),
            (About::LabelInTop(5), "not about the top 5 of v(x)"),
        ] {
            let text = smoothed(about).to_string();
            assert!(text.contains(words), "{text}");
        }
        assert_eq!(
            smoothed(About::LabelInTop(5)).brief(),
            "sound for the smoothed classifier, with probability 1-alpha (alpha = 0.001, per \
             image; about the label being in the top 5)"
        );
        assert_eq!(Guarantee::Empirical.brief(), "empirical");
        let calibrated = Guarantee::Calibrated {
            miss: 0.07,
            confidence: 0.95,
        };
        let text = calibrated.to_string();
        assert!(
            text.contains("with confidence 95 % at most 7 % of them"),
            "{text}"
        );
        assert!(text.ends_with("an attacked input is not such an input"));
    }
}
