//! The MNIST family from its mirrors, or from a folder.

use std::path::Path;

use super::download::{copy_file, download};
use super::{Fetched, Observer, Source, fetch_from, is_whole};
use crate::DataError;
use crate::idx::{self, Family};

/// The largest of the compressed files has 26.4 MB.
const LIMIT: u64 = 64 << 20;

/// Fetches the four files of a family.
pub(super) fn fetch(
    folder: &Path,
    family: &Family,
    from: Option<&Path>,
    observer: &dyn Observer,
) -> Result<Fetched, DataError> {
    if from.is_none() && is_whole(|split| idx::open(folder, split, family)) {
        return Ok(Fetched {
            path: folder.to_path_buf(),
            source: None,
        });
    }
    let sources = match from {
        Some(from) => vec![Source {
            name: from.display().to_string(),
            bring: Box::new(move |staging| {
                bring(family, staging, |name| {
                    let file = idx::locate(from, name);
                    let ending = file.extension().map_or("", |_| ".gz");
                    let name = format!("{name}{ending}");
                    copy_file(family.name, &file, &staging.join(&name), LIMIT, observer)?;
                    Ok(name)
                })
            }),
        }],
        None => family
            .mirrors
            .iter()
            .map(|mirror| Source {
                name: mirror.to_string(),
                bring: Box::new(move |staging| {
                    bring(family, staging, |name| {
                        let name = format!("{name}.gz");
                        let url = format!("{mirror}{name}");
                        download(&url, &staging.join(&name), LIMIT, observer)?;
                        Ok(name)
                    })
                }),
            })
            .collect(),
    };
    fetch_from(family.name, folder, sources, observer)
}

/// Brings each of the four files with `get` and checks it.
fn bring(
    family: &Family,
    staging: &Path,
    get: impl Fn(&str) -> Result<String, DataError>,
) -> Result<Vec<String>, DataError> {
    idx::file_names()
        .zip(family.pins.into_iter().flatten())
        .map(|(name, pin)| {
            let name = get(name)?;
            idx::check_pin(family.name, &staging.join(&name), pin)?;
            Ok(name)
        })
        .collect()
}
