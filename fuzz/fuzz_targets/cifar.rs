//! CIFAR-10's binary files.
//!
//! The published files are pinned by their checksums, which no fuzzer meets, so
//! this takes in the reader of their records, and then asks for the data set
//! for what comes before the records.
#![no_main]

use data::{DataError, OpenOptions, Shape, Split, open};
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/data/src/records.rs"]
mod records;
mod scratch;

fuzz_target!(|bytes: &[u8]| {
    // Small images too: a record of CIFAR's own size is long for a fuzzer.
    for shape in [
        Shape::new(32, 32, 3),
        Shape::new(8, 8, 1),
        Shape::new(2, 3, 3),
    ] {
        let (mut labels, mut pixels) = (Vec::new(), Vec::new());
        let at = (std::path::Path::new("test_batch.bin"), 7);
        let size = shape.len();
        match records::parse(bytes, shape, 10, at, &mut labels, &mut pixels) {
            Ok(()) => assert_eq!(labels.len(), bytes.len() / (1 + size)),
            Err(error) => assert!(matches!(error, DataError::Label { got: 10.., .. })),
        }
        assert!(labels.iter().all(|&label| label < 10));
        assert_eq!(pixels.len(), labels.len() * size);
    }
    // It reserves memory for all its images before it reads one: not always.
    if !bytes.len().is_multiple_of(64) {
        return;
    }
    let root = scratch::folder();
    let folder = root.join("cifar10");
    std::fs::create_dir_all(&folder).expect("scratch");
    std::fs::write(folder.join("test_batch.bin"), bytes).expect("scratch");
    let options = OpenOptions {
        root: Some(root.into()),
        ..OpenOptions::default()
    };
    assert!(open("cifar10", Split::Test, &options).is_err());
});
