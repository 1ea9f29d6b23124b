//! ONNX in and out.
//!
//! [`read`] turns a classifier into a graph that can be trained, attacked and
//! certified like a built-in one: every operator is expressed by those of
//! [`network::Op`], constant sub-graphs are evaluated, layouts (NCHW, NHWC,
//! flattened) are followed rather than computed. [`write`](fn@write) writes any
//! model for other runtimes.

mod constant;
mod proto;
mod read;
mod write;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use network::file::read_bytes;
use network::{GraphError, Model, Shape};
use prost::bytes::Bytes;

pub use self::read::SUPPORTED;
pub use self::write::{Fold, write};
use super::{ImportError, ImportReport};

/// Why an ONNX file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// Not a protobuf message of this kind.
    #[error("this is not a sound ONNX file: {0}")]
    Decode(String),
    /// Operators older than those that are known.
    #[error(
        "this ONNX file cannot be imported: its operators are of opset {0}, the oldest supported \
         is 9"
    )]
    Opset(i64),
    /// Something about the file as a whole.
    #[error("this ONNX file cannot be imported: {0}")]
    Model(String),
    /// The size of the image is neither in the file nor given.
    #[error("input `{name}` of this ONNX file leaves the size of the image open")]
    OpenInput {
        /// Name of the input.
        name: String,
    },
    /// An operator that has no counterpart here.
    #[error(
        "node `{node}`: operator {op} is not supported; supported are {}",
        SUPPORTED.join(", ")
    )]
    Unsupported {
        /// Name of the node.
        node: String,
        /// Its operator.
        op: String,
    },
    /// A supported operator in an unsupported way.
    #[error("node `{node}` ({op}): {reason}")]
    Node {
        /// Name of the node.
        node: String,
        /// Its operator.
        op: String,
        /// What does not work.
        reason: String,
    },
    /// A constant that makes no sense.
    #[error("tensor `{name}`: {reason}")]
    Tensor {
        /// Its name.
        name: String,
        /// What does not work.
        reason: String,
    },
    /// The network makes no sense.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl OnnxError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Decode(_) => Some("the file may be truncated or damaged: copy it again"),
            Self::Opset(_) => Some("export it again with a newer opset, such as opset_version=17"),
            Self::Model(_) => Some(
                "wanted is a classifier: one input of floats, N x C x H x W (or N x H x W x C) with \
                 pixels in [0, 1], and one output, N x classes",
            ),
            Self::OpenInput { .. } => {
                Some("give the input shape: height, width and channels of one image")
            }
            Self::Unsupported { op, .. } if op.contains("::") => Some(
                "the operator is one program's own: take the file from before it was optimised or \
                 converted, or export the network without custom operators",
            ),
            Self::Unsupported { op, .. } if QUANTISED.contains(&op.as_str()) => {
                Some("export the network as it was before it was quantised, with weights of floats")
            }
            Self::Unsupported { op, .. } if DECISIONS.contains(&op.as_str()) => Some(
                "the network decides while it runs what it computes: export the module itself \
                 (torch.jit.script keeps decisions) for one fixed size, or with torch's other \
                 exporter (dynamo=True or False)",
            ),
            Self::Unsupported { op, .. } if SIZES.contains(&op.as_str()) => Some(
                "the network computes with its own sizes: export it with fixed ones (no \
                 dynamic_axes or dynamic_shapes), or with torch's other exporter (dynamo=True \
                 or False)",
            ),
            Self::Unsupported { .. } => Some(
                "if the operator comes from post-processing, export the network up to its \
                 logits; else try torch's other exporter (dynamo=True or False), which may \
                 write it otherwise",
            ),
            Self::Node { .. } => Some(
                "export the network in evaluation mode with fixed sizes (no dynamic_axes or \
                 dynamic_shapes), or with torch's other exporter (dynamo=True or False)",
            ),
            _ => None,
        }
    }
}

