//! Images to attack, and what counts as success.

use network::{Images, Shape};
use settings::SettingError;

use crate::error::AttackError;

/// What an attack is after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal<'a> {
    /// The label is no longer among the `top_k` classes.
    Untargeted,
    /// The given class, one an image, is among the `top_k` classes. An image whose
    /// label is its target is left out: see [`Challenge::left_out`].
    Targeted(&'a [u32]),
}

/// Images, and the goal.
#[derive(Clone, Copy, Debug)]
pub struct Challenge<'a> {
    /// What to attack.
    pub images: &'a Images,
    /// What to reach.
    pub goal: Goal<'a>,
    /// How many classes count as predicted; 1 is the usual case.
    pub top_k: usize,
}

impl<'a> Challenge<'a> {
    /// An untargeted top-1 attack.
    pub fn new(images: &'a Images) -> Self {
        Self {
            images,
            goal: Goal::Untargeted,
            top_k: 1,
        }
    }

    /// Towards the given class of each image.
    pub fn targeted(mut self, targets: &'a [u32]) -> Self {
        self.goal = Goal::Targeted(targets);
        self
    }

    /// Success is judged on the `top_k` best classes.
    pub fn top_k(mut self, top_k: usize) -> Self {
        self.top_k = top_k;
        self
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// Without images.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// The class whose loss is followed: the label, or the target.
    pub fn class(&self, i: usize) -> u32 {
        match self.goal {
            Goal::Untargeted => self.images.labels[i],
            Goal::Targeted(targets) => targets[i],
        }
    }

    /// Whether an image's target is its own label: reaching it would be no attack.
    pub fn left_out(&self, i: usize) -> bool {
        match self.goal {
            Goal::Untargeted => false,
            Goal::Targeted(targets) => targets[i] == self.images.labels[i],
        }
    }

    /// +1 if the loss is to grow, -1 if it is to shrink.
    pub(crate) fn sign(&self) -> f64 {
        match self.goal {
            Goal::Untargeted => 1.0,
            Goal::Targeted(_) => -1.0,
        }
    }

    /// Whether the goal is reached when `rank` classes stand before
    /// [`Challenge::class`].
    pub fn success(&self, rank: usize) -> bool {
        match self.goal {
            Goal::Untargeted => rank >= self.top_k,
            Goal::Targeted(_) => rank < self.top_k,
        }
    }

    /// Some of the images as points at which a target is asked: their labels
    /// are the classes whose loss is followed, their pixels come from `pixels`.
    pub(crate) fn points<'p>(
        &self,
        chosen: &[usize],
        pixels: impl Fn(usize) -> &'p [f32],
    ) -> Images {
        let mut points = Images::new(self.images.shape);
        for &i in chosen {
            points.push(self.images.indices[i], self.class(i), pixels(i));
        }
        points
    }

    /// Checks `top_k` against a network.
    pub fn check_top_k(top_k: usize, classes: usize) -> Result<(), AttackError> {
        if classes < 2 {
            return Err(SettingError::value("classes", classes, "at least 2").into());
        }
        if !(1..classes).contains(&top_k) {
            let expected = format!("1 to {}, less than the number of classes", classes - 1);
            return Err(SettingError::value("top-k", top_k, expected).into());
        }
        Ok(())
    }

    /// Checks lengths, pixels, classes and `top_k` against a network.
    pub fn check(&self, input: Shape, classes: usize) -> Result<(), AttackError> {
        Self::check_top_k(self.top_k, classes)?;
        let images = self.images;
        length("image numbers", self.len(), images.indices.len())?;
        length("pixels", self.len() * input.len(), images.pixels.len())?;
        for i in 0..self.len() {
            let index = images.indices[i];
            let outside = |v: &&f32| !(0.0..=1.0).contains(*v);
            if let Some(&value) = images.image(i).iter().find(outside) {
                return Err(AttackError::Pixel { index, value });
            }
            class(index, "label", images.labels[i], classes)?;
        }
        let Goal::Targeted(targets) = self.goal else {
            return Ok(());
        };
        length("targets", self.len(), targets.len())?;
        for (i, &target) in targets.iter().enumerate() {
            class(images.indices[i], "target", target, classes)?;
        }
        Ok(())
    }
}

fn length(what: &'static str, expected: usize, got: usize) -> Result<(), AttackError> {
    if expected == got {
        return Ok(());
    }
    Err(AttackError::Length {
        what,
        expected,
        got,
    })
}

fn class(index: u32, what: &'static str, class: u32, classes: usize) -> Result<(), AttackError> {
    if (class as usize) < classes {
        return Ok(());
    }
    Err(AttackError::Class {
        index,
        what,
        class,
        classes,
    })
}
