//! Against Pillow's pixels (`tests/goldens/sources.py`), against the transform's
//! definition, and files that were changed.

use sha2::{Digest, Sha256};

use super::*;
use crate::files::hex;

fn golden(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens");
    std::fs::read(format!("{folder}/{name}")).unwrap()
}

/// Every JPEG among the goldens, with the SHA-256 of Pillow's pixels.
fn goldens() -> Vec<(String, String)> {
    let list = String::from_utf8(golden("jpeg.sha256")).unwrap();
    let pair = |line: &str| {
        let (hash, name) = line.split_once("  ").unwrap();
        (name.to_owned(), hash.to_owned())
    };
    list.lines().map(pair).collect()
}

fn whole(file: &[u8]) -> Result<(Outline, Vec<u8>), String> {
    let about = outline(file)?;
    let pixels = decode(file, [0, 0, about.width, about.height])?;
    Ok((about, pixels))
}

#[test]
fn pixels_are_pillow_s_to_the_bit() {
    let goldens = goldens();
    assert!(goldens.len() > 20);
    for (name, hash) in goldens {
        let (about, pixels) = whole(&golden(&name)).unwrap();
        let rgb: Vec<u8> = match about.colours.channels() {
            1 => pixels.iter().flat_map(|&grey| [grey; 3]).collect(),
            _ => pixels,
        };
        assert_eq!(rgb.len(), 3 * about.width * about.height);
        assert_eq!(hex(Sha256::digest(&rgb)), hash, "{name}");
    }
}

#[test]
fn a_window_is_a_part_of_the_whole() {
    for (name, _) in goldens() {
        let file = golden(&name);
        let (about, pixels) = whole(&file).unwrap();
        let channels = about.colours.channels();
        for number in 0..40 {
            let left = number * 7 % about.width;
            let top = number * 5 % about.height;
            let width = 1 + number * 13 % (about.width - left);
            let height = 1 + number * 11 % (about.height - top);
            let part = decode(&file, [left, top, width, height]).unwrap();
            assert_eq!(part.len(), width * height * channels);
            for (row, part) in part.chunks_exact(width * channels).enumerate() {
                let begin = ((top + row) * about.width + left) * channels;
                assert!(
                    part == &pixels[begin..begin + width * channels],
                    "{name}: row {row} of {width} x {height} at {left}, {top}"
                );
            }
        }
    }
}

#[test]
fn files_that_end_early_are_refused() {
    for name in ["scene-420.jpg", "jpeg-restart.jpg", "jpeg-grey.jpg"] {
        let file = golden(name);
        for end in [2, 10, 100, file.len() / 2, file.len() - 40] {
            assert!(whole(&file[..end]).is_err(), "{name} up to {end}");
            // As if it had been meant so.
            let marked = [&file[..end], &[0xff, 0xd9]].concat();
            assert!(whole(&marked).is_err(), "{name} up to {end}, marked");
        }
        // The marker at the end says nothing new.
        assert!(whole(&file[..file.len() - 2]).is_ok(), "{name}");
        // A window above what is missing is no excuse.
        let half = &file[..file.len() / 2];
        let about = outline(half).unwrap();
        assert!(decode(half, [0, 0, about.width, 1]).is_err(), "{name}");
    }
}

#[test]
fn what_is_not_supported_says_so() {
    let file = golden("jpeg-grey.jpg");
    let frame = file.windows(2).position(|two| two == [0xff, 0xc0]).unwrap();
    for (marker, words) in [(0xc3, "lossless"), (0xc9, "arithmetic")] {
        let mut other = file.clone();
        other[frame + 1] = marker;
        let error = whole(&other).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    let mut other = file.clone();
    other[frame + 4] = 12;
    assert!(whole(&other).unwrap_err().contains("12 bits"));
    // A size that the data cannot fill is refused before anything is allocated.
    let mut other = file;
    other[frame + 5..frame + 9].copy_from_slice(&[0xff; 4]);
    assert!(whole(&other).unwrap_err().contains("too short"));
}

/// A simple generator, so that failures can be told by their number.
fn next(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    (*state >> 33) as usize
}

#[test]
fn changed_files_do_no_harm() {
    for (name, _) in goldens() {
        let file = golden(&name);
        if file.len() > 5000 {
            continue;
        }
        for seed in 0..300 {
            let mut state = seed;
            let mut other = file.clone();
            for _ in 0..=next(&mut state) % 4 {
                let at = next(&mut state) % other.len();
                other[at] = next(&mut state) as u8;
            }
            other.truncate(other.len() - next(&mut state) % 3 * (next(&mut state) % 50));
            let Ok(about) = outline(&other) else { continue };
            // Sizes may have become large: then a window will do.
            let (width, height) = (about.width.min(64), about.height.min(64));
            let _ = decode(&other, [0, 0, width, height]);
        }
    }
}

/// The inverse cosine transform by its definition (T.81 A.3.3), in f64.
fn defined(block: &[i16; 64], quanta: &[u16; 64]) -> [f64; 64] {
    let scale = |k: usize| if k == 0 { 0.5f64.sqrt() } else { 1.0 };
    let wave = |x: usize, k: usize| {
        (std::f64::consts::PI * (2 * x + 1) as f64 * k as f64 / 16.0).cos() * scale(k)
    };
    std::array::from_fn(|place| {
        let (y, x) = (place / 8, place % 8);
        let term = |k: usize| {
            let value = f64::from(block[k]) * f64::from(quanta[k]);
            value * wave(y, k / 8) * wave(x, k % 8) / 4.0
        };
        ((0..64).map(term).sum::<f64>() + 128.0).clamp(0.0, 255.0)
    })
}

#[test]
fn the_transform_is_what_it_is_defined_to_be() {
    let quanta: [u16; 64] = std::array::from_fn(|k| 2 + (k % 8 + k / 8) as u16);
    let mut state = 1;
    for _ in 0..500 {
        let mut block = [0i16; 64];
        block[0] = (next(&mut state) % 800) as i16 - 400;
        for _ in 0..next(&mut state) % 20 {
            let place = next(&mut state) % 64;
            block[place] = (next(&mut state) % 61) as i16 - 30;
        }
        let mut out = [0; 64];
        transform::inverse(&block, &quanta, &mut out, 8);
        for (got, expected) in out.iter().zip(defined(&block, &quanta)) {
            // Two roundings, the first of them to a quarter.
            assert!((f64::from(*got) - expected).abs() < 1.0);
        }
        let flat: [i16; 64] = std::array::from_fn(|k| if k == 0 { block[0] } else { 0 });
        let mut other = [0; 64];
        transform::inverse(&flat, &quanta, &mut out, 8);
        transform::inverse_flat(flat[0], quanta[0], &mut other, 8);
        assert_eq!(out, other);
    }
}
