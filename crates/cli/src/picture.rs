//! Images as PNG.

use std::io::Cursor;

use anyhow::{Context, Result};
use image::{ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};

/// Pixels in [0, 1] (others are clipped) as a PNG of 8 bits a channel.
pub fn png([height, width, channels]: [usize; 3], pixels: &[f32]) -> Result<Vec<u8>> {
    let byte = |v: &f32| (v.clamp(0.0, 1.0) * 255.0).round() as u8;
    let bytes: Vec<u8> = pixels.iter().map(byte).collect();
    let colour = match channels {
        1 => ExtendedColorType::L8,
        _ => ExtendedColorType::Rgb8,
    };
    let mut out = Cursor::new(Vec::new());
    PngEncoder::new(&mut out)
        .write_image(&bytes, width as u32, height as u32, colour)
        .context("cannot make a PNG")?;
    Ok(out.into_inner())
}
