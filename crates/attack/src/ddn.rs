//! Decoupled direction and norm (Rony et al., CVPR 2019): the minimal norm.

use std::f64::consts::PI;

use settings::{SettingError, settings};

use crate::attempt::{Attack, AttackKind, Attempt, Visit};
use crate::challenge::Challenge;
use crate::descent::{Look, Walk, walk_all};
use crate::error::{AttackError, require};
use crate::l2::{difference, distance, norm, project};
use crate::target::Target;

settings! {
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
    pub struct DdnParams {
        /// Images evaluated, 2 to 10,000.
        steps: u32 = 20,
        /// Scale results of a larger L2 norm down to this one, whether or not they
        /// still succeed then [default: none].
        eps: Option<f64> = None,
        /// Norm to start from, in units of pixels scaled to [0, 1].
        init_norm: f64 = 1.0,
        /// Relative change of the norm in a step, between 0 and 1.
        gamma: f64 = 0.05,
        /// Grey levels to round to, 2 to 65,536 (256: what an image file can
        /// hold); 0: do not round.
        levels: u32 = 256,
    }
}

impl DdnParams {
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

/// Decoupled direction and norm.
#[derive(Clone, Debug, PartialEq)]
pub struct Ddn {
    params: DdnParams,
    seed: u64,
}

/// An image under attack.
pub(crate) struct Search {
    norm: f64,
    /// No pixel can move further than to 0 or 1.
    max_norm: f64,
    best: Option<(f64, Vec<f32>)>,
    always_successful: bool,
}

impl Ddn {
    /// The attack, if every value is in its range; `seed` is of random directions.
    ///
    /// # Errors
    /// A value out of its range.
    pub fn new(params: DdnParams, seed: u64) -> Result<Self, SettingError> {
        let positive = |v: f64| v > 0.0 && v.is_finite();
        let steps_fit = (2..=10_000).contains(&params.steps);
        require(steps_fit, "steps", "2 to 10000", params.steps)?;
        let init_norm = params.init_norm;
        let fits = positive(init_norm);
        require(fits, "init-norm", "a positive number", init_norm)?;
        let gamma_fits = params.gamma > 0.0 && params.gamma < 1.0;
        require(gamma_fits, "gamma", "between 0 and 1", params.gamma)?;
        let levels_fit = matches!(params.levels, 0 | 2..=65_536);
        let expected = "0, or 2 to 65536 grey levels";
        require(levels_fit, "levels", expected, params.levels)?;
        let eps = params.eps.unwrap_or(1.0);
        require(positive(eps), "eps", "a positive number", eps)?;
        Ok(Self { params, seed })
    }

    /// Length of the turn after `step` (from 1).
    fn rate(&self, step: u32) -> f64 {
        let progress = f64::from(step - 1) / f64::from(self.params.steps);
        0.01 + 0.99 * (1.0 + (PI * progress).cos()) / 2.0
    }

    fn turn(&self, image: &[f32], moved: &mut [f32], turn: impl Iterator<Item = f64>, length: f64) {
        let turned = difference(image, moved).zip(turn).map(|(p, t)| p + t);
        let perturbation: Vec<f64> = turned.collect();
        let norm = norm(perturbation.iter().copied());
        // A turn that cancels the perturbation leaves the image for one step.
        let scale = if norm > 0.0 { length / norm } else { 0.0 };
        for ((a, &x), p) in moved.iter_mut().zip(image).zip(perturbation) {
            let mut further = f64::from(x) + scale * p;
            if self.params.levels > 0 {
                let top = f64::from(self.params.levels - 1);
                further = (further * top).round_ties_even() / top;
            }
            *a = further.clamp(0.0, 1.0) as f32;
        }
    }
}

impl Attack for Ddn {
    fn name(&self) -> &'static str {
        "ddn"
    }

    fn kind(&self) -> AttackKind {
        let (floor, ceiling) = self.params.reach();
        AttackKind::MinimalNorm {
            floor,
            ceiling,
            max_norm: self.params.eps,
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

impl Walk for Ddn {
    type State = Search;

    fn steps(&self) -> u32 {
        self.params.steps
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn begin(&self, image: &[f32]) -> Search {
        let room = |&x: &f32| f64::from(x.max(1.0 - x));
        Search {
            norm: self.params.init_norm,
            max_norm: norm(image.iter().map(room)),
            best: None,
            always_successful: true,
        }
    }

    fn go_on(&self, search: &mut Search, look: &Look<'_>) -> bool {
        let l2 = distance(look.image, look.moved);
        if look.success && search.best.as_ref().is_none_or(|(best, _)| l2 < *best) {
            search.best = Some((l2, look.moved.to_vec()));
        }
        let gamma = self.params.gamma;
        let factor = if look.success {
            1.0 - gamma
        } else {
            1.0 + gamma
        };
        search.norm = (search.norm * factor).min(search.max_norm);
        if look.success && l2 == 0.0 {
            return false;
        }
        search.always_successful &= look.success || look.step == 1;
        true
    }

    /// Nothing moves after the last look.
    fn moves_after(&self, step: u32) -> bool {
        step < self.params.steps
    }

    fn advance(
        &self,
        search: &Search,
        step: u32,
        direction: &[f64],
        image: &[f32],
        moved: &mut [f32],
    ) {
        let rate = self.rate(step);
        let turn = direction.iter().map(|d| rate * d);
        self.turn(image, moved, turn, search.norm);
    }

    fn end(&self, search: Search, image: &[f32], _: Vec<f32>) -> (Vec<f32>, bool) {
        let (l2, mut best) = search.best.unwrap_or((0.0, image.to_vec()));
        if let Some(max_norm) = self.params.eps {
            project(image, &mut best, max_norm);
        }
        (best, search.always_successful && l2 > 0.0)
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
        let ddn = Ddn::new(DdnParams::default(), 0).unwrap();
        ddn.turn(
            &image,
            &mut adversarial,
            std::iter::repeat_n(1.0, 256),
            1e-3,
        );
        assert_eq!(image, adversarial);
    }

    #[test]
    fn the_rate_falls_from_one_to_a_hundredth() {
        let ddn = Ddn::new(DdnParams::default(), 0).unwrap();
        assert_eq!(ddn.rate(1), 1.0);
        assert!((ddn.rate(11) - 0.505).abs() < 1e-12);
        assert!((ddn.rate(21) - 0.01).abs() < 1e-12);
    }
}