/// Operators by which a network computes sizes while it runs.
const SIZES: [&str; 5] = ["NonZero", "Range", "Resize", "Tile", "Floor"];
/// Operators by which it decides what to compute.
const DECISIONS: [&str; 3] = ["If", "Loop", "Scan"];
/// Operators on integers that stand for floats.
const QUANTISED: [&str; 7] = [
    "ConvInteger",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "MatMulInteger",
    "QLinearConv",
    "QLinearMatMul",
    "QuantizeLinear",
];

/// Where the values of large models are: files beside the `.onnx` file.
trait External {
    /// The bytes of a file by its name in the model, or why there are none.
    fn file(&mut self, location: &str) -> Result<Bytes, String>;
}

/// No files.
struct Nowhere;

impl External for Nowhere {
    fn file(&mut self, location: &str) -> Result<Bytes, String> {
        Err(format!("its values are in another file, `{location}`"))
    }
}

/// Files of one folder, each read once; a name that leads out of the folder is
/// refused.
struct Beside {
    folder: PathBuf,
    read: BTreeMap<String, Bytes>,
}

impl External for Beside {
    fn file(&mut self, location: &str) -> Result<Bytes, String> {
        if let Some(bytes) = self.read.get(location) {
            return Ok(bytes.clone());
        }
        let path = Path::new(location);
        let inside = path.components().all(|c| matches!(c, Component::Normal(_)));
        if location.is_empty() || !inside {
            return Err(format!(
                "its values are in `{location}`, outside the folder"
            ));
        }
        let bytes = read_bytes(&self.folder.join(path)).map_err(|e| e.to_string())?;
        let bytes = Bytes::from(bytes);
        self.read.insert(location.into(), bytes.clone());
        Ok(bytes)
    }
}

/// Whether a file looks like ONNX: its first field is the version of the
/// format, a small number.
pub fn recognise(bytes: &[u8]) -> bool {
    matches!(bytes, [0x08, 1..=0x7f, next, ..] if [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42].contains(next))
}

/// Reads a model that is one file. `input` is the shape of one image, for files
/// that leave it open.
pub fn read(bytes: Vec<u8>, input: Option<Shape>) -> Result<(Model, ImportReport), ImportError> {
    read::read(bytes.into(), input, &mut Nowhere)
}

/// The same with the files beside `path` that the model names; returns their
/// bytes, too.
pub(super) fn read_beside(
    path: &Path,
    bytes: Vec<u8>,
    input: Option<Shape>,
) -> Result<(Model, ImportReport, Vec<Bytes>), ImportError> {
    let mut beside = Beside {
        folder: path.parent().unwrap_or(Path::new("")).into(),
        read: BTreeMap::new(),
    };
    let (model, report) = read::read(bytes.into(), input, &mut beside)?;
    Ok((model, report, beside.read.into_values().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_17_point_27_errors_name_the_remedy() {
        let unsupported = |op: &str| OnnxError::Unsupported {
            node: "n".into(),
            op: op.into(),
        };
        let node = |op: &str| OnnxError::Node {
            node: "n".into(),
            op: op.into(),
            reason: "it cannot be followed".into(),
        };
        for (error, words) in [
            (unsupported("Resize"), "no dynamic_axes"),
            (unsupported("TopK"), "up to its logits"),
            (unsupported("GridSample"), "other exporter"),
            (unsupported("If"), "the module itself"),
            (unsupported("QLinearConv"), "before it was quantised"),
            (
                unsupported("com.microsoft::FusedConv"),
                "before it was optimised",
            ),
            (OnnxError::Opset(8), "opset_version=17"),
            (
                OnnxError::Model("it has 2 inputs".into()),
                "one input of floats",
            ),
            (node("Reshape"), "fixed sizes"),
            (node("Conv"), "evaluation mode"),
            (
                OnnxError::OpenInput { name: "x".into() },
                "height, width and channels",
            ),
        ] {
            let hint = error.hint().unwrap();
            assert!(hint.contains(words), "{error}: {hint}");
        }
    }
}
