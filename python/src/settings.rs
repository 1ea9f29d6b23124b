//! Keywords as settings, and settings as keywords.

use heatsmooth::measurements::NoiseLevel;
use heatsmooth::network::architecture::ARCHITECTURES;
use heatsmooth::settings::{Field, FieldKind, Settings, Values};
use heatsmooth::{
    DataSource, EvalOptions, ImageChoice, Registry, SplitChoice, Training, VoteOptions, Weights,
    presets as shipped,
};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};
use serde_json::Value;

use crate::errors::{python_name, raise, refuse};

/// What can be set of each function, by its name.
pub fn fields_of(what: &str) -> Result<Vec<Field>, heatsmooth::Error> {
    let registry = Registry::standard();
    Ok(match what {
        "weights" => Weights::fields(),
        "data" => DataSource::fields(),
        "split" => SplitChoice::fields(),
        "images" => ImageChoice::fields(),
        "evaluate" => EvalOptions::fields(),
        "predict" => [NoiseLevel::fields(), VoteOptions::fields()].concat(),
        "smooth" => {
            // Each way has its own defaults.
            let training = Training::fields().into_iter().map(|field| Field {
                default: None,
                ..field
            });
            registry
                .smoothing_fields()
                .into_iter()
                .chain(training)
                .collect()
        }
        _ => match what.strip_prefix("train ") {
            Some(method) => {
                let entry = registry.method(method)?;
                (entry.fields)()
                    .into_iter()
                    .chain(Training::fields())
                    .collect()
            }
            None => registry.fields_of(what)?,
        },
    })
}

/// What can be set of a function: name, kind, choices, default as JSON, help.
#[pyfunction]
pub fn fields<'py>(py: Python<'py>, what: &str) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let fields = fields_of(what).map_err(|error| raise(py, &error))?;
    let described = fields.iter().map(|field| {
        let all = PyDict::new(py);
        all.set_item("name", python_name(&field.name))?;
        let (kind, choices) = match field.kind {
            FieldKind::Number => ("number", &[][..]),
            FieldKind::Whole => ("whole", &[][..]),
            FieldKind::Switch => ("switch", &[][..]),
            FieldKind::Text => ("text", &[][..]),
            FieldKind::Path => ("path", &[][..]),
            FieldKind::Choice(names) => ("choice", names),
        };
        all.set_item("kind", kind)?;
        all.set_item("choices", choices)?;
        let default = field.default.as_ref().map(Value::to_string);
        all.set_item("default", default)?;
        all.set_item("help", field.help.as_str())?;
        Ok(all)
    });
    described.collect()
}

/// The shipped settings of a method: names and texts.
#[pyfunction]
pub fn presets(method: &str) -> Vec<(String, String)> {
    let all = shipped::presets_of(method);
    all.map(|(name, text)| (name.to_owned(), text.to_owned()))
        .collect()
}

/// The built-in architectures: names and what they are.
#[pyfunction]
pub fn architectures() -> Vec<(String, String)> {
    let all = ARCHITECTURES.iter();
    all.map(|(name, about)| (name.to_string(), about.to_string()))
        .collect()
}

/// What was said by keywords. `None` stands for a keyword that is left out.
pub fn values(py: Python<'_>, fields: &[Field], said: &Bound<'_, PyDict>) -> PyResult<Values> {
    let mut values = Values::default();
    for (name, value) in said {
        if value.is_none() {
            continue;
        }
        let name: String = name.extract()?;
        let key = name.trim_end_matches('_').replace('_', "-");
        let value = json(py, &name, &value)?;
        let set = values.set(fields, &key, &value);
        set.map_err(|error| raise(py, &error.into()))?;
    }
    Ok(values)
}

/// A keyword's value as data: numbers of NumPy count as numbers, paths as texts.
fn json(py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_instance_of::<PyBool>() {
        return Ok(Value::from(value.extract::<bool>()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Value::from(value.extract::<String>()?));
    }
    if let Ok(whole) = value.extract::<u64>() {
        return Ok(Value::from(whole));
    }
    if let Ok(number) = value.extract::<f64>() {
        let finite = serde_json::Number::from_f64(number).map(Value::Number);
        return finite.ok_or_else(|| {
            let message = format!("{name} is {number}, expected a finite number");
            refuse(py, &message, "numbers must be finite")
        });
    }
    if let Ok(path) = value.extract::<std::path::PathBuf>() {
        return Ok(Value::from(path.display().to_string()));
    }
    let kind = value.get_type().name()?;
    let message = format!("{name} is a {kind}, expected a number, a text or a path");
    Err(refuse(
        py,
        &message,
        "see the function's documentation for what it takes",
    ))
}
