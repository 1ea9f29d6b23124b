//! What takes long to find out about large data sets, remembered in the platform's cache
//! folder: hashes, and which images are broken.
//!
//! A hash is remembered under names, sizes and times of all files, and only if none of
//! them was changed just before it was computed, when a later change might not show in
//! the time.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use crate::source::{Encoded, Files};
use crate::{DataError, files};

/// Smaller data sets are looked at anew each time.
const LARGE: u64 = 256 << 20;
/// Times of files may be as coarse as this.
const COARSE: Duration = Duration::from_secs(3);

/// Names, sizes and times of files.
struct Stamp {
    digest: String,
    bytes: u64,
    newest: SystemTime,
}

fn stamp(files: &dyn Files) -> Option<Stamp> {
    let mut hasher = Sha256::new();
    let (mut bytes, mut newest) = (0, SystemTime::UNIX_EPOCH);
    for path in files.stamps() {
        let about = std::fs::metadata(&path).ok()?;
        let changed = about.modified().ok()?;
        let since = changed.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let path = std::path::absolute(&path).ok()?;
        hasher.update(path.as_os_str().as_encoded_bytes());
        hasher.update([0]);
        hasher.update(about.len().to_le_bytes());
        hasher.update(since.as_nanos().to_le_bytes());
        bytes += about.len();
        newest = newest.max(changed);
    }
    let digest = files::hex(hasher.finalize());
    Some(Stamp {
        digest,
        bytes,
        newest,
    })
}

/// Whether it is worth remembering anything.
pub(crate) fn is_large(files: &dyn Files) -> bool {
    let mut bytes = 0;
    files.stamps().any(|path| {
        bytes += std::fs::metadata(path).map_or(0, |about| about.len());
        bytes >= LARGE
    })
}

/// The hash of the images, remembered where nothing has changed since.
pub(crate) fn hash(encoded: &Encoded) -> Result<String, DataError> {
    let stamp = match is_large(&*encoded.files) {
        true => stamp(&*encoded.files),
        false => None,
    };
    let now = SystemTime::now();
    match stamp {
        Some(stamp) if stamp.bytes >= LARGE && stamp.newest + COARSE < now => {
            // Which files are left out decides, too.
            let mut hasher = Sha256::new();
            hasher.update(&stamp.digest);
            for index in encoded.kept.iter().flatten() {
                hasher.update(index.to_le_bytes());
            }
            let key = format!("{}-hash", files::hex(hasher.finalize()));
            value(&key, || encoded.hash())
        }
        _ => encoded.hash(),
    }
}

/// A value under a key, from the cache folder if it is there. A folder that cannot be
/// read or written costs time, nothing else.
pub(crate) fn value<T: Serialize + DeserializeOwned>(
    key: &str,
    make: impl FnOnce() -> Result<T, DataError>,
) -> Result<T, DataError> {
    let path = folder().map(|folder| folder.join(format!("{key}.json")));
    if let Some(path) = &path
        && let Ok(text) = std::fs::read(path)
        && let Ok(value) = serde_json::from_slice(&text)
    {
        return Ok(value);
    }
    let value = make()?;
    if let (Some(path), Ok(text)) = (path, serde_json::to_vec(&value))
        && let Some(folder) = path.parent()
        && std::fs::create_dir_all(folder).is_ok()
        && let Ok(file) = tempfile::NamedTempFile::new_in(folder)
        && std::fs::write(file.path(), text).is_ok()
    {
        let _ = file.persist(path);
    }
    Ok(value)
}

fn folder() -> Option<PathBuf> {
    dirs::cache_dir().map(|folder| folder.join("heatsmooth").join("data"))
}
