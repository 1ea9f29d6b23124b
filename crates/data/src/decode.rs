//! Image files to pixels: decode with limits, resize, crop.

mod format;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use format::ImageError;
pub(crate) use format::{Encoding, decode_bytes, decode_part, look};

use crate::resize::{CropBox, needed, resize};
use crate::{DataError, Shape};

/// Larger files are refused.
const MAX_FILE: u64 = 256 << 20;

/// How an image file becomes a network input: decoded to 8 bits, resized
/// (bilinear, antialiased) so that it just covers the margin around the crop,
/// cropped in the centre. An image that already has exactly the wanted height
/// and width is taken as it is.
///
/// For a square crop this is torchvision's `Resize(short_side)` followed by
/// `CenterCrop`, with ImageNet's 256 and 224 as the default. With 3 channels,
/// grey becomes RGB; with 1, colour becomes luma. An alpha channel is dropped,
/// not composited, and EXIF orientation is ignored, as in torchvision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// Height of the crop.
    pub height: usize,
    /// Width of the crop.
    pub width: usize,
    /// 1 (luma) or 3 (RGB).
    pub channels: usize,
    /// What the shorter side of the crop corresponds to before cropping:
    /// at least the smaller of height and width.
    pub short_side: usize,
}

impl Default for View {
    /// The ImageNet convention: short side 256, crop 224, RGB.
    fn default() -> Self {
        Self::for_shape(Shape::new(224, 224, 3))
    }
}

impl View {
    /// The view that feeds a network with inputs of this shape: from 128
    /// pixels on with ImageNet's margin (short side 8/7 of the crop), below
    /// without, since small images have nothing to spare.
    pub fn for_shape(shape: Shape) -> Self {
        let crop = shape.height.min(shape.width);
        let short_side = if crop < 128 {
            crop
        } else {
            crop.saturating_mul(8) / 7
        };
        Self {
            height: shape.height,
            width: shape.width,
            channels: shape.channels,
            short_side,
        }
    }

    /// What is done to an image, in a sentence.
    pub fn in_words(&self) -> String {
        let Self {
            height,
            width,
            channels,
            short_side,
        } = *self;
        let crop = height.min(width).max(1);
        let (cover_height, cover_width) = (height * short_side / crop, width * short_side / crop);
        let colours = if channels == 1 { "grey" } else { "RGB" };
        let then = match (cover_height, cover_width) == (height, width) {
            true => "what sticks out is cropped".to_owned(),
            false => format!("the {height}x{width} pixels in the centre are taken"),
        };
        format!(
            "images become {height}x{width} {colours}: those of another size are resized until \
             they cover {cover_height}x{cover_width}, and {then}"
        )
    }

    /// Shape of the crop.
    pub fn shape(&self) -> Shape {
        Shape::new(self.height, self.width, self.channels)
    }

    /// Refuses sizes that are empty, huge, or smaller than their crop.
    pub(crate) fn check(&self) -> Result<(), DataError> {
        let refuse = |name, expected, got: String| {
            Err(DataError::Setting {
                name,
                expected,
                got,
            })
        };
        let sides = 1..=4096;
        if !sides.contains(&self.height) || !sides.contains(&self.width) {
            let got = format!("{} x {}", self.height, self.width);
            return refuse("image height and width", "1 to 4096", got);
        }
        if ![1, 3].contains(&self.channels) {
            return refuse("image channels", "1 or 3", self.channels.to_string());
        }
        let crop = self.height.min(self.width);
        if !(crop..=4 * crop).contains(&self.short_side) {
            let expected = "between the crop's shorter side and four times that";
            return refuse("short side", expected, self.short_side.to_string());
        }
        Ok(())
    }
}

/// The pixels of one image, or of a part of it, 8 bits a channel, row by row.
pub(crate) struct Pixels<'a> {
    pub bytes: std::borrow::Cow<'a, [u8]>,
    /// Of the whole image.
    pub width: usize,
    pub height: usize,
    pub channels: usize,
    /// The part that `bytes` hold.
    pub held: CropBox,
}

/// Decodes an image file of the user's for a network with inputs of `shape`:
/// pixels in [0, 1], row by row, channels last, seen through
/// [`View::for_shape`].
pub fn decode_image(path: impl AsRef<Path>, shape: Shape) -> Result<Vec<f32>, DataError> {
    let (path, view) = (path.as_ref(), View::for_shape(shape));
    view.check()?;
    let bytes = read_file(path)?;
    let pixels = decode_part(&bytes, view.channels, |size| view.needs(size));
    let pixels = evaluation_view(pixels.map_err(undecodable(path))?, &view);
    Ok(pixels.iter().map(|&v| f32::from(v) / 255.0).collect())
}

/// For `map_err`: says which image cannot be decoded.
pub(crate) fn undecodable(path: impl AsRef<Path>) -> impl FnOnce(ImageError) -> DataError {
    move |source| DataError::Image {
        path: path.as_ref().to_path_buf(),
        source,
    }
}

