//! Projected gradient descent: a fixed budget.

use settings::{SettingError, settings};

use crate::attempt::{Attack, AttackKind, Attempt, Visit};
use crate::challenge::Challenge;
use crate::descent::{Look, Walk, walk_all};
use crate::error::{AttackError, require};
use crate::l2::project;
use crate::target::Target;

settings! {
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
    pub struct PgdParams {
        /// Gradient steps, 1 to 10,000.
        steps: u32 = 20,
        /// Largest L2 norm of the perturbation, in units of pixels scaled to [0, 1].
        eps: f64 = 4.0,
        /// Length of a step [default: 2 * eps / steps].
        step_size: Option<f64> = None,
    }
}

/// Projected gradient descent in L2.
#[derive(Clone, Debug, PartialEq)]
pub struct Pgd {
    params: PgdParams,
    step_size: f64,
    stop_at_success: bool,
    seed: u64,
}

impl Pgd {
    /// The attack, if every value is in its range; `seed` is of random directions.
    ///
    /// # Errors
    /// A value out of its range.
    pub fn new(params: PgdParams, seed: u64) -> Result<Self, SettingError> {
        let positive = |v: f64| v > 0.0 && v.is_finite();
        let steps_fit = (1..=10_000).contains(&params.steps);
        require(steps_fit, "steps", "1 to 10000", params.steps)?;
        require(positive(params.eps), "eps", "a positive number", params.eps)?;
        let default = 2.0 * params.eps / f64::from(params.steps);
        let step_size = params.step_size.unwrap_or(default);
        let fits = positive(step_size);
        require(fits, "step-size", "a positive number", step_size)?;
        Ok(Self {
            params,
            step_size,
            stop_at_success: true,
            seed,
        })
    }

    /// Does not leave an image at its first success: adversarial training goes on.
    pub fn without_stopping(mut self) -> Self {
        self.stop_at_success = false;
        self
    }

    /// Length of a step.
    pub fn step_size(&self) -> f64 {
        self.step_size
    }

    /// Largest norm of a perturbation.
    pub fn eps(&self) -> f64 {
        self.params.eps
    }
}

impl Attack for Pgd {
    fn name(&self) -> &'static str {
        "pgd"
    }

    fn kind(&self) -> AttackKind {
        AttackKind::FixedBudget {
            eps: self.params.eps,
        }
    }

    fn perturb(
        &self,
        target: &dyn Target,
        challenge: &Challenge<'_>,
        observe: &mut dyn FnMut(&Visit<'_>),
    ) -> Result<Vec<Attempt>, AttackError> {
        walk_all(self, target, challenge, observe)
    }
}

impl Walk for Pgd {
    type State = ();

    fn steps(&self) -> u32 {
        self.params.steps
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn begin(&self, _: &[f32]) {}

    fn go_on(&self, (): &mut (), look: &Look<'_>) -> bool {
        !(look.success && self.stop_at_success)
    }

    fn moves_after(&self, _: u32) -> bool {
        true
    }

    fn advance(&self, (): &(), _: u32, direction: &[f64], image: &[f32], moved: &mut [f32]) {
        for (a, d) in moved.iter_mut().zip(direction) {
            let further = f64::from(*a) + self.step_size * d;
            *a = further.clamp(0.0, 1.0) as f32;
        }
        project(image, moved, self.params.eps);
    }

    fn end(&self, (): (), _: &[f32], moved: Vec<f32>) -> (Vec<f32>, bool) {
        (moved, false)
    }
}
