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
}

/// The norm of the perturbations that a radius bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Norm {
    /// Euclidean.
    #[default]
    L2,
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
        }
    }
}

/// As a name in tables.
impl fmt::Display for NoiseLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gaussian => f.pad("Gaussian"),
            Self::Exact { levels } => f.pad(&format!("Gaussian, exact on 1/{levels}")),
        }
    }
}

/// As a name in tables.
impl fmt::Display for Norm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::L2 => "L2",
        })
    }
}
