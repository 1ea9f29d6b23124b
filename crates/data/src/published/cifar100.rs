//! CIFAR-100's binary version, read from its archive: `train.bin` and `test.bin` of records
//! of a coarse label, a fine one and three planes; the names of the fine ones beside them.

use std::io::{BufReader, Read};
use std::path::Path;

use flate2::bufread::GzDecoder;
use sha2::{Digest, Sha256};
use tar::Archive;

use crate::cifar10::SHAPE;
use crate::dataset::About;
use crate::{Augment, DataError, Dataset, Split, Targets, files, records};

const NAMES: &str = "fine_label_names.txt";
/// No more is unpacked.
const MAX_BYTES: u64 = 512 << 20;

pub(super) fn open(path: &Path, split: Split) -> Result<Dataset, DataError> {
    let name = match split {
        Split::Train => "train.bin",
        Split::Test => "test.bin",
    };
    let failed = |source| DataError::io("unpack", path)(source);
    let file = BufReader::with_capacity(1 << 18, files::open("cifar100", path)?);
    let mut archive = Archive::new(GzDecoder::new(file).take(MAX_BYTES));
    let (mut names, mut images) = (None, None);
    for entry in archive.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        let place = entry.path().map_err(failed)?.into_owned();
        let last = place.file_name().unwrap_or_default();
        if last == NAMES {
            let mut text = String::new();
            entry.read_to_string(&mut text).map_err(failed)?;
            names = Some(text);
        } else if last == name {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(failed)?;
            images = Some(bytes);
        }
        if names.is_some() && images.is_some() {
            break;
        }
    }
    let (Some(names), Some(bytes)) = (names, images) else {
        let what = format!("expected {NAMES} and {name} in it");
        return Err(DataError::format(path, what));
    };
    let classes: Vec<&str> = names.split_whitespace().collect();
    let place = path.join(name);
    let (mut labels, mut pixels) = (Vec::new(), Vec::with_capacity(bytes.len()));
    records::parse(
        &bytes,
        records::Layout {
            shape: SHAPE,
            passed_over: 1,
            classes: classes.len(),
        },
        (&place, 0),
        &mut labels,
        &mut pixels,
    )?;
    let record = (2 + SHAPE.len()) as u64;
    if labels.is_empty() || !(bytes.len() as u64).is_multiple_of(record) {
        let what = format!("expected records of {record} bytes, got {}", bytes.len());
        return Err(DataError::format(place, what));
    }
    let sum = files::hex(Sha256::digest(&bytes));
    let about = About {
        name: "cifar100".into(),
        split,
        shape: SHAPE,
        hash: files::split_hash([(name, sum.as_str())]),
        augment: Augment::CropFlip {
            padding: 4,
            flip: true,
        },
        whole: false,
    };
    let targets = Targets::classes(classes, labels);
    Ok(Dataset::in_memory(about, targets, pixels, u8::MAX))
}
