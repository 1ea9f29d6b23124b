//! Is this a network on which an attack means something?

use std::fmt;

use crate::attempt::{Attack, AttackKind};
use crate::challenge::Challenge;
use crate::error::AttackError;
use crate::outcome::AttackOutcome;
use crate::summary::AttackSummary;
use crate::target::Target;

/// Images looked at before an attack.
const PROBES: usize = 16;

/// Share of results on DDN's floor from which on it is worth a warning.
const MANY: f64 = 0.1;

/// A reason to doubt an attack's figures; its text says what to do.
#[derive(Clone, Debug, PartialEq)]
pub enum AttackWarning {
    /// The same images got different answers.
    Random {
        /// How many did.
        images: usize,
        /// Of how many.
        of: usize,
    },
    /// The loss has no gradient.
    ZeroGradient {
        /// At how many images.
        images: usize,
        /// Of how many.
        of: usize,
    },
    /// The gradient is infinite or not a number.
    GradientNotFinite {
        /// At how many images.
        images: usize,
        /// Of how many.
        of: usize,
    },
    /// Outputs are all at least 0 and sum to 1.
    Probabilities,
    /// Many distances are the smallest that the number of steps allows.
    Floor {
        /// How many are.
        images: usize,
        /// Of how many successes.
        of: usize,
        /// That distance, before rounding to grey levels.
        floor: f64,
    },
}

impl fmt::Display for AttackWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random { images, of } => write!(
                f,
                "{images} of {of} images got another answer when asked again, so the network is \
                 random and gradients mislead the attack: take the randomness out, or attack its \
                 average over noise"
            ),
            Self::ZeroGradient { images, of } => write!(
                f,
                "the gradient is 0 at {images} of {of} images, so the attack wanders at random \
                 there and failures prove nothing: look for saturated or rounding layers, or \
                 attack a smooth stand-in of the network and test its images here"
            ),
            Self::GradientNotFinite { images, of } => write!(
                f,
                "the gradient is infinite or NaN at {images} of {of} images, so the attack \
                 wanders at random there: check the weights for extreme values"
            ),
            Self::Probabilities => write!(
                f,
                "the outputs look like probabilities, but logits are expected, and a second \
                 softmax flattens the gradient: remove the network's last softmax"
            ),
            Self::Floor { images, of, floor } => write!(
                f,
                "{images} of {of} distances are the smallest that this number of steps allows \
                 ({floor:.3}, before rounding to grey levels), the true ones are smaller: take \
                 more steps"
            ),
        }
    }
}

/// Looks at the first images.
pub fn before(
    target: &dyn Target,
    challenge: &Challenge<'_>,
) -> Result<Vec<AttackWarning>, AttackError> {
    challenge.check(target.input(), target.classes())?;
    let of = challenge.len().min(PROBES);
    if of == 0 {
        return Ok(vec![]);
    }
    let chosen: Vec<usize> = (0..of).collect();
    let points = challenge.points(&chosen, |i| challenge.images.image(i));
    let first = target.evaluate(&points, 1)?;
    let second = target.evaluate(&points, 1)?;
    let count = |test: &dyn Fn(usize) -> bool| (0..of).filter(|&i| test(i)).count();
    let len = target.input().len();
    let gradient = |i: usize| &first.gradient[i * len..(i + 1) * len];
    let mut warnings = vec![];

    let images = count(&|i| {
        first.judgement.losses[i] != second.judgement.losses[i]
            || first.judgement.standings[i] != second.judgement.standings[i]
    });
    if images > 0 {
        warnings.push(AttackWarning::Random { images, of });
    }
    let images = count(&|i| gradient(i).iter().all(|&g| g == 0.0));
    if images > 0 {
        warnings.push(AttackWarning::ZeroGradient { images, of });
    }
    let images = count(&|i| gradient(i).iter().any(|g| !g.is_finite()));
    if images > 0 {
        warnings.push(AttackWarning::GradientNotFinite { images, of });
    }
    let outputs = target.outputs(&points.pixels)?;
    if outputs.chunks_exact(target.classes()).all(is_distribution) {
        warnings.push(AttackWarning::Probabilities);
    }
    Ok(warnings)
}

fn is_distribution(row: &[f32]) -> bool {
    row.iter().all(|&p| p >= 0.0) && (row.iter().sum::<f32>() - 1.0).abs() < 1e-3
}

/// Looks at what an attack found.
pub fn after(attack: &dyn Attack, outcomes: &[AttackOutcome]) -> Vec<AttackWarning> {
    let summary = AttackSummary::new(outcomes);
    let (images, of) = (summary.at_floor, summary.broken);
    match attack.kind() {
        AttackKind::MinimalNorm { floor, .. } if images as f64 > MANY * of as f64 => {
            vec![AttackWarning::Floor { images, of, floor }]
        }
        _ => vec![],
    }
}
