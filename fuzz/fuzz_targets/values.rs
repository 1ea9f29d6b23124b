//! CSV files of paths and values, and arrays of NumPy's.
//!
//! The input's first byte chooses: 0 to 127 a CSV file beside one picture, `1.png`,
//! else an `.npz` file.
#![no_main]

use data::{OpenOptions, Shape, Split, Targets, View, encode_png, open};
use libfuzzer_sys::fuzz_target;

mod scratch;

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, content)) = bytes.split_first() else {
        return;
    };
    let folder = scratch::folder();
    let shape = Shape::new(2, 2, 1);
    let picture = folder.join("1.png");
    if !picture.exists() {
        let image = encode_png(shape, &[0.5; 4]).expect("a picture");
        std::fs::write(picture, image).expect("scratch");
    }
    let file = folder.join(if choice < 128 { "values.csv" } else { "values.npz" });
    std::fs::write(&file, content).expect("scratch");
    let name = file.to_str().expect("plain name");
    let options = OpenOptions {
        root: None,
        view: View::for_shape(shape),
        ..OpenOptions::default()
    };
    for split in [Split::Train, Split::Test] {
        let Ok(dataset) = open(name, split, &options) else {
            continue;
        };
        assert!(!dataset.is_empty());
        assert!(dataset.values().iter().all(|value| value.is_finite()));
        match dataset.targets() {
            Targets::Values { names, values } => {
                assert_eq!(values.len(), dataset.len() * names.len());
            }
            Targets::Classes { names, labels } => {
                assert!(labels.iter().all(|&label| (label as usize) < names.len()));
            }
            Targets::Unknown => {}
        }
        let last = dataset.len() as u32 - 1;
        if let Ok(images) = dataset.images([0, last]) {
            assert!(images.pixels.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
        }
    }
});
