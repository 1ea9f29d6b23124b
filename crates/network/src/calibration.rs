//! What one pass of a model may promise, as its file keeps it.

use serde::{Deserialize, Serialize};

/// The result of calibrating v against g, the smoothed reference: how far the
/// one-pass radius of v must shrink so that, with confidence `confidence`, at most
/// `miss` of the inputs like the calibration images get a radius that g does not
/// have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Noise level of g, in units of pixels scaled to [0, 1].
    pub sigma: f64,
    /// What is taken off every radius.
    pub shrink: f64,
    /// The largest radius that the samples behind it could have certified.
    pub cap: f64,
    /// The share of inputs that may get a radius that g does not have.
    pub miss: f64,
    /// With which confidence.
    pub confidence: f64,
    /// Failure probability of each certificate of g; part of `miss`.
    pub alpha: f64,
    /// Samples of each certificate of g.
    pub n: u32,
    /// Calibration images.
    pub images: u64,
    /// What was compared, on what.
    pub origin: CalibrationOrigin,
}

/// Which images and which reference a calibration rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationOrigin {
    /// Name of the data set.
    pub data: String,
    /// Its part, `train` or `test`.
    pub split: String,
    /// SHA-256 of its contents.
    pub data_sha256: String,
    /// SHA-256 of the reference f, of which g is the smoothed classifier.
    pub reference_sha256: String,
}

impl Calibration {
    /// The radius that is promised where one pass says `one_pass`; 0: none.
    pub fn radius(&self, one_pass: f64) -> f64 {
        (one_pass - self.shrink).min(self.cap).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_radius_is_shrunk_capped_and_never_below_zero() {
        let calibration = Calibration {
            sigma: 0.25,
            shrink: 0.125,
            cap: 0.5,
            miss: 0.05,
            confidence: 0.95,
            alpha: 0.001,
            n: 1000,
            images: 100,
            origin: CalibrationOrigin::default(),
        };
        for (one_pass, expected) in [(0.0, 0.0), (0.125, 0.0), (0.375, 0.25), (9.0, 0.5)] {
            assert_eq!(calibration.radius(one_pass), expected);
        }
    }
}
