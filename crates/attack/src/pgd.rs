//! Projected gradient descent: a fixed budget.

use rayon::prelude::*;

use crate::attempt::{Attack, Attempt, Kind, Visit};
use crate::batch::{Batch, Gathered};
use crate::error::{AttackError, require};
use crate::l2::{project, unit};
use crate::target::Target;

/// Hyper-parameters of [`Pgd`].
///
/// Each step moves along the normalised gradient of the cross-entropy, clips to
/// [0, 1] and projects to the budget,
///
/// ```text
/// x' <- P_eps(clip(x' +- step_size * g / ||g||)),     x' = x at first
/// ```
///
/// plus for untargeted, minus for targeted attacks; where `g` is 0 the direction
/// is random.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `steps` | 20 | gradient steps | 1 to 10,000 |
/// | `eps` | 4 | largest L2 norm of the perturbation | > 0 |
/// | `step_size` | `2 * eps / steps` | length of a step | > 0 |
/// | `stop_at_success` | yes | leave an image at its first success | |
/// | `seed` | 0 | of random directions | |
#[derive(Clone, Debug, PartialEq)]
pub struct PgdParams {
    /// Gradient steps.
    pub steps: u32,
    /// Largest L2 norm of the perturbation, in units of pixels scaled to [0, 1].
    pub eps: f64,
    /// Length of a step; `None`: `2 * eps / steps`.
    pub step_size: Option<f64>,
    /// Leave an image at its first success. Adversarial training goes on.
    pub stop_at_success: bool,
    /// Of random directions.
    pub seed: u64,
}

impl Default for PgdParams {
    fn default() -> Self {
        Self {
            steps: 20,
            eps: 4.0,
            step_size: None,
            stop_at_success: true,
            seed: 0,
        }
    }
}

impl PgdParams {
    /// The attack, if every value is in its range.
    pub fn check(self) -> Result<Pgd, AttackError> {
        let positive = |v: f64| v > 0.0 && v.is_finite();
        let steps_fit = (1..=10_000).contains(&self.steps);
        require(steps_fit, "steps", "1 to 10000", self.steps)?;
        require(positive(self.eps), "eps", "a positive number", self.eps)?;
        let default = 2.0 * self.eps / f64::from(self.steps);
        let step_size = self.step_size.unwrap_or(default);
        require(
            positive(step_size),
            "step_size",
            "a positive number",
            step_size,
        )?;
        Ok(Pgd {
            params: self,
            step_size,
        })
    }
}

/// Projected gradient descent in L2; made by [`PgdParams::check`].
#[derive(Clone, Debug, PartialEq)]
pub struct Pgd {
    params: PgdParams,
    step_size: f64,
}

impl Pgd {
    /// Its hyper-parameters.
    pub fn params(&self) -> &PgdParams {
        &self.params
    }

    /// Length of a step.
    pub fn step_size(&self) -> f64 {
        self.step_size
    }

    fn advance(&self, image: &[f32], adversarial: &mut [f32], direction: &[f64], sign: f64) {
        for (a, d) in adversarial.iter_mut().zip(direction) {
            let moved = f64::from(*a) + sign * self.step_size * d;
            *a = moved.clamp(0.0, 1.0) as f32;
        }
        project(image, adversarial, self.params.eps);
    }
}

impl Attack for Pgd {
    fn name(&self) -> &'static str {
        "pgd"
    }

    fn kind(&self) -> Kind {
        Kind::FixedBudget {
            eps: self.params.eps,
        }
    }

    fn perturb(
        &self,
        target: &dyn Target,
        batch: &Batch<'_>,
        observe: &mut dyn FnMut(&Visit<'_>),
    ) -> Result<Vec<Attempt>, AttackError> {
        let PgdParams { steps, seed, .. } = self.params;
        let len = target.input().len();
        let mut images: Vec<Vec<f32>> = (0..batch.len()).map(|i| batch.image(i).to_vec()).collect();
        let mut used = vec![steps; batch.len()];
        let mut active: Vec<usize> = (0..batch.len()).collect();
        for step in 1..=steps {
            if active.is_empty() {
                break;
            }
            let gathered = Gathered::new(batch, &active, |i| &images[i]);
            let evaluation = target.evaluate(&gathered.points(), step)?;
            let mut left = Vec::with_capacity(active.len());
            let mut place = vec![None; batch.len()];
            for (k, &i) in active.iter().enumerate() {
                let index = batch.indices[i];
                let rank = evaluation.judgement.standings[k].rank(batch.class(i));
                let success = batch.success(rank);
                observe(&Visit {
                    step,
                    index,
                    image: &images[i],
                    loss: evaluation.judgement.losses[k],
                    success,
                });
                if success && self.params.stop_at_success {
                    used[i] = step - 1;
                    continue;
                }
                place[i] = Some(k);
                left.push(i);
            }
            let each = images.par_iter_mut().zip(place).enumerate();
            each.for_each(|(i, (image, place))| {
                if let Some(k) = place {
                    let gradient = &evaluation.gradient[k * len..(k + 1) * len];
                    let direction = unit(gradient, seed, batch.indices[i], step);
                    self.advance(batch.image(i), image, &direction, batch.sign());
                }
            });
            active = left;
        }
        let attempts = images.into_iter().zip(used);
        Ok(attempts
            .map(|(image, steps)| Attempt {
                image,
                steps,
                at_floor: false,
            })
            .collect())
    }
}
