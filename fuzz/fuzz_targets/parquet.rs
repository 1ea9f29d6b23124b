//! Parquet tables of images.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod reading;
mod scratch;

fuzz_target!(|bytes: &[u8]| {
    let file = scratch::folder().join("table.parquet");
    std::fs::write(&file, bytes).expect("scratch");
    reading::read(&file);
});
