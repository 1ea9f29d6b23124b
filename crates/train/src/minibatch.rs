//! The images of one step, or this rank's part of them.

use std::ops::{Deref, Range};

use network::Images;

/// The images of a step that this process passes. With several ranks each has a part
/// of them; which images are noisy, mixed or attacked, and what each counts in the
/// mean, depends on the whole minibatch.
#[derive(Clone, Copy, Debug)]
pub struct Minibatch<'a> {
    images: &'a Images,
    /// Pixels of the image behind the last one, if that is another rank's.
    next: Option<&'a [f32]>,
    /// Place of the first image in the minibatch.
    first: usize,
    /// Images of the minibatch.
    batch: usize,
    /// Ranks that all pass the whole minibatch.
    copies: usize,
}

impl<'a> Minibatch<'a> {
    /// All images of a step.
    pub fn whole(images: &'a Images) -> Self {
        Self {
            images,
            next: None,
            first: 0,
            batch: images.len(),
            copies: 1,
        }
    }

    /// All images of a step that each of `ranks` ranks passes: too few to be shared.
    pub(crate) fn repeated(images: &'a Images, ranks: usize) -> Self {
        Self {
            copies: ranks,
            ..Self::whole(images)
        }
    }

    /// The images from place `first` on of a minibatch of `batch` images, and the
    /// pixels of the one behind them.
    pub(crate) fn part(images: &'a Images, next: &'a [f32], first: usize, batch: usize) -> Self {
        Self {
            images,
            next: Some(next),
            first,
            batch,
            copies: 1,
        }
    }

    /// This process's images.
    pub fn images(&self) -> &'a Images {
        self.images
    }

    /// Over how many images the loss is a mean, here and on all other ranks. What a
    /// step adds to the gradient and what it measures are divided by this, not by the
    /// images at hand.
    pub fn of(&self) -> usize {
        self.batch * self.copies
    }

    /// Images of the minibatch.
    pub(crate) fn batch(&self) -> usize {
        self.batch
    }

    /// Those of our images whose places in the minibatch are in `places`.
    pub(crate) fn local(&self, places: Range<usize>) -> Range<usize> {
        let here = |place: usize| place.saturating_sub(self.first).min(self.images.len());
        here(places.start)..here(places.end)
    }

    /// Pixels of the image behind another one in the minibatch; the first one is behind
    /// the last.
    pub(crate) fn behind(&self, place: usize) -> &'a [f32] {
        match self.next {
            Some(next) if place + 1 == self.images.len() => next,
            _ => self.images.image((place + 1) % self.images.len()),
        }
    }
}

impl Deref for Minibatch<'_> {
    type Target = Images;

    fn deref(&self) -> &Images {
        self.images
    }
}
