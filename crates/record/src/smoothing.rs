//! The noise that a classifier is smoothed with, and the norm of its radii.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The noise and the norm that a log is about; its scale is the log's sigma.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SmoothingId {
    /// What is drawn.
    #[serde(flatten)]
    pub noise: NoiseLaw,
    /// The norm of the perturbations that a radius bounds.
    pub norm: Norm,
}

/// What noise is drawn, up to its scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "noise", rename_all = "kebab-case")]
pub enum NoiseLaw {
    /// N(0, sigma^2), drawn and added in single precision.
    #[default]
    Gaussian,
    /// N(0, sigma^2) rounded to multiples of `1/levels`, drawn exactly.
    Exact {
        /// Steps from 0 to 1: 255 for images of 8 bits.
        levels: u32,
    },
    /// Uniform on [-sqrt(3) sigma, sqrt(3) sigma], drawn in single precision, or,
    /// with levels, rounded to multiples of `1/levels` and drawn exactly.
    Uniform {
        /// Steps from 0 to 1, if it is exact.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        levels: Option<u32>,
    },
    /// Laplace of scale sigma / sqrt(2), drawn in single precision, or, with
    /// levels, rounded to multiples of `1/levels` and drawn exactly.
    Laplace {
        /// Steps from 0 to 1, if it is exact.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        levels: Option<u32>,
    },
}

/// The norm of the perturbations that a radius bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// The sum of all changes.
    L1,
    /// Euclidean.
    #[default]
    L2,
    /// The largest change.
    Linf,
}

impl Norm {
    /// The factor that makes a radius in this norm of one in the other, for images
    /// of so many numbers d: with exponents p of this norm and q of the other,
    /// `||x||_q <= d^max(0, 1/q - 1/p) ||x||_p`, so a ball of the other norm holds
    /// the ball of this one with `d^-max(0, 1/q - 1/p)` times its radius.
    pub fn reading(self, other: Self, pixels: usize) -> f64 {
        let inverse = |norm| match norm {
            Self::L1 => 1.0,
            Self::L2 => 0.5,
            Self::Linf => 0.0,
        };
        let exponent: f64 = inverse(other) - inverse(self);
        (pixels as f64).powf(-exponent.max(0.0))
    }
}

impl SmoothingId {
    /// Whether it is what logs are about that do not tell: Gaussian noise and
    /// Euclidean radii.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl NoiseLaw {
    /// How the noise `eta` is distributed, as a formula.
    pub fn formula(&self) -> &'static str {
        match self {
            Self::Gaussian | Self::Exact { .. } => "η ~ N(0, σ²I)",
            Self::Uniform { .. } => "η uniform on [-√3σ, √3σ]ᵈ",
            Self::Laplace { .. } => "η ~ Laplace(0, σ/√2)ᵈ",
        }
    }

    /// Steps from 0 to 1 of the grid on which it is drawn exactly; `None`: drawn in
    /// single precision.
    pub fn levels(&self) -> Option<u32> {
        match *self {
            Self::Gaussian => None,
            Self::Exact { levels } => Some(levels),
            Self::Uniform { levels } | Self::Laplace { levels } => levels,
        }
    }

    /// Its distribution, in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Gaussian | Self::Exact { .. } => "Gaussian",
            Self::Uniform { .. } => "uniform",
            Self::Laplace { .. } => "Laplace",
        }
    }
}

/// As a name in tables.
impl fmt::Display for NoiseLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.levels() {
            None => f.pad(self.word()),
            Some(levels) => f.pad(&format!("{}, exact on 1/{levels}", self.word())),
        }
    }
}

/// As a name in tables.
impl fmt::Display for Norm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::L1 => "L1",
            Self::L2 => "L2",
            Self::Linf => "Linf",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_radius_is_read_in_another_norm() {
        let d = 64;
        for (norm, other, factor) in [
            (Norm::L1, Norm::L2, 1.0),
            (Norm::L2, Norm::L2, 1.0),
            (Norm::Linf, Norm::L2, 1.0 / 8.0),
            (Norm::L1, Norm::L1, 1.0),
            (Norm::L2, Norm::L1, 1.0 / 8.0),
            (Norm::Linf, Norm::L1, 1.0 / 64.0),
            (Norm::L1, Norm::Linf, 1.0),
        ] {
            assert_eq!(norm.reading(other, d), factor, "{other} as {norm}");
        }
    }

    #[test]
    fn every_noise_stands_in_json_and_has_a_name() {
        for (noise, norm, text, name) in [
            (
                NoiseLaw::Gaussian,
                Norm::Linf,
                json!({"noise": "gaussian", "norm": "linf"}),
                "Gaussian",
            ),
            (
                NoiseLaw::Exact { levels: 255 },
                Norm::L2,
                json!({"noise": "exact", "levels": 255, "norm": "l2"}),
                "Gaussian, exact on 1/255",
            ),
            (
                NoiseLaw::Uniform { levels: None },
                Norm::L1,
                json!({"noise": "uniform", "norm": "l1"}),
                "uniform",
            ),
            (
                NoiseLaw::Laplace { levels: Some(16) },
                Norm::L1,
                json!({"noise": "laplace", "levels": 16, "norm": "l1"}),
                "Laplace, exact on 1/16",
            ),
        ] {
            let id = SmoothingId { noise, norm };
            assert_eq!(serde_json::to_value(id).unwrap(), text);
            assert_eq!(serde_json::from_value::<SmoothingId>(text).unwrap(), id);
            assert_eq!(noise.to_string(), name);
        }
    }
}
