//! Parameters as data: what can be set has its name, default and help in one
//! place, from which flags, configuration keys, Python keywords and
//! documentation follow.
//!
//! [`settings!`] declares a struct of parameters, [`choices!`] an enum of named
//! values. A program shows the [`Field`]s of a struct to its users in whatever
//! form it has, collects what they say into a [`Values`], and reads the struct
//! back from it: unknown names, values of the wrong kind and numbers that are
//! not finite are refused by name.
//!
//! ```
//! use settings::{Settings, Values, settings};
//!
//! settings! {
//!     /// How to walk.
//!     pub struct Walk {
//!         /// How many steps.
//!         steps: u32 = 20,
//!         /// Length of a step [default: by the ground].
//!         step_size: Option<f64> = None,
//!     }
//! }
//!
//! let mut values = Values::default();
//! values.set_text(&Walk::fields(), "step-size", "0.5")?;
//! let walk = Walk::read(&values)?;
//! assert_eq!(walk, Walk { step_size: Some(0.5), ..Walk::default() });
//! assert_eq!(Walk::fields()[0].to_string(), "steps: How many steps. [default: 20]");
//!
//! let error = values.set_text(&Walk::fields(), "steps", "many").unwrap_err();
//! assert_eq!(error.to_string(), "steps is `many`, expected a whole number of at least 0");
//! # Ok::<(), settings::SettingError>(())
//! ```

mod declare;
mod error;
mod field;
mod values;

pub use error::SettingError;
pub use field::{Field, FieldKind, Setting};
#[doc(hidden)]
pub use serde;
pub use values::Values;

/// A struct of parameters; made by [`settings!`].
pub trait Settings: Sized {
    /// What can be set, in the order of the struct.
    fn fields() -> Vec<Field>;

    /// Reads the struct; what is not set has its default.
    ///
    /// # Errors
    /// A value that does not read, by the name of its field.
    fn read(values: &Values) -> Result<Self, SettingError>;

    /// All values, those that are not set left out.
    fn write(&self) -> Values;
}
