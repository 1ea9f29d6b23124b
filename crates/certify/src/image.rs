//! Images to be judged, and what makes them or their logits unusable.

use std::borrow::Cow;

use network::Classify;

use crate::Error;

/// An image to be judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Image<'a> {
    /// Its number in its data set. Part of the noise's key, so that shards and
    /// restarts see the same noise.
    pub index: u32,
    /// Its class.
    pub label: usize,
    /// Pixels scaled to [0, 1], NHWC.
    pub pixels: Cow<'a, [f32]>,
}

/// Refuses logits that are not finite.
pub(crate) fn finite(logits: &[f32], image: u32) -> Result<(), Error> {
    if logits.iter().all(|logit| logit.is_finite()) {
        Ok(())
    } else {
        Err(Error::Output { image })
    }
}

/// Refuses an image that the model cannot judge.
pub(crate) fn check(image: &Image<'_>, model: &(impl Classify + ?Sized)) -> Result<(), Error> {
    let (expected, got) = (model.input().len(), image.pixels.len());
    if got != expected {
        return Err(Error::Size {
            image: image.index,
            expected,
            got,
        });
    }
    // A range excludes NaN as well.
    let position = image
        .pixels
        .iter()
        .position(|value| !(0.0..=1.0).contains(value));
    if let Some(position) = position {
        let got = image.pixels[position];
        return Err(Error::Pixel {
            image: image.index,
            position,
            got,
        });
    }
    let classes = model.classes();
    if image.label >= classes {
        return Err(Error::Label {
            image: image.index,
            label: image.label,
            classes,
        });
    }
    Ok(())
}
