//! Small files of the published forms, made here.

use std::io::{Cursor, Write as _};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::*;
use crate::fetch::tests::tar_gz;
use crate::{BrokenImages, FetchOptions, fetch};

/// A data set whose only differences to the published one are its checksums.
fn with_sums(set: &Published, folder: &Path) -> Published {
    let pinned = |file: &File| {
        let sum = files::md5(&folder.join(file.name)).unwrap();
        File {
            sum: Sum::Md5(sum.leak()),
            ..*file
        }
    };
    let pinned: Vec<File> = set.files.iter().map(pinned).collect();
    Published {
        files: pinned.leak(),
        ..*set
    }
}

/// The byte of a made-up image.
fn byte(image: usize, row: usize, column: usize, channel: usize) -> u8 {
    (image * 31 + row * 7 + column * 3 + channel * 101) as u8
}

/// Opens a split of files that were written to a folder.
fn opened(set: &Published, folder: &Path, split: Split) -> Result<Dataset, DataError> {
    let view = set.view().unwrap_or_default();
    let options = OpenOptions {
        view,
        ..OpenOptions::default()
    };
    with_sums(set, folder).open(folder, split, &options)
}

fn assert_pixels(dataset: &Dataset, index: usize, image: usize) {
    let shape = dataset.shape();
    let mut pixels = vec![0.0; shape.len()];
    dataset.read(index, &mut pixels).unwrap();
    for (place, &got) in pixels.iter().enumerate() {
        let (channel, pixel) = (place % shape.channels, place / shape.channels);
        let (row, column) = (pixel / shape.width, pixel % shape.width);
        let expected = f32::from(byte(image, row, column, channel)) / 255.0;
        assert_eq!(got, expected, "image {image} at {row}, {column}, {channel}");
    }
}

/// Records of a coarse label, a fine one and planes.
fn cifar100_records(first: usize, fine: &[u8]) -> Vec<u8> {
    let record = |(number, &fine): (usize, &u8)| {
        let mut record = vec![fine / 5, fine];
        for channel in 0..3 {
            for place in 0..1024 {
                record.push(byte(first + number, place / 32, place % 32, channel));
            }
        }
        record
    };
    fine.iter().enumerate().flat_map(record).collect()
}

#[test]
fn cifar100_has_its_fine_labels() {
    let folder = tempfile::tempdir().unwrap();
    let names: String = (0..100).map(|class| format!("class_{class}\n")).collect();
    let archive = tar_gz(&[
        ("cifar-100-binary/coarse_label_names.txt", b"no\n".to_vec()),
        ("cifar-100-binary/fine_label_names.txt", names.into_bytes()),
        ("cifar-100-binary/test.bin", cifar100_records(50, &[99, 3])),
        (
            "cifar-100-binary/train.bin",
            cifar100_records(0, &[7, 0, 42]),
        ),
    ]);
    let path = folder.path().join(CIFAR100.files[0].name);
    std::fs::write(&path, &archive).unwrap();
    let train = opened(&CIFAR100, folder.path(), Split::Train).unwrap();
    let test = opened(&CIFAR100, folder.path(), Split::Test).unwrap();
    assert_eq!(
        (train.labels(), test.labels()),
        (&[7, 0, 42][..], &[99, 3][..])
    );
    assert_eq!(
        (train.classes().len(), &*train.classes()[42]),
        (100, "class_42")
    );
    assert_pixels(&train, 2, 2);
    assert_pixels(&test, 1, 51);
    assert_ne!(train.hash(), test.hash());
    // Without its names, or cut in the middle of a record.
    let cut = cifar100_records(0, &[1])[..3000].to_vec();
    for members in [
        vec![("c/train.bin", cifar100_records(0, &[1]))],
        vec![
            ("c/fine_label_names.txt", b"a b".to_vec()),
            ("c/train.bin", cut),
        ],
        vec![
            ("c/fine_label_names.txt", b"a b".to_vec()),
            ("c/train.bin", cifar100_records(0, &[2])),
        ],
    ] {
        std::fs::write(&path, tar_gz(&members)).unwrap();
        assert!(opened(&CIFAR100, folder.path(), Split::Train).is_err());
    }
}

