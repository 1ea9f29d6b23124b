//! Clean and noisy accuracy; of real values, errors.

use std::ops::Range;

use data::{DataError, Dataset, Loader, LoaderOptions};
use network::{Classify, DeviceError, Images, Noise, NoisyImage};

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
        let rank = rank(logits, label);
        let finite = logits.iter().all(|logit| logit.is_finite());
        self.images += 1;
        self.top1 += u64::from(rank == 0 && finite);
        self.top5 += u64::from(rank < 5 && finite);
        self.not_finite += u64::from(!finite);
    }
}

/// How many classes stand before the label; 0: it is right. Equal logits rank by class
/// number, as argmax does.
pub fn rank(logits: &[f32], label: u32) -> usize {
    let (label, own) = (label as usize, logits[label as usize]);
    let larger = logits.iter().filter(|&&z| z > own).count();
    let before = logits[..label].iter().filter(|&&z| z == own).count();
    larger + before
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
    after_batch: impl FnMut(u64),
) -> Result<Accuracy, EvaluateError> {
    let mut accuracy = Accuracy::default();
    let count = |logits: &[f32], images: &Images, place: usize| {
        accuracy.count(logits, images.labels[place]);
    };
    outputs(classifier, dataset, noise, range, count, after_batch)?;
    Ok(accuracy)
}

/// Errors of real values, for each output: sums over images.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueErrors {
    /// All images.
    pub images: u64,
    /// Some output is infinite or NaN.
    pub not_finite: u64,
    /// Of squared errors.
    squares: Vec<f64>,
    /// Of absolute errors.
    absolute: Vec<f64>,
    /// Of targets, and of their squares.
    targets: Vec<[f64; 2]>,
}

impl ValueErrors {
    fn count(&mut self, outputs: &[f32], values: &[f32]) {
        let width = outputs.len();
        self.squares.resize(width, 0.0);
        self.absolute.resize(width, 0.0);
        self.targets.resize(width, [0.0; 2]);
        self.images += 1;
        self.not_finite += u64::from(outputs.iter().any(|y| !y.is_finite()));
        for (output, (&y, &t)) in outputs.iter().zip(values).enumerate() {
            let (d, t) = (f64::from(y) - f64::from(t), f64::from(t));
            self.squares[output] += d * d;
            self.absolute[output] += d.abs();
            self.targets[output][0] += t;
            self.targets[output][1] += t * t;
        }
    }

    fn n(&self) -> f64 {
        self.images.max(1) as f64
    }

    /// The root mean squared error over all outputs.
    pub fn rmse(&self) -> f64 {
        let outputs = self.squares.len().max(1) as f64;
        (self.square_sum() / (outputs * self.n())).sqrt()
    }

    /// The sum of all squared errors.
    pub(crate) fn square_sum(&self) -> f64 {
        self.squares.iter().sum()
    }

    /// The root mean squared error of an output.
    pub fn rmse_of(&self, output: usize) -> f64 {
        (self.squares[output] / self.n()).sqrt()
    }

    /// The mean absolute error of an output.
    pub fn mae_of(&self, output: usize) -> f64 {
        self.absolute[output] / self.n()
    }

    /// The share of an output's variance that is explained, R^2; `None` where the
    /// targets do not vary.
    pub fn explained(&self, output: usize) -> Option<f64> {
        let [sum, squares] = self.targets[output];
        let spread = squares - sum * sum / self.n();
        (spread > 1e-9 * squares).then(|| 1.0 - self.squares[output] / spread)
    }
}

/// Errors of a network's real values, as [`evaluate`] does it.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_values<C: Classify + ?Sized>(
    network: &C,
    dataset: &Dataset,
    noise: Option<&Noise>,
    range: Range<usize>,
    after_batch: impl FnMut(u64),
) -> Result<ValueErrors, EvaluateError> {
    let mut errors = ValueErrors::default();
    let count = |outputs: &[f32], images: &Images, place: usize| {
        errors.count(outputs, images.values_of(place));
    };
    outputs(network, dataset, noise, range, count, after_batch)?;
    Ok(errors)
}

/// Hands out the outputs for each image, with its batch and its place there.
fn outputs<C: Classify + ?Sized>(
    classifier: &C,
    dataset: &Dataset,
    noise: Option<&Noise>,
    range: Range<usize>,
    mut take: impl FnMut(&[f32], &Images, usize),
    mut after_batch: impl FnMut(u64),
) -> Result<(), EvaluateError> {
    let (classes, batch) = (classifier.classes(), classifier.batch());
    let range = range.start..range.end.min(dataset.len());
    if range.is_empty() {
        return Ok(());
    }
    let mut logits = vec![0.0; batch * classes];
    let options = LoaderOptions {
        start_batch: range.start / batch,
        ..LoaderOptions::evaluation(batch)
    };
    let mut start = options.start_batch * batch;
    let mut loader = Loader::new(dataset, options)?;
    let mut done = 0;
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
        for (logits, place) in logits.chunks_exact(classes).zip(wanted) {
            take(logits, &images, place);
            done += 1;
        }
        start += images.len();
        after_batch(done);
        loader.recycle(images);
    }
    Ok(())
}
