//! What an attack sees of a network.

mod averaged;
mod cross_entropy;
mod deterministic;
mod passes;
mod standing;

pub use averaged::Averaged;
pub use deterministic::Deterministic;
pub use standing::{Judgement, Standing};

use network::Shape;

use crate::error::AttackError;

/// Images at which a target is asked, with the class of each whose
/// cross-entropy is the loss.
#[derive(Clone, Copy, Debug)]
pub struct Points<'a> {
    /// One behind the other, NHWC.
    pub images: &'a [f32],
    /// Number of each image in its data set: the key of its noise.
    pub indices: &'a [u32],
    /// Label, or target, of each image.
    pub classes: &'a [u32],
}

impl Points<'_> {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// Without images.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }
}

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
/// `step` counts an attack's steps from 1; 0 is a look from outside, before or
/// after the attack. Only a target with fresh noise in each step makes a
/// difference.
pub trait Target {
    /// Shape of one image.
    fn input(&self) -> Shape;

    /// Number of classes.
    fn classes(&self) -> usize;

    /// Losses and predictions.
    fn judge(&self, points: &Points<'_>, step: u32) -> Result<Judgement, AttackError>;

    /// The same, with gradients.
    fn evaluate(&self, points: &Points<'_>, step: u32) -> Result<Evaluation, AttackError>;

    /// What the network itself puts out for these images, for sanity checks.
    fn outputs(&self, images: &[f32]) -> Vec<f32>;
}