/// An element of a MATLAB file.
fn element(kind: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend((content.len() as u32).to_le_bytes());
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// A compressed array of bytes of this class (9: uint8, 6: double).
fn matrix(name: &str, class: u8, sizes: &[u32], values: &[u8]) -> Vec<u8> {
    let sizes: Vec<u8> = sizes.iter().flat_map(|size| size.to_le_bytes()).collect();
    let parts = [
        element(6, &[class, 0, 0, 0, 0, 0, 0, 0]),
        element(5, &sizes),
        element(1, name.as_bytes()),
        element(2, values),
    ];
    let mut stream = ZlibEncoder::new(Vec::new(), Compression::fast());
    stream.write_all(&element(14, &parts.concat())).unwrap();
    let packed = stream.finish().unwrap();
    let mut bytes = 15u32.to_le_bytes().to_vec();
    bytes.extend((packed.len() as u32).to_le_bytes());
    bytes.extend(packed);
    bytes
}

/// What `train_32x32.mat` looks like, with 32 x 30 pixels to tell rows from columns.
fn svhn(first: usize, labels: &[u8]) -> Vec<u8> {
    let mut file = vec![b' '; 128];
    file[..10].copy_from_slice(b"MATLAB 5.0");
    file[124..].copy_from_slice(&[0, 1, b'I', b'M']);
    let mut values = Vec::new();
    for image in first..first + labels.len() {
        for place in 0..3 * 30 * 32 {
            let (channel, column, row) = (place / 960, place / 32 % 30, place % 32);
            values.push(byte(image, row, column, channel));
        }
    }
    let count = labels.len() as u32;
    file.extend(matrix("X", 9, &[32, 30, 3, count], &values));
    file.extend(matrix("y", 6, &[count, 1], labels));
    file
}

#[test]
fn svhn_s_tenth_digit_is_zero() {
    let folder = tempfile::tempdir().unwrap();
    let write = |train: Vec<u8>| {
        std::fs::write(folder.path().join("train_32x32.mat"), train).unwrap();
        std::fs::write(folder.path().join("test_32x32.mat"), svhn(9, &[5])).unwrap();
    };
    write(svhn(0, &[1, 10, 9]));
    let train = opened(&SVHN, folder.path(), Split::Train).unwrap();
    assert_eq!(
        (train.labels(), train.shape()),
        (&[1, 0, 9][..], Shape::new(32, 30, 3))
    );
    assert_pixels(&train, 1, 1);
    let test = opened(&SVHN, folder.path(), Split::Test).unwrap();
    assert_pixels(&test, 0, 9);
    for bad in [svhn(0, &[1, 11]), svhn(0, &[0]), svhn(0, &[]), vec![0; 200]] {
        write(bad);
        assert!(opened(&SVHN, folder.path(), Split::Train).is_err());
    }
}

/// A folder of PNGs in a ZIP archive, with the endings of JPEGs as the real one has.
fn tiny(truth: &str) -> Vec<u8> {
    let png = |image: usize| {
        let value = |place: usize| {
            let (channel, pixel) = (place % 3, place / 3);
            f32::from(byte(image, pixel / 64, pixel % 64, channel)) / 255.0
        };
        let values: Vec<f32> = (0..64 * 64 * 3).map(value).collect();
        crate::encode_png(Shape::new(64, 64, 3), &values).unwrap()
    };
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let mut put = |name: &str, bytes: &[u8], stored: bool| {
        let method = match stored {
            true => zip::CompressionMethod::Stored,
            false => zip::CompressionMethod::Deflated,
        };
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(format!("tiny-imagenet-200/{name}"), options)
            .unwrap();
        zip.write_all(bytes).unwrap();
    };
    put(
        "words.txt",
        b"n2\tcat, felis\nn1\tdog\nn9\tnothing\n",
        false,
    );
    put("train/n2/images/n2_0.JPEG", &png(2), false);
    put("train/n1/images/n1_1.JPEG", &png(1), true);
    put("train/n1/images/n1_0.JPEG", &png(0), false);
    put("train/n1/n1_boxes.txt", b"n1_0.JPEG\t0\t0\t1\t1\n", false);
    put("val/images/val_0.JPEG", &png(3), false);
    put("val/images/val_1.JPEG", &png(4), true);
    put("val/val_annotations.txt", truth.as_bytes(), false);
    put("test/images/test_0.JPEG", b"secret", false);
    zip.finish().unwrap().into_inner()
}

#[test]
fn tiny_imagenet_is_read_from_its_archive() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny-imagenet-200.zip");
    let truth = "val_0.JPEG\tn2\t0\t0\t1\t1\nval_1.JPEG\tn1\t0\t0\t1\t1\n";
    std::fs::write(&path, tiny(truth)).unwrap();
    let train = opened(&TINY_IMAGENET, folder.path(), Split::Train).unwrap();
    let test = opened(&TINY_IMAGENET, folder.path(), Split::Test).unwrap();
    assert_eq!(
        (train.labels(), train.classes()),
        (&[0, 0, 1][..], test.classes())
    );
    assert_eq!(
        (test.labels(), test.classes()[1].as_str()),
        (&[0, 1][..], "n2")
    );
    assert_eq!(train.class_words(), ["dog", "cat, felis"]);
    for (index, image) in [(0, 0), (1, 1), (2, 2)] {
        assert_pixels(&train, index, image);
    }
    assert_pixels(&test, 0, 4);
    assert_pixels(&test, 1, 3);
    for truth in ["", "val_0.JPEG\tn2\nval_1.JPEG\tn7\n"] {
        std::fs::write(&path, tiny(truth)).unwrap();
        assert!(opened(&TINY_IMAGENET, folder.path(), Split::Test).is_err());
    }
}

/// An array in NumPy's format.
fn npy(shape: &str, bytes: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(bytes);
    file
}

