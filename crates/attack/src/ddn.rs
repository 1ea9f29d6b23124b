//! Decoupled direction and norm (Rony et al., CVPR 2019): the minimal norm.

use std::f64::consts::PI;

use crate::attempt::{Attack, Attempt, Kind, Visit};
use crate::batch::{Batch, Gathered};
use crate::error::{AttackError, require};
use crate::l2::{difference, distance, norm, project, unit};
use crate::target::{Evaluation, Target};

/// Hyper-parameters of [`Ddn`].
///
/// Each step turns the perturbation `p` along the normalised gradient, then gives
/// it a norm that shrinks after a success and grows otherwise,
///
/// ```text
/// p    <- p +- lr * g / ||g||,     lr = .01 + .99 * (1 + cos(pi * i / steps)) / 2
/// norm <- norm * (1 - gamma  if the goal is reached, else  1 + gamma)
/// x'   <- clip(quantise(x + norm * p / ||p||)),     p = 0 at first
/// ```
///
/// and the smallest successful `x'` among the `steps` that were evaluated wins.
/// The first of them is the image itself, so the reachable norms are
/// `init_norm * (1 + gamma) * (1 - gamma)^(steps - 2)` to
/// `init_norm * (1 + gamma)^(steps - 1)`: .42 to 2.53 by default.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `steps` | 20 | images evaluated | 2 to 10,000 |
/// | `init_norm` | 1 | norm to start from | > 0 |
/// | `gamma` | .05 | relative change of the norm | 0 to 1, exclusive |
/// | `levels` | 256 | grey levels to round to | 2 to 65,536, or none |
/// | `max_norm` | none | scale the result down to this norm | > 0 |
/// | `seed` | 0 | of random directions, where `g` is 0 | |
#[derive(Clone, Debug, PartialEq)]
pub struct DdnParams {
    /// Images evaluated.
    pub steps: u32,
    /// Norm to start from, in units of pixels scaled to [0, 1].
    pub init_norm: f64,
    /// Relative change of the norm in a step.
    pub gamma: f64,
    /// Grey levels to round to (256: what an image file can hold); `None`: do
    /// not round.
    pub levels: Option<u32>,
    /// Scale a result of larger norm down to this one, for adversarial training.
    /// Rounding to levels does not survive it, success may not.
    pub max_norm: Option<f64>,
    /// Of random directions.
    pub seed: u64,
}

impl Default for DdnParams {
    fn default() -> Self {
        Self {
            steps: 20,
            init_norm: 1.0,
            gamma: 0.05,
            levels: Some(256),
            max_norm: None,
            seed: 0,
        }
    }
}

impl DdnParams {
    /// The attack, if every value is in its range.
    pub fn check(self) -> Result<Ddn, AttackError> {
        let positive = |v: f64| v > 0.0 && v.is_finite();
        let steps_fit = (2..=10_000).contains(&self.steps);
        require(steps_fit, "steps", "2 to 10000", self.steps)?;
        let init_norm = self.init_norm;
        require(
            positive(init_norm),
            "init_norm",
            "a positive number",
            init_norm,
        )?;
        let gamma_fits = self.gamma > 0.0 && self.gamma < 1.0;
        require(gamma_fits, "gamma", "between 0 and 1", self.gamma)?;
        let levels = self.levels.unwrap_or(256);
        let levels_fit = (2..=65_536).contains(&levels);
        require(levels_fit, "levels", "2 to 65536 grey levels", levels)?;
        let max_norm = self.max_norm.unwrap_or(1.0);
        require(
            positive(max_norm),
            "max_norm",
            "a positive number",
            max_norm,
        )?;
        Ok(Ddn { params: self })
    }

    /// Smallest and largest norm that can be reached.
    fn reach(&self) -> (f64, f64) {
        let first = self.init_norm * (1.0 + self.gamma);
        let rest = f64::from(self.steps) - 2.0;
        (
            first * (1.0 - self.gamma).powf(rest),
            first * (1.0 + self.gamma).powf(rest),
        )
    }
}

/// Decoupled direction and norm; made by [`DdnParams::check`].
#[derive(Clone, Debug, PartialEq)]
pub struct Ddn {
    params: DdnParams,
}

/// An image under attack.
struct Search {
    norm: f64,
    /// No pixel can move further than to 0 or 1.
    max_norm: f64,
    best: Option<(f64, Vec<f32>)>,
    always_successful: bool,
}

impl Search {
    fn new(image: &[f32], init_norm: f64) -> Self {
        let room = |&x: &f32| f64::from(x.max(1.0 - x));
        Self {
            norm: init_norm,
            max_norm: norm(image.iter().map(room)),
            best: None,
            always_successful: true,
        }
    }

    fn judge(&mut self, l2: f64, adversarial: &[f32], success: bool, gamma: f64) {
        if success && self.best.as_ref().is_none_or(|(best, _)| l2 < *best) {
            self.best = Some((l2, adversarial.to_vec()));
        }
        let factor = if success { 1.0 - gamma } else { 1.0 + gamma };
        self.norm = (self.norm * factor).min(self.max_norm);
    }
}

impl Ddn {
    /// Its hyper-parameters.
    pub fn params(&self) -> &DdnParams {
        &self.params
    }

