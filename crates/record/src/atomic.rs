//! Whole files that appear at once or not at all.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::RecordError;

/// How the names of temporary files start.
const TEMPORARY: &str = ".tmp-";

/// Writes `bytes` to `path` so that a reader sees the old file or the whole new
/// one, never a part: a temporary file in the same folder, written, synced,
/// renamed over `path`, and the folder synced. Missing folders are created.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    // Another process may sweep up the temporary file before it is locked.
    for _ in 0..3 {
        match write_once(path, bytes) {
            Err(RecordError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            done => return done,
        }
    }
    write_once(path, bytes)
}

/// Removes temporary files that killed processes left in a folder; those of living
/// ones are locked.
pub fn sweep(folder: &Path) {
    remove_temporaries(folder, TEMPORARY);
}

/// The same for the temporary files of one file: other processes may write beside it,
/// from machines whose locks cannot be seen here.
pub(crate) fn sweep_for(path: &Path) {
    remove_temporaries(folder_of(path), &temporary(path));
}

/// How the names of the temporary files of a file start.
fn temporary(path: &Path) -> String {
    // Names cannot become much longer than this.
    const LONGEST: usize = 128;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let skipped = name.chars().count().saturating_sub(LONGEST);
    let end: String = name.chars().skip(skipped).collect();
    format!("{TEMPORARY}{end}-")
}

fn remove_temporaries(folder: &Path, prefix: &str) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(prefix.as_bytes())
            && let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn write_once(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    let folder = folder_of(path);
    fs::create_dir_all(folder).map_err(RecordError::io(folder, "create the folder"))?;
    let mut builder = tempfile::Builder::new();
    let prefix = temporary(path);
    builder.prefix(&prefix);
    #[cfg(unix)]
    {
        // tempfile's default of 0600 would hide results from the group; the
        // process's umask still applies.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let mut file = builder
        .tempfile_in(folder)
        .map_err(RecordError::io(path, "create"))?;
    // A file system without locks is no reason not to work.
    let _ = file.as_file().try_lock();
    file.write_all(bytes)
        .map_err(RecordError::io(path, "write"))?;
    file.as_file()
        .sync_all()
        .map_err(RecordError::io(path, "sync"))?;
    file.persist(path)
        .map_err(|error| RecordError::io(path, "rename")(error.error))?;
    sync_folder(folder)
}

/// [`write()`] of `value` as indented JSON with a final newline.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), RecordError> {
    let mut text =
        serde_json::to_string_pretty(value).map_err(|error| RecordError::json(path, error))?;
    text.push('\n');
    write(path, text.as_bytes())
}

/// Reads a JSON file; the error names file, line and column.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, RecordError> {
    let bytes = fs::read(path).map_err(RecordError::io(path, "read"))?;
    serde_json::from_slice(&bytes).map_err(|error| RecordError::json(path, error))
}

pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Makes a new name in `folder` survive a power cut. Folders cannot be opened
/// for this on Windows, which journals renames itself.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), RecordError> {
    if cfg!(unix) {
        File::open(folder)
            .and_then(|file| file.sync_all())
            .map_err(RecordError::io(folder, "sync the folder"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.txt");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_temporary() {
        let folder = tempfile::tempdir().unwrap();
        // A folder stands where the file should go: the rename fails.
        let path = folder.path().join("taken");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), b"x").unwrap();
        let error = write(&path, b"new").unwrap_err();
        assert!(
            error.to_string().contains("taken: cannot rename"),
            "{error}"
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn issue_17_point_20_what_killed_processes_left_is_swept_up() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in [".tmp-dead", ".tmp-alive", "other"] {
            fs::write(at(name), b"x").unwrap();
        }
        let alive = File::open(at(".tmp-alive")).unwrap();
        alive.lock().unwrap();
        sweep(folder.path());
        let left = [".tmp-dead", ".tmp-alive", "other"].map(|name| at(name).exists());
        assert_eq!(left, [false, true, true]);
    }

    #[test]
    fn only_what_is_left_of_the_file_itself_is_swept_up_beside_others() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let names = [".tmp-a.json-x", ".tmp-b.json-x"];
        for name in names {
            fs::write(at(name), b"x").unwrap();
        }
        sweep_for(&at("a.json"));
        assert_eq!(names.map(|name| at(name).exists()), [false, true]);
        // As a kill between the two would leave it.
        assert!(temporary(&at(&"long".repeat(60))).len() < 140);
    }

    #[test]
    fn bad_json_is_named_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad.json");
        fs::write(&path, "{\n  \"a\": }").unwrap();
        let error = read_json::<serde_json::Value>(&path)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("bad.json") && error.contains("line 2"),
            "{error}"
        );
    }
}
