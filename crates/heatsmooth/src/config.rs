//! Settings from TOML: configuration files, presets and experiments.

use std::path::Path;

use serde_json::Value;
use settings::{Field, SettingError, Values};

use crate::error::Error;

/// Reads a configuration file whose keys are the names of these fields.
///
/// # Errors
/// A file that is not TOML; names that are not among the fields; values of
/// another kind.
pub fn read_file(path: &Path, fields: &[Field]) -> Result<Values, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Error::refused(
            format!(
                "cannot read the configuration file {}: {error}",
                path.display()
            ),
            "give a file of `key = value` lines",
        )
    })?;
    let table = parse(&text).map_err(|error| error.at(path))?;
    values(&table, fields).map_err(|error| error.at(path))
}

/// A TOML document.
pub(crate) fn parse(text: &str) -> Result<toml::Table, Error> {
    toml::from_str(text).map_err(|error| {
        Error::refused(
            error.to_string(),
            "the file must be TOML: `key = value` lines",
        )
    })
}

/// A TOML document as JSON.
///
/// # Errors
/// A text that is not TOML.
pub fn to_json(text: &str) -> Result<Value, Error> {
    Ok(serde_json::to_value(parse(text)?).unwrap_or(Value::Null))
}

/// The entries of a table as values of fields.
pub(crate) fn values(table: &toml::Table, fields: &[Field]) -> Result<Values, Error> {
    let mut values = Values::default();
    for (name, value) in table {
        if let toml::Value::Float(float) = value
            && !float.is_finite()
        {
            return Err(SettingError::value(name, float, "a finite number").into());
        }
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        values.set(fields, name, &value)?;
    }
    Ok(values)
}

/// Values as a configuration file, which reads back to the same values.
///
/// # Errors
/// None that a valid value can cause.
pub fn to_toml(values: &Values) -> Result<String, Error> {
    let table: toml::Table = values
        .iter()
        .map(|(name, value)| {
            let value = toml::Value::try_from(value);
            value.map(|value| (name.to_owned(), value))
        })
        .collect::<Result<_, _>>()
        .map_err(|error| Error::refused(error.to_string(), "this is a mistake of the program"))?;
    toml::to_string(&table)
        .map_err(|error| Error::refused(error.to_string(), "this is a mistake of the program"))
}
