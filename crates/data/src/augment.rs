//! Random crops, shifts and flips as pure functions of (seed, epoch, index).

use kernels::random::Purpose;
use serde::{Deserialize, Serialize};

use crate::random::Stream;
use crate::resize::CropBox;
use crate::{DataError, Shape};

/// How training images are varied. What is drawn for an image depends on
/// (seed, epoch, index) alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Augment {
    /// The evaluation view.
    None,
    /// The image is padded with zeros by `padding` on each side and cropped
    /// back to its size at a random place; then, if `flip` is set, mirrored
    /// left to right with probability 1/2.
    CropFlip {
        /// Smaller than the image's height and width.
        padding: usize,
        /// Whether mirror images are of the same class.
        flip: bool,
    },
    /// A random part of the whole image, resized to the input size
    /// (torchvision's `RandomResizedCrop`), then perhaps mirrored.
    ResizedCrop {
        /// The part's share of the area, smallest and largest, in (0, 1].
        scale: [f64; 2],
        /// The part's width over height, smallest and largest; its logarithm
        /// is uniform.
        ratio: [f64; 2],
        /// Whether mirror images are of the same class.
        flip: bool,
    },
}

impl Augment {
    /// ImageNet's: 8 % to 100 % of the area, proportions 3:4 to 4:3, flipped.
    pub const IMAGENET: Self = Self::ResizedCrop {
        scale: [0.08, 1.0],
        ratio: [3.0 / 4.0, 4.0 / 3.0],
        flip: true,
    };

    /// Refuses settings that make no sense for images of this shape.
    pub fn check(&self, shape: Shape) -> Result<(), DataError> {
        let refuse = |name, expected, got: String| {
            Err(DataError::Setting {
                name,
                expected,
                got,
            })
        };
        match *self {
            Self::CropFlip { padding, .. } if padding >= shape.height.min(shape.width) => refuse(
                "padding",
                "smaller than the image's height and width",
                padding.to_string(),
            ),
            // Written so that NaN is refused, too.
            Self::ResizedCrop { scale: [a, b], .. } if !(0.0 < a && a <= b && b <= 1.0) => {
                refuse("scale", "0 < low <= high <= 1", format!("{a} and {b}"))
            }
            Self::ResizedCrop { ratio: [a, b], .. } if !(0.01 <= a && a <= b && b <= 100.0) => {
                let expected = "0.01 <= low <= high <= 100";
                refuse("ratio", expected, format!("{a} and {b}"))
            }
            _ => Ok(()),
        }
    }
}

/// The stream that an image's augmentation is drawn from.
pub(crate) fn stream(seed: u64, epoch: u64, index: usize) -> Stream {
    Stream::new(seed, Purpose::Augment, epoch, index as u32)
}

/// Where a padded image is cropped, relative to the middle, and whether the
/// result is mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    pub down: isize,
    pub right: isize,
    pub flip: bool,
}

impl Shift {
    /// Draws rows, then columns, then the flip.
    pub fn draw(padding: usize, flip: bool, stream: &mut Stream) -> Self {
        let mut offset = || stream.below(2 * padding as u32 + 1) as isize - padding as isize;
        let (down, right) = (offset(), offset());
        Self {
            down,
            right,
            flip: flip && stream.coin(),
        }
    }

    /// Copies an image: the output's row y is the source's row y + down, zeros
    /// where there is none; likewise columns.
    pub fn apply<T: Copy>(
        self,
        shape: Shape,
        source: &[T],
        out: &mut [f32],
        convert: impl Fn(T) -> f32,
    ) {
        let (width, channels) = (shape.width, shape.channels);
        let row = width * channels;
        for (y, out) in out.chunks_exact_mut(row).enumerate() {
            let from = y
                .checked_add_signed(self.down)
                .filter(|&y| y < shape.height);
            let Some(from) = from else {
                out.fill(0.0);
                continue;
            };
            let source = &source[from * row..][..row];
            for (x, out) in out.chunks_exact_mut(channels).enumerate() {
                let x = if self.flip { width - 1 - x } else { x };
                match x.checked_add_signed(self.right).filter(|&x| x < width) {
                    Some(x) => {
                        let pixel = &source[x * channels..][..channels];
                        for (out, &value) in out.iter_mut().zip(pixel) {
                            *out = convert(value);
                        }
                    }
                    None => out.fill(0.0),
                }
            }
        }
    }
}

