//! Against Pillow's pixels (`tests/goldens/generate.py`), and broken files.

use super::*;

fn golden(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/goldens")
        .join(name)
}

fn decode(path: &Path, channels: usize) -> Result<Pixels<'static>, DataError> {
    decode_bytes(&read_file(path)?, channels).map_err(undecodable(path))
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
    assert_eq!(distance(&view("photo.png", 3, 40, 35), "photo-down.bin"), 0);
    assert_eq!(distance(&view("photo.png", 3, 80, 70), "photo-up.bin"), 0);
    assert_eq!(distance(&view("tall.png", 3, 32, 32), "tall-down.bin"), 0);
    assert_eq!(distance(&view("grey.png", 1, 40, 35), "grey-down.bin"), 0);
    assert_eq!(distance(&view("soft.jpg", 3, 40, 35), "soft-down.bin"), 0);
}

#[test]
fn a_part_is_cropped_before_it_is_resized() {
    let path = golden("photo.png");
    let pixels = decode(&path, 3).unwrap();
    let got = resized_crop(&pixels, [10, 5, 40, 30], [32, 24]);
    assert_eq!(distance(&got, "photo-part.bin"), 0);
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

/// One pixel in one of PNG's ways to write it, as RGB and as luma.
fn pixel(
    colour: png::ColorType,
    depth: png::BitDepth,
    palette: &[u8],
    data: &[u8],
) -> ([u8; 3], u8) {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, 1, 1);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    if !palette.is_empty() {
        encoder.set_palette(palette);
    }
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(data).unwrap();
    writer.finish().unwrap();
    let rgb = decode_bytes(&file, 3).unwrap().bytes;
    let luma = decode_bytes(&file, 1).unwrap().bytes;
    (rgb[..].try_into().unwrap(), luma[0])
}

#[test]
fn every_kind_of_png_becomes_eight_bits() {
    use png::BitDepth::{Eight, One, Sixteen};
    use png::ColorType::{Grayscale, GrayscaleAlpha, Indexed, Rgb, Rgba};
    assert_eq!(pixel(Grayscale, One, &[], &[0x80]), ([255; 3], 255));
    assert_eq!(pixel(GrayscaleAlpha, Eight, &[], &[9, 0]), ([9; 3], 9));
    let palette = [1, 2, 3, 200, 100, 0];
    assert_eq!(pixel(Indexed, One, &palette, &[0x80]), ([200, 100, 0], 114));
    // Rounded, not cut off: 0x0181 is 1.498 and 0x01ff is 1.988 of 8 bits.
    assert_eq!(pixel(Grayscale, Sixteen, &[], &[1, 0x81]), ([1; 3], 1));
    assert_eq!(pixel(Grayscale, Sixteen, &[], &[1, 0xff]), ([2; 3], 2));
    let wide = [1, 0xff, 2, 0, 3, 0, 0, 0];
    assert_eq!(pixel(Rgb, Sixteen, &[], &wide[..6]), ([2, 2, 3], 2));
    assert_eq!(pixel(Rgba, Sixteen, &[], &wide), ([2, 2, 3], 2));
}

#[test]
fn an_image_of_the_wanted_size_is_taken_as_it_is() {
    let got = decode_image(golden("photo.png"), Shape::new(45, 61, 3)).unwrap();
    let pixels = decode(&golden("photo.png"), 3).unwrap();
    assert_eq!(got.len(), pixels.bytes.len());
    let expected = pixels.bytes.iter().map(|&byte| f32::from(byte) / 255.0);
    assert!(got.iter().copied().eq(expected));
}

#[test]
fn views_follow_the_size_of_the_network() {
    assert_eq!(View::default().short_side, 256);
    assert_eq!(View::for_shape(Shape::new(32, 32, 3)).short_side, 32);
    assert_eq!(View::for_shape(Shape::new(299, 299, 3)).short_side, 341);
    for [height, width, channels] in [[0, 8, 3], [8, 8, 2], [8, 5000, 1], [usize::MAX, 8, 1]] {
        let shape = Shape::new(height, width, channels);
        assert!(decode_image("unread", shape).is_err(), "{shape:?}");
    }
}

#[test]
fn an_image_of_extreme_proportions_needs_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("line.png");
    let expected = [7.0f32, 8.0, 9.0].map(|v| v / 255.0);
    let line = crate::encode_png(Shape::new(20_000, 1, 3), &expected.repeat(20_000));
    std::fs::write(&path, line.unwrap()).unwrap();
    let image = decode_image(&path, Shape::new(224, 224, 3)).unwrap();
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
        let error = decode_image(&path, Shape::new(32, 32, 3)).unwrap_err();
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
    let error = decode_bytes(&png, 3).err().unwrap();
    assert!(matches!(error, ImageError::TooLarge { .. }), "{error}");
}

/// What a view does not show need not be decoded.
#[test]
fn views_of_parts_are_those_of_the_whole() {
    for (short_side, height, width) in [(40, 35, 35), (256, 224, 224), (150, 64, 100), (50, 50, 20)]
    {
        let view = View {
            height,
            width,
            channels: 3,
            short_side: short_side.min(4 * height.min(width)),
        };
        for name in [
            "scene-420.jpg",
            "scene-progressive.jpg",
            "soft.jpg",
            "photo.png",
        ] {
            let bytes = read_file(&golden(name)).unwrap();
            let whole = decode_bytes(&bytes, 3).unwrap();
            let part = decode_part(&bytes, 3, |size| view.needs(size)).unwrap();
            assert!(part.bytes.len() <= whole.bytes.len());
            assert!(
                evaluation_view(part, &view) == evaluation_view(whole, &view),
                "{name}"
            );
        }
    }
    let bytes = read_file(&golden("scene-420.jpg")).unwrap();
    let whole = decode_bytes(&bytes, 3).unwrap();
    let window = [33, 21, 100, 77];
    let part = decode_part(&bytes, 3, |_| window).unwrap();
    assert_eq!(part.bytes.len(), 100 * 77 * 3);
    let size = [64, 50];
    assert!(resized_crop(&part, window, size) == resized_crop(&whole, window, size));
}
