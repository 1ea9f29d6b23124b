//! The noise of a smoothed classifier, and what its certificates are about.

use std::fmt;
use std::sync::Arc;

use network::{Distribution, GridNoise, Noise, NoiseKind, Purpose};
use record::{NoiseLaw, Norm, SmoothingId};
use settings::choices;

use crate::CertifyError;
use crate::grid::{GridLaw, half_width, laplace_scale};
use crate::image::Image;
use crate::plan::check_sigma;
use crate::radius;
use crate::statistics::normal_quantile;

choices! {
    /// Which noise, and how it is drawn.
    pub enum NoiseChoice {
        /// Gaussian, exactly, for pixels that are multiples of 1/255 (or of another
        /// step): certificates are proven for what is computed.
        Exact = "exact",
        /// Gaussian, in single precision, for any pixels: certificates leave out
        /// rounding.
        Float = "float",
        /// Uniform, exactly where the pixels are on a grid, else in single
        /// precision: certificates in the L1 norm.
        Uniform = "uniform",
        /// Laplace, likewise.
        Laplace = "laplace",
    }
}

/// The noise, the norm in which its certificates hold, and the radius that a
/// lower bound on a class's probability gives.
///
/// | noise of standard deviation sigma | own norm | radius |
/// |---|---|---|
/// | Gaussian (Cohen et al. 2019) | L2 | `sigma/2 (Phi^-1(p_A) - Phi^-1(p_B))` |
/// | uniform on `[-a, a]`, `a = sqrt(3) sigma` (Yang et al. 2020) | L1 | `a (p_A - p_B)` |
/// | Laplace of scale `b = sigma/sqrt(2)` (Teng et al. 2020) | L1 | `max(-b ln(1 - p_A + p_B), b/2 ln(p_A/p_B))` |
///
/// A radius can be read in another norm ([`Smoothing::in_norm`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Smoothing {
    distribution: Distribution,
    /// Standard deviation.
    sigma: f64,
    grid: Option<Grid>,
    norm: Norm,
    /// What makes a radius in `norm` of one in the noise's own.
    reading: f64,
}

/// How integer noise is drawn.
#[derive(Clone, Debug, PartialEq)]
struct Grid {
    table: Arc<GridNoise>,
    /// Total variation between what is drawn and the exact law, for one pixel.
    error: f64,
}

impl Smoothing {
    /// With noise `N(0, sigma^2)` in single precision, in units of pixels scaled
    /// to [0, 1].
    ///
    /// # Errors
    /// A level that is not a positive number.
    pub fn gaussian(sigma: f64) -> Result<Self, CertifyError> {
        Self::with(Distribution::Gaussian, sigma, None)
    }

    /// With noise `N(0, sigma^2)` rounded to multiples of `1/levels` and drawn
    /// exactly, for images whose pixels are such multiples (8 bits: 255 levels).
    ///
    /// # Errors
    /// A level that is not a positive number, or far too small or large for the
    /// grid.
    pub fn exact(sigma: f64, levels: u32) -> Result<Self, CertifyError> {
        Self::with(Distribution::Gaussian, sigma, Some(levels))
    }

    /// With noise of this distribution and standard deviation: rounded to multiples
    /// of `1/levels` and drawn exactly, or in single precision.
    ///
    /// # Errors
    /// As the two above.
    pub fn with(
        distribution: Distribution,
        sigma: f64,
        levels: Option<u32>,
    ) -> Result<Self, CertifyError> {
        check_sigma(sigma)?;
        let grid = levels.map(|levels| {
            let law = GridLaw::new(distribution, sigma, levels)?;
            let (table, error) = (Arc::new(law.table(levels)), law.error);
            Ok::<_, CertifyError>(Grid { table, error })
        });
        Ok(Self {
            distribution,
            sigma,
            grid: grid.transpose()?,
            norm: own_norm(distribution),
            reading: 1.0,
        })
    }

    /// As chosen, for images on the grid of multiples of `1/levels` or on none;
    /// unless something is chosen, Gaussian, and exact wherever there is a grid.
    ///
    /// # Errors
    /// As above; exact noise for images that lie on no grid.
    pub fn chosen(
        choice: Option<NoiseChoice>,
        sigma: f64,
        levels: Option<u32>,
    ) -> Result<Self, CertifyError> {
        match (choice, levels) {
            (Some(NoiseChoice::Uniform), _) => Self::with(Distribution::Uniform, sigma, levels),
            (Some(NoiseChoice::Laplace), _) => Self::with(Distribution::Laplace, sigma, levels),
            (Some(NoiseChoice::Float), _) | (None, None) => Self::gaussian(sigma),
            (_, Some(levels)) => Self::exact(sigma, levels),
            (Some(NoiseChoice::Exact), None) => Err(CertifyError::NoGrid),
        }
    }

