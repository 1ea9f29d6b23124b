//! The noise of a smoothed classifier, and what its certificates are about.

use std::fmt;

use network::{Noise, Purpose};
use record::{NoiseLaw, Norm, SmoothingId};

use crate::CertifyError;
use crate::plan::check_sigma;
use crate::radius;

/// The noise, the norm in which its certificates hold, and the radius that a
/// lower bound on a class's probability gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Smoothing {
    noise: NoiseLaw,
    /// Standard deviation.
    sigma: f64,
}

impl Smoothing {
    /// With noise `N(0, sigma^2)`, in units of pixels scaled to [0, 1].
    ///
    /// # Errors
    /// A level that is not a positive number.
    pub fn gaussian(sigma: f64) -> Result<Self, CertifyError> {
        check_sigma(sigma)?;
        Ok(Self {
            noise: NoiseLaw::Gaussian,
            sigma,
        })
    }

    /// Standard deviation of the noise.
    pub fn sigma(&self) -> f64 {
        self.sigma
    }

    /// The norm of its radii.
    pub fn norm(&self) -> Norm {
        match self.noise {
            NoiseLaw::Gaussian => Norm::L2,
        }
    }

    /// Noise and norm, as records have them.
    pub fn id(&self) -> SmoothingId {
        SmoothingId {
            noise: self.noise,
            norm: self.norm(),
        }
    }

    /// The certified radius of a class whose probability under the noise is at
    /// least `p_lower` (Cohen et al.); 0 for at most 1/2.
    pub fn radius(&self, p_lower: f64) -> f64 {
        match self.noise {
            NoiseLaw::Gaussian => radius::cohen(self.sigma, p_lower),
        }
    }

    /// The noise itself.
    pub fn noise(&self, seed: u64, purpose: Purpose) -> Noise {
        match self.noise {
            NoiseLaw::Gaussian => Noise {
                seed,
                purpose,
                sigma: self.sigma,
            },
        }
    }
}

impl fmt::Display for Smoothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} noise of sigma {}", self.noise, self.sigma)
    }
}
