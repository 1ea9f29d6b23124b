//! JPEG files to the pixels that libjpeg-turbo makes of them by default, to the bit:
//! its exact inverse transform, its weights for colours that are stored at a smaller size,
//! its way from YCbCr to RGB. Pillow and torchvision show the same.
//!
//! Baseline and progressive files with Huffman codes, 8 bits a sample, one, three or four
//! components (ITU-T T.81). Only a window of the image is computed where only that is
//! wanted. A file whose data end early or make no sense is refused, also where
//! libjpeg-turbo would warn and fill up with grey.

mod bits;
mod block;
mod colour;
mod header;
mod huffman;
mod plane;
mod scan;
mod transform;
mod upsample;

use kernels::isa::{Isa, Kernel};
use kernels::simd::Simd;

pub(crate) use self::colour::Colours;
use self::header::Header;
use self::plane::Plane;
use crate::resize::CropBox;

/// What a file says about its pixels before they begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outline {
    pub width: usize,
    pub height: usize,
    pub colours: Colours,
}

/// Reads up to the first pixels.
pub(crate) fn outline(file: &[u8]) -> Result<Outline, String> {
    Ok(Header::read(file)?.outline())
}

/// The pixels of a window (left, top, width, height) of an image: one byte each for grey
/// images, else three. The window lies inside of the image.
pub(crate) fn decode(file: &[u8], window: CropBox) -> Result<Vec<u8>, String> {
    Isa::detect().dispatch(Decode { file, window })
}

/// Everything behind the header; compiled for each instruction set.
struct Decode<'a> {
    file: &'a [u8],
    window: CropBox,
}

impl Kernel for Decode<'_> {
    type Output = Result<Vec<u8>, String>;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> Result<Vec<u8>, String> {
        let header = Header::read(self.file)?;
        let planes = scan::planes(&header, self.window)?;
        Ok(rows(&planes, header.outline().colours, self.window))
    }
}

/// Widens the planes to the size of the image and mixes their colours, row by row.
#[inline(always)]
fn rows(planes: &[Plane], colours: Colours, window: CropBox) -> Vec<u8> {
    let [left, top, width, height] = window;
    let mut pixels = vec![0; width * height * colours.channels()];
    let mut wide: [Vec<u8>; 4] = std::array::from_fn(|_| vec![0; width]);
    let mut sums = Vec::new();
    for (row, out) in pixels
        .chunks_exact_mut((width * colours.channels()).max(1))
        .enumerate()
    {
        for (plane, wide) in planes.iter().zip(&mut wide) {
            upsample::row(plane, top + row, left, wide, &mut sums);
        }
        colour::row(colours, wide.each_ref().map(Vec::as_slice), out);
    }
    pixels
}

#[cfg(test)]
mod tests;
