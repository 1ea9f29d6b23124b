//! Checksums of files and of what is inside of them.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use md5::Md5;
use sha2::{Digest, Sha256};

use crate::DataError;

/// 64 hex digits.
pub(crate) fn hex(digest: impl AsRef<[u8]>) -> String {
    digest
        .as_ref()
        .iter()
        .fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// Opens a file of a data set, saying which data set misses it.
pub(crate) fn open(dataset: &str, path: &Path) -> Result<File, DataError> {
    File::open(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => DataError::Missing {
            dataset: dataset.into(),
            path: path.to_path_buf(),
        },
        _ => DataError::io("open", path)(source),
    })
}

/// The SHA-256 of a file as it stands.
pub(crate) fn sha256(path: &Path) -> Result<String, DataError> {
    digest::<Sha256>(path)
}

/// Its MD5.
pub(crate) fn md5(path: &Path) -> Result<String, DataError> {
    digest::<Md5>(path)
}

fn digest<D: Digest>(path: &Path) -> Result<String, DataError> {
    let mut file = File::open(path).map_err(DataError::io("open", path))?;
    let mut hasher = D::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file
            .read(&mut buffer)
            .map_err(DataError::io("read", path))?
        {
            0 => return Ok(hex(hasher.finalize())),
            read => hasher.update(&buffer[..read]),
        }
    }
}

/// Refuses a checksum other than the expected one.
pub(crate) fn check_sha256(path: &Path, expected: &str, got: &str) -> Result<(), DataError> {
    check_sum("SHA-256", path, expected, got)
}

/// The same of a checksum of any kind.
pub(crate) fn check_sum(
    kind: &'static str,
    path: &Path,
    expected: &str,
    got: &str,
) -> Result<(), DataError> {
    if expected == got {
        return Ok(());
    }
    Err(DataError::Checksum {
        kind,
        path: path.to_path_buf(),
        expected: expected.into(),
        got: got.into(),
    })
}

/// The hash of a split that consists of these (name, SHA-256) files: the
/// SHA-256 of what `sha256sum` prints for them.
pub(crate) fn split_hash<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut hasher = Sha256::new();
    for (name, sha256) in files {
        hasher.update(format!("{sha256}  {name}\n"));
    }
    hex(hasher.finalize())
}
