//! A network as it is.

use std::borrow::Cow;

use network::{Differentiable, Shape};

use super::{Evaluation, Judgement, Points, Target, passes};
use crate::error::AttackError;

/// A network whose answer to an image is always the same; the loss is
/// cross-entropy.
#[derive(Debug)]
pub struct Deterministic<'a, N> {
    network: &'a N,
}

impl<'a, N: Differentiable> Deterministic<'a, N> {
    /// Attacks this network.
    pub fn new(network: &'a N) -> Self {
        Self { network }
    }
}

impl<N: Differentiable> Target for Deterministic<'_, N> {
    fn input(&self) -> Shape {
        self.network.input()
    }

    fn classes(&self) -> usize {
        self.network.classes()
    }

    fn judge(&self, points: &Points<'_>, _step: u32) -> Result<Judgement, AttackError> {
        let len = self.input().len();
        passes::judge(self.network, points, 1, |copies, logits| {
            let images = &points.images[copies.start * len..copies.end * len];
            self.network.logits(images, logits);
        })
    }

    fn evaluate(&self, points: &Points<'_>, _step: u32) -> Result<Evaluation, AttackError> {
        let len = self.input().len();
        passes::evaluate(self.network, points, 1, |copies| {
            Cow::Borrowed(&points.images[copies.start * len..copies.end * len])
        })
    }

    fn outputs(&self, images: &[f32]) -> Vec<f32> {
        let count = images.len() / self.input().len();
        let mut logits = vec![0.0; count * self.classes()];
        self.network.logits(images, &mut logits);
        logits
    }
}
