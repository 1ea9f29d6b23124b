//! What a figure promises, in the words every record and report uses.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a result guarantees, and about which classifier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub enum Guarantee {
    /// CERTIFY: about g(x) = argmax_c P(v(x+eta) = c), not about argmax v(x).
    SoundSmoothed {
        /// Failure probability, per image.
        alpha: f64,
    },
    /// L-bound.
    ApproximateIfAverage,
    /// Attacks, distances: what was observed, nothing more.
    Empirical,
}

impl Guarantee {
    /// The sentence.
    pub fn sentence(&self) -> &'static str {
        match self {
            Self::SoundSmoothed { .. } => {
                "sound for the smoothed classifier, with probability 1-alpha"
            }
            Self::ApproximateIfAverage => "approximate: holds if v is exactly a Gaussian average",
            Self::Empirical => "empirical",
        }
    }
}

/// The sentence, with the value of alpha where there is one.
impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())?;
        match self {
            Self::SoundSmoothed { alpha } => write!(f, " (alpha = {alpha}, per image)"),
            _ => Ok(()),
        }
    }
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
    SoundSmoothed { alpha: f64 },
    ApproximateIfAverage,
    Empirical,
}

impl From<Written> for Guarantee {
    fn from(written: Written) -> Self {
        match written.tag {
            Tag::SoundSmoothed { alpha } => Self::SoundSmoothed { alpha },
            Tag::ApproximateIfAverage => Self::ApproximateIfAverage,
            Tag::Empirical => Self::Empirical,
        }
    }
}

impl From<Guarantee> for Written {
    fn from(guarantee: Guarantee) -> Self {
        let tag = match guarantee {
            Guarantee::SoundSmoothed { alpha } => Tag::SoundSmoothed { alpha },
            Guarantee::ApproximateIfAverage => Tag::ApproximateIfAverage,
            Guarantee::Empirical => Tag::Empirical,
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

    #[test]
    fn stands_in_json_as_tag_and_words() {
        let guarantee = Guarantee::SoundSmoothed { alpha: 0.001 };
        let json = serde_json::to_value(guarantee).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "kind": "sound-smoothed",
                "alpha": 0.001,
                "in_words": "sound for the smoothed classifier, with probability 1-alpha \
                             (alpha = 0.001, per image)",
            })
        );
        assert_eq!(
            serde_json::from_value::<Guarantee>(json).unwrap(),
            guarantee
        );
    }
}
