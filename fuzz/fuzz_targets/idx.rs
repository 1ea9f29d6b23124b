//! IDX files, plain and compressed: a folder of images and labels.
//!
//! The input is the length of the label file (two bytes, low one first), that
//! file, and the image file; which of them is compressed, they say themselves.
#![no_main]

use data::{OpenOptions, Split, open};
use libfuzzer_sys::fuzz_target;

mod scratch;

fuzz_target!(|bytes: &[u8]| {
    let Some((length, files)) = bytes.split_first_chunk() else {
        return;
    };
    let length = usize::from(u16::from_le_bytes(*length)).min(files.len());
    let (labels, images) = files.split_at(length);
    let folder = scratch::folder();
    let write = |name: &str, bytes| std::fs::write(folder.join(name), bytes).expect("scratch");
    write("t10k-labels-idx1-ubyte", labels);
    write("t10k-images-idx3-ubyte", images);
    let name = folder.to_str().expect("plain name");
    if let Ok(dataset) = open(name, Split::Test, &OpenOptions::default()) {
        let mut image = vec![0.0; dataset.shape().len()];
        for index in 0..dataset.len().min(8) {
            dataset.read(index, &mut image).expect("checked on opening");
            assert!(image.iter().all(|v| (0.0..=1.0).contains(v)));
            assert!((dataset.labels()[index] as usize) < dataset.classes().len());
        }
    }
});
