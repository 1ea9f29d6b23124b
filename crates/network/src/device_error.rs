//! Why a device could not do what it was asked.

/// A verb that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// Pixels, logits or cotangents are not as many as the network needs.
    #[error("{what}: expected {expected} values, got {got}")]
    Length {
        /// What was given.
        what: &'static str,
        /// How many values it should have.
        expected: usize,
        /// How many it has.
        got: usize,
    },
    /// A tape or gradients that another kind of executor made.
    #[error("these {what} belong to another kind of executor")]
    Foreign {
        /// Which of them.
        what: &'static str,
    },
    /// A network that only another program can evaluate.
    #[error("{network} is a network of {program}: only its weights are in the file")]
    OtherProgram {
        /// The program.
        program: String,
        /// Its name for the network.
        network: String,
    },
    /// A node that the device cannot evaluate.
    #[error("{device} cannot evaluate node `{node}` ({op})")]
    Operator {
        /// The device's name.
        device: String,
        /// The node's name.
        node: String,
        /// Its operator.
        op: &'static str,
    },
    /// The device has no room.
    #[error("{device} is out of memory: {reason}")]
    OutOfMemory {
        /// Its name.
        device: String,
        /// What it said.
        reason: String,
    },
    /// The other ranks of a training cannot be reached, or the device cannot train
    /// with them.
    #[error("training on several ranks failed: {reason}")]
    Ranks {
        /// What went wrong.
        reason: String,
    },
    /// The device is gone, or refuses.
    #[error("{device} failed: {reason}")]
    Failed {
        /// Its name.
        device: String,
        /// What it said.
        reason: String,
    },
}

impl DeviceError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Length { .. } | Self::Foreign { .. } => None,
            Self::OtherProgram { program, .. } => Some(format!(
                "give the network itself, from {program}; its weights can be loaded into it"
            )),
            Self::Ranks { .. } => Some(
                "start the run again, on any number of ranks: it goes on from the last checkpoint"
                    .into(),
            ),
            Self::Operator { .. } => Some("take the CPU".into()),
            Self::OutOfMemory { .. } => Some("take a smaller batch, or another device".into()),
            Self::Failed { .. } => {
                Some("what was written is kept; run again, or take another device".into())
            }
        }
    }

    /// Refuses what is not `expected` values long.
    ///
    /// # Errors
    /// If the lengths differ.
    pub fn length(what: &'static str, expected: usize, got: usize) -> Result<(), DeviceError> {
        if expected == got {
            return Ok(());
        }
        Err(Self::Length {
            what,
            expected,
            got,
        })
    }
}
