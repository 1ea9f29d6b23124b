//! The smoothed classifier of Cohen et al., one image after another.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use heatsmooth::certify::{CertifyOutcome, Prediction, certify_all, predict_all};
use heatsmooth::network::{Executor, Images};
use heatsmooth::{CertifyParams, Error, NoiseChoice, PredictParams, Smoothing};
use pyo3::prelude::*;

use crate::data::floats;
use crate::measure::Place;
use crate::model::Model;
use crate::watch::{Interruptible, Watch, run};

/// A network that is ready to vote.
#[pyclass(frozen, module = "heatsmooth._core")]
pub struct Classifier {
    network: Mutex<Box<dyn Executor>>,
    watch: Arc<Watch>,
    seed: u64,
}

/// Pixels of 8 bits have so many steps.
const LEVELS: u32 = 255;

/// Exact noise for pixels of 8 bits unless something is said.
fn smoothing(sigma: f64, noise: Option<NoiseChoice>, pixels: &[f32]) -> Result<Smoothing, Error> {
    let levels = LEVELS as f32;
    let on_grid = |pixel: &f32| (pixel * levels).round() / levels == *pixel;
    let levels = pixels.iter().all(on_grid).then_some(LEVELS);
    Ok(Smoothing::chosen(noise, sigma, levels)?)
}

/// How the noise is drawn, by its name.
fn choice(py: Python<'_>, noise: Option<&str>) -> PyResult<Option<NoiseChoice>> {
    let noise = noise.map(str::parse::<NoiseChoice>).transpose();
    noise.map_err(|message| crate::errors::refuse(py, &message, "leave noise out"))
}

#[pymethods]
impl Classifier {
    #[new]
    fn new(py: Python<'_>, model: &Bound<'_, Model>, place: Place) -> PyResult<Self> {
        let watch = Arc::new(Watch::default());
        let device = place.device(py, &watch)?;
        let loaded = model.get().loaded(py)?;
        let network = run(py, &watch, || Ok(device.load(&loaded.model)?))?;
        Ok(Self {
            network: Mutex::new(Interruptible::around(network, Arc::clone(&watch))),
            watch,
            seed: place.seed,
        })
    }

    /// CERTIFY: the class (none: abstains) and the radius. `number` decides the noise.
    #[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
    fn certify(
        &self,
        py: Python<'_>,
        pixels: &Bound<'_, PyAny>,
        number: u32,
        sigma: f64,
        n0: u32,
        n: u32,
        alpha: f64,
        batch: usize,
        noise: Option<&str>,
    ) -> PyResult<(Option<usize>, f64)> {
        let noise = choice(py, noise)?;
        let pixels = floats(py, pixels)?;
        let pixels = pixels.as_slice()?;
        run(py, &self.watch, || {
            let params = CertifyParams {
                n0,
                n,
                alpha,
                ..CertifyParams::default()
            };
            let plan = params.plan(smoothing(sigma, noise, pixels)?, self.seed)?;
            let network = self.network.lock().unwrap_or_else(PoisonError::into_inner);
            let mut image = Images::new(network.input());
            image.push(number, 0, pixels);
            let mut found = None;
            let mut observer = |outcome: CertifyOutcome| {
                let certificate = outcome.certificate;
                found = Some((certificate.predict, certificate.radius));
                ControlFlow::Continue(())
            };
            certify_all(&**network, [image], &plan, batch.max(1), &mut observer)?;
            found.ok_or(Error::Stopped)
        })
    }

    /// PREDICT: the class, or none.
    #[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
    fn predict(
        &self,
        py: Python<'_>,
        pixels: &Bound<'_, PyAny>,
        number: u32,
        sigma: f64,
        n: u32,
        alpha: f64,
        batch: usize,
        noise: Option<&str>,
    ) -> PyResult<Option<usize>> {
        let noise = choice(py, noise)?;
        let pixels = floats(py, pixels)?;
        let pixels = pixels.as_slice()?;
        run(py, &self.watch, || {
            let params = PredictParams { samples: n, alpha };
            let plan = params.plan(smoothing(sigma, noise, pixels)?, self.seed);
            let network = self.network.lock().unwrap_or_else(PoisonError::into_inner);
            let mut image = Images::new(network.input());
            image.push(number, 0, pixels);
            let mut found = None;
            let mut observer = |prediction: Prediction| {
                found = Some(prediction.predict);
                ControlFlow::Continue(())
            };
            predict_all(&**network, [image], &plan, batch.max(1), &mut observer)?;
            found.ok_or(Error::Stopped)
        })
    }
}
