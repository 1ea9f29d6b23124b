//! What an attack sees of a network.

mod averaged;
mod cross_entropy;
mod deterministic;
mod passes;
mod standing;

pub use averaged::Averaged;
pub use deterministic::Deterministic;
pub use standing::{Judgement, Standing};

use network::{Images, Shape};

use crate::error::AttackError;

/// Judgement, and the loss's gradient with respect to the images.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// Losses and predictions.
    pub judgement: Judgement,
    /// `d loss / d image`, image by image, **each up to a positive factor**:
    /// only directions matter, and a factor keeps confident predictions from
    /// underflowing to 0.
    pub gradient: Vec<f32>,
}

/// A classifier as an attack sees it. Networks are evaluated in eval mode: an
/// image's answer depends on nothing but the image.
///
/// The labels of the images at which it is asked are the classes whose
/// cross-entropy is the loss: the true ones, or those of a targeted attack.
///
/// `step` counts an attack's steps from 1; 0 is a look from outside, before or
/// after the attack. Only a target with fresh noise in each step makes a
/// difference.
pub trait Target {
    /// Shape of one image.
    fn input(&self) -> Shape;

    /// Number of classes.
    fn classes(&self) -> usize;

    /// Losses and predictions.
    fn judge(&self, points: &Images, step: u32) -> Result<Judgement, AttackError>;

    /// The same, with gradients.
    fn evaluate(&self, points: &Images, step: u32) -> Result<Evaluation, AttackError>;

    /// What the network itself puts out for these images, for sanity checks.
    ///
    /// # Errors
    /// A device that fails.
    fn outputs(&self, images: &[f32]) -> Result<Vec<f32>, AttackError>;
}
