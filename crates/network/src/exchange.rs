//! Models from elsewhere, and to elsewhere.
//!
//! [`load`] reads any model file: ours, ONNX, a PyTorch checkpoint, or another
//! program's safetensors, the last two with the name of an architecture. What
//! was found is said in an [`ImportReport`]; what cannot be read is refused with
//! an [`ImportError`] that says why.

pub mod onnx;
pub mod pytorch;
pub mod safetensors;
mod state_dict;

use std::fmt;
use std::path::{Path, PathBuf};

use kernels::geometry::Shape;

use self::onnx::OnnxError;
use self::pytorch::CheckpointError;
pub use self::state_dict::{StateDict, Tensor, assign};
use crate::architecture::{ArchitectureError, Task, build};
use crate::file::{self, FileError, read_bytes};
use crate::model::{Model, ModelInfo};

/// How to read a file that does not say everything itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadOptions {
    /// Built-in architecture and what it is made for: for files that hold
    /// weights only.
    pub architecture: Option<(String, Task)>,
    /// What stands before the names of the weights; found if not given.
    pub prefix: Option<String>,
    /// Shape of one image, for an ONNX file that leaves it open.
    pub input: Option<Shape>,
}

/// A model and how it was found.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The model.
    pub model: Model,
    /// What was matched, missing, left over and changed.
    pub report: ImportReport,
    /// Of the file that was read; for an ONNX model in several files, of the
    /// lines of their hashes.
    pub sha256: String,
}

/// What an import found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Parameter and the name of its tensor in the file.
    pub matched: Vec<(String, String)>,
    /// Parameters that the file does not have.
    pub missing: Vec<String>,
    /// Tensors of the file that the network does not need.
    pub left_over: Vec<String>,
    /// What was changed or dropped, in sentences.
    pub notes: Vec<String>,
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tensors matched", self.matched.len())?;
        for (what, names) in [("missing", &self.missing), ("left over", &self.left_over)] {
            if !names.is_empty() {
                write!(f, ", {} {what}: {}", names.len(), some(names))?;
            }
        }
        for note in &self.notes {
            write!(f, "\n{note}")?;
        }
        Ok(())
    }
}

/// The first few of a list.
fn some<T: fmt::Display>(items: &[T]) -> String {
    let mut text: Vec<String> = items.iter().take(4).map(ToString::to_string).collect();
    if items.len() > text.len() {
        text.push(format!("... ({} more)", items.len() - text.len()));
    }
    text.join(", ")
}

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
                "name a built-in architecture with --arch, or export the whole network with \
                 torch.onnx.export",
            ),
            Self::Mismatch { .. } => Some(
                "if none of the built-in architectures is the right one, export the network with \
                 torch.onnx.export",
            ),
            Self::Classes { .. } => Some("choose data with this number of classes"),
            Self::Value { .. } => Some("the training run diverged; use an earlier checkpoint"),
            _ => None,
        }
    }
}

/// Reads a model file of any known format: content decides, then the name.
pub fn load(path: &Path, options: &LoadOptions) -> Result<Loaded, ImportError> {
    let bytes = read_bytes(path)?;
    let mut sha256 = file::sha256(&bytes);
    let (mut model, report) = if safetensors::recognise(&bytes) {
        match Model::from_bytes(&bytes) {
            Ok(model) => {
                let report = ImportReport::default();
                return Ok(Loaded {
                    model,
                    report,
                    sha256,
                });
            }
            Err(FileError::NoGraph { .. }) => fill(safetensors::read(&bytes)?, options)?,
            Err(error) => return Err(error.into()),
        }
    } else if pytorch::recognise(&bytes) {
        fill(pytorch::read(&bytes)?, options)?
    } else if onnx::recognise(&bytes) || path.extension().is_some_and(|e| e == "onnx") {
        let (model, report, beside) = onnx::read_beside(path, bytes, options.input)?;
        if !beside.is_empty() {
            // One hash for all files that the model consists of.
            let hashes = beside.iter().map(|bytes| file::sha256(bytes));
            let hashes: Vec<String> = std::iter::once(sha256).chain(hashes).collect();
            sha256 = file::sha256(hashes.join("\n").as_bytes());
        }
        (model, report)
    } else {
        let path = path.into();
        let reason = what(&bytes);
        return Err(ImportError::Format { path, reason });
    };
    model.info.parent_sha256 = Some(sha256.clone());
    Ok(Loaded {
        model,
        report,
        sha256,
    })
}

/// Builds the named architecture and fills it with weights.
fn fill(
    state_dict: StateDict,
    options: &LoadOptions,
) -> Result<(Model, ImportReport), ImportError> {
    let Some((name, task)) = &options.architecture else {
        return Err(ImportError::NoArchitecture {
            tensors: state_dict.len(),
        });
    };
    let graph = build(name, task)?;
    let (parameters, report) = assign(state_dict, &graph, options.prefix.as_deref())?;
    let info = ModelInfo {
        architecture: Some(name.clone()),
        method: Some("imported".into()),
        ..ModelInfo::default()
    };
    let model = Model {
        graph,
        parameters,
        info,
    };
    Ok((model, report))
}

/// What a file that is no model looks like.
fn what(bytes: &[u8]) -> &'static str {
    let starts = |prefix: &[u8]| bytes.starts_with(prefix);
    match bytes {
        [] => "it is empty",
        _ if starts(b"version https://git-lfs") => {
            "it is a Git LFS pointer; fetch the file itself with `git lfs pull`"
        }
        _ if starts(b"<") => "it is a web page; the download went wrong",
        _ if starts(b"\x80") => "it is a pickle, but not one that torch.save wrote",
        _ if starts(b"\x89HDF") => "it is an HDF5 file (Keras); convert it to ONNX with tf2onnx",
        _ if starts(b"\x1f\x8b") => "it is compressed; unpack it first",
        _ => "its content is of no known format",
    }
}
