//! The library's errors as Python's exceptions.

use heatsmooth::Error;
use heatsmooth::data::DataError;
use heatsmooth::settings::SettingError;
use pyo3::prelude::*;

/// The exception for an error: its class says what it is about, its hint what to do.
pub fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let hint = error.hint();
    match error.setting() {
        Some(setting) => {
            let name = python_name(setting.name());
            let message = error.to_string().replace(setting.name(), &name);
            let hint = match setting {
                SettingError::Unknown { known, .. } => {
                    let known: Vec<String> = known.iter().map(|name| python_name(name)).collect();
                    Some(format!("known are {}", known.join(", ")))
                }
                SettingError::Ineffective { .. } => Some(format!("leave {name} out")),
                SettingError::Missing { .. } => Some(format!("give {name}=...")),
                SettingError::Value { .. } => hint,
            };
            exception(py, "SettingError", &message, hint)
        }
        None => exception(
            py,
            class(error),
            &error.to_string(),
            fetch_hint(error).or(hint),
        ),
    }
}

/// A refusal of this module's own.
pub fn refuse(py: Python<'_>, message: &str, hint: &str) -> PyErr {
    exception(py, "SettingError", message, Some(hint.to_owned()))
}

/// A setting's name as a keyword.
pub fn python_name(name: &str) -> String {
    match name {
        // A word of Python's own.
        "lambda" => "lambda_".into(),
        _ => name.replace('-', "_"),
    }
}

fn class(error: &Error) -> &'static str {
    match error {
        Error::Data(_) | Error::Evaluate(_) => "DataError",
        Error::File(_) | Error::Import(_) | Error::Architecture(_) => "ModelError",
        Error::At { source, .. } => class(source),
        _ => "HeatsmoothError",
    }
}

/// A data set that must be fetched first.
fn fetch_hint(error: &Error) -> Option<String> {
    match error {
        Error::At { source, .. } => fetch_hint(source),
        Error::Data(error) => {
            let name = DataError::to_fetch(error)?;
            Some(format!("run `heatsmooth data fetch {name}`"))
        }
        _ => None,
    }
}

fn exception(py: Python<'_>, class: &str, message: &str, hint: Option<String>) -> PyErr {
    let made = py
        .import("heatsmooth._errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((message, hint)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}
