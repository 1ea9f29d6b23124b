//! Adversarial training of the smoothed classifier: SmoothAdv (Salman et al.
//! 2019), and ordinary adversarial training (Madry et al. 2018).

use attack::{Attack, AttackError, Averaged, DdnParams, PgdParams, maximise};
use data::Batch;
use network::{Differentiable, Gradients, Noise, NoisyImage, Purpose};
use serde::{Deserialize, Serialize};

use super::baseline::cross_entropy_step;
use super::{Method, Position};
use crate::error::TrainError;

/// How the inner maximisation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InnerAttack {
    /// The largest loss within `eps`, by steps of `2 * eps / steps`.
    Pgd,
    /// The smallest perturbation that succeeds, scaled down to `eps` if larger.
    Ddn,
}

/// Hyper-parameters of [`SmoothAdv`]. With `m` noises `eta_i ~ N(0, sigma^2 I)`
/// an image,
///
/// ```text
/// p    = argmax over ||p|| <= eps of  -log(1/m sum_i softmax(f(x + p + eta_i))_y)
/// loss = 1/m sum_i -log softmax(f(x + p + eta_i))_y
/// ```
///
/// with the same noises in both lines, fresh ones in every epoch. The attacked
/// network is in eval mode, the training pass over all `m` copies in train mode.
/// `sigma = 0`, `samples = 1` is ordinary adversarial training; `eps = 0`,
/// `samples = 1` is [`super::Gaussian`].
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `sigma` | - | noise level, pixels scaled to `[0, 1]` | >= 0 |
/// | `samples` | 1 | noises `m` an image | 1 to 100,000 |
/// | `eps` | 0.5 | largest L2 norm of the perturbation | >= 0 |
/// | `steps` | 4 | steps of the inner attack | 1 (DDN: 2) to 10,000 |
/// | `attack` | `pgd` | the inner attack | |
/// | `warmup_epochs` | 10 | `eps` rises to its value in this many epochs | |
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SmoothAdvParams {
    /// Noise level of the classifier that is attacked and trained.
    pub sigma: f64,
    /// Noises an image.
    pub samples: u32,
    /// Largest L2 norm of the perturbation.
    pub eps: f64,
    /// Steps of the inner attack.
    pub steps: u32,
    /// The inner attack.
    pub attack: InnerAttack,
    /// Epochs in which `eps` rises: in epoch `e`, from 1, it is
    /// `eps * min(1, e / warmup_epochs)`.
    pub warmup_epochs: u32,
}

impl SmoothAdvParams {
    /// The defaults, for a noise level.
    pub fn new(sigma: f64) -> Self {
        Self {
            sigma,
            samples: 1,
            eps: 0.5,
            steps: 4,
            attack: InnerAttack::Pgd,
            warmup_epochs: 10,
        }
    }

    /// Refuses nonsense.
    pub fn check(&self) -> Result<(), TrainError> {
        for (name, value) in [("sigma", self.sigma), ("eps", self.eps)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(TrainError::Setting {
                    name,
                    expected: "a number of at least 0",
                    got: value.to_string(),
                });
            }
        }
        if !(1..=100_000).contains(&self.samples) {
            return Err(TrainError::Setting {
                name: "samples",
                expected: "1 to 100000 noises",
                got: self.samples.to_string(),
            });
        }
        // Also for eps = 0: steps that make no sense never do.
        let eps = if self.eps > 0.0 { self.eps } else { 1.0 };
        self.inner(eps, 0)?;
        Ok(())
    }

    /// The budget in an epoch, from 0.
    fn eps_in(&self, epoch: u32) -> f64 {
        let risen = (f64::from(epoch) + 1.0) / f64::from(self.warmup_epochs.max(1));
        self.eps * risen.min(1.0)
    }

    fn inner(&self, eps: f64, seed: u64) -> Result<Box<dyn Attack>, AttackError> {
        let steps = self.steps;
        Ok(match self.attack {
            InnerAttack::Pgd => Box::new(
                PgdParams {
                    steps,
                    eps,
                    stop_at_success: false,
                    seed,
                    ..PgdParams::default()
                }
                .check()?,
            ),
            InnerAttack::Ddn => Box::new(
                DdnParams {
                    steps,
                    init_norm: eps,
                    max_norm: Some(eps),
                    seed,
                    ..DdnParams::default()
                }
                .check()?,
            ),
        })
    }
}