/// Draws the part of a `width` x `height` image for a resized crop: ten tries
/// for a part that fits, then the largest central part of a legal ratio.
pub(crate) fn resized_crop_box(
    [width, height]: [usize; 2],
    scale: [f64; 2],
    ratio: [f64; 2],
    stream: &mut Stream,
) -> CropBox {
    let (full_width, full_height) = (width as f64, height as f64);
    for _ in 0..10 {
        let area = full_width * full_height * stream.uniform(scale[0], scale[1]);
        let ratio = stream.uniform(ratio[0].ln(), ratio[1].ln()).exp();
        let part_width = (area * ratio).sqrt().round_ties_even() as usize;
        let part_height = (area / ratio).sqrt().round_ties_even() as usize;
        if (1..=width).contains(&part_width) && (1..=height).contains(&part_height) {
            let top = stream.below((height - part_height + 1) as u32) as usize;
            let left = stream.below((width - part_width + 1) as u32) as usize;
            return [left, top, part_width, part_height];
        }
    }
    let whole = full_width / full_height;
    let (part_width, part_height) = if whole < ratio[0] {
        (width, (full_width / ratio[0]).round_ties_even() as usize)
    } else if whole > ratio[1] {
        ((full_height * ratio[1]).round_ties_even() as usize, height)
    } else {
        (width, height)
    };
    let part_width = part_width.clamp(1, width);
    let part_height = part_height.clamp(1, height);
    let (left, top) = ((width - part_width) / 2, (height - part_height) / 2);
    [left, top, part_width, part_height]
}

/// Mirrors an image left to right, in place.
pub(crate) fn mirror(shape: Shape, image: &mut [f32]) {
    let (width, channels) = (shape.width, shape.channels);
    for row in image.chunks_exact_mut(width * channels) {
        for x in 0..width / 2 {
            let (left, right) = row.split_at_mut((width - 1 - x) * channels);
            left[x * channels..][..channels].swap_with_slice(&mut right[..channels]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_shift_moves_and_pads() {
        let source: Vec<u8> = (1..=6).collect(); // 2 x 3 x 1
        let mut out = [9.0; 6];
        let shift = |down, right, flip| Shift { down, right, flip };
        shift(1, -1, false).apply(Shape::new(2, 3, 1), &source, &mut out, f32::from);
        assert_eq!(out, [0.0, 4.0, 5.0, 0.0, 0.0, 0.0]);
        shift(0, 1, true).apply(Shape::new(2, 3, 1), &source, &mut out, f32::from);
        assert_eq!(out, [0.0, 3.0, 2.0, 0.0, 6.0, 5.0]);
        shift(0, 0, true).apply(Shape::new(1, 3, 2), &source, &mut out, f32::from);
        assert_eq!(out, [5.0, 6.0, 3.0, 4.0, 1.0, 2.0]);
    }

    #[test]
    fn every_shift_and_flip_is_drawn() {
        let mut seen = std::collections::BTreeMap::new();
        for index in 0..18_000 {
            let shift = Shift::draw(1, true, &mut stream(5, 6, index));
            *seen
                .entry((shift.down, shift.right, shift.flip))
                .or_insert(0i32) += 1;
        }
        // 18 cases, 1000 expected each with standard deviation 31.
        assert_eq!(seen.len(), 18);
        assert!(seen.values().all(|n| (n - 1000).abs() < 200), "{seen:?}");
    }

    #[test]
    fn senseless_settings_are_refused() {
        let shape = Shape::new(8, 8, 1);
        let resized = |scale, ratio| Augment::ResizedCrop {
            scale,
            ratio,
            flip: false,
        };
        assert!(Augment::IMAGENET.check(shape).is_ok());
        for wrong in [
            Augment::CropFlip {
                padding: 8,
                flip: true,
            },
            resized([0.0, 1.0], [1.0, 1.0]),
            resized([0.5, 0.2], [1.0, 1.0]),
            resized([0.5, f64::NAN], [1.0, 1.0]),
            resized([0.5, 1.0], [0.0, f64::INFINITY]),
        ] {
            assert!(wrong.check(shape).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn parts_lie_inside(
            width in 1usize..400, height in 1usize..400, seed: u64,
            scale in 0.01..1.0f64, ratio in 0.02..50.0f64,
        ) {
            let mut stream = stream(seed, 0, 0);
            let [left, top, part_width, part_height] =
                resized_crop_box([width, height], [scale, 1.0], [ratio, ratio], &mut stream);
            prop_assert!(part_width >= 1 && left + part_width <= width);
            prop_assert!(part_height >= 1 && top + part_height <= height);
        }

        #[test]
        fn mirroring_is_the_flip_of_a_shift(width in 1usize..9, channels in 1usize..4) {
            let shape = Shape::new(3, width, channels);
            let source: Vec<f32> = (0..3 * width * channels).map(|v| v as f32).collect();
            let mut flipped = vec![0.0; source.len()];
            Shift { down: 0, right: 0, flip: true }.apply(shape, &source, &mut flipped, |v| v);
            let mut mirrored = source;
            mirror(shape, &mut mirrored);
            prop_assert_eq!(mirrored, flipped);
        }
    }
}
