//! Adversarial training of the smoothed classifier: SmoothAdv (Salman et al.
//! 2019), and ordinary adversarial training (Madry et al. 2018).

use attack::{Attack, AttackError, Averaged, Challenge, Ddn, DdnParams, Pgd, PgdParams, maximise};
use network::{Executor, Gradients, Images, Mode, Noise, NoisyImage, Purpose};
use settings::{SettingError, choices, settings};

use super::baseline::cross_entropy_step;
use super::{Method, Position};
use crate::error::TrainError;
use crate::minibatch::Minibatch;

choices! {
    /// How the inner maximisation is done.
    pub enum InnerAttack {
        /// The largest loss within `eps`, by steps of `2 * eps / steps`.
        Pgd = "pgd",
        /// The smallest perturbation that succeeds, scaled down to `eps` if larger.
        Ddn = "ddn",
    }
}

settings! {
    /// How many noises an image gets in a step.
    pub struct NoiseDraws {
        /// Noises an image, 1 to 100,000.
        samples: u32 = 1,
    }
}

settings! {
    /// Hyper-parameters of the attack inside adversarial training. With `m` noises
    /// `eta_i ~ N(0, sigma^2 I)` an image,
    ///
    /// ```text
    /// p    = argmax over ||p|| <= eps of  -log(1/m sum_i softmax(f(x + p + eta_i))_y)
    /// loss = 1/m sum_i -log softmax(f(x + p + eta_i))_y
    /// ```
    ///
    /// with the same noises in both lines, fresh ones in every epoch. The attacked
    /// network is in eval mode, the training pass over all `m` copies in train mode.
    /// `sigma = 0`, `m = 1` is ordinary adversarial training; `eps = 0`, `m = 1` is
    /// [`super::Gaussian`].
    pub struct AdversarialParams {
        /// Largest L2 norm of the inner attack's perturbation.
        eps: f64 = 0.5,
        /// Steps of the inner attack, 1 (DDN: 2) to 10,000.
        attack_steps: u32 = 4,
        /// The inner attack: pgd or ddn.
        attack: InnerAttack = InnerAttack::Pgd,
        /// Epochs in which eps rises to its value: in epoch e, from 1, it is
        /// eps * min(1, e / eps-warmup).
        eps_warmup: u32 = 10,
    }
}

impl AdversarialParams {
    /// The budget in an epoch, from 0.
    pub(super) fn eps_in(&self, epoch: u32) -> f64 {
        let risen = (f64::from(epoch) + 1.0) / f64::from(self.eps_warmup.max(1));
        self.eps * risen.min(1.0)
    }

    pub(super) fn inner(&self, eps: f64, seed: u64) -> Result<Box<dyn Attack>, SettingError> {
        let steps = self.attack_steps;
        let named = |error: SettingError| match error {
            SettingError::Value { got, expected, .. } => {
                SettingError::value("attack-steps", got, expected)
            }
            other => other,
        };
        Ok(match self.attack {
            InnerAttack::Pgd => {
                let params = PgdParams {
                    steps,
                    eps,
                    ..PgdParams::default()
                };
                Box::new(Pgd::new(params, seed).map_err(named)?.without_stopping())
            }
            InnerAttack::Ddn => {
                let params = DdnParams {
                    steps,
                    init_norm: eps,
                    eps: Some(eps),
                    ..DdnParams::default()
                };
                Box::new(Ddn::new(params, seed).map_err(named)?)
            }
        })
    }
}

/// Adversarial training of the smoothed classifier.
#[derive(Clone, Debug)]
pub struct SmoothAdv {
    sigma: f64,
    samples: u32,
    params: AdversarialParams,
}

