//! `run.json`: what a training run was asked to do, and from what.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::manifest::{differences, read_versioned};
use crate::{DataId, Difference, ModelId, RecordError, Versions, atomic};

/// The manifest of a run folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunManifest {
    /// Always [`RunManifest::FORMAT`].
    pub format: String,
    /// Version of this schema, [`RunManifest::VERSION`].
    pub version: u32,
    /// The command: `train` or `smooth`.
    pub command: String,
    /// How the model is made: `baseline`, `gaussian`, `smoothadv`, `heat`, ...
    pub method: String,
    /// Name for people where the method alone would be ambiguous; never compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Noise std in units of pixels scaled to [0, 1]; `None` without noise.
    pub sigma: Option<f64>,
    /// The resolved configuration.
    pub configuration: Value,
    /// Seed of everything random.
    pub seed: u64,
    /// The data set.
    pub data: DataId,
    /// The model started from (`smooth`: f).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ModelId>,
    /// The finished model; `None` while the run is under way. Never compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelId>,
    /// What computed it; never compared.
    pub versions: Versions,
    /// The processes that trained together, if there were several; never compared: a
    /// run may go on with another number of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<RanksId>,
    /// Seconds since 1970 at the start, if recorded; never compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<u64>,
    /// Seconds since 1970 at the end, if recorded; never compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<u64>,
}

/// Several processes that trained one network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanksId {
    /// How many.
    pub count: usize,
    /// By which images batch norms normalised: `synchronised` (those of all ranks) or
    /// `per-rank`.
    pub norms: String,
}

impl RunManifest {
    /// Value of `format`.
    pub const FORMAT: &str = "heatsmooth-run";
    /// The version this library writes, and the newest it reads.
    pub const VERSION: u32 = 1;
    /// Its name in the run folder.
    pub const FILE: &str = "run.json";

    /// Reads a manifest; a newer version or another format is refused.
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        read_versioned(path, Self::FORMAT, Self::VERSION)
    }

    /// Writes it, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), RecordError> {
        atomic::write_json(path, self)
    }

    /// The fields in which `self` (on disk) differs from `wanted` such that the
    /// run must not be resumed.
    pub fn differences(&self, wanted: &Self) -> Vec<Difference> {
        let ignored = [
            "versions",
            "ranks",
            "label",
            "model",
            "parent.path",
            "started",
            "finished",
        ];
        differences(self, wanted, &ignored)
    }

    /// Before a run: writes `self` if `path` does not exist; otherwise returns
    /// the manifest on disk, or refuses it with the differences named.
    pub fn claim(&self, path: &Path) -> Result<Option<Self>, RecordError> {
        atomic::sweep(atomic::folder_of(path));
        if !path.try_exists().map_err(RecordError::io(path, "read"))? {
            self.write(path)?;
            return Ok(None);
        }
        let found = Self::read(path)?;
        match found.differences(self) {
            differences if differences.is_empty() => Ok(Some(found)),
            differences => Err(RecordError::Differs {
                path: path.into(),
                differences,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn claims_resumes_and_refuses() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(RunManifest::FILE);
        let run = RunManifest {
            format: RunManifest::FORMAT.into(),
            version: RunManifest::VERSION,
            command: "smooth".into(),
            method: "heat".into(),
            label: None,
            sigma: Some(0.1),
            configuration: json!({"lambda": 5.0, "timesteps": 5}),
            seed: 0,
            data: DataId::default(),
            parent: Some(ModelId {
                sha256: "aa".into(),
                identity: None,
                path: None,
            }),
            model: None,
            versions: Versions::default(),
            ranks: None,
            started: None,
            finished: None,
        };
        assert_eq!(run.claim(&path).unwrap(), None);
        let done = RunManifest {
            finished: Some(12),
            model: run.parent.clone(),
            ..run.clone()
        };
        done.write(&path).unwrap();
        assert_eq!(run.claim(&path).unwrap(), Some(done));
        let other = RunManifest {
            configuration: json!({"lambda": 0.5, "timesteps": 5}),
            ..run
        };
        let error = other.claim(&path).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("configuration.lambda is 5.0, wanted 0.5"),
            "{error}"
        );
        assert!(error.hint().is_some());
    }
}
