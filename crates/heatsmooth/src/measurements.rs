//! The measurements that there are.

mod attack;
mod certify;
mod fidelity;
mod lbound;

pub use attack::{AttackFigures, AttackOptions, Attacked};
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
    format!("{:.2} %", 100.0 * share)
}
