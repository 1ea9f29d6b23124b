//! What can go wrong with a record, in words that name the file.

use std::fmt;
use std::path::{Path, PathBuf};

/// One field in which a manifest on disk and the one wanted disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Dotted path of the field, for example `configuration.n`.
    pub field: String,
    /// The value on disk, as JSON (`-` if the field is not there).
    pub found: String,
    /// The value wanted, as JSON (`-` if the field should not be there).
    pub wanted: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is {}, wanted {}",
            self.field, self.found, self.wanted
        )
    }
}

/// An error while writing or reading records.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", .path.display())]
    Io {
        /// The file or folder concerned.
        path: PathBuf,
        /// What was being done: `read`, `write`, ...
        action: &'static str,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A line of a log does not read.
    #[error("{}:{line}: {reason}", .path.display())]
    Line {
        /// The log.
        path: PathBuf,
        /// Line number, from 1; the header is line 1.
        line: u64,
        /// What was expected and what stands there.
        reason: String,
    },
    /// A row that was to be written has cells that would break the table.
    #[error("{}: cannot append a row: {reason}", .path.display())]
    Row {
        /// The log.
        path: PathBuf,
        /// What is wrong with the row.
        reason: String,
    },
    /// The log on disk has other columns than the ones to be written.
    #[error("{}: its columns are `{found}`, wanted `{wanted}`", .path.display())]
    Header {
        /// The log.
        path: PathBuf,
        /// Header on disk, tabs shown as spaces.
        found: String,
        /// Header wanted, tabs shown as spaces.
        wanted: String,
    },
    /// The log on disk was saved with the line ends of Windows.
    #[error("{}: its lines end in CR LF, as some editors save them", .path.display())]
    LineEnds {
        /// The log.
        path: PathBuf,
    },
    /// A JSON file does not read as what it should be.
    #[error("{}: {reason}", .path.display())]
    Json {
        /// The JSON file.
        path: PathBuf,
        /// Line, column and cause, or the field that is wrong.
        reason: String,
    },
    /// The log on disk is of another model, data set, sigma, seed, ...
    #[error("{}: belongs to another run: {}", .path.display(), join(.differences))]
    Differs {
        /// The manifest on disk.
        path: PathBuf,
        /// The fields that differ, at least one.
        differences: Vec<Difference>,
    },
    /// A log without its manifest: nothing says what it measured.
    #[error("{}: the manifest {} is missing", .path.display(), .manifest.display())]
    NoManifest {
        /// The log.
        path: PathBuf,
        /// Where its manifest should be.
        manifest: PathBuf,
    },
    /// Another process is appending to the same log.
    #[error("{}: another process is writing to it", .path.display())]
    Locked {
        /// The log.
        path: PathBuf,
    },
    /// Shards do not make up one whole log.
    #[error("cannot merge: {reason}")]
    Shards {
        /// Which shard is wrong or missing, and why.
        reason: String,
        /// What to do about it.
        hint: String,
    },
}

impl RecordError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Differs { differences, .. }
                if differences.iter().any(|d| d.field.starts_with("smoothing")) =>
            {
                Some(
                    "the noise is another one: ask for the log's own noise to go on with it, or \
                     write to another file"
                        .into(),
                )
            }
            Self::Header { .. } | Self::Differs { .. } => Some(
                "write to another file, or remove the old log and its .json to start afresh".into(),
            ),
            Self::NoManifest { path, .. } => Some(format!(
                "put the manifest back, or remove {} to start afresh",
                path.display()
            )),
            Self::LineEnds { .. } => Some(
                "save it with plain LF line ends again, as `dos2unix` does; then it goes on".into(),
            ),
            Self::Locked { .. } => {
                Some("wait for it to end; to share the work, give each process its own shard and its own file".into())
            }
            Self::Shards { hint, .. } => Some(hint.clone()),
            _ => None,
        }
    }

    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            path,
            action,
            source,
        }
    }

    pub(crate) fn json(path: &Path, reason: impl fmt::Display) -> Self {
        Self::Json {
            path: path.to_path_buf(),
            reason: reason.to_string(),
        }
    }
}

fn join(differences: &[Difference]) -> String {
    differences
        .iter()
        .map(Difference::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}
