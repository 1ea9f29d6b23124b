//! Images to be judged, and what makes them or their logits unusable.

use network::{Classify, Images};

use crate::CertifyError;

/// One of the images to be judged, while it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Image {
    pub index: u32,
    pub label: usize,
    pub pixels: Vec<f32>,
}

/// Images one by one.
pub(crate) fn singles(images: impl IntoIterator<Item = Images>) -> impl Iterator<Item = Image> {
    images.into_iter().flat_map(|images| {
        (0..images.len()).map(move |place| Image {
            index: images.indices[place],
            label: images.labels[place] as usize,
            pixels: images.image(place).to_vec(),
        })
    })
}

/// Refuses logits that are not finite.
pub(crate) fn finite(logits: &[f32], image: u32) -> Result<(), CertifyError> {
    if logits.iter().all(|logit| logit.is_finite()) {
        Ok(())
    } else {
        Err(CertifyError::Output { image })
    }
}

/// Refuses an image that the model cannot judge.
pub(crate) fn check(image: &Image, model: &(impl Classify + ?Sized)) -> Result<(), CertifyError> {
    let (expected, got) = (model.input().len(), image.pixels.len());
    if got != expected {
        return Err(CertifyError::Size {
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
        return Err(CertifyError::Pixel {
            image: image.index,
            position,
            got,
        });
    }
    let classes = model.classes();
    if image.label >= classes {
        return Err(CertifyError::Label {
            image: image.index,
            label: image.label,
            classes,
        });
    }
    Ok(())
}
