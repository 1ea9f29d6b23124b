//! Clean and noisy accuracy; of real values, errors.

use std::ops::Range;

use network::{Noise, Purpose};
use train::{Accuracy, ValueErrors, evaluate, evaluate_values};

use crate::error::Error;
use crate::observer::Observer;
use crate::source::needs_targets;
use crate::subject::Subject;

/// Accuracy of a model on images `start..end` of its selection, clean or with one
/// noisy copy of each, by the noise that the model was made for.
///
/// # Errors
/// A noise level that makes no sense; an image that cannot be read; outputs that are
/// not finite; a device that fails.
pub fn accuracy(
    subject: &Subject,
    sigma: Option<f64>,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<Accuracy, Error> {
    needs_targets(&subject.dataset, subject.task(), "accuracy")?;
    let (noise, range) = begin(subject, sigma, seed, observer)?;
    let after = |done| {
        let _ = observer.progress(done, &|| "evaluated".into());
    };
    let found = evaluate(
        &*subject.network,
        &subject.dataset,
        noise.as_ref(),
        range,
        after,
    );
    observer.end();
    let found = found?;
    if found.not_finite > 0 {
        return Err(Error::not_finite(found.not_finite, found.images));
    }
    Ok(found)
}

/// Errors of a model's real values, as [`accuracy`] does it.
///
/// # Errors
/// As [`accuracy`]; images without values.
pub fn value_errors(
    subject: &Subject,
    sigma: Option<f64>,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<ValueErrors, Error> {
    needs_targets(&subject.dataset, subject.task(), "an error")?;
    let (noise, range) = begin(subject, sigma, seed, observer)?;
    let after = |done| {
        let _ = observer.progress(done, &|| "evaluated".into());
    };
    let (network, data) = (&*subject.network, &subject.dataset);
    let found = evaluate_values(network, data, noise.as_ref(), range, after);
    observer.end();
    let found = found?;
    match found.not_finite {
        0 => Ok(found),
        images => Err(Error::not_finite(images, found.images)),
    }
}

/// The noise, if there is some, and which images; a user hears about clean ones.
fn begin(
    subject: &Subject,
    sigma: Option<f64>,
    seed: u64,
    observer: &mut dyn Observer,
) -> Result<(Option<Noise>, Range<usize>), Error> {
    let noise = match sigma {
        Some(sigma) => {
            let noise = subject.loaded.model.info.noise;
            let smoothing = certify::Smoothing::with(noise, sigma, None)?;
            Some(smoothing.noise(seed, Purpose::Prediction))
        }
        None => None,
    };
    if noise.is_none() {
        subject.tell(observer)?;
    }
    let range = subject.selection.start as usize..subject.selection.end as usize;
    observer.begin("images", range.len() as u64, 0);
    Ok((noise, range))
}
