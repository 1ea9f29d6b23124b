//! JPEG files: whole, and the parts that crops of them need.
#![no_main]

use data::{Shape, decode_image};
use libfuzzer_sys::fuzz_target;

mod scratch;

fuzz_target!(|bytes: &[u8]| {
    let file = scratch::folder().join("image.jpg");
    std::fs::write(&file, bytes).expect("scratch");
    for shape in [
        Shape::new(32, 32, 3),
        Shape::new(7, 13, 1),
        Shape::new(3, 1, 3),
    ] {
        if let Ok(pixels) = decode_image(&file, shape) {
            assert_eq!(pixels.len(), shape.len());
            assert!(pixels.iter().all(|pixel| (0.0..=1.0).contains(pixel)));
        }
    }
});
