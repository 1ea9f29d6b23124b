//! What can go wrong, in words that say what was expected.

use network::DeviceError;
use settings::SettingError;

/// Why an attack did not run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AttackError {
    /// A hyper-parameter makes no sense.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The device fails.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A list has the wrong length.
    #[error("{what}: expected {expected}, got {got}")]
    Length {
        /// Which list.
        what: &'static str,
        /// Values wanted.
        expected: usize,
        /// Values there.
        got: usize,
    },
    /// A pixel is not in [0, 1].
    #[error("image {index}: expected pixels in [0, 1], got {value}")]
    Pixel {
        /// The image.
        index: u32,
        /// The first such pixel.
        value: f32,
    },
    /// A label or target that is no class of the network.
    #[error("image {index}: {what} {class} is not one of the network's {classes} classes")]
    Class {
        /// The image.
        index: u32,
        /// `label` or `target`.
        what: &'static str,
        /// The value.
        class: u32,
        /// Number of logits.
        classes: usize,
    },
    /// The network's logits are infinite or not a number.
    #[error("image {index}: the network's logits are not finite")]
    NotFinite {
        /// The image.
        index: u32,
    },
    /// An attack gave back an image that is not allowed.
    #[error("the attack `{attack}` is broken: image {index} {reason}")]
    Broken {
        /// Name of the attack.
        attack: &'static str,
        /// The image.
        index: u32,
        /// In which way.
        reason: String,
    },
}

impl AttackError {
    /// What to do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Setting(error) if error.name() == "top-k" => {
                "with all classes in the top k, no attack can ever succeed"
            }
            Self::Setting(error) => return error.hint(),
            Self::Device(error) => return error.hint(),
            Self::Pixel { .. } => {
                "give images scaled to [0, 1]; input normalisation is a layer of the network"
            }
            Self::Class { .. } => "is this the data set that the network was trained on?",
            Self::NotFinite { .. } => {
                "the weights overflow or hold NaN, as after a training that diverged: check the \
                 model on clean images first"
            }
            Self::Length { .. } | Self::Broken { .. } => return None,
        };
        Some(hint.into())
    }
}

/// Refuses a hyper-parameter unless `fine`.
pub(crate) fn require(
    fine: bool,
    name: &'static str,
    expected: &'static str,
    got: impl ToString,
) -> Result<(), SettingError> {
    if fine {
        return Ok(());
    }
    Err(SettingError::value(name, got, expected))
}
