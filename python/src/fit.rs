//! Training and smoothing.

use std::path::PathBuf;
use std::sync::Arc;

use heatsmooth::settings::{Settings as _, Values};
use heatsmooth::{Origin, Registry, Workshop, presets};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::data::Data;
use crate::errors::raise;
use crate::measure::Place;
use crate::model::{Model, weights};
use crate::settings::{fields_of, values};
use crate::watch::{Progress, Watch, run};

/// What was said, over a preset.
fn resolved(
    py: Python<'_>,
    what: &str,
    method: &str,
    preset: Option<&str>,
    said: &Bound<'_, PyDict>,
) -> PyResult<Values> {
    let mut fields = fields_of(what).map_err(|error| raise(py, &error))?;
    let said = values(py, &fields, said)?;
    let Some(preset) = preset else {
        return Ok(said);
    };
    // A preset may say something about the network, too.
    fields.extend(heatsmooth::Weights::fields());
    let mut all = presets::preset(method, preset, &fields).map_err(|error| raise(py, &error))?;
    for field in heatsmooth::Weights::fields() {
        all.remove(&field.name);
    }
    all.lay(said);
    Ok(all)
}

/// Trains by the name of a method, a new network or a given model; answers with the
/// summary as JSON and as text.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
pub fn train(
    py: Python<'_>,
    method: &str,
    model: Option<&Bound<'_, Model>>,
    network: &Bound<'_, PyDict>,
    data: &Bound<'_, Data>,
    out: PathBuf,
    preset: Option<&str>,
    said: &Bound<'_, PyDict>,
    place: Place,
) -> PyResult<(String, String)> {
    let values = resolved(py, &format!("train {method}"), method, preset, said)?;
    let origin = match model {
        Some(model) => Origin::Model(model.get().source.clone()),
        None => Origin::Architecture(weights(py, network)?),
    };
    let data = data.get();
    let watch = Arc::new(Watch::default());
    let mut progress = Progress::new(place.progress.clone_ref(py), Arc::clone(&watch));
    let device = place.device(py, &watch)?;
    run(py, &watch, || {
        let workshop = Workshop {
            origin: &origin,
            data: data.source(),
            folder: &out,
            seed: place.seed,
            device: &device,
        };
        let fitted = Registry::standard().fit(method, &values, &workshop, &mut progress)?;
        Ok((fitted.to_json().to_string(), fitted.to_string()))
    })
}

/// Smooths a model; answers with the summary as JSON and as text.
#[pyfunction]
pub fn smooth(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    data: &Bound<'_, Data>,
    out: PathBuf,
    preset: Option<&str>,
    said: &Bound<'_, PyDict>,
    place: Place,
) -> PyResult<(String, String)> {
    let mut values = resolved(py, "smooth", "heat", preset, said)?;
    if preset.is_some() && !values.has("by") {
        let fields = fields_of("smooth").map_err(|error| raise(py, &error))?;
        let heat = serde_json::Value::from("heat");
        let set = values.set(&fields, "by", &heat);
        set.map_err(|error| raise(py, &error.into()))?;
    }
    let origin = Origin::Model(model.get().source.clone());
    let data = data.get();
    let watch = Arc::new(Watch::default());
    let mut progress = Progress::new(place.progress.clone_ref(py), Arc::clone(&watch));
    let device = place.device(py, &watch)?;
    run(py, &watch, || {
        let workshop = Workshop {
            origin: &origin,
            data: data.source(),
            folder: &out,
            seed: place.seed,
            device: &device,
        };
        let smoothed = Registry::standard().smooth(&values, &workshop, &mut progress)?;
        Ok((smoothed.to_json().to_string(), smoothed.to_string()))
    })
}