/// Adversarial training of the smoothed classifier.
#[derive(Clone, Debug)]
pub struct SmoothAdv {
    params: SmoothAdvParams,
}

impl SmoothAdv {
    /// With checked hyper-parameters.
    pub fn new(params: SmoothAdvParams) -> Result<Self, TrainError> {
        params.check()?;
        Ok(Self { params })
    }

    /// `x + p` for every image.
    fn attacked<N: Differentiable>(
        &self,
        network: &N,
        batch: &Batch,
        (noise, first_sample): (Noise, u32),
        epoch: u32,
    ) -> Result<Vec<f32>, AttackError> {
        let eps = self.params.eps_in(epoch);
        let mut images = batch.images.clone();
        if eps > 0.0 {
            let target = Averaged::new(network, noise, self.params.samples)?;
            let target = target.first_sample(first_sample)?;
            let attack = self.params.inner(eps, noise.seed)?;
            let points = attack::Batch::new(&batch.images, &batch.indices, &batch.labels);
            let perturbation = maximise(attack.as_ref(), &target, &points)?;
            images
                .iter_mut()
                .zip(perturbation)
                .for_each(|(x, p)| *x += p);
        }
        Ok(images)
    }
}

impl<N: Differentiable> Method<N> for SmoothAdv {
    fn columns(&self) -> &'static [&'static str] {
        &["loss", "train_accuracy", "perturbation"]
    }

    /// Accuracy is that on the noisy, perturbed copies; `perturbation` is the
    /// mean norm of what the attack added.
    fn step(
        &mut self,
        network: &mut N,
        batch: &Batch,
        position: Position,
        gradients: &mut Gradients,
    ) -> Result<Vec<f64>, TrainError> {
        let samples = self.params.samples;
        let noise = Noise {
            seed: position.seed,
            purpose: Purpose::Training,
            sigma: self.params.sigma as f32,
        };
        // With one sample an epoch, the noises of Gaussian.
        let first_sample = position.epoch.saturating_mul(samples);
        let key = (noise, first_sample);
        let attacked = self.attacked(network, batch, key, position.epoch);
        let attacked = attacked.map_err(|error| match error {
            AttackError::NotFinite { .. } => TrainError::NotFinite {
                what: "a logit of the inner attack",
                value: f64::NAN,
                step: position.step,
                epoch: position.epoch + 1,
            },
            other => other.into(),
        })?;

        let len = network.input().len();
        let rows = attacked.chunks_exact(len).zip(&batch.indices);
        let copies: Vec<NoisyImage<'_>> = rows
            .map(|(pixels, &image)| NoisyImage {
                pixels,
                image,
                first_sample,
                count: samples as usize,
            })
            .collect();
        let noisy = noise.copies(&copies);
        let labels = batch.labels.iter();
        let labels: Vec<u32> = labels
            .flat_map(|&y| std::iter::repeat_n(y, samples as usize))
            .collect();
        let mut measured = cross_entropy_step(network, &noisy, &labels, gradients);
        measured.push(mean_distance(&batch.images, &attacked, len));
        Ok(measured)
    }
}

/// Mean over the images of the norm of the difference.
fn mean_distance(a: &[f32], b: &[f32], len: usize) -> f64 {
    let rows = a.chunks_exact(len).zip(b.chunks_exact(len));
    let images = rows.len() as f64;
    let norm = |(a, b): (&[f32], &[f32])| {
        let squares = a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2));
        squares.sum::<f64>().sqrt()
    };
    rows.map(norm).sum::<f64>() / images
}
