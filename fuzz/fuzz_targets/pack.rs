//! Packed images.
//!
//! The input is the length of the description (two bytes, low one first), that file, and
//! the one part that a small pack has.
#![no_main]

use libfuzzer_sys::fuzz_target;

mod reading;
mod scratch;

fuzz_target!(|bytes: &[u8]| {
    let Some((length, files)) = bytes.split_first_chunk() else {
        return;
    };
    let length = usize::from(u16::from_le_bytes(*length)).min(files.len());
    let (description, part) = files.split_at(length);
    let folder = scratch::folder();
    std::fs::write(folder.join("pack-all.json"), description).expect("scratch");
    std::fs::write(folder.join("all-00000.pack"), part).expect("scratch");
    reading::read(folder);
});
