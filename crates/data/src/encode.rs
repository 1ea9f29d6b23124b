//! Pixels to PNG.

use crate::{DataError, Shape};

/// Pixels in [0, 1] (others are clipped), row by row, channels last, as a PNG
/// file of 8 bits a channel: grey for 1 channel, RGB for 3.
pub fn encode_png(shape: Shape, pixels: &[f32]) -> Result<Vec<u8>, DataError> {
    let colour = match shape.channels {
        1 => png::ColorType::Grayscale,
        3 => png::ColorType::Rgb,
        channels => {
            return Err(DataError::Setting {
                name: "image channels",
                expected: "1 or 3",
                got: channels.to_string(),
            });
        }
    };
    if pixels.len() != shape.len() {
        return Err(DataError::Buffer {
            expected: shape.len(),
            got: pixels.len(),
        });
    }
    let byte = |v: &f32| (v.clamp(0.0, 1.0) * 255.0).round() as u8;
    let bytes: Vec<u8> = pixels.iter().map(byte).collect();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, shape.width as u32, shape.height as u32);
    encoder.set_color(colour);
    encoder.set_depth(png::BitDepth::Eight);
    encoder
        .write_header()
        .and_then(|mut writer| {
            writer.write_image_data(&bytes)?;
            writer.finish()
        })
        // Only a size that PNG cannot express is left to go wrong.
        .map_err(|_| DataError::Setting {
            name: "image height and width",
            expected: "1 to 2147483647",
            got: format!("{} x {}", shape.height, shape.width),
        })?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decode_bytes;

    #[test]
    fn what_is_encoded_is_decoded_to_the_same_bytes() {
        for channels in [1, 3] {
            let shape = Shape::new(5, 7, channels);
            let pixels: Vec<f32> = (0..shape.len()).map(|v| v as f32 / 255.0).collect();
            let file = encode_png(shape, &pixels).unwrap();
            let decoded = decode_bytes(&file, channels).unwrap();
            assert_eq!((decoded.height, decoded.width), (5, 7));
            assert!(decoded.bytes.iter().copied().eq(0..shape.len() as u8));
        }
        let clipped = encode_png(Shape::new(1, 3, 1), &[-1.0, f32::NAN, 2.0]).unwrap();
        let clipped = decode_bytes(&clipped, 1).unwrap();
        assert_eq!(clipped.bytes[..], [0, 0, 255]);
    }

    #[test]
    fn what_png_cannot_hold_is_refused() {
        assert!(encode_png(Shape::new(1, 1, 2), &[0.0; 2]).is_err());
        assert!(encode_png(Shape::new(1, 2, 1), &[0.0]).is_err());
        assert!(encode_png(Shape::new(0, 2, 1), &[]).is_err());
    }
}
