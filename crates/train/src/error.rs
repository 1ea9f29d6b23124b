//! What can go wrong in a run.

use std::path::PathBuf;

use network::DeviceError;
use settings::SettingError;

use crate::evaluate::EvaluateError;

/// Why a run stopped.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The loss or gradient is NaN or infinite.
    #[error("{what} is {value} at step {step} (epoch {epoch})")]
    NotFinite {
        /// `the loss` or `the gradient's norm`.
        what: &'static str,
        /// NaN or infinite.
        value: f64,
        /// Step of the run, from 0.
        step: u64,
        /// Epoch, from 1.
        epoch: u32,
    },
    /// The student no longer resembles its teacher.
    #[error("heat smoothing diverges at step {step}: {what}")]
    Diverged {
        /// What was seen.
        what: String,
        /// Step of the timestep, from 0.
        step: u64,
    },
    /// A hyper-parameter makes no sense.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// What is trained is about classes, and the targets are real values.
    #[error("{what}, and the model predicts real values")]
    Classes {
        /// What is about classes.
        what: &'static str,
    },
    /// A step was asked of a method whose leg has not begun.
    #[error("the method has no network to learn from: its leg has not begun")]
    NotBegun,
    /// The device fails.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Network and data do not belong together.
    #[error("the network takes {network}, the data are {data}")]
    Mismatch {
        /// Input shape and outputs of the network.
        network: String,
        /// Image shape and targets of the data.
        data: String,
    },
    /// The checkpoint cannot be used.
    #[error("cannot resume from {path}: {reason}")]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Stopped by the observer; everything up to the checkpoint is kept.
    #[error("stopped on request")]
    Stopped,
    /// The attack inside adversarial training refuses its settings or a batch.
    #[error(transparent)]
    Attack(#[from] attack::AttackError),
    /// Reading data failed.
    #[error(transparent)]
    Data(#[from] data::DataError),
    /// Writing or reading records failed.
    #[error(transparent)]
    Record(#[from] record::RecordError),
}

impl TrainError {
    /// A method cannot go on from what a checkpoint kept for it.
    pub(crate) fn method_state(error: serde_json::Error) -> Self {
        Self::Checkpoint {
            path: crate::CHECKPOINT_FILE.into(),
            reason: format!("the method's own state does not read: {error}"),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotFinite { .. } => Some(
                "the last good checkpoint, if there is one, is kept; lower the learning rate, or \
                 clip gradients at 1, in a new run folder"
                    .into(),
            ),
            Self::Diverged { .. } => Some(
                "lower the learning rate or lambda, clip gradients at 1, or take more timesteps, \
                 in a new run folder"
                    .into(),
            ),
            Self::Classes { .. } => Some(
                "real values are learned by baseline or gaussian, and smoothed by heat with the \
                 l2 fit or by average with the target logits (the outputs as they are), without \
                 an attack"
                    .into(),
            ),
            Self::Mismatch { .. } => Some("choose the data set the network was made for".into()),
            Self::Checkpoint { .. } => Some("remove the run folder to start again".into()),
            Self::Setting(error) => error.hint(),
            Self::Device(error) => error.hint(),
            Self::Attack(error) => error.hint(),
            Self::Data(error) => error.hint(),
            Self::Record(error) => error.hint(),
            Self::NotBegun | Self::Stopped => None,
        }
    }
}

impl From<EvaluateError> for TrainError {
    fn from(error: EvaluateError) -> Self {
        match error {
            EvaluateError::Data(error) => error.into(),
            EvaluateError::Device(error) => error.into(),
        }
    }
}
