//! PNG and JPEG files to bytes of one or three channels, within limits.
//!
//! Palettes become RGB, 16 bits a sample are rounded to 8, CMYK becomes RGB,
//! alpha is dropped. Colour profiles are ignored.

use std::io::Cursor;

use super::Pixels;
use crate::jpeg::{self, Colours};
use crate::resize::CropBox;

/// Larger images are refused before their pixels are allocated.
const MAX_PIXELS: usize = 100_000_000;
/// What the PNG decoder may allocate besides the pixels.
const MAX_ALLOC: usize = 512 << 20;

/// Why an image file cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The first bytes are those of another format.
    #[error("it is neither PNG nor JPEG")]
    UnknownFormat,
    /// More pixels than are allowed.
    #[error("{width} x {height} pixels are too many")]
    TooLarge {
        /// Width in pixels.
        width: usize,
        /// Height in pixels.
        height: usize,
    },
    /// The file ends early, contradicts itself, or uses a feature of its format
    /// that is not supported.
    #[error("{0}")]
    Broken(String),
}

fn broken(error: impl std::fmt::Display) -> ImageError {
    ImageError::Broken(error.to_string())
}

/// How an image file writes its pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoding {
    /// JPEG; else PNG.
    pub jpeg: bool,
    /// Four inks instead of three colours.
    pub cmyk: bool,
    /// 16 bits a sample.
    pub sixteen: bool,
}

/// What a file says about its pixels before they begin.
pub(crate) fn look(file: &[u8]) -> Result<Encoding, ImageError> {
    match file {
        [0x89, b'P', b'N', b'G', ..] => {
            let mut decoder = png::Decoder::new(Cursor::new(file));
            let info = decoder.read_header_info().map_err(broken)?;
            check_size(info.width as usize, info.height as usize)?;
            Ok(Encoding {
                jpeg: false,
                cmyk: false,
                sixteen: info.bit_depth == png::BitDepth::Sixteen,
            })
        }
        [0xff, 0xd8, 0xff, ..] => {
            let outline = jpeg::outline(file).map_err(broken)?;
            Ok(Encoding {
                jpeg: true,
                cmyk: matches!(outline.colours, Colours::Cmyk | Colours::Ycck),
                sixteen: false,
            })
        }
        _ => Err(ImageError::UnknownFormat),
    }
}

/// Pixels as a decoder gives them.
struct Decoded {
    /// Samples of 8 bits, or of 16 with the high byte first.
    bytes: Vec<u8>,
    sixteen: bool,
    /// 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha.
    samples: usize,
    width: usize,
    height: usize,
    /// The part of the image that `bytes` hold.
    held: CropBox,
}

/// Decodes a PNG or JPEG file, told by its first bytes, to 1 (luma) or 3 (RGB)
/// channels.
pub(crate) fn decode_bytes(file: &[u8], channels: usize) -> Result<Pixels<'static>, ImageError> {
    decode_part(file, channels, |[width, height]| [0, 0, width, height])
}

/// The same of at least the part that is wanted of an image of this width and height.
pub(crate) fn decode_part(
    file: &[u8],
    channels: usize,
    wanted: impl FnOnce([usize; 2]) -> CropBox,
) -> Result<Pixels<'static>, ImageError> {
    let decoded = match file {
        [0x89, b'P', b'N', b'G', ..] => {
            let decoded = decode_png(file)?;
            wanted([decoded.width, decoded.height]);
            decoded
        }
        [0xff, 0xd8, 0xff, ..] => decode_jpeg(file, wanted)?,
        _ => return Err(ImageError::UnknownFormat),
    };
    let (width, height, held) = (decoded.width, decoded.height, decoded.held);
    Ok(Pixels {
        bytes: decoded.into_channels(channels).into(),
        width,
        height,
        channels,
        held,
    })
}

fn check_size(width: usize, height: usize) -> Result<(), ImageError> {
    match width.checked_mul(height) {
        Some(..=MAX_PIXELS) => Ok(()),
        _ => Err(ImageError::TooLarge { width, height }),
    }
}

fn decode_png(file: &[u8]) -> Result<Decoded, ImageError> {
    let limits = png::Limits { bytes: MAX_ALLOC };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(file), limits);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    // Palettes to RGB, and fewer bits to 8. The crate's way from 16 bits to 8
    // cuts off instead of rounding, so that is done below.
    decoder.set_transformations(png::Transformations::EXPAND);
    let info = decoder.read_header_info().map_err(broken)?;
    let (width, height) = (info.width as usize, info.height as usize);
    check_size(width, height)?;
    let mut reader = decoder.read_info().map_err(broken)?;
    let size = reader
        .output_buffer_size()
        .ok_or(ImageError::TooLarge { width, height })?;
    let mut bytes = vec![0; size];
    reader.next_frame(&mut bytes).map_err(broken)?;
    let (colour, depth) = reader.output_color_type();
    Ok(Decoded {
        bytes,
        sixteen: depth == png::BitDepth::Sixteen,
        samples: colour.samples(),
        width,
        height,
        held: [0, 0, width, height],
    })
}

fn decode_jpeg(
    file: &[u8],
    wanted: impl FnOnce([usize; 2]) -> CropBox,
) -> Result<Decoded, ImageError> {
    let outline = jpeg::outline(file).map_err(broken)?;
    let (width, height) = (outline.width, outline.height);
    check_size(width, height)?;
    let held = wanted([width, height]);
    Ok(Decoded {
        bytes: jpeg::decode(file, held).map_err(broken)?,
        sixteen: false,
        samples: outline.colours.channels(),
        width,
        height,
        held,
    })
}

impl Decoded {
    fn into_channels(self, channels: usize) -> Vec<u8> {
        if self.samples == channels && !self.sixteen {
            return self.bytes;
        }
        let [_, _, width, height] = self.held;
        let starts = (0..width * height).map(|pixel| pixel * self.samples);
        let rgb = |start| [start, start + 1, start + 2];
        match (channels, self.samples) {
            (1, 3..) => starts
                .map(|start| luma(rgb(start).map(|sample| self.unit(sample))))
                .collect(),
            (1, _) => starts.map(|start| self.byte(start)).collect(),
            (_, 3..) => starts
                .flat_map(|start| rgb(start).map(|sample| self.byte(sample)))
                .collect(),
            _ => starts.flat_map(|start| [self.byte(start); 3]).collect(),
        }
    }

    fn word(&self, sample: usize) -> u16 {
        u16::from_be_bytes([self.bytes[2 * sample], self.bytes[2 * sample + 1]])
    }

    /// A sample in 8 bits, rounded.
    fn byte(&self, sample: usize) -> u8 {
        match self.sixteen {
            true => ((u32::from(self.word(sample)) + 128) / 257) as u8,
            false => self.bytes[sample],
        }
    }

    /// A sample in [0, 1].
    fn unit(&self, sample: usize) -> f32 {
        match self.sixteen {
            true => f32::from(self.word(sample)) * (1.0 / 65535.0),
            false => f32::from(self.bytes[sample]) * (1.0 / 255.0),
        }
    }
}

/// The luminance of RGB values in [0, 1], without undoing sRGB's curve. The
/// weights are the Y row of the matrix from sRGB's primaries (white D65) to XYZ.
fn luma(rgb: [f32; 3]) -> u8 {
    const WEIGHTS: [f32; 3] = [0.212_647_84, 0.715_179_2, 0.072_173_04];
    let sum = rgb.iter().zip(WEIGHTS).fold(0.0, |sum, (v, w)| sum + v * w);
    (sum * 255.0).round() as u8
}
