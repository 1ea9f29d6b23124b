//! The measurements that there are.

mod attack;
mod calibrate;
mod certify;
mod fidelity;
mod lbound;

pub use attack::{AttackFigures, AttackOptions, Attacked};
pub use calibrate::{Calibrated, CalibrationFigures};
pub(crate) use certify::check_said;
pub use certify::{Certified, CertifiedFigures};
pub use fidelity::{AverageFigures, Compared};
pub use lbound::{BoundFigures, Bounded};

use ::certify::NoiseChoice;
use settings::settings;

settings! {
    /// The noise of a smoothed classifier.
    pub struct NoiseLevel {
        /// Noise level, in units of pixels scaled to [0, 1] [default: the one
        /// stored in the model, if any].
        sigma: Option<f64> = None,
    }
}

settings! {
    /// How the noise of a certificate is drawn.
    pub struct NoiseOptions {
        /// How the noise is drawn: exact (certificates are proven for what is
        /// computed; for pixels on a grid, such as 8-bit images) or float
        /// [default: exact where the pixels are on a grid].
        noise: Option<NoiseChoice> = None,
    }
}

/// `0.9173` as `91.73 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", fixed(100.0 * share, 2))
}

/// A number with so many digits behind the point; what rounds to zero is no less
/// than zero.
pub fn fixed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.strip_prefix('-') {
        Some(zero) if zero.bytes().all(|byte| matches!(byte, b'0' | b'.')) => zero.to_owned(),
        _ => text,
    }
}

/// Whether a number of a row is the one that follows from the rest of it, up to the
/// last digits, in which machines may differ.
fn agrees(name: &str, found: f64, expected: f64, from: &str) -> Result<(), String> {
    if (found - expected).abs() <= 1e-9 * expected.abs().max(1.0) {
        return Ok(());
    }
    Err(format!("{name} is {found}, but {from} give {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_17_point_23_nothing_is_minus_zero() {
        for (value, digits, text) in [
            (-0.0, 0, "0"),
            (-0.00001, 4, "0.0000"),
            (-0.00006, 4, "-0.0001"),
            (0.25, 1, "0.2"),
            (-12.5, 2, "-12.50"),
        ] {
            assert_eq!(fixed(value, digits), text);
        }
        let nothing: f64 = std::iter::empty::<f64>().sum();
        assert_eq!(percent(nothing), "0.00 %");
    }
}
