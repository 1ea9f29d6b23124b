//! Data sets that are kept as they are published.

use std::path::Path;

use super::download::{copy_file, download};
use super::{Fetched, Observer, Source, fetch_from};
use crate::DataError;
use crate::published::{File, Published};

/// The largest of the files has 248 MB.
const LIMIT: u64 = 512 << 20;

/// Fetches the files from where they are published, or from a local folder or file.
pub(crate) fn fetch(
    folder: &Path,
    set: &Published,
    from: Option<&Path>,
    observer: &dyn Observer,
) -> Result<Fetched, DataError> {
    let check = |file: &File, folder: &Path| file.sum.check(set.name, &folder.join(file.name));
    if from.is_none() && set.files.iter().all(|file| check(file, folder).is_ok()) {
        return Ok(Fetched {
            path: folder.to_path_buf(),
            source: None,
        });
    }
    let source = from.map_or(set.files[0].url.into(), |from| from.display().to_string());
    let bring = move |staging: &Path| {
        for file in set.files {
            let to = staging.join(file.name);
            match from {
                Some(from) if from.is_dir() => {
                    copy_file(set.name, &from.join(file.name), &to, LIMIT, observer)?;
                }
                Some(from) if set.files.len() == 1 => {
                    copy_file(set.name, from, &to, LIMIT, observer)?;
                }
                Some(from) => {
                    let names: Vec<&str> = set.files.iter().map(|file| file.name).collect();
                    let what = format!("expected a folder of {}", names.join(" and "));
                    return Err(DataError::format(from, what));
                }
                None => download(file.url, &to, LIMIT, observer)?,
            }
            check(file, staging)?;
        }
        Ok(set.files.iter().map(|file| file.name.into()).collect())
    };
    let source = Source {
        name: source,
        bring: Box::new(bring),
    };
    fetch_from(set.name, folder, vec![source], observer)
}
