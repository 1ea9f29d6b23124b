//! What can go wrong, in words that say what was expected.

/// Why an attack did not run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AttackError {
    /// A hyper-parameter makes no sense.
    #[error("{name}: expected {expected}, got {got}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        got: String,
    },
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
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Parameter { name: "top_k", .. } => {
                Some("with all classes in the top k, no attack can ever succeed")
            }
            Self::Pixel { .. } => {
                Some("give images scaled to [0, 1]; input normalisation is a layer of the network")
            }
            Self::Class { .. } => Some("is this the data set that the network was trained on?"),
            Self::NotFinite { .. } => Some(
                "the weights overflow or hold NaN, as after a training that diverged: check the \
                 model on clean images first",
            ),
            _ => None,
        }
    }
}

/// Refuses a hyper-parameter unless `fine`.
pub(crate) fn require(
    fine: bool,
    name: &'static str,
    expected: &'static str,
    got: impl ToString,
) -> Result<(), AttackError> {
    if fine {
        return Ok(());
    }
    let got = got.to_string();
    Err(AttackError::Parameter {
        name,
        expected,
        got,
    })
}
