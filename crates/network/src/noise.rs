//! Noise as a pure function of its key.

use std::sync::Arc;

use kernels::geometry::Shape;
use kernels::images::Images;
use kernels::isa::Isa;
pub use kernels::noise::{Distribution, GridNoise};
use kernels::noise::{NoiseKey, add_grid_noise, add_noise};
pub use kernels::random::Purpose;
use kernels::random::{key, philox4x32};

use crate::device_error::DeviceError;

/// Noise as a pure function of `(seed, purpose, image, sample, pixel)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Noise {
    /// The run's seed.
    pub seed: u64,
    /// What for.
    pub purpose: Purpose,
    /// What is drawn.
    pub kind: NoiseKind,
}

/// What is drawn and added to a pixel.
#[derive(Clone, Debug, PartialEq)]
pub enum NoiseKind {
    /// Drawn and added in single precision.
    Float {
        /// How it is distributed.
        distribution: Distribution,
        /// Standard deviation, in units of pixels scaled to [0, 1].
        sigma: f64,
    },
    /// A whole number of steps, exactly by its law, on the grid that the pixels
    /// lie on. Every device draws the same integers.
    Grid(Arc<GridNoise>),
}

/// Uniform between 0 and 1, as a pure function of `(seed, purpose, image, sample)`.
pub fn uniform(seed: u64, purpose: Purpose, image: u32, sample: u32) -> f64 {
    let counter = [image, sample, 0, purpose as u32];
    let [word, ..] = philox4x32(counter, key(seed));
    f64::from(word) / 2f64.powi(32)
}

/// `count` noisy copies of one image, with consecutive sample numbers.
#[derive(Clone, Copy, Debug)]
pub struct NoisyImage<'a> {
    /// The clean image.
    pub pixels: &'a [f32],
    /// The image's number in its data set: part of the noise's key.
    pub image: u32,
    /// Number of the first copy.
    pub first_sample: u32,
    /// How many copies.
    pub count: usize,
}

impl<'a> NoisyImage<'a> {
    /// `count` noisy copies of every image, numbered from `first_sample`.
    pub fn copies_of(images: &'a Images, first_sample: u32, count: usize) -> Vec<Self> {
        let noisy = |place: usize| Self {
            pixels: images.image(place),
            image: images.indices[place],
            first_sample,
            count,
        };
        (0..images.len()).map(noisy).collect()
    }

    /// Copies of all images of a batch, each of which must have this shape.
    ///
    /// # Errors
    /// If an image has another shape.
    pub fn count_all(batch: &[Self], shape: Shape) -> Result<usize, DeviceError> {
        let wrong = batch.iter().find(|noisy| noisy.pixels.len() != shape.len());
        let got = wrong.map_or(shape.len(), |noisy| noisy.pixels.len());
        DeviceError::length("an image", shape.len(), got)?;
        Ok(batch.iter().map(|noisy| noisy.count).sum())
    }
}

impl Noise {
    /// Noise `N(0, sigma^2)` in single precision.
    pub fn gaussian(seed: u64, purpose: Purpose, sigma: f64) -> Self {
        Self::float(seed, purpose, Distribution::Gaussian, sigma)
    }

    /// Noise of standard deviation sigma in single precision.
    pub fn float(seed: u64, purpose: Purpose, distribution: Distribution, sigma: f64) -> Self {
        Self {
            seed,
            purpose,
            kind: NoiseKind::Float {
                distribution,
                sigma,
            },
        }
    }

    /// Key of one sample of one image.
    pub fn key(&self, image: u32, sample: u32) -> NoiseKey {
        NoiseKey {
            seed: self.seed,
            purpose: self.purpose,
            image,
            sample,
        }
    }

    /// Writes `pixels + noise` of one sample to `out`.
    pub fn add(&self, image: u32, sample: u32, pixels: &[f32], out: &mut [f32]) {
        self.add_with(Isa::detect(), (image, sample), pixels, out);
    }

    /// The same with given instructions.
    pub(crate) fn add_with(
        &self,
        isa: Isa,
        (image, sample): (u32, u32),
        pixels: &[f32],
        out: &mut [f32],
    ) {
        let key = self.key(image, sample);
        match &self.kind {
            NoiseKind::Float {
                distribution,
                sigma,
            } => add_noise(isa, key, (*distribution, *sigma as f32), pixels, out),
            NoiseKind::Grid(table) => add_grid_noise(isa, key, table, pixels, out),
        }
    }

    /// The noise alone, by the portable kernel: the same on every CPU.
    pub fn draw(&self, image: u32, sample: u32, len: usize) -> Vec<f32> {
        let zeros = vec![0.0; len];
        let mut out = vec![0.0; len];
        self.add_with(Isa::PORTABLE, (image, sample), &zeros, &mut out);
        out
    }

    /// All noisy copies of a batch, one behind the other.
    pub fn copies(&self, batch: &[NoisyImage<'_>]) -> Vec<f32> {
        let mut images = Vec::new();
        for noisy in batch {
            for sample in 0..noisy.count {
                let start = images.len();
                images.resize(start + noisy.pixels.len(), 0.0);
                let sample = noisy.first_sample + sample as u32;
                self.add(noisy.image, sample, noisy.pixels, &mut images[start..]);
            }
        }
        images
    }
}
