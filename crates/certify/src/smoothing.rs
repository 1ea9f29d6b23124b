//! The noise of a smoothed classifier, and what its certificates are about.

use std::fmt;
use std::sync::Arc;

use network::{GridNoise, Noise, NoiseKind, Purpose};
use record::{NoiseLaw, Norm, SmoothingId};
use settings::choices;

use crate::CertifyError;
use crate::grid::GridLaw;
use crate::image::Image;
use crate::plan::check_sigma;
use crate::radius;
use crate::statistics::normal_quantile;

choices! {
    /// How the noise is drawn.
    pub enum NoiseChoice {
        /// Exactly, for pixels that are multiples of 1/255 (or of another step):
        /// certificates are proven for what is computed.
        Exact = "exact",
        /// In single precision, for any pixels: certificates leave out rounding.
        Float = "float",
    }
}

/// The noise, the norm in which its certificates hold, and the radius that a
/// lower bound on a class's probability gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Smoothing {
    law: Law,
    /// Standard deviation.
    sigma: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Law {
    Gaussian,
    Exact {
        table: Arc<GridNoise>,
        /// Total variation between what is drawn and the exact law, for one pixel.
        error: f64,
    },
}

impl Smoothing {
    /// With noise `N(0, sigma^2)` in single precision, in units of pixels scaled
    /// to [0, 1].
    ///
    /// # Errors
    /// A level that is not a positive number.
    pub fn gaussian(sigma: f64) -> Result<Self, CertifyError> {
        check_sigma(sigma)?;
        let law = Law::Gaussian;
        Ok(Self { law, sigma })
    }

    /// With noise `N(0, sigma^2)` rounded to multiples of `1/levels` and drawn
    /// exactly, for images whose pixels are such multiples (8 bits: 255 levels).
    ///
    /// # Errors
    /// A level that is not a positive number, or far too small or large for the
    /// grid.
    pub fn exact(sigma: f64, levels: u32) -> Result<Self, CertifyError> {
        check_sigma(sigma)?;
        let law = GridLaw::gaussian(sigma, levels)?;
        let law = Law::Exact {
            table: Arc::new(law.table(levels)),
            error: law.error,
        };
        Ok(Self { law, sigma })
    }

    /// As chosen, for images on the grid of multiples of `1/levels` or on none;
    /// unless something is chosen, exact wherever there is a grid.
    ///
    /// # Errors
    /// As the two above; exact noise for images that lie on no grid.
    pub fn chosen(
        choice: Option<NoiseChoice>,
        sigma: f64,
        levels: Option<u32>,
    ) -> Result<Self, CertifyError> {
        match (choice, levels) {
            (Some(NoiseChoice::Float), _) | (None, None) => Self::gaussian(sigma),
            (_, Some(levels)) => Self::exact(sigma, levels),
            (Some(NoiseChoice::Exact), None) => Err(CertifyError::NoGrid),
        }
    }

    /// Standard deviation of the noise.
    pub fn sigma(&self) -> f64 {
        self.sigma
    }

    /// The norm of its radii.
    pub fn norm(&self) -> Norm {
        match self.law {
            Law::Gaussian | Law::Exact { .. } => Norm::L2,
        }
    }

    /// Noise and norm, as records have them.
    pub fn id(&self) -> SmoothingId {
        let noise = match &self.law {
            Law::Gaussian => NoiseLaw::Gaussian,
            Law::Exact { table, .. } => NoiseLaw::Exact {
                levels: table.levels(),
            },
        };
        let norm = self.norm();
        SmoothingId { noise, norm }
    }

    /// The certified radius of a class whose probability under the noise is at
    /// least `p_lower` (Cohen et al.); 0 for at most 1/2.
    pub fn radius(&self, p_lower: f64) -> f64 {
        match self.law {
            Law::Gaussian | Law::Exact { .. } => radius::cohen(self.sigma, p_lower),
        }
    }

    /// The certified radius of a class whose probability is at least `p_lower`
    /// where that of every other class is at most `p_upper`:
    /// `sigma/2 (Phi^-1(p_lower) - Phi^-1(p_upper))` for Gaussian noise. The same
    /// holds for mean probabilities, because Phi^-1 of a Gaussian average with values
    /// in [0, 1] is 1/sigma-Lipschitz (Salman et al. 2019, appendix A). 0 where
    /// the class is not ahead.
    pub fn radius_between(&self, p_lower: f64, p_upper: f64) -> f64 {
        if p_upper >= 1.0 - p_lower {
            self.radius(p_lower)
        } else if p_lower > p_upper {
            match self.law {
                Law::Gaussian | Law::Exact { .. } => {
                    let probits = normal_quantile(p_lower) - normal_quantile(p_upper);
                    0.5 * self.sigma * probits
                }
            }
        } else {
            0.0
        }
    }

    /// By how much a probability under the noise that is drawn may differ from the
    /// one that the radius is about: the total variation between both, summed over
    /// the pixels. It is to be taken off every lower bound, and is 0 for noise
    /// in single precision, of which nothing is proven.
    pub fn total_variation(&self, pixels: usize) -> f64 {
        match self.law {
            Law::Gaussian => 0.0,
            Law::Exact { error, .. } => error * pixels as f64,
        }
    }

    /// The noise itself.
    pub fn noise(&self, seed: u64, purpose: Purpose) -> Noise {
        let kind = match &self.law {
            Law::Gaussian => NoiseKind::Gaussian { sigma: self.sigma },
            Law::Exact { table, .. } => NoiseKind::Grid(Arc::clone(table)),
        };
        Noise {
            seed,
            purpose,
            kind,
        }
    }

    /// Refuses an image that the noise is not made for.
    pub(crate) fn check(&self, image: &Image) -> Result<(), CertifyError> {
        let Law::Exact { table, .. } = &self.law else {
            return Ok(());
        };
        let levels = table.levels() as f32;
        let off = |pixel: &f32| (pixel * levels).round() / levels != *pixel;
        match image.pixels.iter().position(off) {
            None => Ok(()),
            Some(position) => Err(CertifyError::OffGrid {
                image: image.index,
                position,
                got: image.pixels[position],
                levels: table.levels(),
            }),
        }
    }
}

impl fmt::Display for Smoothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} noise of sigma {}", self.id().noise, self.sigma)
    }
}
