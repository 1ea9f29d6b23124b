//! CIFAR-10 in its official binary form: six files of 10,000 records of 3073
//! bytes (label; red, green and blue plane), pinned by SHA-256.
//!
//! A. Krizhevsky, *Learning Multiple Layers of Features from Tiny Images*,
//! 2009, <https://www.cs.toronto.edu/~kriz/cifar.html>.

use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::dataset::About;
use crate::{Augment, DataError, Dataset, Shape, Split, Targets, files, records};

pub(crate) const NAME: &str = "cifar10";
pub(crate) const SHAPE: Shape = Shape::new(32, 32, 3);
/// A label byte and three planes.
pub(crate) const RECORD_BYTES: usize = 1 + 32 * 32 * 3;
/// The files: five for training, then the one for testing.
pub(crate) const FILES: [&str; 6] = [
    "data_batch_1.bin",
    "data_batch_2.bin",
    "data_batch_3.bin",
    "data_batch_4.bin",
    "data_batch_5.bin",
    "test_batch.bin",
];
const CLASSES: [&str; 10] = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
];

/// What is in the six files. The real ones are [`OFFICIAL`]; tests make
/// smaller ones.
#[derive(Clone, Debug)]
pub(crate) struct Content<'a> {
    /// Images in each file.
    pub records: usize,
    /// Of each file.
    pub sha256: [&'a str; 6],
}

/// The files of the official archive. The npm package that `fetch` falls back
/// to holds the same images in the same order and yields the same bytes.
pub(crate) const OFFICIAL: Content<'static> = Content {
    records: 10_000,
    sha256: [
        "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    ],
};

/// Reads a split from the files in `folder`, refusing any that is not the
/// published one.
pub(crate) fn open(
    folder: &Path,
    split: Split,
    content: &Content<'_>,
) -> Result<Dataset, DataError> {
    let chosen = match split {
        Split::Train => 0..5,
        Split::Test => 5..6,
    };
    let images = chosen.len() * content.records;
    let mut labels = Vec::with_capacity(images);
    let mut pixels = Vec::with_capacity(images * (RECORD_BYTES - 1));
    for file in chosen.clone() {
        let path = folder.join(FILES[file]);
        let got = read_file(&path, content.records, &mut labels, &mut pixels)?;
        files::check_sha256(&path, content.sha256[file], &got)?;
    }
    let about = About {
        name: NAME.into(),
        split,
        shape: SHAPE,
        hash: files::split_hash(chosen.map(|file| (FILES[file], content.sha256[file]))),
        augment: Augment::CropFlip {
            padding: 4,
            flip: true,
        },
        whole: false,
    };
    let targets = Targets::classes(CLASSES, labels);
    Ok(Dataset::in_memory(about, targets, pixels, u8::MAX))
}

