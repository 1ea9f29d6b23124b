//! CIFAR-10 in its official binary form: six files of 10,000 records of 3073
//! bytes (label; red, green and blue plane), pinned by SHA-256.
//!
//! A. Krizhevsky, *Learning Multiple Layers of Features from Tiny Images*,
//! 2009, <https://www.cs.toronto.edu/~kriz/cifar.html>.

use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::dataset::About;
use crate::{Augment, DataError, Dataset, Split, files, records};

pub(crate) const NAME: &str = "cifar10";
pub(crate) const SHAPE: [usize; 3] = [32, 32, 3];
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

/// The published files.
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
        classes: CLASSES.map(String::from).into(),
        hash: files::split_hash(chosen.map(|file| (FILES[file], content.sha256[file]))),
        augment: Augment::CropFlip {
            padding: 4,
            flip: true,
        },
    };
    Ok(Dataset::in_memory(about, labels, pixels, u8::MAX))
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
        records::parse(bytes, SHAPE, CLASSES.len(), (path, first), labels, pixels)?;
    }
    Ok(files::hex(hasher.finalize()))
}