impl SmoothAdv {
    /// SmoothAdv with this noise level and number of noises.
    ///
    /// # Errors
    /// A value out of its range.
    pub fn new(
        sigma: f64,
        draws: NoiseDraws,
        params: AdversarialParams,
    ) -> Result<Self, SettingError> {
        let NoiseDraws { samples } = draws;
        for (name, value) in [("sigma", sigma), ("eps", params.eps)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(SettingError::value(name, value, "a number of at least 0"));
            }
        }
        if !(1..=100_000).contains(&samples) {
            return Err(SettingError::value(
                "samples",
                samples,
                "1 to 100000 noises",
            ));
        }
        // Also for eps = 0: steps that make no sense never do.
        params.inner(if params.eps > 0.0 { params.eps } else { 1.0 }, 0)?;
        Ok(Self {
            sigma,
            samples,
            params,
        })
    }

    /// Ordinary adversarial training: no noise, one copy.
    ///
    /// # Errors
    /// A value out of its range.
    pub fn without_noise(params: AdversarialParams) -> Result<Self, SettingError> {
        Self::new(0.0, NoiseDraws::default(), params)
    }

    /// The images with what the attack adds to them.
    pub(super) fn attacked(
        &self,
        network: &dyn Executor,
        images: &Images,
        (noise, first_sample): (&Noise, u32),
        epoch: u32,
    ) -> Result<Images, AttackError> {
        let eps = self.params.eps_in(epoch);
        let mut attacked = images.clone();
        if eps > 0.0 {
            let target = Averaged::new(network, noise.clone(), self.samples)?;
            let target = target.first_sample(first_sample)?;
            let attack = self.params.inner(eps, noise.seed)?;
            let perturbation = maximise(attack.as_ref(), &target, &Challenge::new(images))?;
            let pairs = attacked.pixels.iter_mut().zip(perturbation);
            pairs.for_each(|(x, p)| *x += p);
        }
        Ok(attacked)
    }
}

impl Method for SmoothAdv {
    fn columns(&self) -> &'static [&'static str] {
        &["loss", "train_accuracy", "perturbation"]
    }

    fn value_columns(&self) -> Result<&'static [&'static str], &'static str> {
        Err("adversarial training looks for another class")
    }

    /// Accuracy is that on the noisy, perturbed copies; `perturbation` is the
    /// mean norm of what the attack added.
    fn step(
        &mut self,
        network: &mut dyn Executor,
        images: &Minibatch<'_>,
        position: Position,
        gradients: &mut Gradients,
    ) -> Result<Vec<f64>, TrainError> {
        let samples = self.samples as usize;
        let noise = Noise::gaussian(position.seed, Purpose::Training, self.sigma);
        // With one sample an epoch, the noises of Gaussian.
        let first_sample = position.epoch.saturating_mul(self.samples);
        let key = (&noise, first_sample);
        let attacked = self.attacked(network, images, key, position.epoch);
        let attacked = attacked.map_err(|error| not_finite(error, position))?;
        let batch = NoisyImage::copies_of(&attacked, first_sample, samples);
        let pass = network.forward_noisy(&noise, &batch, Mode::Train)?;
        let labels = images.labels.iter();
        let labels: Vec<u32> = labels
            .flat_map(|&y| std::iter::repeat_n(y, samples))
            .collect();
        let of = images.of();
        let labels = (&labels[..], of * samples);
        let mut measured = cross_entropy_step(network, pass, labels, gradients)?;
        measured.push(distances(images, &attacked) / of as f64);
        Ok(measured)
    }
}

/// Logits that are no numbers are the training's fault, not the attack's.
pub(super) fn not_finite(error: AttackError, position: Position) -> TrainError {
    match error {
        AttackError::NotFinite { .. } => TrainError::NotFinite {
            what: "a logit of the inner attack",
            value: f64::NAN,
            step: position.step,
            epoch: position.epoch + 1,
        },
        other => other.into(),
    }
}

/// Sum over the images of the norm of the difference.
fn distances(a: &Images, b: &Images) -> f64 {
    let norm = |place: usize| {
        let pairs = a.image(place).iter().zip(b.image(place));
        let squares = pairs.map(|(a, b)| f64::from(a - b).powi(2));
        squares.sum::<f64>().sqrt()
    };
    (0..a.len()).map(norm).sum()
}
