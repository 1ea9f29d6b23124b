//! What a student is shown: the images, some of them noisy, mixed or attacked.

use std::ops::Range;

use attack::{Averaged, Challenge, Deterministic, Target, maximise};
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
        /// Share of the inputs that are attacked, 0 to 1: those without noise first, then
        /// noisy ones, with their noise known to the attack [default: 0.5].
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
    noisy: Option<Noisy>,
}

/// What noise has changed: so many of the minibatch, from the first on.
struct Noisy {
    count: usize,
    noise: TrainingNoise,
    /// Those of them that are here, as they were without it.
    quiet: Images,
}

impl<'a> Inputs<'a> {
    /// The images as they are.
    pub fn new(minibatch: &'a Minibatch<'a>) -> Self {
        Self {
            minibatch,
            images: minibatch.images().clone(),
            noisy: None,
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
        let count = self.count(share);
        let places: Vec<usize> = self.minibatch.local(0..count).collect();
        let quiet = self.images.select(&places);
        if !places.is_empty() {
            let (keyed, batch) = noisy_copies(&quiet, noise, position);
            let noisy = network.noisy(&keyed, &batch)?;
            self.images.pixels[..noisy.len()].copy_from_slice(&noisy);
        }
        self.noisy = Some(Noisy {
            count,
            noise,
            quiet,
        });
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

    /// With a share of them attacked: moved to where the network leaves `classes`.
    /// Those behind the noisy ones come first; where they are too few, noisy ones are
    /// attacked under the very noise that they have, as in SmoothAdv.
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
        let (batch, count) = (self.minibatch.batch(), self.count(share));
        let noisy = self.noisy.as_ref().map_or(0, |noisy| noisy.count);
        let start = noisy.min(batch - count);
        let attack = params.inner(params.eps_in(position.epoch), position.seed)?;
        let mut move_to = |places: Range<usize>, target: &dyn Target| {
            let places: Vec<usize> = self.minibatch.local(places).collect();
            let Some(&first) = places.first() else {
                return Ok(());
            };
            let quiet = self.noisy.as_ref().map(|noisy| &noisy.quiet);
            let quiet = quiet.filter(|quiet| first < quiet.len());
            let quiet = quiet.unwrap_or(&self.images);
            let mut victims = quiet.select(&places);
            victims
                .labels
                .copy_from_slice(&classes[first..][..places.len()]);
            let perturbation = maximise(&*attack, target, &Challenge::new(&victims));
            let perturbation = perturbation.map_err(|error| not_finite(error, position))?;
            let pixels = self.images.pixels[first * self.images.shape.len()..].iter_mut();
            pixels.zip(perturbation).for_each(|(x, p)| *x += p);
            Ok::<_, TrainError>(())
        };
        if let Some(Noisy { noise, .. }) = &self.noisy
            && start < noisy
        {
            let noise = noise.noise(position.seed, Purpose::Training);
            let target = Averaged::new(network, noise, 1)?.first_sample(position.epoch)?;
            move_to(start..noisy, &target)?;
        }
        move_to(
            noisy.max(start)..start + count,
            &Deterministic::new(network),
        )?;
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

#[cfg(test)]
mod tests {
    use network::architecture::{Task, build};
    use network::{Model, Reference, Shape};

    use super::*;
    use crate::methods::SmoothAdv;

    const EPS: f64 = 0.5;
    const COUNT: usize = 10;

    fn images() -> Images {
        let shape = Shape::new(8, 8, 1);
        let pixel = |i: usize| ((i * 37) % 101) as f32 / 100.0;
        Images {
            shape,
            pixels: (0..COUNT * shape.len()).map(pixel).collect(),
            labels: (0..COUNT as u32).collect(),
            indices: (0..COUNT as u32).map(|i| 3 * i).collect(),
            values: vec![],
        }
    }

    fn network() -> Reference<f32> {
        let graph = build("mlp", &Task::new(Shape::new(8, 8, 1), COUNT)).unwrap();
        Reference::new(&Model::initialised(graph, 4, Default::default()))
    }

    /// Inputs with these shares noisy and attacked, their labels as classes.
    fn inputs(noisy: f64, attacked: f64) -> Vec<f32> {
        let (images, network) = (images(), network());
        let params = InnerAttackParams {
            attack: Some(InnerAttack::Pgd),
            eps: Some(EPS),
            attack_share: Some(attacked),
            ..InnerAttackParams::default()
        };
        let position = Position {
            seed: 5,
            epoch: 2,
            step: 0,
        };
        let minibatch = Minibatch::whole(&images);
        Inputs::new(&minibatch)
            .noisy(noisy, &network, 0.25.into(), position)
            .unwrap()
            .attacked(&params, &network, &images.labels, position)
            .unwrap()
            .images
            .pixels
    }

    /// Norms of the difference, image by image.
    fn moved(a: &[f32], b: &[f32]) -> Vec<f64> {
        let norm = |(a, b): (&[f32], &[f32])| {
            let squares = a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2));
            squares.sum::<f64>().sqrt()
        };
        a.chunks(64).zip(b.chunks(64)).map(norm).collect()
    }

    #[test]
    fn attacks_take_quiet_inputs_first_and_then_noisy_ones() {
        let expected = [
            (0.5, 0.3, 5..8),
            (0.5, 0.8, 2..10),
            (1.0, 0.4, 6..10),
            (0.0, 0.2, 0..2),
        ];
        for (noisy, attacked, range) in expected {
            let moved = moved(&inputs(noisy, attacked), &inputs(noisy, 0.0));
            let changed = |i: &usize| moved[*i] > 0.0;
            assert_eq!(
                (0..COUNT).filter(changed).collect::<Vec<_>>(),
                range.collect::<Vec<_>>()
            );
            assert!(moved.iter().all(|&norm| norm < EPS + 1e-5), "{moved:?}");
        }
    }

    #[test]
    fn noisy_inputs_are_attacked_as_smooth_adv_attacks_them() {
        let (images, network) = (images(), network());
        let params = AdversarialParams {
            eps: EPS,
            eps_warmup: 1,
            ..AdversarialParams::default()
        };
        let method = SmoothAdv::new(0.25, Default::default(), params).unwrap();
        let noise = TrainingNoise::from(0.25).noise(5, Purpose::Training);
        let theirs = method.attacked(&network, &images, (&noise, 2), 2).unwrap();
        let ours = moved(&inputs(1.0, 1.0), &inputs(1.0, 0.0));
        let theirs = moved(&theirs.pixels, &images.pixels);
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            assert!((ours - theirs).abs() < 1e-5, "{ours} {theirs}");
        }
    }
}