    /// The same noise with its radii read in this norm, for images of so many
    /// numbers: the largest ball of the norm that lies in the ball of the noise's
    /// own.
    #[must_use]
    pub fn in_norm(self, norm: Norm, pixels: usize) -> Self {
        let reading = norm.reading(own_norm(self.distribution), pixels);
        Self {
            norm,
            reading,
            ..self
        }
    }

    /// Standard deviation of the noise.
    pub fn sigma(&self) -> f64 {
        self.sigma
    }

    /// How the noise is distributed.
    pub fn distribution(&self) -> Distribution {
        self.distribution
    }

    /// The norm of its radii.
    pub fn norm(&self) -> Norm {
        self.norm
    }

    /// What radii are measured against: sigma, as a radius in the norm.
    pub fn scale(&self) -> f64 {
        self.sigma * self.reading
    }

    /// Noise and norm, as records have them.
    pub fn id(&self) -> SmoothingId {
        let levels = self.grid.as_ref().map(|grid| grid.table.levels());
        let noise = match (self.distribution, levels) {
            (Distribution::Gaussian, None) => NoiseLaw::Gaussian,
            (Distribution::Gaussian, Some(levels)) => NoiseLaw::Exact { levels },
            (Distribution::Uniform, levels) => NoiseLaw::Uniform { levels },
            (Distribution::Laplace, levels) => NoiseLaw::Laplace { levels },
        };
        let norm = self.norm;
        SmoothingId { noise, norm }
    }

    /// The certified radius of a class whose probability under the noise is at
    /// least `p_lower`; 0 for at most 1/2.
    pub fn radius(&self, p_lower: f64) -> f64 {
        if p_lower > 0.5 {
            self.radius_ahead(p_lower, 1.0 - p_lower)
        } else {
            0.0
        }
    }

    /// The certified radius of a class whose probability is at least `p_lower`
    /// where that of every other class is at most `p_upper`. The same holds for mean
    /// probabilities: see [`radius`]. 0 where the class is not ahead.
    pub fn radius_between(&self, p_lower: f64, p_upper: f64) -> f64 {
        if p_upper >= 1.0 - p_lower {
            self.radius(p_lower)
        } else if p_lower > p_upper {
            self.radius_ahead(p_lower, p_upper)
        } else {
            0.0
        }
    }

    /// Of a class that is ahead; all others together have at most `1 - p_lower`.
    fn radius_ahead(&self, p_lower: f64, p_upper: f64) -> f64 {
        let own = match self.distribution {
            Distribution::Gaussian if p_upper >= 1.0 - p_lower => {
                radius::cohen(self.sigma, p_lower)
            }
            Distribution::Gaussian => {
                let probits = normal_quantile(p_lower) - normal_quantile(p_upper);
                0.5 * self.sigma * probits
            }
            Distribution::Uniform => radius::uniform(half_width(self.sigma), p_lower, p_upper),
            Distribution::Laplace => radius::laplace(laplace_scale(self.sigma), p_lower, p_upper),
        };
        own * self.reading
    }

    /// Radii of other certificates for Gaussian noise from the same bound, in the
    /// norm: that of Lecuyer et al. and that of Li et al.; NaN for other noises.
    pub(crate) fn other_radii(&self, p_lower: f64) -> [f64; 2] {
        match self.distribution {
            Distribution::Gaussian => [radius::lecuyer, radius::li]
                .map(|radius| radius(self.sigma, p_lower) * self.reading),
            Distribution::Uniform | Distribution::Laplace => [f64::NAN; 2],
        }
    }

    /// By how much a probability under the noise that is drawn may differ from the
    /// one that the radius is about: the total variation between both, summed over
    /// the pixels. It is to be taken off every lower bound, and is 0 for noise
    /// in single precision, of which nothing is proven.
    pub fn total_variation(&self, pixels: usize) -> f64 {
        let error = self.grid.as_ref().map_or(0.0, |grid| grid.error);
        error * pixels as f64
    }

    /// The noise itself.
    pub fn noise(&self, seed: u64, purpose: Purpose) -> Noise {
        match &self.grid {
            None => Noise::float(seed, purpose, self.distribution, self.sigma),
            Some(Grid { table, .. }) => Noise {
                seed,
                purpose,
                kind: NoiseKind::Grid(Arc::clone(table)),
            },
        }
    }

    /// Refuses an image that the noise is not made for.
    pub(crate) fn check(&self, image: &Image) -> Result<(), CertifyError> {
        let Some(Grid { table, .. }) = &self.grid else {
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

/// The norm in which the certificate of a noise is made.
fn own_norm(distribution: Distribution) -> Norm {
    match distribution {
        Distribution::Gaussian => Norm::L2,
        Distribution::Uniform | Distribution::Laplace => Norm::L1,
    }
}

impl fmt::Display for Smoothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} noise of sigma {}", self.id().noise, self.sigma)
    }
}
