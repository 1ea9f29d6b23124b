//! Clean and noisy accuracy.

use network::{Noise, Purpose};
use train::{Accuracy, evaluate};

use crate::error::Error;
use crate::observer::Observer;
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
    let noise = sigma.map(|sigma| {
        let noise = subject.loaded.model.info.noise;
        let smoothing = certify::Smoothing::with(noise, sigma, None)?;
        Ok::<Noise, Error>(smoothing.noise(seed, Purpose::Prediction))
    });
    let noise = noise.transpose()?;
    if noise.is_none() {
        subject.tell(observer)?;
    }
    let range = subject.selection.start as usize..subject.selection.end as usize;
    observer.begin("images", range.len() as u64, 0);
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