#[test]
fn medmnist_s_classes_have_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let blood = MED_MNIST
        .iter()
        .find(|set| set.name == "medmnist/bloodmnist");
    let blood = blood.unwrap();
    let write = |labels: [u8; 2]| {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (part, first) in [("train", 0), ("val", 20), ("test", 40)] {
            let mut pixels = Vec::new();
            for place in 0..2 * 28 * 28 * 3 {
                let (image, rest) = (first + place / 2352, place % 2352);
                pixels.push(byte(image, rest / 84, rest / 3 % 28, rest % 3));
            }
            for (name, array) in [
                ("images", npy("(2, 28, 28, 3)", &pixels)),
                ("labels", npy("(2, 1)", &labels)),
            ] {
                zip.start_file(format!("{part}_{name}.npy"), SimpleFileOptions::default())
                    .unwrap();
                zip.write_all(&array).unwrap();
            }
        }
        let bytes = zip.finish().unwrap().into_inner();
        std::fs::write(folder.path().join("bloodmnist.npz"), bytes).unwrap();
    };
    write([6, 1]);
    let train = opened(blood, folder.path(), Split::Train).unwrap();
    let test = opened(blood, folder.path(), Split::Test).unwrap();
    assert_eq!((train.labels(), train.classes().len()), (&[6, 1][..], 8));
    assert_eq!(
        (train.name(), &*train.classes()[6]),
        ("medmnist/bloodmnist", "neutrophil")
    );
    assert_pixels(&train, 1, 1);
    assert_pixels(&test, 0, 40);
    write([8, 1]);
    assert!(opened(blood, folder.path(), Split::Train).is_err());
}

#[test]
fn files_that_are_not_the_published_ones_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let sets = [&CIFAR100, &SVHN, &TINY_IMAGENET]
        .into_iter()
        .chain(&MED_MNIST);
    for set in sets {
        let options = OpenOptions {
            root: Some(root.path().into()),
            ..OpenOptions::default()
        };
        let error = crate::open(set.name, Split::Test, &options).unwrap_err();
        assert_eq!(error.to_fetch(), Some(set.name), "{error}");
        let from = tempfile::tempdir().unwrap();
        for file in set.files {
            std::fs::write(from.path().join(file.name), "other").unwrap();
        }
        let options = FetchOptions {
            root: Some(root.path().into()),
            from: Some(from.path().into()),
        };
        let error = fetch(set.name, &options, &()).unwrap_err();
        assert!(matches!(error, DataError::Checksum { .. }), "{error}");
        assert!(!root.path().join(set.name).exists(), "{}", set.name);
        // Brought by hand, they are looked at, too.
        let folder = root.path().join(set.name);
        std::fs::create_dir_all(&folder).unwrap();
        for file in set.files {
            std::fs::write(folder.join(file.name), "other").unwrap();
        }
        let options = OpenOptions {
            root: Some(root.path().into()),
            broken: BrokenImages::Refuse,
            ..OpenOptions::default()
        };
        let error = crate::open(set.name, Split::Test, &options).unwrap_err();
        assert!(matches!(error, DataError::Checksum { .. }), "{error}");
        assert!(error.hint().is_some());
    }
}

#[test]
fn a_host_that_cannot_be_reached_leaves_other_ways() {
    let root = tempfile::tempdir().unwrap();
    let nowhere = File {
        // Port 9 discards, and nobody listens on it here.
        url: "http://127.0.0.1:9/train_32x32.mat",
        ..SVHN.files[0]
    };
    let set = Published {
        files: vec![nowhere].leak(),
        ..SVHN
    };
    let folder = root.path().join("svhn");
    let error = crate::fetch::published::fetch(&folder, &set, None, &()).unwrap_err();
    let (text, hint) = (error.to_string(), error.hint().unwrap());
    assert!(
        text.contains("cannot fetch svhn") && text.contains("127.0.0.1"),
        "{text}"
    );
    assert!(
        hint.contains("by hand") && hint.contains("`from`"),
        "{hint}"
    );
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    let unknown = crate::open("medmnist/chestmnist", Split::Test, &OpenOptions::default());
    let hint = unknown.unwrap_err().hint().unwrap();
    assert!(hint.contains("pathmnist, dermamnist"), "{hint}");
}

#[test]
fn a_local_copy_is_checked_and_kept() {
    let (root, from) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(from.path().join("train_32x32.mat"), svhn(0, &[1])).unwrap();
    std::fs::write(from.path().join("test_32x32.mat"), svhn(1, &[2])).unwrap();
    let set = with_sums(&SVHN, from.path());
    let folder = root.path().join("svhn");
    let fetched = crate::fetch::published::fetch(&folder, &set, Some(from.path()), &()).unwrap();
    assert_eq!(fetched.path, folder);
    let again = crate::fetch::published::fetch(&folder, &set, None, &()).unwrap();
    assert_eq!(again.source, None);
    assert!(
        set.open(&folder, Split::Train, &OpenOptions::default())
            .is_ok()
    );
}
