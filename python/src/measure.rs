//! Certificates, bounds, attacks, comparisons, accuracy and answers.

use std::path::PathBuf;
use std::sync::Arc;

use heatsmooth::settings::{Field, Settings as _, Values};
use heatsmooth::{
    Device, Error, EvalOptions, ImageChoice, MeasureContext, Predictor, Registry, SplitChoice,
    Subject, VoteOptions, calibration_log, measurements::NoiseLevel,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::data::{Data, floats};
use crate::errors::raise;
use crate::model::Model;
use crate::ranks::Ranks;
use crate::settings::{fields_of, values};
use crate::torch::Torch;
use crate::watch::{Interruptible, Progress, Watch, run};

/// What every piece of work is told besides its settings.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Place {
    /// Of everything random.
    pub seed: u64,
    /// Threads of the CPU.
    pub threads: Option<usize>,
    /// Hears how far the work is.
    pub progress: Py<PyAny>,
    /// PyTorch with the caller's modules, if a model is one.
    pub engine: Option<Py<PyAny>>,
    /// The processes that train together, if there are several.
    pub ranks: Option<Py<PyAny>>,
}

impl Place {
    /// Where the work runs; exceptions of modules go to `watch`.
    pub fn device(&self, py: Python<'_>, watch: &Arc<Watch>) -> PyResult<Device> {
        let device = Device::cpu(self.threads).map_err(|error| raise(py, &error))?;
        let device = match &self.engine {
            Some(engine) => {
                let torch = Torch::new(engine.bind(py), Arc::clone(watch))?;
                device.with_engine(Arc::new(torch))
            }
            None => device,
        };
        Ok(match &self.ranks {
            Some(ranks) => device.with_ranks(Ranks::of(ranks.bind(py), watch)?),
            None => device,
        })
    }
}

/// Fields of a function, those of images and splits included.
fn with_images(py: Python<'_>, what: &str) -> PyResult<Vec<Field>> {
    let own = fields_of(what).map_err(|error| raise(py, &error))?;
    let more = [ImageChoice::fields(), SplitChoice::fields()].concat();
    let more = more.into_iter();
    let more = more.filter(|field| own.iter().all(|known| known.name != field.name));
    Ok(own.iter().cloned().chain(more).collect())
}

fn open(
    model: &Model,
    data: &Data,
    values: &Values,
    device: &Device,
    watch: &Arc<Watch>,
) -> Result<Subject, Error> {
    let (split, images) = (SplitChoice::read(values)?, ImageChoice::read(values)?);
    let mut subject = Subject::open(&model.source, data.source(), &split, &images, device)?;
    subject.network = Interruptible::around(subject.network, Arc::clone(watch));
    Ok(subject)
}

/// Measures or attacks by name; answers with the summary as JSON and as text.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "one for each keyword of Python's"
)]
pub fn measure(
    py: Python<'_>,
    what: &str,
    model: &Bound<'_, Model>,
    data: &Bound<'_, Data>,
    reference: Option<&Bound<'_, Model>>,
    out: Option<PathBuf>,
    said: &Bound<'_, PyDict>,
    place: Place,
) -> PyResult<(String, String)> {
    let values = values(py, &with_images(py, what)?, said)?;
    let (model, data) = (model.get(), data.get());
    let reference = reference.map(|reference| &reference.get().source);
    let watch = Arc::new(Watch::default());
    let mut progress = Progress::new(place.progress.clone_ref(py), Arc::clone(&watch));
    let device = place.device(py, &watch)?;
    run(py, &watch, || {
        let log = match out {
            None if what == "calibrate" && model.source.given.is_none() => {
                calibration_log(&model.source)
            }
            out => out.ok_or_else(|| heatsmooth::settings::SettingError::missing("out"))?,
        };
        let subject = open(model, data, &values, &device, &watch)?;
        let context = MeasureContext {
            seed: place.seed,
            reference,
        };
        let registry = Registry::standard();
        let found = registry.measure(what, &values, &context, &subject, &log, &mut progress)?;
        Ok((found.to_json().to_string(), found.to_string()))
    })
}

/// Clean and noisy accuracy; answers as JSON and as text.
#[pyfunction]
pub fn evaluate(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    data: &Bound<'_, Data>,
    said: &Bound<'_, PyDict>,
    place: Place,
) -> PyResult<(String, String)> {
    let mut fields = fields_of("evaluate").map_err(|error| raise(py, &error))?;
    fields.extend(SplitChoice::fields());
    let values = values(py, &fields, said)?;
    let (model, data) = (model.get(), data.get());
    let watch = Arc::new(Watch::default());
    let mut progress = Progress::new(place.progress.clone_ref(py), Arc::clone(&watch));
    let device = place.device(py, &watch)?;
    run(py, &watch, || {
        let options = EvalOptions::read(&values)?;
        options.check()?;
        let EvalOptions { sigma, out, .. } = options;
        let subject = open(model, data, &values, &device, &watch)?;
        let (registry, seed) = (Registry::standard(), place.seed);
        let found = match out {
            Some(log) => registry.evaluate_into(&subject, sigma, seed, &log, &mut progress)?,
            None => registry.evaluate(&subject, sigma, seed, &mut progress)?,
        };
        Ok((found.to_json().to_string(), found.to_string()))
    })
}

/// Answers for pictures: files by their paths, or images of a flat NHWC array; each as
/// JSON, and the guarantees in words.
#[pyfunction]
pub fn predict(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    paths: Option<Vec<PathBuf>>,
    images: Option<&Bound<'_, PyAny>>,
    said: &Bound<'_, PyDict>,
    place: Place,
) -> PyResult<(String, String)> {
    let fields = fields_of("predict").map_err(|error| raise(py, &error))?;
    let values = values(py, &fields, said)?;
    let model = model.get();
    let images = images.map(|images| floats(py, images)).transpose()?;
    let pixels = match &images {
        Some(images) => images.as_slice()?,
        None => &[],
    };
    let watch = Arc::new(Watch::default());
    let mut progress = Progress::new(place.progress.clone_ref(py), Arc::clone(&watch));
    let device = place.device(py, &watch)?;
    run(py, &watch, || {
        let sigma = NoiseLevel::read(&values)?.sigma;
        let votes = VoteOptions::read(&values)?;
        let here = (&device, place.seed);
        let predictor = Predictor::open(&model.source, sigma, &votes, here)?;
        if let Some(warning) = predictor.warning() {
            heatsmooth::Observer::warning(&mut progress, &warning);
        }
        let mut answers: Vec<Value> = Vec::new();
        for path in paths.iter().flatten() {
            answers.push(predictor.picture(answers.len() as u32, path)?.to_json());
            if watch.stops() {
                return Err(Error::Stopped);
            }
        }
        for pixels in pixels.chunks(predictor.input().len()) {
            let number = answers.len();
            let answer = predictor.pixels(number as u32, &number.to_string(), pixels)?;
            answers.push(answer.to_json());
            if watch.stops() {
                return Err(Error::Stopped);
            }
        }
        let guarantees = predictor.guarantees_in_words();
        Ok((Value::from(answers).to_string(), guarantees))
    })
}
