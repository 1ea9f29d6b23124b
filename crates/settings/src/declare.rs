//! The macros that declare parameters.

/// Declares a struct of parameters: every field with its help and its default.
///
/// The struct derives `Clone`, `Debug` and `PartialEq`, and implements `Default`,
/// `Serialize` and [`Settings`](crate::Settings). Its keys are the names of the
/// fields with hyphens.
#[macro_export]
macro_rules! settings {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $(
                $(#[doc = $help:literal])*
                $field:ident: $type:ty = $default:expr
            ),* $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(
                $(#[doc = $help])*
                pub $field: $type,
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::Settings for $name {
            fn fields() -> Vec<$crate::Field> {
                #[allow(unused_variables)]
                let default = Self::default();
                vec![$(
                    $crate::Field::new(
                        stringify!($field),
                        concat!($($help, "\n",)*),
                        &default.$field,
                    ),
                )*]
            }

            fn read(values: &$crate::Values) -> Result<Self, $crate::SettingError> {
                #[allow(unused_variables)]
                let default = Self::default();
                Ok(Self {
                    $($field: values.read(stringify!($field), default.$field)?,)*
                })
            }

            fn write(&self) -> $crate::Values {
                #[allow(unused_mut)]
                let mut values = $crate::Values::default();
                $(values.put(stringify!($field), &self.$field);)*
                values
            }
        }

        impl $crate::serde::Serialize for $name {
            fn serialize<S: $crate::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $crate::serde::Serialize::serialize(&$crate::Settings::write(self), to)
            }
        }
    };
}

/// Declares an enum whose values have names: in flags, files and records.
///
/// The enum derives `Clone`, `Copy`, `Debug`, `PartialEq` and `Eq`, has
/// `Serialize`, `Deserialize`, `Display` and `FromStr` by its names, and can be
/// the type of a field of [`settings!`](crate::settings).
#[macro_export]
macro_rules! choices {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $(
                $(#[$help:meta])*
                $variant:ident = $text:literal
            ),* $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $(
                $(#[$help])*
                $variant,
            )*
        }

        impl $name {
            /// The names, in order.
            pub const NAMES: &'static [&'static str] = &[$($text),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err(format!("`{text}` is none of {}", Self::NAMES.join(", "))),
                }
            }
        }

        impl $crate::serde::Serialize for $name {
            fn serialize<S: $crate::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <String as $crate::serde::Deserialize>::deserialize(from)?;
                text.parse().map_err($crate::serde::de::Error::custom)
            }
        }

        impl $crate::Setting for $name {
            const KIND: $crate::FieldKind = $crate::FieldKind::Choice(Self::NAMES);
        }
    };
}
