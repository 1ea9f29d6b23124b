//! Against Pillow's pixels (`tests/goldens/generate.py`), and broken files.

use super::*;

fn golden(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/goldens")
        .join(name)
}

/// A square evaluation view of a golden image.
fn view(name: &str, channels: usize, short_side: usize, crop: usize) -> Vec<u8> {
    let view = View {
        height: crop,
        width: crop,
        channels,
        short_side,
    };
    let path = golden(name);
    evaluation_view(decode(&path, channels).unwrap(), &view)
}

/// The largest difference to Pillow's bytes.
fn distance(got: &[u8], expected: &str) -> u8 {
    let expected = std::fs::read(golden(expected)).unwrap();
    assert_eq!(got.len(), expected.len());
    let pairs = got.iter().zip(&expected);
    pairs.map(|(a, b)| a.abs_diff(*b)).max().unwrap()
}

#[test]
fn evaluation_views_are_torchvision_s() {
    // One level is the rounding between the two passes.
    assert!(distance(&view("photo.png", 3, 40, 35), "photo-down.bin") <= 1);
    assert!(distance(&view("photo.png", 3, 80, 70), "photo-up.bin") <= 1);
    assert!(distance(&view("tall.png", 3, 32, 32), "tall-down.bin") <= 1);
    assert!(distance(&view("grey.png", 1, 40, 35), "grey-down.bin") <= 1);
    // JPEG decoders may differ by a little, too.
    assert!(distance(&view("soft.jpg", 3, 40, 35), "soft-down.bin") <= 4);
}

#[test]
fn a_part_is_cropped_before_it_is_resized() {
    let path = golden("photo.png");
    let pixels = decode(&path, 3).unwrap();
    let got = resized_crop(&pixels, [10, 5, 40, 30], [32, 24]);
    assert!(distance(&got, "photo-part.bin") <= 1);
}

#[test]
fn grey_becomes_rgb_and_alpha_is_dropped() {
    let grey = view("grey.png", 1, 40, 35);
    let rgb = view("grey.png", 3, 40, 35);
    assert!(
        rgb.chunks(3)
            .zip(&grey)
            .all(|(rgb, grey)| rgb == [*grey; 3])
    );
    assert_eq!(view("alpha.png", 3, 40, 35), view("photo.png", 3, 40, 35));
}

#[test]
fn an_image_of_the_wanted_size_is_taken_as_it_is() {
    let got = decode_image(golden("photo.png"), [45, 61, 3]).unwrap();
    let pixels = decode(&golden("photo.png"), 3).unwrap();
    assert_eq!(got.len(), pixels.bytes.len());
    let expected = pixels.bytes.iter().map(|&byte| f32::from(byte) / 255.0);
    assert!(got.iter().copied().eq(expected));
}

#[test]
fn views_follow_the_size_of_the_network() {
    assert_eq!(View::default().short_side, 256);
    assert_eq!(View::for_shape([32, 32, 3]).short_side, 32);
    assert_eq!(View::for_shape([299, 299, 3]).short_side, 341);
    for shape in [[0, 8, 3], [8, 8, 2], [8, 5000, 1], [usize::MAX, 8, 1]] {
        assert!(decode_image("unread", shape).is_err(), "{shape:?}");
    }
}

#[test]
fn an_image_of_extreme_proportions_needs_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("line.png");
    image::RgbImage::from_pixel(1, 20_000, image::Rgb([7, 8, 9]))
        .save(&path)
        .unwrap();
    let image = decode_image(&path, [224, 224, 3]).unwrap();
    let expected = [7.0f32, 8.0, 9.0].map(|v| v / 255.0);
    assert!(image.chunks(3).all(|pixel| pixel == expected));
}

#[test]
fn broken_images_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(golden("photo.png")).unwrap();
    // Width and height stand at bytes 16 to 23, their checksum at 29.
    let mut huge = whole.clone();
    huge[16..24].copy_from_slice(&[0, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff]);
    let cases: [(&str, &[u8]); 5] = [
        ("empty.png", b""),
        ("text.png", b"not an image at all"),
        ("half.png", &whole[..whole.len() / 2]),
        ("huge.png", &huge),
        ("header.jpg", &[0xff, 0xd8, 0xff, 0xe0]),
    ];
    for (name, bytes) in cases {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = decode_image(&path, [32, 32, 3]).unwrap_err();
        assert!(matches!(error, DataError::Image { .. }), "{name}: {error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn more_pixels_than_the_limit_are_refused() {
    // A valid header of 20,000 x 10,000 grey pixels, and no pixels.
    let mut png = Vec::new();
    let mut header = b"IHDR".to_vec();
    header.extend(20_000u32.to_be_bytes());
    header.extend(10_000u32.to_be_bytes());
    header.extend([8, 0, 0, 0, 0]);
    let mut checksum = flate2::Crc::new();
    checksum.update(&header);
    png.extend([0x89, b'P', b'N', b'G', 13, 10, 26, 10, 0, 0, 0, 13]);
    png.extend(&header);
    png.extend(checksum.sum().to_be_bytes());
    png.extend(*b"\0\0\0\0IDAT\x35\xaf\x06\x1e");
    let error = decode_stream(std::io::Cursor::new(png)).unwrap_err();
    assert!(matches!(error, ImageError::Limits(_)), "{error}");
}
