//! Finds the records under the paths a user names.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use record::{Gallery, RecordError, RunManifest};

use crate::load::kind_of_header;
use crate::{ReportError, ReportWarning};

/// Files of a run folder or of an earlier report: never logs, not worth opening.
const NOT_LOGS: [&str; 12] = [
    "json",
    "png",
    "jpg",
    "svg",
    "html",
    "md",
    "tex",
    "csv",
    "safetensors",
    "onnx",
    "toml",
    "pth",
];

/// What was found, each list sorted and free of repetitions.
#[derive(Debug, Default)]
pub struct Found {
    /// Certification, attack, L-bound, fidelity, calibration and interval logs.
    pub logs: BTreeSet<PathBuf>,
    /// `run.json` files.
    pub runs: BTreeSet<PathBuf>,
    /// `gallery.json` files.
    pub galleries: BTreeSet<PathBuf>,
    /// Tables that are no logs.
    pub warnings: Vec<ReportWarning>,
}

/// Searches folders recursively; a file named directly must be a log.
pub fn discover(paths: &[PathBuf]) -> Result<Found, ReportError> {
    let mut found = Found::default();
    let mut visited = BTreeSet::new();
    for path in paths {
        let metadata = fs::metadata(path).map_err(io(path))?;
        if metadata.is_dir() {
            walk(path, &mut found, &mut visited)?;
        } else if !record_by_name(path, &mut found) {
            match header(path)? {
                Some(text) if kind_of_header(&text).is_some() => {
                    found.logs.insert(path.clone());
                }
                text => {
                    let text = text.unwrap_or_default();
                    let start: String = text.chars().take(80).collect();
                    let reason = format!("not a log: its first line is {start:?}");
                    return Err(ReportError::NotALog {
                        path: path.clone(),
                        reason,
                    });
                }
            }
        }
    }
    Ok(found)
}

fn walk(
    folder: &Path,
    found: &mut Found,
    visited: &mut BTreeSet<PathBuf>,
) -> Result<(), ReportError> {
    // Links may lead in circles.
    if !visited.insert(fs::canonicalize(folder).map_err(io(folder))?) {
        return Ok(());
    }
    let mut entries = fs::read_dir(folder)
        .and_then(|entries| {
            entries
                .map(|entry| Ok(entry?.path()))
                .collect::<Result<Vec<_>, _>>()
        })
        .map_err(io(folder))?;
    entries.sort();
    for path in entries {
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let Ok(metadata) = fs::metadata(&path) else {
            continue;
        }; // a dangling link
        if hidden {
            continue;
        }
        if metadata.is_dir() {
            walk(&path, found, visited)?;
        } else if metadata.is_file() && !record_by_name(&path, found) {
            let extension = path
                .extension()
                .and_then(|e| e.to_str())
                .unwrap_or_default();
            let epochs = path.file_name().is_some_and(|name| name == "epochs.tsv");
            if epochs || NOT_LOGS.contains(&extension) {
                continue;
            }
            let text = header(&path)?;
            if text.as_deref().and_then(kind_of_header).is_some() {
                found.logs.insert(path);
            } else if extension == "tsv" {
                found.warnings.push(ReportWarning::Skipped { path });
            }
        }
    }
    Ok(())
}

fn record_by_name(path: &Path, found: &mut Found) -> bool {
    let list = match path.file_name().and_then(|name| name.to_str()) {
        Some(RunManifest::FILE) => &mut found.runs,
        Some(Gallery::FILE) => &mut found.galleries,
        _ => return false,
    };
    list.insert(path.into());
    true
}

/// The first line, if the file starts with a line of text. Published logs have
/// no telling file name (`sigma_0.25`), so the contents decide.
fn header(path: &Path) -> Result<Option<String>, ReportError> {
    let mut start = Vec::new();
    File::open(path)
        .and_then(|file| file.take(4096).read_to_end(&mut start))
        .map_err(io(path))?;
    let Some(end) = start.iter().position(|&byte| byte == b'\n') else {
        return Ok(None);
    };
    Ok(String::from_utf8(start[..end].to_vec()).ok())
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> ReportError {
    let path = path.to_path_buf();
    move |source| {
        RecordError::Io {
            path,
            action: "read",
            source,
        }
        .into()
    }
}