/// Appends the images of a file and returns its SHA-256.
fn read_file(
    path: &Path,
    records: usize,
    labels: &mut Vec<u32>,
    pixels: &mut Vec<u8>,
) -> Result<String, DataError> {
    let mut file = files::open(NAME, path)?;
    let got = file.metadata().map_err(DataError::io("read", path))?.len();
    let expected = (records * RECORD_BYTES) as u64;
    if got != expected {
        return Err(DataError::Size {
            path: path.to_path_buf(),
            expected,
            got,
        });
    }
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 100 * RECORD_BYTES];
    for first in (0..records).step_by(100) {
        let bytes = &mut buffer[..(records - first).min(100) * RECORD_BYTES];
        file.read_exact(bytes)
            .map_err(DataError::io("read", path))?;
        hasher.update(&*bytes);
        let layout = records::Layout {
            shape: SHAPE,
            passed_over: 0,
            classes: CLASSES.len(),
        };
        records::parse(bytes, layout, (path, first), labels, pixels)?;
    }
    Ok(files::hex(hasher.finalize()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Six small files whose bytes depend on file, record and position.
    pub(crate) fn sample(records: usize) -> [Vec<u8>; 6] {
        std::array::from_fn(|file| {
            let byte = |record: usize, at: usize| match at {
                0 => ((file + record) % 10) as u8,
                _ => (file * 31 + record * 7 + at * 13) as u8,
            };
            (0..records)
                .flat_map(|record| (0..RECORD_BYTES).map(move |at| byte(record, at)))
                .collect()
        })
    }

    /// The checksums of files.
    pub(crate) fn checksums(files: &[Vec<u8>; 6]) -> [String; 6] {
        files
            .each_ref()
            .map(|bytes| files::hex(Sha256::digest(bytes)))
    }

    fn write(folder: &Path, files: &[Vec<u8>; 6]) {
        for (name, bytes) in FILES.iter().zip(files) {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }

    #[test]
    fn planes_become_pixels() {
        let folder = tempfile::tempdir().unwrap();
        let (files, records) = (sample(103), 103);
        write(folder.path(), &files);
        let sums = checksums(&files);
        let content = Content {
            records,
            sha256: sums.each_ref().map(String::as_str),
        };
        let train = open(folder.path(), Split::Train, &content).unwrap();
        let test = open(folder.path(), Split::Test, &content).unwrap();
        assert_eq!((train.len(), test.len()), (5 * records, records));
        assert_eq!(train.classes()[9], "truck");
        let mut image = vec![0.0; 3072];
        for index in [0, 101, 102, 103, 514] {
            let (file, record) = (index / records, index % records);
            train.read(index, &mut image).unwrap();
            assert_eq!(train.labels()[index], ((file + record) % 10) as u32);
            let (y, x, channel) = (5, 17, 2);
            let byte = files[file][record * RECORD_BYTES + 1 + channel * 1024 + y * 32 + x];
            assert_eq!(image[(y * 32 + x) * 3 + channel], f32::from(byte) / 255.0);
        }
        // As `sha256sum test_batch.bin | sha256sum` prints it.
        let line = format!("{}  test_batch.bin\n", sums[5]);
        assert_eq!(test.hash(), files::hex(Sha256::digest(line)));
        assert_ne!(test.hash(), train.hash());
    }

    #[test]
    fn damaged_files_are_refused_by_name() {
        let files = sample(3);
        let sums = checksums(&files);
        let content = Content {
            records: 3,
            sha256: sums.each_ref().map(String::as_str),
        };
        type Damage = (&'static str, fn(&mut Vec<u8>), fn(&DataError) -> bool);
        let cases: [Damage; 5] = [
            (
                "truncated",
                |f| f.truncate(9000),
                |e| {
                    matches!(
                        e,
                        DataError::Size {
                            expected: 9219,
                            got: 9000,
                            ..
                        }
                    )
                },
            ),
            (
                "too long",
                |f| f.push(0),
                |e| matches!(e, DataError::Size { got: 9220, .. }),
            ),
            ("empty", Vec::clear, |e| {
                matches!(e, DataError::Size { got: 0, .. })
            }),
            (
                "altered",
                |f| f[5000] ^= 1,
                |e| matches!(e, DataError::Checksum { .. }),
            ),
            (
                "label",
                |f| f[2 * 3073] = 10,
                |e| {
                    matches!(
                        e,
                        DataError::Label {
                            index: 2,
                            got: 10,
                            ..
                        }
                    )
                },
            ),
        ];
        for (name, damage, expected) in cases {
            let folder = tempfile::tempdir().unwrap();
            let mut files = files.clone();
            damage(&mut files[3]);
            write(folder.path(), &files);
            let error = open(folder.path(), Split::Train, &content).unwrap_err();
            assert!(expected(&error), "{name}: {error}");
            assert!(error.to_string().contains("data_batch_4.bin"), "{error}");
            assert!(error.hint().is_some());
            assert!(open(folder.path(), Split::Test, &content).is_ok());
        }
        let folder = tempfile::tempdir().unwrap();
        let error = open(folder.path(), Split::Test, &content).unwrap_err();
        assert!(matches!(error, DataError::Missing { .. }), "{error}");
        assert_eq!(error.hint().unwrap(), "fetch cifar10 first");
    }
}
