//! The embedded digits: 1797 images of 8 x 8 pixels, no download needed.
//!
//! Source, licence and split are described in `assets/digits/README.md`.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

use crate::dataset::About;
use crate::{Augment, DataError, Dataset, Shape, Split, Targets, files, records};

static COMPRESSED: &[u8] = include_bytes!("../assets/digits/digits.bin.gz");
/// Of the 1797 records of 65 bytes, uncompressed.
const SHA256: &str = "d8121ca7764eccfaef1df6bc4589c6527c58fcbab0cb1b079e79f97f8cb8219a";
const SHAPE: Shape = Shape::new(8, 8, 1);
const CLASSES: usize = 10;
const IMAGES: usize = 1797;
/// The largest pixel value.
const WHITE: u8 = 16;
/// Test images in each class.
const TEST_PER_CLASS: usize = 36;

/// Reads a split of the embedded digits.
pub(crate) fn open(split: Split) -> Result<Dataset, DataError> {
    let source = Path::new("digits (embedded)");
    let bytes = decompress(source)?;
    let (mut labels, mut pixels) = (Vec::new(), Vec::new());
    records::parse(
        &bytes,
        records::Layout {
            shape: SHAPE,
            passed_over: 0,
            classes: CLASSES,
        },
        (source, 0),
        &mut labels,
        &mut pixels,
    )?;
    let mut members = [0; CLASSES];
    for &label in &labels {
        members[label as usize] += 1;
    }

    let mut hasher = Sha256::new();
    let mut seen = [0; CLASSES];
    let (mut chosen_labels, mut chosen_pixels) = (Vec::new(), Vec::new());
    let record_len = bytes.len() / labels.len();
    for (index, (&label, image)) in labels.iter().zip(pixels.chunks_exact(64)).enumerate() {
        let class = label as usize;
        let position = seen[class];
        seen[class] += 1;
        if split_of(position, members[class]) == split {
            hasher.update(&bytes[index * record_len..][..record_len]);
            chosen_labels.push(label);
            chosen_pixels.extend_from_slice(image);
        }
    }

    let about = About {
        name: "digits".into(),
        split,
        shape: SHAPE,
        hash: files::split_hash([("digits.bin", files::hex(hasher.finalize()).as_str())]),
        augment: Augment::CropFlip {
            padding: 1,
            flip: false,
        },
        whole: false,
    };
    let names = (0..CLASSES).map(|digit| digit.to_string());
    Ok(Dataset::in_memory(
        about,
        Targets::classes(names, chosen_labels),
        chosen_pixels,
        WHITE,
    ))
}

/// Checks that the embedded bytes are the ones that were embedded.
pub(crate) fn decompress(source: &Path) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::with_capacity(IMAGES * 65);
    GzDecoder::new(COMPRESSED)
        .take(IMAGES as u64 * 65 + 1)
        .read_to_end(&mut bytes)
        .map_err(DataError::io("decompress", source))?;
    files::check_sha256(source, SHA256, &files::hex(Sha256::digest(&bytes)))?;
    Ok(bytes)
}

/// The split of a class's image number `position` of `members`: 36 test
/// images a class, spread evenly.
fn split_of(position: usize, members: usize) -> Split {
    let before = TEST_PER_CLASS * position / members;
    let after = TEST_PER_CLASS * (position + 1) / members;
    if after > before {
        Split::Test
    } else {
        Split::Train
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(dataset: &Dataset) -> [usize; 10] {
        let mut counts = [0; 10];
        for &label in dataset.labels() {
            counts[label as usize] += 1;
        }
        counts
    }

    #[test]
    fn the_splits_are_balanced_and_pinned() {
        let train = open(Split::Train).unwrap();
        let test = open(Split::Test).unwrap();
        assert_eq!((train.len(), test.len()), (1437, 360));
        assert_eq!(counts(&test), [36; 10]);
        let all = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180];
        assert_eq!(counts(&train), all.map(|n| n - 36));
        assert_eq!(train.shape(), Shape::new(8, 8, 1));
        assert_eq!(train.hash(), TRAIN_HASH);
        assert_eq!(test.hash(), TEST_HASH);
    }
    // Computed from the asset by an independent script (see the README's rule).
    const TRAIN_HASH: &str = "896540e15d9fd026964e968a716cec3c8bc6afd73fb8854e19f8a1628ec648cb";
    const TEST_HASH: &str = "b200d188c12631b48aee00cf0c1a559e309cc656611161fe181dd16edc22bb5a";

    #[test]
    fn the_first_image_is_the_source_s_first_line() {
        let train = open(Split::Train).unwrap();
        let mut image = [0.0; 64];
        train.read(0, &mut image).unwrap();
        assert_eq!(train.labels()[0], 0);
        let row = [0.0, 0.0, 5.0, 13.0, 9.0, 1.0, 0.0, 0.0].map(|v: f32| v / 16.0);
        assert_eq!(image[..8], row);
    }

    #[test]
    fn pixels_are_sixteenths() {
        assert_eq!(open(Split::Test).unwrap().levels(), Some(16));
    }

    #[test]
    fn pixels_fill_the_unit_interval() {
        let test = open(Split::Test).unwrap();
        let mut image = [0.0; 64];
        let (mut low, mut high) = (f32::MAX, f32::MIN);
        for index in 0..test.len() {
            test.read(index, &mut image).unwrap();
            low = image.iter().copied().fold(low, f32::min);
            high = image.iter().copied().fold(high, f32::max);
        }
        assert_eq!((low, high), (0.0, 1.0));
    }
}
