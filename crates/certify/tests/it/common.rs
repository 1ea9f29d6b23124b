//! Models with closed forms, and images for them.

use std::ops::ControlFlow;

use heatsmooth_certify::{Certify, CertifyError, CertifyOutcome, Smoothing, certify_all};
use network::{Classify, DeviceError, Images, Noise, NoisyImage, Shape};

/// Logits by a function of the pixels.
pub struct Function<F> {
    pub pixels: usize,
    pub classes: usize,
    pub logits: F,
}

impl<F: Fn(&[f32], &mut [f32]) + Sync> Classify for Function<F> {
    fn input(&self) -> Shape {
        Shape::vector(self.pixels)
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn logits(&self, images: &[f32], logits: &mut [f32]) -> Result<(), DeviceError> {
        let images = images.chunks_exact(self.pixels);
        for (image, logits) in images.zip(logits.chunks_exact_mut(self.classes)) {
            (self.logits)(image, logits);
        }
        Ok(())
    }

    fn noisy_logits(
        &self,
        noise: &Noise,
        batch: &[NoisyImage<'_>],
        logits: &mut [f32],
    ) -> Result<(), DeviceError> {
        let copies: usize = batch.iter().map(|noisy| noisy.count).sum();
        assert_eq!(logits.len(), copies * self.classes);
        self.logits(&noise.copies(batch), logits)
    }

    fn batch(&self) -> usize {
        256
    }
}

/// `weights[c] . x + bias[c]`.
pub fn linear(
    weights: Vec<Vec<f32>>,
    bias: Vec<f32>,
) -> Function<impl Fn(&[f32], &mut [f32]) + Sync> {
    Function {
        pixels: weights[0].len(),
        classes: weights.len(),
        logits: move |x: &[f32], logits: &mut [f32]| {
            for ((logit, w), b) in logits.iter_mut().zip(&weights).zip(&bias) {
                *logit = w.iter().zip(x).map(|(w, x)| w * x).sum::<f32>() + b;
            }
        },
    }
}

/// Two classes of one pixel: class 1 above `boundary`. The distance to the boundary is
/// `|x - boundary|`.
pub fn threshold(boundary: f32) -> Function<impl Fn(&[f32], &mut [f32]) + Sync> {
    linear(vec![vec![0.0], vec![1.0]], vec![0.0, -boundary])
}

/// Gaussian noise.
pub fn gaussian(sigma: f64) -> Smoothing {
    Smoothing::gaussian(sigma).expect("a noise level")
}

/// One image.
pub fn image(index: u32, label: usize, pixels: &[f32]) -> Images {
    let mut images = Images::new(Shape::vector(pixels.len()));
    images.push(index, label as u32, pixels);
    images
}

/// Numbers in [0, 1] from a fixed sequence.
pub fn pixels(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1_u64 << 24) as f32
    };
    (0..count).map(|_| next()).collect()
}

/// All outcomes.
pub fn certify(
    model: &impl Classify,
    images: impl IntoIterator<Item = Images>,
    plan: &Certify,
    batch: usize,
) -> Result<Vec<CertifyOutcome>, CertifyError> {
    let mut outcomes = Vec::new();
    certify_all(model, images, plan, batch, &mut |outcome| {
        outcomes.push(outcome);
        ControlFlow::Continue(())
    })?;
    Ok(outcomes)
}
