//! PyTorch checkpoints: what `torch.save` writes, as zip (since 1.6) or in the
//! legacy layout.
//!
//! The reader executes nothing: see the `pickle` module. A zip holds `*/data.pkl`, which
//! describes the objects, and one stored entry `*/data/KEY` per storage. The
//! legacy layout is five pickles in a row (a magic number, a version, facts
//! about the machine, the objects, the keys of the storages) and then, key by
//! key, an element count and the elements.

mod object;
mod pickle;
mod tensor;

use std::collections::HashMap;
use std::io::Cursor;

use self::object::{Kind, Object, Value, View};
use self::pickle::Machine;
use super::StateDict;

/// The magic number of the legacy layout, little-endian.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];
/// Where training scripts put the weights.
const NESTED: [&str; 8] = [
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "net",
    "network",
    "module",
    "weights",
];
/// Elements that small checkpoints may have beyond one per byte of the file.
const SLACK: usize = 1 << 16;

/// Why a checkpoint cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Neither layout.
    #[error("this is not a PyTorch checkpoint")]
    Unknown,
    /// The file ends too early.
    #[error("the checkpoint ends in the middle, at byte {at} of its pickle")]
    Truncated {
        /// Position in the pickle.
        at: usize,
    },
    /// The pickle makes no sense.
    #[error("the checkpoint's pickle is damaged at byte {at}: {what}")]
    Pickle {
        /// Position in the pickle.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// An opcode that describes no data.
    #[error("the checkpoint's pickle uses opcode {code:#04x} at byte {at}, which is not allowed")]
    Opcode {
        /// The opcode.
        code: u8,
        /// Position in the pickle.
        at: usize,
    },
    /// A name that is not on the list.
    #[error("the checkpoint asks for `{name}`, which is not allowed")]
    Global {
        /// Module and name.
        name: String,
    },
    /// The archive makes no sense.
    #[error("the checkpoint's zip archive is damaged: {0}")]
    Archive(String),
    /// Saved by `torch.jit.save`.
    #[error("this is a TorchScript program, not a checkpoint")]
    TorchScript,
    /// Saved on another kind of machine.
    #[error("the checkpoint was saved on a big-endian machine")]
    BigEndian,
    /// A tensor that the file does not hold.
    #[error("tensor `{name}`: {reason}")]
    Tensor {
        /// Its name in the state dict.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// No dictionary of tensors.
    #[error("the checkpoint holds no dictionary of tensors; it holds {found}")]
    NoStateDict {
        /// What it holds instead.
        found: String,
    },
}

impl CheckpointError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Global { .. } | Self::Opcode { .. } => Some(
                "checkpoints are read without running them, so whole pickled models cannot be; \
                 save the weights alone: torch.save(model.state_dict(), \"weights.pth\")",
            ),
            Self::TorchScript => Some(
                "save the weights of the original module with torch.save(model.state_dict(), ...), \
                 or export it with torch.onnx.export",
            ),
            Self::Truncated { .. } | Self::Pickle { .. } | Self::Archive(_) => {
                Some("the file may be truncated or damaged: copy it again")
            }
            Self::NoStateDict { .. } => {
                Some("save the weights: torch.save(model.state_dict(), \"weights.pth\")")
            }
            _ => None,
        }
    }
}

/// Whether a file looks like a checkpoint.
pub fn recognise(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || is_legacy(bytes)
}

fn is_legacy(bytes: &[u8]) -> bool {
    bytes.len() > 14 && bytes[0] == 0x80 && bytes[2..4] == [0x8a, 10] && bytes[4..14] == MAGIC
}

/// Reads the floating-point tensors of a checkpoint's state dict, which may be
/// nested under `state_dict`, `model`, `net` and the like. Integer tensors are
/// counters (`num_batches_tracked`) and left out. Needs memory for at most one
/// `f32` per byte of the file, whatever the file claims.
pub fn read(bytes: &[u8]) -> Result<StateDict, CheckpointError> {
    if is_legacy(bytes) {
        read_legacy(bytes)
    } else if bytes.starts_with(b"PK\x03\x04") {
        read_zip(bytes)
    } else {
        Err(CheckpointError::Unknown)
    }
}

fn read_zip(bytes: &[u8]) -> Result<StateDict, CheckpointError> {
    let archive = |e: zip::result::ZipError| CheckpointError::Archive(e.to_string());
    let mut zip = zip::ZipArchive::new(Cursor::new(bytes)).map_err(archive)?;
    let mut entries = HashMap::new();
    for index in 0..zip.len() {
        let entry = zip.by_index_raw(index).map_err(archive)?;
        let range = || {
            let start = usize::try_from(entry.data_start()?).ok()?;
            let length = usize::try_from(entry.compressed_size()).ok()?;
            bytes.get(start..start.checked_add(length)?)
        };
        // `torch.save` never compresses.
        if entry.compression() == zip::CompressionMethod::Stored
            && let Some(data) = range()
        {
            let name = entry.name().map_err(archive)?.into_owned();
            entries.insert(name, data);
        }
    }
    let suffix = |name: &str| name == "data.pkl" || name.ends_with("/data.pkl");
    let root = entries.keys().filter(|name| suffix(name)).min();
    let Some(root) = root else {
        let reason = "it has no stored entry `data.pkl`";
        return Err(CheckpointError::Archive(reason.into()));
    };
    let folder = root.trim_end_matches("data.pkl");
    if entries.contains_key(&format!("{folder}constants.pkl")) {
        return Err(CheckpointError::TorchScript);
    }
    let order = entries.get(&format!("{folder}byteorder"));
    if order.is_some_and(|order| order.starts_with(b"big")) {
        return Err(CheckpointError::BigEndian);
    }
    let mut machine = Machine::new(entries[root]);
    let value = machine.run()?;
    collect(&machine, value, bytes.len(), |view| {
        entries
            .get(&format!("{folder}data/{}", view.storage.key))
            .copied()
    })
}

