//! What a log holds.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What a log holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum LogKind {
    /// Certified radii ([`CertifyRow`](crate::CertifyRow)).
    Certify,
    /// Adversarial distances ([`AttackRow`](crate::AttackRow)).
    Attack,
    /// L-bound radii ([`LboundRow`](crate::LboundRow)).
    Lbound,
    /// Distances to the Gaussian average ([`FidelityRow`](crate::FidelityRow)).
    Fidelity,
    /// One-pass radii beside certified ones ([`CalibrationRow`](crate::CalibrationRow)).
    Calibrate,
    /// Estimated distances ([`CleverRow`](crate::CleverRow)).
    Clever,
    /// Intervals of real values ([`IntervalRow`](crate::IntervalRow)).
    Interval,
    /// Classes and ranks of labels ([`AccuracyRow`](crate::AccuracyRow)).
    Accuracy,
    /// Rows that another crate defines; made by [`LogKind::own`].
    Own(Cow<'static, str>),
}

impl LogKind {
    /// A kind of one's own. The name must not be one of those above.
    pub const fn own(name: &'static str) -> Self {
        Self::Own(Cow::Borrowed(name))
    }

    /// Its name, as manifests have it.
    pub fn name(&self) -> &str {
        match self {
            Self::Certify => "certify",
            Self::Attack => "attack",
            Self::Lbound => "lbound",
            Self::Fidelity => "fidelity",
            Self::Calibrate => "calibrate",
            Self::Clever => "clever",
            Self::Interval => "interval",
            Self::Accuracy => "accuracy",
            Self::Own(name) => name,
        }
    }
}

impl fmt::Display for LogKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<String> for LogKind {
    fn from(name: String) -> Self {
        let known = [
            Self::Certify,
            Self::Attack,
            Self::Lbound,
            Self::Fidelity,
            Self::Calibrate,
            Self::Clever,
            Self::Interval,
            Self::Accuracy,
        ];
        let found = known.into_iter().find(|kind| kind.name() == name);
        found.unwrap_or(Self::Own(name.into()))
    }
}

impl From<LogKind> for String {
    fn from(kind: LogKind) -> Self {
        kind.name().into()
    }
}
