//! Model files: one `.safetensors` with weights, graph and provenance.
//!
//! The safetensors header holds one metadata entry, `heatsmooth`, a JSON object
//! with `format`, `graph` and `info`; one entry, because the order of several is
//! not fixed and equal models shall be equal files. Nothing is allocated from
//! what a file claims before the claim is checked against its size.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::graph::Graph;
use crate::model::{Model, ModelInfo};
use crate::parameters::Parameters;

/// Version of the layout of the metadata.
const FORMAT: u32 = 1;
/// The one metadata entry.
const KEY: &str = "heatsmooth";
/// No honest file is larger.
const MAX_FILE_BYTES: u64 = 8 << 30;

/// Why a model file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system says no.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not a regular file, or too large.
    #[error("{path} is not a model file: {reason}")]
    NotAFile {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Header or layout is damaged.
    #[error("this is not a sound safetensors file: {0}")]
    Layout(String),
    /// Someone else's tensors: no graph in the metadata.
    #[error("the file holds {tensors} tensors but no heatsmooth graph")]
    NoGraph {
        /// How many tensors there are.
        tensors: usize,
    },
    /// The metadata make no sense.
    #[error("the file's metadata are damaged: {0}")]
    Metadata(String),
    /// Written by a later program.
    #[error("the file has format {0}, this program knows up to {FORMAT}")]
    Format(u32),
    /// A parameter of the graph is not there.
    #[error("tensor `{0}` is missing")]
    Missing(String),
    /// A tensor that the graph does not know.
    #[error("tensor `{0}` belongs to no node of the graph")]
    Unexpected(String),
    /// Wrong shape or element type.
    #[error("tensor `{name}`: expected {expected}, got {got}")]
    Tensor {
        /// Which.
        name: String,
        /// What the graph wants.
        expected: String,
        /// What the file has.
        got: String,
    },
    /// NaN or infinite.
    #[error("tensor `{name}` holds {value} at position {index}")]
    NotFinite {
        /// Which.
        name: String,
        /// Where.
        index: usize,
        /// What.
        value: f32,
    },
}

impl FileError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Some("check the path; a run folder's model is RUN/model.safetensors")
            }
            Self::Layout(_) | Self::Metadata(_) => {
                Some("the file may be truncated or damaged: copy it again")
            }
            Self::NoGraph { .. } => Some(
                "this looks like another program's weights; a heatsmooth model carries its graph",
            ),
            Self::Format(_) => Some("update heatsmooth"),
            Self::NotFinite { .. } => Some(
                "the training run that wrote these weights diverged; use an earlier checkpoint",
            ),
            _ => None,
        }
    }
}

/// The metadata entry, generic over what the file is about.
#[derive(Serialize, Deserialize)]
struct Header<T> {
    format: u32,
    #[serde(flatten)]
    content: T,
}

#[derive(Serialize, Deserialize)]
struct ModelHeader {
    graph: Graph,
    info: ModelInfo,
}

/// Named tensors with a typed description: the container of models and
/// checkpoints.
#[derive(Debug)]
pub struct Container<T> {
    /// The description.
    pub content: T,
    /// Name to shape and values.
    pub tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

/// Serialises a description and named tensors; equal arguments give equal
/// bytes.
pub fn write_container<'a, T: Serialize>(
    content: &T,
    tensors: impl IntoIterator<Item = (String, Vec<usize>, &'a [f32])>,
) -> Vec<u8> {
    let header = Header {
        format: FORMAT,
        content,
    };
    let json = serde_json::to_string(&header).expect("descriptions are plain data");
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .into_iter()
        .map(|(name, shape, values)| {
            let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            (name, shape, bytes)
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
        (name, view.expect("shape and values agree"))
    });
    safetensors::serialize(views, Some(HashMap::from([(KEY.into(), json)])))
        .expect("names are unique and sizes fit")
}

/// Reads what [`write_container`] wrote; all values are finite f32.
pub fn read_container<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<Container<T>, FileError> {
    let layout = |e: safetensors::SafeTensorError| FileError::Layout(e.to_string());
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(layout)?;
    let file = SafeTensors::deserialize(bytes).map_err(layout)?;
    let entry = metadata.metadata().as_ref().and_then(|m| m.get(KEY));
    let json = entry.ok_or(FileError::NoGraph {
        tensors: file.len(),
    })?;
    let damaged = |e: serde_json::Error| FileError::Metadata(e.to_string());
    let version: Header<serde_json::Value> = serde_json::from_str(json).map_err(damaged)?;
    if version.format > FORMAT {
        return Err(FileError::Format(version.format));
    }
    let header: Header<T> = serde_json::from_str(json).map_err(damaged)?;
    let mut tensors = BTreeMap::new();
    for (name, view) in file.iter() {
        if view.dtype() != Dtype::F32 {
            return Err(FileError::Tensor {
                name: name.into(),
                expected: "F32".into(),
                got: view.dtype().to_string(),
            });
        }
        let words = view.data().chunks_exact(4);
        let values: Vec<f32> = words
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        if let Some(index) = values.iter().position(|v| !v.is_finite()) {
            return Err(FileError::NotFinite {
                name: name.into(),
                index,
                value: values[index],
            });
        }
        tensors.insert(name.to_string(), (view.shape().to_vec(), values));
    }
    Ok(Container {
        content: header.content,
        tensors,
    })
}

/// Takes the parameters of a graph out of named tensors.
pub fn take_parameters(
    graph: &Graph,
    tensors: &mut BTreeMap<String, (Vec<usize>, Vec<f32>)>,
) -> Result<Parameters, FileError> {
    let mut values = Vec::with_capacity(graph.parameters().len());
    for spec in graph.parameters() {
        let found = tensors.remove(&spec.name);
        let (shape, tensor) = found.ok_or_else(|| FileError::Missing(spec.name.clone()))?;
        if shape != spec.shape {
            return Err(FileError::Tensor {
                name: spec.name.clone(),
                expected: format!("{:?}", spec.shape),
                got: format!("{shape:?}"),
            });
        }
        values.push(tensor);
    }
    Ok(Parameters::new(graph, values))
}

/// The parameters of a graph as named tensors.
pub fn named_parameters<'a>(
    graph: &'a Graph,
    parameters: &'a Parameters,
) -> impl Iterator<Item = (String, Vec<usize>, &'a [f32])> {
    let specs = graph.parameters().iter();
    specs
        .zip(parameters.iter())
        .map(|(spec, values)| (spec.name.clone(), spec.shape.clone(), values))
}

