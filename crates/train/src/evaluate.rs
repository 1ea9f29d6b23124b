//! Clean and noisy accuracy.

use std::ops::Range;

use data::{DataError, Dataset, Loader, LoaderOptions};
use network::{Classify, DeviceError, Noise, NoisyImage};

/// Counts of images whose label is on top, or among the top five.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accuracy {
    /// All images.
    pub images: u64,
    /// Label has the largest logit.
    pub top1: u64,
    /// Label is among the five largest.
    pub top5: u64,
    /// Some logit is infinite or NaN; never counted as right.
    pub not_finite: u64,
}

impl Accuracy {
    /// Share of images with the label on top.
    pub fn top1(&self) -> f64 {
        self.top1 as f64 / self.images.max(1) as f64
    }

    /// Share of images with the label among the five largest logits.
    pub fn top5(&self) -> f64 {
        self.top5 as f64 / self.images.max(1) as f64
    }

    fn count(&mut self, logits: &[f32], label: u32) {
        let own = logits[label as usize];
        let larger = logits.iter().filter(|&&z| z > own).count();
        // Equal logits rank by class number, as argmax does.
        let before = logits[..label as usize]
            .iter()
            .filter(|&&z| z == own)
            .count();
        let rank = larger + before;
        let finite = logits.iter().all(|logit| logit.is_finite());
        self.images += 1;
        self.top1 += u64::from(rank == 0 && finite);
        self.top5 += u64::from(rank < 5 && finite);
        self.not_finite += u64::from(!finite);
    }
}

/// Why a classifier could not be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// An image cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The device fails.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl EvaluateError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Data(error) => error.hint(),
            Self::Device(error) => error.hint(),
        }
    }
}

/// Accuracy of a classifier on the images `range` of a data set (as far as there
/// are any): on clean images, or with one draw of noise for each image.
/// `after_batch` hears the number of images done.
///
/// # Errors
/// An image that cannot be read; a device that fails.
pub fn evaluate<C: Classify + ?Sized>(
    classifier: &C,
    dataset: &Dataset,
    noise: Option<&Noise>,
    range: Range<usize>,
    mut after_batch: impl FnMut(u64),
) -> Result<Accuracy, EvaluateError> {
    let (classes, batch) = (classifier.classes(), classifier.batch());
    let mut accuracy = Accuracy::default();
    let range = range.start..range.end.min(dataset.len());
    if range.is_empty() {
        return Ok(accuracy);
    }
    let mut logits = vec![0.0; batch * classes];
    let options = LoaderOptions {
        start_batch: range.start / batch,
        ..LoaderOptions::evaluation(batch)
    };
    let mut start = options.start_batch * batch;
    let mut loader = Loader::new(dataset, options)?;
    while start < range.end {
        let Some(images) = loader.next().transpose()? else {
            break;
        };
        // The part of the batch that is wanted.
        let end = images.len().min(range.end - start);
        let wanted = range.start.saturating_sub(start)..end;
        let len = images.shape.len();
        let logits = &mut logits[..wanted.len() * classes];
        match noise {
            None => classifier.logits(&images.pixels[wanted.start * len..end * len], logits)?,
            Some(noise) => {
                let noisy = wanted.clone().map(|place| NoisyImage {
                    pixels: images.image(place),
                    image: images.indices[place],
                    first_sample: 0,
                    count: 1,
                });
                classifier.noisy_logits(noise, &noisy.collect::<Vec<_>>(), logits)?;
            }
        }
        for (logits, &label) in logits.chunks_exact(classes).zip(&images.labels[wanted]) {
            accuracy.count(logits, label);
        }
        start += images.len();
        after_batch(accuracy.images);
        loader.recycle(images);
    }
    Ok(accuracy)
}
