//! The measurements that there are.

mod attack;
mod calibrate;
mod certify;
mod clever;
mod fidelity;
mod intervals;
mod lbound;
mod levels;
mod rated;

pub use attack::{AttackFigures, AttackOptions, Attacked};
pub use calibrate::{Calibrated, CalibrationFigures};
pub(crate) use certify::check_said;
pub use certify::{Certified, CertifiedFigures};
pub use clever::{CleverOptions, EstimateFigures, Estimated};
pub use fidelity::{AverageFigures, Compared};
pub(crate) use intervals::refuse_intervals;
pub use intervals::{IntervalFigures, Intervals, OutputFigures, Reached};
pub use lbound::{BoundFigures, Bounded};
pub use levels::{Envelope, LevelRows, NoiseLevels, TimeBudget, certify_levels};
pub(crate) use rated::Rated;

use ::certify::{NoiseChoice, Smoothing};
use network::{Distribution, ModelInfo};
use record::{NoiseLaw, Norm, SmoothingId};
use settings::{SettingError, choices, settings};

use crate::error::Error;

settings! {
    /// The noise of a smoothed classifier.
    pub struct NoiseLevel {
        /// Noise level, its standard deviation, in units of pixels scaled to [0, 1] [default: the one
        /// stored in the model, if any].
        sigma: Option<f64> = None,
    }
}

settings! {
    /// How the Gaussian noise of a certificate is drawn.
    pub struct GaussianNoiseOptions {
        /// How the noise is drawn: exact (certificates are proven for what is
        /// computed; for pixels on a grid, such as 8-bit images) or float
        /// [default: exact where the pixels are on a grid].
        noise: Option<NoiseChoice> = None,
    }
}

settings! {
    /// The noise of a certificate, and the norm of its radii.
    pub struct NoiseOptions {
        /// The noise: exact (Gaussian; certificates are proven for what is computed;
        /// for pixels on a grid, such as 8-bit images), float (Gaussian, in single
        /// precision), uniform or laplace (L1 certificates, exact where the pixels
        /// are on a grid) [default: what the model was made for, exact where the
        /// pixels are on a grid].
        noise: Option<NoiseChoice> = None,
        /// The norm in which radii are given: l1, l2 or linf [default: the noise's
        /// own, l2 for Gaussian noise, l1 for uniform and Laplace].
        norm: Option<NormChoice> = None,
    }
}

choices! {
    /// A norm of perturbations.
    pub enum NormChoice {
        /// The sum of all changes.
        L1 = "l1",
        /// Euclidean.
        L2 = "l2",
        /// The largest change.
        Linf = "linf",
    }
}

impl NormChoice {
    /// As records have it.
    pub fn norm(self) -> Norm {
        match self {
            Self::L1 => Norm::L1,
            Self::L2 => Norm::L2,
            Self::Linf => Norm::Linf,
        }
    }
}

settings! {
    /// The noise that a network is trained on, or averaged over.
    pub struct DistributionOptions {
        /// Distribution of the noise, of standard deviation sigma: gaussian, uniform
        /// or laplace [default: that of the model given, else gaussian].
        noise: Option<DistributionChoice> = None,
    }
}

choices! {
    /// How noise is distributed.
    pub enum DistributionChoice {
        /// N(0, sigma^2).
        Gaussian = "gaussian",
        /// Uniform on [-sqrt(3) sigma, sqrt(3) sigma].
        Uniform = "uniform",
        /// Laplace of scale sigma / sqrt(2).
        Laplace = "laplace",
    }
}

impl DistributionChoice {
    /// As networks have it.
    pub fn distribution(self) -> Distribution {
        match self {
            Self::Gaussian => Distribution::Gaussian,
            Self::Uniform => Distribution::Uniform,
            Self::Laplace => Distribution::Laplace,
        }
    }
}

impl From<Distribution> for DistributionChoice {
    fn from(distribution: Distribution) -> Self {
        match distribution {
            Distribution::Gaussian => Self::Gaussian,
            Distribution::Uniform => Self::Uniform,
            Distribution::Laplace => Self::Laplace,
        }
    }
}

/// The noise of certificates: as chosen, or what the model was made for; exact where
/// the pixels are on a grid of so many levels.
///
/// # Errors
/// A noise level that makes no sense; exact noise for pixels on no grid.
pub(crate) fn smoothing_for(
    choice: Option<NoiseChoice>,
    info: &ModelInfo,
    sigma: f64,
    levels: Option<u32>,
) -> Result<Smoothing, Error> {
    let own = match info.noise {
        Distribution::Gaussian => None,
        Distribution::Uniform => Some(NoiseChoice::Uniform),
        Distribution::Laplace => Some(NoiseChoice::Laplace),
    };
    Ok(Smoothing::chosen(choice.or(own), sigma, levels)?)
}

/// What records say about noise in single precision, where no radius follows from
/// it.
pub(crate) fn float_noise(distribution: Distribution) -> SmoothingId {
    let noise = match distribution {
        Distribution::Gaussian => NoiseLaw::Gaussian,
        Distribution::Uniform => NoiseLaw::Uniform { levels: None },
        Distribution::Laplace => NoiseLaw::Laplace { levels: None },
    };
    let norm = Norm::default();
    SmoothingId { noise, norm }
}

/// Refuses to read a Gaussian radius off a model that was made for other noise.
pub(crate) fn check_gaussian(info: &ModelInfo, what: &str) -> Result<(), Error> {
    let noise = info.noise;
    if noise == Distribution::Gaussian {
        return Ok(());
    }
    Err(Error::refused(
        format!("{what} is about Gaussian averages, and the model was made for {noise} noise"),
        "certify gives it L1 certificates",
    ))
}

/// Refuses noise that is not Gaussian.
pub(crate) fn only_gaussian(choice: Option<NoiseChoice>) -> Result<(), SettingError> {
    match choice {
        Some(noise @ (NoiseChoice::Uniform | NoiseChoice::Laplace)) => {
            let expected = "exact or float: a one-pass radius is that of a Gaussian average";
            Err(SettingError::value("noise", noise, expected))
        }
        _ => Ok(()),
    }
}

/// `1 image`, `2 images`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
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