/// The content of an image file.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, DataError> {
    let file = File::open(path).map_err(DataError::io("open", path))?;
    // A folder can be opened, and a pipe would be waited for.
    let about = file.metadata().map_err(DataError::io("read", path))?;
    if !about.is_file() {
        let what = if about.is_dir() {
            "a folder"
        } else {
            "no regular file"
        };
        return Err(DataError::NoImageFile {
            path: path.to_path_buf(),
            what,
        });
    }
    let mut bytes = Vec::with_capacity(about.len().min(MAX_FILE) as usize + 1);
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(DataError::io("read", path))?;
    check_file_size(path, bytes.len() as u64)?;
    Ok(bytes)
}

/// Refuses image files that are larger than any honest one.
pub(crate) fn check_file_size(path: &Path, bytes: u64) -> Result<(), DataError> {
    if bytes > MAX_FILE {
        let what = format!("expected an image file of at most {MAX_FILE} bytes, got more");
        return Err(DataError::format(path, what));
    }
    Ok(())
}

impl View {
    /// Width and height that a whole image is resized to: it covers the crop and its
    /// margin, with one side exact and the other rounded down.
    pub(crate) fn full_size(&self, width: usize, height: usize) -> [usize; 2] {
        let crop = self.height.min(self.width);
        let cover_height = self.height * self.short_side / crop;
        let cover_width = self.width * self.short_side / crop;
        if width * cover_height <= height * cover_width {
            [cover_width, cover_width * height / width]
        } else {
            [cover_height * width / height, cover_height]
        }
    }

    /// Whether an image of this width and height is taken as it is.
    fn takes(&self, [width, height]: [usize; 2]) -> bool {
        (height, width) == (self.height, self.width)
    }

    /// The size that whole images of this width and height are resized to, and the part
    /// of it that is shown.
    fn crop(&self, [width, height]: [usize; 2]) -> ([usize; 2], CropBox) {
        let [full_width, full_height] = self.full_size(width, height);
        let left = ((full_width - self.width) as f64 / 2.0).round_ties_even() as usize;
        let top = ((full_height - self.height) as f64 / 2.0).round_ties_even() as usize;
        let part = [left, top, self.width, self.height];
        ([full_width, full_height], part)
    }

    /// The part of an image of this width and height that [`evaluation_view`] reads.
    pub(crate) fn needs(&self, size: [usize; 2]) -> CropBox {
        let [width, height] = size;
        let whole = [0, 0, width, height];
        let ([full_width, full_height], part) = self.crop(size);
        if self.takes(size) {
            whole
        } else if [full_width, full_height] == size {
            part
        } else {
            needed(whole, [full_height, full_width], part)
        }
    }
}

/// The deterministic view of [`View`]: bytes of `height * width * channels`. Of the image
/// only what the view [needs](View::needs) must be there.
pub(crate) fn evaluation_view(pixels: Pixels<'_>, view: &View) -> Vec<u8> {
    let size = [pixels.width, pixels.height];
    if view.takes(size) {
        return pixels.bytes.into_owned();
    }
    // Resizing only what the crop shows gives the same pixels as resizing
    // everything, and needs no memory for an image of extreme proportions.
    let ([full_width, full_height], part) = view.crop(size);
    if [full_width, full_height] == size {
        return cut(&pixels, part);
    }
    let whole = [0, 0, pixels.width, pixels.height];
    resize(&pixels, whole, [full_height, full_width], part)
}

/// The whole image in the size from which [`evaluation_view`] takes its crop.
pub(crate) fn full_view(pixels: Pixels<'static>, view: &View) -> Pixels<'static> {
    let size = [pixels.width, pixels.height];
    let [width, height] = view.full_size(pixels.width, pixels.height);
    if view.takes(size) || [width, height] == size {
        return pixels;
    }
    let whole = [0, 0, pixels.width, pixels.height];
    let all = [0, 0, width, height];
    let bytes = resize(&pixels, whole, [height, width], all);
    Pixels::of(Shape::new(height, width, pixels.channels), bytes.into())
}

/// A part of an image, resized to `[height, width]` (bilinear, antialiased).
/// As in torchvision's `resized_crop`, nothing outside of the part is seen.
pub(crate) fn resized_crop(pixels: &Pixels<'_>, part: CropBox, size: [usize; 2]) -> Vec<u8> {
    let [height, width] = size;
    resize(pixels, part, size, [0, 0, width, height])
}

/// A part of an image as it is.
fn cut(pixels: &Pixels<'_>, [left, top, width, height]: CropBox) -> Vec<u8> {
    let channels = pixels.channels;
    let [held_left, held_top, held_width, _] = pixels.held;
    let mut part = Vec::with_capacity(width * height * channels);
    for row in top - held_top..top - held_top + height {
        let start = (row * held_width + left - held_left) * channels;
        part.extend_from_slice(&pixels.bytes[start..start + width * channels]);
    }
    part
}

#[cfg(test)]
mod tests;
