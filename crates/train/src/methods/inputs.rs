//! What a student is shown: the images, some of them noisy, mixed or attacked.

use attack::{Challenge, Deterministic, maximise};
use network::{Executor, Images, Purpose, uniform};
use settings::{SettingError, settings};

use super::smoothadv::{AdversarialParams, InnerAttack, not_finite};
use super::{Position, TrainingNoise, noisy_copies, share};
use crate::error::TrainError;
use crate::minibatch::Minibatch;
use crate::rows::Rows;

settings! {
    /// An attack on the student while it learns: "since our method is
    /// deterministic, we can adversarially train with any attack" (the paper).
    /// It looks for inputs on which the student leaves its teacher's class; no
    /// noise is sampled, no label used.
    pub struct InnerAttackParams {
        /// Attack the student while it learns: pgd or ddn [default: no attack].
        attack: Option<InnerAttack> = None,
        /// Largest L2 norm of the inner attack's perturbation [default: 0.5].
        eps: Option<f64> = None,
        /// Steps of the inner attack, 1 (DDN: 2) to 10,000 [default: 4].
        attack_steps: Option<u32> = None,
        /// Share of the inputs that are attacked, 0 to 1 [default: 0.5].
        attack_share: Option<f64> = None,
    }
}

impl InnerAttackParams {
    /// Refuses nonsense, and settings of an attack where there is none.
    ///
    /// # Errors
    /// A value out of its range or without effect.
    pub fn check(&self) -> Result<(), SettingError> {
        if self.attack.is_some() {
            let (params, attacked) = self.resolved();
            share("attack-share", attacked)?;
            super::positive("eps", params.eps)?;
            return params.inner(params.eps, 0).map(|_| ());
        }
        let said = [
            ("eps", self.eps.is_some()),
            ("attack-steps", self.attack_steps.is_some()),
            ("attack-share", self.attack_share.is_some()),
        ];
        match said.iter().find(|(_, said)| *said) {
            Some((name, _)) => Err(SettingError::Ineffective {
                name: (*name).into(),
                reason: "nothing is attacked; attack says what is".into(),
            }),
            None => Ok(()),
        }
    }

    /// The attack, and the share of the inputs that it changes.
    fn resolved(&self) -> (AdversarialParams, f64) {
        let usual = AdversarialParams::default();
        let params = AdversarialParams {
            attack: self.attack.unwrap_or(usual.attack),
            eps: self.eps.unwrap_or(usual.eps),
            attack_steps: self.attack_steps.unwrap_or(usual.attack_steps),
            eps_warmup: 1,
        };
        (params, self.attack_share.unwrap_or(0.5))
    }
}

/// The inputs of a student in one step. Which of them are changed is a matter of the
/// whole minibatch, of which these may be a part.
pub(super) struct Inputs<'a> {
    minibatch: &'a Minibatch<'a>,
    images: Images,
    /// So many of the minibatch, from the first on, are noisy.
    noisy: usize,
}

impl<'a> Inputs<'a> {
    /// The images as they are.
    pub fn new(minibatch: &'a Minibatch<'a>) -> Self {
        Self {
            minibatch,
            images: minibatch.images().clone(),
            noisy: 0,
        }
    }

    /// With noise on the first of them.
    pub fn noisy(
        mut self,
        share: f64,
        network: &dyn Executor,
        noise: TrainingNoise,
        position: Position,
    ) -> Result<Self, TrainError> {
        self.noisy = self.count(share);
        let places: Vec<usize> = self.minibatch.local(0..self.noisy).collect();
        if !places.is_empty() {
            let images = self.images.select(&places);
            let (noise, batch) = noisy_copies(&images, noise, position);
            let noisy = network.noisy(&noise, &batch)?;
            self.images.pixels[..noisy.len()].copy_from_slice(&noisy);
        }
        Ok(self)
    }

    /// With the last of them mixed with their neighbours, in a random proportion:
    /// images between the images, on which a teacher has an opinion too.
    pub fn mixed(mut self, share: f64, position: Position) -> Self {
        let width = self.images.shape.len();
        let (count, mixed) = (self.minibatch.batch(), self.count(share));
        for place in self.minibatch.local(count - mixed..count) {
            let partner = self.minibatch.behind(place);
            let Position { seed, epoch, .. } = position;
            let image = self.images.indices[place];
            let keep = uniform(seed, Purpose::Mixture, image, epoch) as f32;
            let pixels = &mut self.images.pixels[place * width..][..width];
            for (x, y) in pixels.iter_mut().zip(partner) {
                *x = keep * *x + (1.0 - keep) * y;
            }
        }
        self
    }

    /// With those behind the noisy ones attacked: moved to where the network
    /// leaves `classes`.
    pub fn attacked(
        mut self,
        params: &InnerAttackParams,
        network: &dyn Executor,
        classes: &[u32],
        position: Position,
    ) -> Result<Self, TrainError> {
        if params.attack.is_none() {
            return Ok(self);
        }
        let (params, share) = params.resolved();
        let end = self.minibatch.batch().min(self.noisy + self.count(share));
        let range = self.minibatch.local(self.noisy..end);
        if range.is_empty() {
            return Ok(self);
        }
        let places: Vec<usize> = range.clone().collect();
        let mut victims = self.images.select(&places);
        victims.labels.copy_from_slice(&classes[range.clone()]);
        let eps = params.eps_in(position.epoch);
        let attack = params.inner(eps, position.seed)?;
        let challenge = Challenge::new(&victims);
        let perturbation = maximise(&*attack, &Deterministic::new(network), &challenge);
        let perturbation = perturbation.map_err(|error| not_finite(error, position))?;
        let start = range.start * self.images.shape.len();
        let pixels = self.images.pixels[start..].iter_mut();
        pixels.zip(perturbation).for_each(|(x, p)| *x += p);
        Ok(self)
    }

    /// The inputs, with the numbers of the images that they were made from.
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// One row an image.
    pub fn into_rows(self) -> Rows {
        Rows::new(self.images.shape.len(), self.images.pixels)
    }

    fn count(&self, share: f64) -> usize {
        (share * self.minibatch.batch() as f64).round() as usize
    }
}
