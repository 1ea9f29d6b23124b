//! A network averaged over Gaussian noise.

use std::ops::Range;

use network::{Executor, Images, Mode, Noise, NoiseKind, NoisyImage, Shape};
use settings::SettingError;

use super::{Deterministic, Evaluation, Judgement, Target, passes};
use crate::error::{AttackError, require};

/// The stochastic model of a network `f`: `m` noises `eta_i ~ N(0, sigma^2)` an
/// image, loss `-log(1/m sum_i softmax(f(x + eta_i))_y)`, prediction by majority.
///
/// The noises of an image are fixed for the whole attack and for the caller's
/// check of it, unless [`Averaged::fresh`] is asked for. They are a pure function
/// of seed, purpose, image number and sample number, so one target serves every
/// image. `noise.purpose` is `Prediction` in attacks and `Training` in SmoothAdv,
/// which trains on the very noises that it attacked.
pub struct Averaged<'a> {
    network: &'a dyn Executor,
    noise: Noise,
    samples: u32,
    first_sample: u32,
    fresh: bool,
}

impl<'a> Averaged<'a> {
    /// Averages over `samples` noises, numbered from 0.
    pub fn new(
        network: &'a dyn Executor,
        noise: Noise,
        samples: u32,
    ) -> Result<Self, SettingError> {
        if let NoiseKind::Float { sigma, .. } = noise.kind {
            let fits = sigma >= 0.0 && sigma.is_finite();
            require(fits, "sigma", "a number of at least 0", sigma)?;
        }
        // Sample numbers have 32 bits: 3e9 for `first_sample`, 1e9 for up to
        // 10,000 fresh steps.
        require(
            (1..=100_000).contains(&samples),
            "samples",
            "1 to 100000 noises",
            samples,
        )?;
        Ok(Self {
            network,
            noise,
            samples,
            first_sample: 0,
            fresh: false,
        })
    }

    /// Numbers the noises from `first` (each epoch of a training has its own).
    pub fn first_sample(mut self, first: u32) -> Result<Self, SettingError> {
        let fits = first <= 3_000_000_000;
        require(fits, "first_sample", "at most 3000000000", first)?;
        self.first_sample = first;
        Ok(self)
    }

    /// Draws `samples` new noises in every step. The caller's check, step 0,
    /// then uses noises that the attack has not seen.
    pub fn fresh(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// Copies of images as the noise's key wants them.
    fn noisy<'p>(
        &self,
        points: &'p Images,
        copies: Range<usize>,
        step: u32,
    ) -> Vec<NoisyImage<'p>> {
        let samples = self.samples as usize;
        let block = if self.fresh { step } else { 0 };
        let first = self.first_sample + block * self.samples;
        let images = copies.start / samples..copies.end.div_ceil(samples);
        images
            .map(|i| {
                let own = i * samples;
                let range = copies.start.max(own)..copies.end.min(own + samples);
                NoisyImage {
                    pixels: points.image(i),
                    image: points.indices[i],
                    first_sample: first + (range.start - own) as u32,
                    count: range.len(),
                }
            })
            .collect()
    }
}

impl Target for Averaged<'_> {
    fn input(&self) -> Shape {
        self.network.input()
    }

    fn classes(&self) -> usize {
        self.network.classes()
    }

    fn judge(&self, points: &Images, step: u32) -> Result<Judgement, AttackError> {
        passes::judge(
            self.network,
            points,
            self.samples as usize,
            |copies, logits| {
                let batch = self.noisy(points, copies, step);
                self.network.noisy_logits(&self.noise, &batch, logits)
            },
        )
    }

    fn evaluate(&self, points: &Images, step: u32) -> Result<Evaluation, AttackError> {
        passes::evaluate(self.network, points, self.samples as usize, |copies| {
            let batch = self.noisy(points, copies, step);
            let network = self.network;
            network.forward_noisy(&self.noise, &batch, Mode::Eval)
        })
    }

    fn outputs(&self, images: &[f32]) -> Result<Vec<f32>, AttackError> {
        Deterministic::new(self.network).outputs(images)
    }
}
