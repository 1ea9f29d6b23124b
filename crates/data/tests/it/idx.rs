//! IDX files, whole and broken, made here.

use std::io::Write;
use std::path::Path;

use heatsmooth_data::{DataError, Dataset, OpenOptions, Shape, Split, open};

const IMAGES: &str = "t10k-images-idx3-ubyte";
const LABELS: &str = "t10k-labels-idx1-ubyte";

fn idx(magic: u32, sizes: &[u32], data: &[u8]) -> Vec<u8> {
    let mut bytes = magic.to_be_bytes().to_vec();
    for size in sizes {
        bytes.extend(size.to_be_bytes());
    }
    bytes.extend(data);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Three images of 2 x 4 pixels.
fn images() -> Vec<u8> {
    idx(0x803, &[3, 2, 4], &(0..24).collect::<Vec<u8>>())
}

fn labels() -> Vec<u8> {
    idx(0x801, &[3], &[7, 0, 9])
}

fn open_test(folder: &Path) -> Result<Dataset, DataError> {
    open(
        folder.to_str().unwrap(),
        Split::Test,
        &OpenOptions::default(),
    )
}

fn open_files(images: &[u8], labels: &[u8]) -> Result<Dataset, DataError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(IMAGES), images).unwrap();
    std::fs::write(folder.path().join(LABELS), labels).unwrap();
    open_test(folder.path())
}

#[test]
fn plain_and_compressed_files_are_the_same_data() {
    let plain = open_files(&images(), &labels()).unwrap();
    assert_eq!((plain.len(), plain.shape()), (3, Shape::new(2, 4, 1)));
    assert_eq!(plain.labels(), [7, 0, 9]);
    let mut image = [0.0; 8];
    plain.read(2, &mut image).unwrap();
    let expected: Vec<f32> = (16..24).map(|v| v as f32 / 255.0).collect();
    assert_eq!(image.as_slice(), expected);

    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [(IMAGES, images()), (LABELS, labels())] {
        std::fs::write(folder.path().join(format!("{name}.gz")), gzip(&bytes)).unwrap();
    }
    let compressed = open_test(folder.path()).unwrap();
    assert_eq!(compressed.hash(), plain.hash());
    compressed.read(2, &mut image).unwrap();
    assert_eq!(image.as_slice(), expected);
}

#[test]
fn broken_images_are_refused_by_name() {
    let whole = images();
    let with = |at: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[at] = value;
        bytes
    };
    let longer = [whole.as_slice(), &[0]].concat();
    let cases: [(&str, Vec<u8>); 12] = [
        ("empty", Vec::new()),
        ("half a header", whole[..9].to_vec()),
        ("truncated", whole[..whole.len() - 1].to_vec()),
        ("too long", longer.clone()),
        ("signed bytes", with(2, 9)),
        ("one dimension", with(3, 1)),
        ("more images than bytes", with(7, 4)),
        ("billions of images", with(4, 0xff)),
        ("no pixels", idx(0x803, &[3, 0, 4], &[])),
        ("compressed, truncated", {
            let bytes = gzip(&whole);
            bytes[..bytes.len() - 9].to_vec()
        }),
        ("compressed, too long", gzip(&longer)),
        ("compressed, claiming 2 GB", gzip(&with(4, 0x10))),
    ];
    for (name, bytes) in cases {
        let error = open_files(&bytes, &labels()).unwrap_err();
        assert!(error.to_string().contains(IMAGES), "{name}: {error}");
    }
}

#[test]
fn overflowing_dimensions_are_refused() {
    let bytes = idx(0x803, &[u32::MAX; 3], &[0; 64]);
    let error = open_files(&bytes, &labels()).unwrap_err();
    assert!(matches!(error, DataError::Format { .. }), "{error}");
}

#[test]
fn labels_must_fit_the_images() {
    let error = open_files(&images(), &idx(0x801, &[2], &[1, 2])).unwrap_err();
    assert!(
        error.to_string().contains("expected 3 labels, got 2"),
        "{error}"
    );
    let error = open_files(&images(), &idx(0x801, &[3], &[1, 2, 10])).unwrap_err();
    let expected = "image 2 has label 10, expected 0 to 9";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn a_missing_split_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(IMAGES), images()).unwrap();
    let error = open_test(folder.path()).unwrap_err();
    assert!(matches!(error, DataError::Missing { .. }), "{error}");
    assert!(error.to_string().contains(LABELS), "{error}");
}

#[test]
fn files_that_are_not_the_published_ones_are_no_mnist() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("mnist");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join(IMAGES), images()).unwrap();
    std::fs::write(folder.join(LABELS), labels()).unwrap();
    let options = OpenOptions {
        root: Some(root.path().into()),
        ..OpenOptions::default()
    };
    let error = open("mnist", Split::Test, &options).unwrap_err();
    assert!(matches!(error, DataError::Checksum { .. }), "{error}");
    assert!(error.to_string().contains(IMAGES), "{error}");
}
