//! What users have said, by name.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::error::SettingError;
use crate::field::{Field, Setting, key};

/// Values of fields, by name; layers are laid over each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Values {
    values: BTreeMap<String, Value>,
}

impl Values {
    /// Sets a field from a text, as on a command line.
    ///
    /// # Errors
    /// A name that is not among the fields; a text that is not of its kind.
    pub fn set_text(
        &mut self,
        fields: &[Field],
        name: &str,
        text: &str,
    ) -> Result<(), SettingError> {
        let field = find(fields, name)?;
        let value = field.kind.parse(text);
        let value = value.ok_or_else(|| SettingError::value(name, text, field.kind.expected()))?;
        self.values.insert(name.into(), value);
        Ok(())
    }

    /// Sets a field from a value, as in a file.
    ///
    /// # Errors
    /// A name that is not among the fields; a value that is not of its kind.
    pub fn set(&mut self, fields: &[Field], name: &str, value: &Value) -> Result<(), SettingError> {
        let field = find(fields, name)?;
        let accepted = field.kind.accept(value).ok_or_else(|| {
            let got = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            SettingError::value(name, got, field.kind.expected())
        })?;
        self.values.insert(name.into(), accepted);
        Ok(())
    }

    /// Lays other values over these.
    pub fn lay(&mut self, over: Self) {
        self.values.extend(over.values);
    }

    /// Whether a field is set.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The value of a field, if it is set.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Takes a value out.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.values.remove(name)
    }

    /// All names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values
            .iter()
            .map(|(name, value)| (name.as_str(), value))
    }

    /// A field's value in its type, or what it is where it is not set.
    #[doc(hidden)]
    pub fn read<T: Setting>(&self, field: &str, or: T) -> Result<T, SettingError> {
        let name = key(field);
        let Some(value) = self.values.get(&name) else {
            return Ok(or);
        };
        serde_json::from_value(value.clone()).map_err(|error| {
            let got = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            // The largest of the kinds of whole numbers takes any.
            let expected = match value.is_u64() {
                true => format!("a whole number of at most {}", u32::MAX),
                false => error.to_string(),
            };
            SettingError::value(name, got, expected)
        })
    }

    /// Sets a field that has a value.
    #[doc(hidden)]
    pub fn put<T: Setting>(&mut self, field: &str, value: &T) {
        match serde_json::to_value(value) {
            Ok(Value::Null) | Err(_) => {}
            Ok(value) => {
                self.values.insert(key(field), value);
            }
        }
    }
}

fn find<'f>(fields: &'f [Field], name: &str) -> Result<&'f Field, SettingError> {
    let found = fields.iter().find(|field| field.name == name);
    found.ok_or_else(|| SettingError::Unknown {
        name: name.into(),
        known: fields.iter().map(|field| field.name.clone()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, choices, settings};

    choices! {
        /// Ways.
        pub enum Way {
            /// On foot.
            Foot = "foot",
            /// By ship.
            Ship = "ship",
        }
    }

    settings! {
        /// A journey.
        pub struct Journey {
            /// How far,
            /// in miles.
            distance: f64 = 4.0,
            /// How.
            way: Way = Way::Foot,
            /// With how many.
            friends: Option<u32> = None,
            /// Without rest.
            restless: bool = false,
        }
    }

    fn set(name: &str, text: &str) -> Result<Journey, SettingError> {
        let mut values = Values::default();
        values.set_text(&Journey::fields(), name, text)?;
        Journey::read(&values)
    }

    #[test]
    fn texts_become_values() {
        assert_eq!(set("distance", "2.5").unwrap().distance, 2.5);
        assert_eq!(set("way", "ship").unwrap().way, Way::Ship);
        assert_eq!(set("friends", "3").unwrap().friends, Some(3));
        assert!(set("restless", "true").unwrap().restless);
    }

    #[test]
    fn what_is_no_value_is_refused_by_name() {
        for (name, text, words) in [
            ("distance", "nan", "expected a finite number"),
            ("distance", "inf", "expected a finite number"),
            ("friends", "-1", "a whole number of at least 0"),
            (
                "friends",
                "4294967296",
                "a whole number of at most 4294967295",
            ),
            ("way", "horse", "expected foot, ship"),
            ("speed", "3", "unknown option `speed`"),
        ] {
            let error = set(name, text).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(error.name(), name);
        }
    }

    #[test]
    fn values_from_files_are_of_their_kind() {
        let fields = Journey::fields();
        let mut values = Values::default();
        values.set(&fields, "distance", &Value::from(3)).unwrap();
        assert_eq!(Journey::read(&values).unwrap().distance, 3.0);
        assert!(values.set(&fields, "friends", &Value::from(1.5)).is_err());
        assert!(values.set(&fields, "way", &Value::from(1)).is_err());
        assert!(values.set(&fields, "way", &Value::Null).is_err());
    }

    #[test]
    fn a_struct_comes_back_from_its_values() {
        let journey = Journey {
            friends: Some(2),
            way: Way::Ship,
            ..Journey::default()
        };
        assert_eq!(Journey::read(&journey.write()).unwrap(), journey);
        assert!(!Journey::default().write().has("friends"));
    }

    #[test]
    fn help_names_the_default_once() {
        let help: Vec<String> = Journey::fields()
            .iter()
            .map(Field::help_with_default)
            .collect();
        assert_eq!(help[0], "How far, in miles. [default: 4]");
        assert_eq!(help[2], "With how many.");
        assert_eq!(help[3], "Without rest.");
    }
}
