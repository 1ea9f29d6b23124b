//! A setting that is refused.

/// Why a setting is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// No field has this name.
    #[error("unknown option `{name}`")]
    Unknown {
        /// What was given.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// The value makes no sense.
    #[error("{name} is `{got}`, expected {expected}")]
    Value {
        /// The field.
        name: String,
        /// What was given.
        got: String,
        /// What would do.
        expected: String,
    },
    /// A value that must be given is not.
    #[error("{name} is required")]
    Missing {
        /// The field.
        name: String,
    },
    /// A value that has no effect beside the others.
    #[error("{name} has no effect: {reason}")]
    Ineffective {
        /// The field.
        name: String,
        /// Why.
        reason: String,
    },
}

impl SettingError {
    /// The name that is complained about.
    pub fn name(&self) -> &str {
        match self {
            Self::Unknown { name, .. }
            | Self::Value { name, .. }
            | Self::Missing { name }
            | Self::Ineffective { name, .. } => name,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { known, .. } => Some(format!("known are {}", known.join(", "))),
            Self::Ineffective { name, .. } => Some(format!("leave {name} out")),
            Self::Value { .. } | Self::Missing { .. } => None,
        }
    }

    /// A value that makes no sense.
    pub fn value(name: impl Into<String>, got: impl ToString, expected: impl Into<String>) -> Self {
        Self::Value {
            name: name.into(),
            got: got.to_string(),
            expected: expected.into(),
        }
    }

    /// A value that must be given.
    pub fn missing(name: impl Into<String>) -> Self {
        Self::Missing { name: name.into() }
    }
}
