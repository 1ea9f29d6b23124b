//! What an attack is.

use crate::challenge::Challenge;
use crate::error::AttackError;
use crate::target::Target;

/// The two kinds of attacks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttackKind {
    /// Anything within `eps` is equally good.
    FixedBudget {
        /// Largest L2 norm.
        eps: f64,
    },
    /// The smaller the norm, the better.
    MinimalNorm {
        /// Smallest norm that the number of steps allows.
        floor: f64,
        /// Largest norm that the number of steps allows.
        ceiling: f64,
        /// Largest norm that is asked for.
        max_norm: Option<f64>,
    },
}

impl AttackKind {
    /// Norm that no result may exceed.
    pub fn budget(&self) -> Option<f64> {
        match *self {
            Self::FixedBudget { eps } => Some(eps),
            Self::MinimalNorm { max_norm, .. } => max_norm,
        }
    }
}

/// What an attack made of an image; whether it succeeded is not its to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The perturbed image: the best found, or the last tried, or the image
    /// itself.
    pub image: Vec<f32>,
    /// Steps used.
    pub steps: u32,
    /// A minimal-norm attack only ever shrank the norm: its number of steps, not
    /// the network, decides the distance.
    pub at_floor: bool,
}

/// One look of an attack at one image, for trajectories and progress.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'a> {
    /// From 1.
    pub step: u32,
    /// Number of the image in its data set.
    pub index: u32,
    /// The perturbed image that was evaluated.
    pub image: &'a [f32],
    /// Cross-entropy of the label (of the target, in a targeted attack).
    pub loss: f64,
    /// Whether the goal is reached there.
    pub success: bool,
}

/// Perturbs images, each on its own.
pub trait Attack {
    /// `pgd`, `ddn`, ...
    fn name(&self) -> &'static str;

    /// Fixed budget or minimal norm.
    fn kind(&self) -> AttackKind;

    /// One attempt an image, in order, with pixels in [0, 1]. The challenge has
    /// passed [`Challenge::check`].
    fn perturb(
        &self,
        target: &dyn Target,
        challenge: &Challenge<'_>,
        observe: &mut dyn FnMut(&Visit<'_>),
    ) -> Result<Vec<Attempt>, AttackError>;
}
