//! Any model file to a model.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use network::architecture::{ARCHITECTURES, Task, build};
use network::file::{self, FileError, read_bytes};
use network::{Model, ModelInfo, Shape};

use crate::{ImportError, ImportReport, StateDict, assign, onnx, pytorch, safetensors};

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

/// What a model file says by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// One of ours: everything.
    Own,
    /// ONNX: everything, but perhaps the size of an image.
    Onnx,
    /// Weights without a network: a PyTorch checkpoint, or another program's
    /// safetensors.
    Weights,
}

/// No honest header of a safetensors file is longer.
const MAX_HEADER: u64 = 100 << 20;

impl FileKind {
    /// What a file is, by its first bytes and its name; `None`: no model file.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of(path: &Path) -> Result<Option<Self>, ImportError> {
        let io = |source| FileError::Io {
            path: path.into(),
            source,
        };
        let mut file = File::open(path).map_err(io)?;
        let mut bytes = Vec::new();
        file.by_ref().take(64).read_to_end(&mut bytes).map_err(io)?;
        let header = bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
        if bytes.get(8) == Some(&b'{') && header <= MAX_HEADER {
            let rest = (header + 8).saturating_sub(bytes.len() as u64);
            file.take(rest).read_to_end(&mut bytes).map_err(io)?;
            return Ok(Some(match file::is_model(&bytes) {
                true => Self::Own,
                false => Self::Weights,
            }));
        }
        let onnx = onnx::recognise(&bytes) || path.extension().is_some_and(|e| e == "onnx");
        Ok(match pytorch::recognise(&bytes) {
            true => Some(Self::Weights),
            false => onnx.then_some(Self::Onnx),
        })
    }
}

/// A model and how it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The model.
    pub model: Model,
    /// What was matched, missing, left over and changed.
    pub report: ImportReport,
    /// Of the file that was read, by which records name the model; for an ONNX
    /// model in several files, of the lines of their hashes; for a calibrated
    /// model of ours, of its file before ([`Model::uncalibrated_sha256`]).
    pub sha256: String,
}

/// Reads a model file of any known format: content decides, then the name.
pub fn load(path: &Path, options: &LoadOptions) -> Result<Loaded, ImportError> {
    let bytes = read_bytes(path)?;
    let mut sha256 = file::sha256(&bytes);
    let (mut model, report) = if safetensors::recognise(&bytes) {
        match Model::from_bytes(&bytes) {
            Ok(model) => {
                let report = ImportReport::default();
                if model.info.calibration.is_some() {
                    sha256 = model.uncalibrated_sha256();
                }
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
    // ResNets for CIFAR-10 come with two kinds of shortcuts.
    let projected = format!("{name}-projection");
    let known = ARCHITECTURES.iter().any(|(name, _)| *name == projected);
    let has = |part: &str| state_dict.keys().any(|key| key.ends_with(part));
    let name = match known && (has("downsample.0.weight") || has("shortcut.0.weight")) {
        true => &projected,
        false => name,
    };
    let graph = build(name, task)?;
    let (parameters, mut report) = assign(state_dict, &graph, options.prefix.as_deref())?;
    let behind = |(_, file): &(String, String)| file.starts_with("1.");
    if task.normalise.is_none() && report.matched.first().is_some_and(behind) {
        let note = "the network was saved behind another layer, which may normalise its input: \
                    say how, as this is no part of the file";
        report.notes.push(note.into());
    }
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
