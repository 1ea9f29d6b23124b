//! A network as it is.

use network::{Executor, Images, Mode, Shape};

use super::{Evaluation, Judgement, Target, passes};
use crate::error::AttackError;

/// A network whose answer to an image is always the same; the loss is
/// cross-entropy.
pub struct Deterministic<'a> {
    network: &'a dyn Executor,
}

impl<'a> Deterministic<'a> {
    /// Attacks this network.
    pub fn new(network: &'a dyn Executor) -> Self {
        Self { network }
    }
}

impl Target for Deterministic<'_> {
    fn input(&self) -> Shape {
        self.network.input()
    }

    fn classes(&self) -> usize {
        self.network.classes()
    }

    fn judge(&self, points: &Images, _step: u32) -> Result<Judgement, AttackError> {
        let len = self.input().len();
        passes::judge(self.network, points, 1, |copies, logits| {
            let images = &points.pixels[copies.start * len..copies.end * len];
            self.network.logits(images, logits)
        })
    }

    fn evaluate(&self, points: &Images, _step: u32) -> Result<Evaluation, AttackError> {
        let len = self.input().len();
        passes::evaluate(self.network, points, 1, |copies| {
            let images = &points.pixels[copies.start * len..copies.end * len];
            self.network.forward(images, Mode::Eval)
        })
    }

    fn outputs(&self, images: &[f32]) -> Result<Vec<f32>, AttackError> {
        let count = images.len() / self.input().len();
        let mut logits = vec![0.0; count * self.classes()];
        self.network.logits(images, &mut logits)?;
        Ok(logits)
    }
}
