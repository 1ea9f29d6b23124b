//! Why a model cannot be imported.

use std::fmt;
use std::path::PathBuf;

use network::FileError;
use network::architecture::ArchitectureError;

use crate::onnx::OnnxError;
use crate::pytorch::CheckpointError;
use crate::report::{ImportReport, some};

/// A tensor of the wrong shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Its name in the file.
    pub name: String,
    /// What the network wants.
    pub expected: Vec<usize>,
    /// What the file has.
    pub got: Vec<usize>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            expected,
            got,
        } = self;
        write!(f, "`{name}` is {got:?} instead of {expected:?}")
    }
}

/// Why a model cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read, or is a damaged file of ours.
    #[error(transparent)]
    File(#[from] FileError),
    /// A damaged or unusual checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A damaged ONNX file, or one with unsupported operators.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// The architecture does not exist or does not fit.
    #[error(transparent)]
    Architecture(#[from] ArchitectureError),
    /// None of the formats.
    #[error("{path} is no model file: {reason}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        reason: &'static str,
    },
    /// Weights without a network.
    #[error("the file holds {tensors} tensors but does not say of which network")]
    NoArchitecture {
        /// How many tensors there are.
        tensors: usize,
    },
    /// The weights are of another network.
    #[error(
        "the weights do not fit the network: {report}{}{}",
        if mismatched.is_empty() { "" } else { "\n" }, some(mismatched)
    )]
    Mismatch {
        /// What was found.
        report: Box<ImportReport>,
        /// Found, but of another shape.
        mismatched: Vec<Mismatch>,
    },
    /// Right network, other number of classes.
    #[error("the weights are for {file} classes (`{name}`), not for {asked}")]
    Classes {
        /// The last layer's tensor.
        name: String,
        /// Classes in the file.
        file: usize,
        /// Classes asked for.
        asked: usize,
    },
    /// NaN, infinite, or a negative variance.
    #[error("tensor `{name}` holds {value} at position {index}")]
    Value {
        /// Which.
        name: String,
        /// Where.
        index: usize,
        /// What.
        value: f32,
    },
}

impl ImportError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::File(error) => error.hint(),
            Self::Checkpoint(error) => error.hint(),
            Self::Onnx(error) => error.hint(),
            Self::Format { .. } => Some(
                "known are heatsmooth's and other .safetensors, .onnx, and what torch.save writes",
            ),
            Self::NoArchitecture { .. } => Some(
                "name the built-in architecture that they are of, or export the whole network \
                 with torch.onnx.export",
            ),
            Self::Mismatch { .. } => Some(
                "if none of the built-in architectures is the right one, export the network with \
                 torch.onnx.export",
            ),
            Self::Classes { .. } => {
                Some("give the number of classes that the weights are for, or data with that many")
            }
            Self::Value { .. } => Some("the training run diverged; use an earlier checkpoint"),
            _ => None,
        }
    }
}