    /// Length of the turn after `step` (from 1).
    fn rate(&self, step: u32) -> f64 {
        let progress = f64::from(step - 1) / f64::from(self.params.steps);
        0.01 + 0.99 * (1.0 + (PI * progress).cos()) / 2.0
    }

    fn advance(
        &self,
        image: &[f32],
        adversarial: &mut [f32],
        turn: impl Iterator<Item = f64>,
        length: f64,
    ) {
        let turned = difference(image, adversarial).zip(turn).map(|(p, t)| p + t);
        let perturbation: Vec<f64> = turned.collect();
        let norm = norm(perturbation.iter().copied());
        // A turn that cancels the perturbation leaves the image for one step.
        let scale = if norm > 0.0 { length / norm } else { 0.0 };
        for ((a, &x), p) in adversarial.iter_mut().zip(image).zip(perturbation) {
            let mut moved = f64::from(x) + scale * p;
            if let Some(levels) = self.params.levels {
                let top = f64::from(levels - 1);
                moved = (moved * top).round_ties_even() / top;
            }
            *a = moved.clamp(0.0, 1.0) as f32;
        }
    }
}

impl Attack for Ddn {
    fn name(&self) -> &'static str {
        "ddn"
    }

    fn kind(&self) -> Kind {
        let (floor, ceiling) = self.params.reach();
        Kind::MinimalNorm {
            floor,
            ceiling,
            max_norm: self.params.max_norm,
        }
    }

    fn perturb(
        &self,
        target: &dyn Target,
        batch: &Batch<'_>,
        observe: &mut dyn FnMut(&Visit<'_>),
    ) -> Result<Vec<Attempt>, AttackError> {
        let &DdnParams {
            steps, gamma, seed, ..
        } = &self.params;
        let len = target.input().len();
        let mut images: Vec<Vec<f32>> = (0..batch.len()).map(|i| batch.image(i).to_vec()).collect();
        let mut searches: Vec<Search> = images
            .iter()
            .map(|image| Search::new(image, self.params.init_norm))
            .collect();
        let mut used = vec![steps; batch.len()];
        let mut active: Vec<usize> = (0..batch.len()).collect();
        for step in 1..=steps {
            if active.is_empty() {
                break;
            }
            let gathered = Gathered::new(batch, &active, |i| &images[i]);
            // Nothing moves after the last look.
            let evaluation = if step < steps {
                target.evaluate(&gathered.points(), step)?
            } else {
                Evaluation {
                    judgement: target.judge(&gathered.points(), step)?,
                    gradient: vec![],
                }
            };
            let mut left = Vec::with_capacity(active.len());
            for (k, &i) in active.iter().enumerate() {
                let (index, image) = (batch.indices[i], batch.image(i));
                let rank = evaluation.judgement.standings[k].rank(batch.class(i));
                let success = batch.success(rank);
                observe(&Visit {
                    step,
                    index,
                    image: &images[i],
                    loss: evaluation.judgement.losses[k],
                    success,
                });
                let l2 = distance(image, &images[i]);
                searches[i].judge(l2, &images[i], success, gamma);
                if success && l2 == 0.0 {
                    used[i] = step - 1;
                    continue;
                }
                searches[i].always_successful &= success || step == 1;
                if step < steps {
                    let gradient = &evaluation.gradient[k * len..(k + 1) * len];
                    let turn = batch.sign() * self.rate(step);
                    let direction = unit(gradient, seed, index, step);
                    let turn = direction.iter().map(|d| turn * d);
                    self.advance(image, &mut images[i], turn, searches[i].norm);
                }
                left.push(i);
            }
            active = left;
        }
        let attempts = searches.into_iter().zip(used).enumerate();
        Ok(attempts
            .map(|(i, (search, steps))| {
                let (l2, mut best) = search.best.unwrap_or((0.0, batch.image(i).to_vec()));
                if let Some(max_norm) = self.params.max_norm {
                    project(batch.image(i), &mut best, max_norm);
                }
                Attempt {
                    image: best,
                    steps,
                    at_floor: search.always_successful && l2 > 0.0,
                }
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reachable_norms_are_the_documented_ones() {
        let (floor, ceiling) = DdnParams::default().reach();
        assert!((floor - 0.417).abs() < 1e-3 && (ceiling - 2.527).abs() < 1e-3);
    }

    /// Rounding to 256 levels must leave the pixels of an image file alone.
    #[test]
    fn unmoved_pixels_keep_their_bits() {
        let image: Vec<f32> = (0..=255u8).map(|b| f32::from(b) / 255.0).collect();
        let mut adversarial = image.clone();
        let ddn = DdnParams::default().check().unwrap();
        ddn.advance(
            &image,
            &mut adversarial,
            std::iter::repeat_n(1.0, 256),
            1e-3,
        );
        assert_eq!(image, adversarial);
    }

    #[test]
    fn the_rate_falls_from_one_to_a_hundredth() {
        let ddn = DdnParams::default().check().unwrap();
        assert_eq!(ddn.rate(1), 1.0);
        assert!((ddn.rate(11) - 0.505).abs() < 1e-12);
        assert!((ddn.rate(21) - 0.01).abs() < 1e-12);
    }
}
