//! How many bits a pass computes in.

use std::str::FromStr;

/// What passes that keep nothing compute in. Everything else, tapes and training, is
/// in single precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits, 11 of them significant.
    F16,
    /// 16 bits, 8 of them significant.
    Bf16,
}

impl Precision {
    /// Every precision.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Bf16];

    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

impl FromStr for Precision {
    type Err = String;

    /// By its name; an error is what was given.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|p| p.name() == name);
        found.ok_or_else(|| name.into())
    }
}