/// The bytes of a regular file of a sane size.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, FileError> {
    let io = |source| FileError::Io {
        path: path.into(),
        source,
    };
    let about = std::fs::metadata(path).map_err(io)?;
    let reason = match about.len() {
        _ if !about.is_file() => "not a regular file".into(),
        size if size > MAX_FILE_BYTES => format!("{size} bytes"),
        _ => return std::fs::read(path).map_err(io),
    };
    Err(FileError::NotAFile {
        path: path.into(),
        reason,
    })
}

/// SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the bytes of a safetensors file, or its header alone, are a model of
/// ours: one that carries its graph.
pub fn is_model(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk().map(|b| u64::from_le_bytes(*b));
    let end = length.and_then(|n| usize::try_from(n).ok()?.checked_add(8));
    let header = end.and_then(|end| bytes.get(8..end));
    let header = header.and_then(|json| serde_json::from_slice::<serde_json::Value>(json).ok());
    header.is_some_and(|header| header["__metadata__"][KEY].is_string())
}

impl Model {
    /// SHA-256 of everything that decides the outputs: the graph with its input
    /// shape and normalisation, and the weights; not names, nor where they come
    /// from. Two files of one network, whatever their formats, have one identity.
    pub fn identity(&self) -> String {
        let mut nodes: Vec<crate::Node> = self.graph.clone().into();
        nodes.iter_mut().for_each(|node| node.name.clear());
        let graph = serde_json::to_vec(&nodes).expect("graphs are plain data");
        let mut hasher = Sha256::new();
        hasher.update((graph.len() as u64).to_le_bytes());
        hasher.update(&graph);
        for values in self.parameters.iter() {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            hasher.update((values.len() as u64).to_le_bytes());
            hasher.update(&bytes);
        }
        hexadecimal(&hasher.finalize())
    }

    /// The file's bytes; equal models give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let header = ModelHeader {
            graph: self.graph.clone(),
            info: self.info.clone(),
        };
        write_container(&header, named_parameters(&self.graph, &self.parameters))
    }

    /// SHA-256 of the model's file without a calibration. Records name a calibrated
    /// model by it, so that it stays the same model, and logs about it go on.
    pub fn uncalibrated_sha256(&self) -> String {
        let info = ModelInfo {
            calibration: None,
            ..self.info.clone()
        };
        let header = ModelHeader {
            graph: self.graph.clone(),
            info,
        };
        let parameters = named_parameters(&self.graph, &self.parameters);
        sha256(&write_container(&header, parameters))
    }

    /// Reads a file's bytes, checking names, shapes, types and values.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FileError> {
        let container: Container<ModelHeader> = read_container(bytes)?;
        let ModelHeader { graph, info } = container.content;
        let mut tensors = container.tensors;
        let parameters = take_parameters(&graph, &mut tensors)?;
        if let Some((name, _)) = tensors.pop_first() {
            return Err(FileError::Unexpected(name));
        }
        let all = graph.parameters().iter().zip(parameters.iter());
        let never_negative = [crate::Role::RunningVariance, crate::Role::Width];
        for (spec, values) in all.filter(|(s, _)| never_negative.contains(&s.role)) {
            if let Some(index) = values.iter().position(|&v| v < 0.0) {
                return Err(FileError::Tensor {
                    name: spec.name.clone(),
                    expected: "values of at least 0".into(),
                    got: format!("{} at position {index}", values[index]),
                });
            }
        }
        Ok(Self {
            graph,
            parameters,
            info,
        })
    }
}