fn read_legacy(bytes: &[u8]) -> Result<StateDict, CheckpointError> {
    let mut machine = Machine::new(bytes);
    let magic = machine.run()?;
    let version = machine.run()?;
    if magic != Value::Bytes(&MAGIC) || version != Value::Int(1001) {
        return Err(CheckpointError::Unknown);
    }
    let system = machine.run()?;
    if let Some(Object::Dict(facts)) = machine.object(system)
        && facts.contains(&(Value::Text("little_endian"), Value::Bool(false)))
    {
        return Err(CheckpointError::BigEndian);
    }
    let value = machine.run()?;
    let keys = machine.run()?;
    let sizes = machine.storage_sizes();
    let Some(Object::List(keys)) = machine.object(keys).cloned() else {
        return Err(CheckpointError::Pickle {
            at: bytes.len(),
            what: "no list of storages",
        });
    };
    let mut storages = HashMap::new();
    for key in keys {
        let Value::Text(key) = key else { continue };
        let count = machine.take(8)?;
        let count = u64::from_le_bytes(count.try_into().unwrap_or_default());
        // A storage that no tensor uses has an unknown element size.
        let size = sizes.get(key).copied().unwrap_or(1) as u64;
        storages.insert(key, machine.take(count.saturating_mul(size))?);
    }
    collect(&machine, value, bytes.len(), |view| {
        storages.get(view.storage.key).copied()
    })
}

/// Finds the dictionary of tensors and copies them out.
fn collect<'a>(
    machine: &Machine<'a>,
    root: Value<'a>,
    file_size: usize,
    data: impl Fn(&View<'a>) -> Option<&'a [u8]>,
) -> Result<StateDict, CheckpointError> {
    let tensors = find(machine, root).ok_or_else(|| CheckpointError::NoStateDict {
        found: describe(machine, root),
    })?;
    let mut budget = file_size.saturating_add(SLACK);
    let mut state_dict = StateDict::new();
    for (name, view) in tensors {
        if matches!(view.storage.kind, Kind::Count { .. }) {
            continue;
        }
        let data = data(view).ok_or_else(|| CheckpointError::Tensor {
            name: name.into(),
            reason: format!("the file has no storage `{}`", view.storage.key),
        })?;
        let tensor = tensor::materialise(name, view, data, &mut budget)?;
        state_dict.insert(name.into(), tensor);
    }
    Ok(state_dict)
}

/// The named tensors of the innermost dictionary along [`NESTED`] keys.
fn find<'m, 'a>(machine: &'m Machine<'a>, root: Value<'a>) -> Option<Vec<(&'a str, &'m View<'a>)>> {
    let mut value = root;
    let mut found = None;
    // A dictionary may contain itself: stop somewhere.
    for _ in 0..8 {
        let Some(Object::Dict(pairs)) = machine.object(value) else {
            break;
        };
        let tensors: Vec<_> = pairs
            .iter()
            .filter_map(|&(key, value)| match (key, machine.object(value)) {
                (Value::Text(name), Some(Object::Tensor(view))) => Some((name, view)),
                _ => None,
            })
            .collect();
        if !tensors.is_empty() {
            found = Some(tensors);
        }
        let inner = NESTED.iter().find_map(|name| {
            let has = |(key, value): &&(Value<'a>, Value<'a>)| {
                *key == Value::Text(name) && matches!(machine.object(*value), Some(Object::Dict(_)))
            };
            pairs.iter().find(has)
        });
        let Some((_, inner)) = inner else { break };
        value = *inner;
    }
    found
}

/// What stands at the top, for the error message.
fn describe(machine: &Machine<'_>, root: Value<'_>) -> String {
    match machine.object(root) {
        Some(Object::Dict(pairs)) => {
            let keys = pairs.iter().filter_map(|(key, _)| match key {
                Value::Text(name) => Some(format!(
                    "`{}`",
                    name.chars().take(60).collect::<String>().escape_debug()
                )),
                _ => None,
            });
            let keys: Vec<_> = keys.take(12).collect();
            format!("a dictionary with the keys {}", keys.join(", "))
        }
        Some(Object::Tensor(_)) => "one tensor without a name".into(),
        Some(Object::List(_) | Object::Tuple(_)) => "a list".into(),
        _ => "a single value".into(),
    }
}
