//! Images to attack, and what counts as success.

use network::Shape;

use crate::error::{AttackError, require};
use crate::target::Points;

/// What an attack is after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal<'a> {
    /// The label is no longer among the `top_k` classes.
    Untargeted,
    /// The given class, one an image, is among the `top_k` classes. An image whose
    /// label is its target is left out: see [`Batch::left_out`].
    Targeted(&'a [u32]),
}

/// Images with their numbers and labels, and the goal.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// One behind the other, NHWC, pixels in [0, 1].
    pub images: &'a [f32],
    /// Number of each image in its data set: the key of its noise.
    pub indices: &'a [u32],
    /// Class of each image.
    pub labels: &'a [u32],
    /// What to reach.
    pub goal: Goal<'a>,
    /// How many classes count as predicted; 1 is the usual case.
    pub top_k: usize,
}

impl<'a> Batch<'a> {
    /// For an untargeted top-1 attack.
    pub fn new(images: &'a [f32], indices: &'a [u32], labels: &'a [u32]) -> Self {
        Self {
            images,
            indices,
            labels,
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
        self.labels.len()
    }

    /// Without images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Pixels of one image.
    pub fn image(&self, i: usize) -> &'a [f32] {
        let len = self.images.len() / self.len();
        &self.images[i * len..(i + 1) * len]
    }

    /// The class whose loss is followed: the label, or the target.
    pub fn class(&self, i: usize) -> u32 {
        match self.goal {
            Goal::Untargeted => self.labels[i],
            Goal::Targeted(targets) => targets[i],
        }
    }

    /// Whether an image's target is its own label: reaching it would be no attack.
    pub fn left_out(&self, i: usize) -> bool {
        match self.goal {
            Goal::Untargeted => false,
            Goal::Targeted(targets) => targets[i] == self.labels[i],
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
    /// [`Batch::class`].
    pub fn success(&self, rank: usize) -> bool {
        match self.goal {
            Goal::Untargeted => rank >= self.top_k,
            Goal::Targeted(_) => rank < self.top_k,
        }
    }

    /// Checks lengths, pixels, classes and `top_k` against a network.
    pub fn check(&self, input: Shape, classes: usize) -> Result<(), AttackError> {
        require(classes >= 2, "classes", "at least 2", classes)?;
        require(
            (1..classes).contains(&self.top_k),
            "top_k",
            "at least 1 and less than the number of classes",
            self.top_k,
        )?;
        length("image numbers", self.len(), self.indices.len())?;
        length("pixels", self.len() * input.len(), self.images.len())?;
        for i in 0..self.len() {
            let index = self.indices[i];
            let outside = |v: &&f32| !(0.0..=1.0).contains(*v);
            if let Some(&value) = self.image(i).iter().find(outside) {
                return Err(AttackError::Pixel { index, value });
            }
            class(index, "label", self.labels[i], classes)?;
        }
        let Goal::Targeted(targets) = self.goal else {
            return Ok(());
        };
        length("targets", self.len(), targets.len())?;
        for (i, &target) in targets.iter().enumerate() {
            class(self.indices[i], "target", target, classes)?;
        }
        Ok(())
    }
}

/// Some images of a batch, one behind the other: an image that is done costs no
/// more passes.
pub(crate) struct Gathered {
    pub images: Vec<f32>,
    indices: Vec<u32>,
    labels: Vec<u32>,
    classes: Vec<u32>,
}

impl Gathered {
    /// Takes the pixels from `image`, everything else from the batch.
    pub fn new<'i>(
        batch: &Batch<'_>,
        chosen: &[usize],
        image: impl Fn(usize) -> &'i [f32],
    ) -> Self {
        Self {
            images: chosen.iter().flat_map(|&i| image(i)).copied().collect(),
            indices: chosen.iter().map(|&i| batch.indices[i]).collect(),
            labels: chosen.iter().map(|&i| batch.labels[i]).collect(),
            classes: chosen.iter().map(|&i| batch.class(i)).collect(),
        }
    }

    pub fn points(&self) -> Points<'_> {
        Points {
            images: &self.images,
            indices: &self.indices,
            classes: &self.classes,
        }
    }

    /// As a batch with the goal of the whole.
    pub fn batch(&self, whole: &Batch<'_>) -> Batch<'_> {
        let part = Batch::new(&self.images, &self.indices, &self.labels).top_k(whole.top_k);
        match whole.goal {
            Goal::Untargeted => part,
            Goal::Targeted(_) => part.targeted(&self.classes),
        }
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
