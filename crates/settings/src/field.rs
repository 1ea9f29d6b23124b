//! One thing that can be set.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The kind of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A finite number.
    Number,
    /// A whole number of at least 0.
    Whole,
    /// Yes or no.
    Switch,
    /// Any text.
    Text,
    /// A file or folder.
    Path,
    /// One of these names.
    Choice(&'static [&'static str]),
}

impl FieldKind {
    /// What is expected, in words.
    pub fn expected(self) -> String {
        match self {
            Self::Number => "a finite number".into(),
            Self::Whole => "a whole number of at least 0".into(),
            Self::Switch => "true or false".into(),
            Self::Text => "a text".into(),
            Self::Path => "a path".into(),
            Self::Choice(names) => names.join(", "),
        }
    }

    /// The value that a text means; `None`: not of this kind.
    pub fn parse(self, text: &str) -> Option<Value> {
        match self {
            Self::Number => {
                let number: f64 = text.parse().ok()?;
                serde_json::Number::from_f64(number).map(Value::Number)
            }
            Self::Whole => text.parse::<u64>().ok().map(Value::from),
            Self::Switch => text.parse::<bool>().ok().map(Value::from),
            Self::Choice(names) if !names.contains(&text) => None,
            Self::Text | Self::Path | Self::Choice(_) => Some(Value::from(text)),
        }
    }

    /// A value from a file, in the form in which it is kept; `None`: not of this
    /// kind.
    pub fn accept(self, value: &Value) -> Option<Value> {
        match (self, value) {
            (Self::Number, Value::Number(number)) => number.as_f64().map(Value::from),
            (Self::Whole, Value::Number(number)) => number.as_u64().map(Value::from),
            (Self::Switch, Value::Bool(_)) => Some(value.clone()),
            (Self::Text | Self::Path | Self::Choice(_), Value::String(text)) => self.parse(text),
            // A class or a name may well look like a number.
            (Self::Text, Value::Number(number)) => Some(Value::from(number.to_string())),
            _ => None,
        }
    }
}

/// A type that a field can have.
pub trait Setting: Serialize + DeserializeOwned {
    /// The kind of its values.
    const KIND: FieldKind;
}

macro_rules! kinds {
    ($($type:ty: $kind:ident,)*) => {
        $(impl Setting for $type {
            const KIND: FieldKind = FieldKind::$kind;
        })*
    };
}

kinds! {
    f64: Number,
    u32: Whole,
    u64: Whole,
    usize: Whole,
    bool: Switch,
    String: Text,
    PathBuf: Path,
}

impl<T: Setting> Setting for Option<T> {
    const KIND: FieldKind = T::KIND;
}

/// A field of a struct of parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name, with hyphens: the key in files, the flag without its dashes.
    pub name: String,
    /// What it does, in one or two sentences.
    pub help: String,
    /// The kind of its value.
    pub kind: FieldKind,
    /// Its default; `None`: not set.
    pub default: Option<Value>,
}

impl Field {
    /// A field of a struct, from its documentation and default.
    pub fn new<T: Setting>(name: &str, help: &str, default: &T) -> Self {
        let default = serde_json::to_value(default).unwrap_or(Value::Null);
        Self {
            name: key(name),
            help: words(help),
            kind: T::KIND,
            default: (!default.is_null()).then_some(default),
        }
    }

    /// The default as a text.
    pub fn default_text(&self) -> Option<String> {
        match self.default.as_ref()? {
            Value::String(text) => Some(text.clone()),
            // 4 rather than 4.0: it is what one would type.
            Value::Number(number) => Some(match number.as_f64() {
                Some(float) if number.is_f64() => float.to_string(),
                _ => number.to_string(),
            }),
            other => Some(other.to_string()),
        }
    }

    /// The help, and behind it the default, unless the help names it itself.
    pub fn help_with_default(&self) -> String {
        match self.default_text() {
            Some(default) if !self.help.contains("[default:") && self.kind != FieldKind::Switch => {
                format!("{} [default: {default}]", self.help)
            }
            _ => self.help.clone(),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.help_with_default())
    }
}

/// A field's name as users write it.
pub(crate) fn key(field: &str) -> String {
    field.trim_end_matches('_').replace('_', "-")
}

/// Documentation as one line.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
