//! The samples of one component.

use super::header::Component;
use crate::resize::CropBox;

/// The samples of a component, as far as a window needs them.
pub(super) struct Plane {
    samples: Vec<u8>,
    pub stride: usize,
    /// Where the samples begin in the component.
    pub left: usize,
    top: usize,
    /// The component's size without what fills up its blocks.
    pub real_width: usize,
    pub real_height: usize,
    /// Pixels of the image for each sample, across and down.
    pub ratio: [usize; 2],
}

impl Plane {
    /// The samples that a window of the image needs, in whole blocks: its own, and one
    /// more in each direction where colours are widened.
    pub fn new(component: &Component, size: [usize; 2], most: [usize; 2], window: CropBox) -> Self {
        let [left, top, width, height] = window;
        let ratio: [usize; 2] = std::array::from_fn(|i| most[i] / component.sampling[i]);
        let real = |i: usize| (size[i] * component.sampling[i]).div_ceil(most[i]);
        let (real_width, real_height) = (real(0), real(1));
        let range = |begin: usize, length: usize, ratio: usize, real: usize| {
            let more = usize::from(ratio > 1);
            let first = (begin / ratio).saturating_sub(more);
            let end = ((begin + length).div_ceil(ratio) + more).min(real);
            (first / 8 * 8, end.next_multiple_of(8))
        };
        let (left, right) = range(left, width, ratio[0], real_width);
        let (top, bottom) = range(top, height, ratio[1], real_height);
        let stride = right - left;
        Self {
            samples: vec![0; stride * (bottom - top)],
            stride,
            left,
            top,
            real_width,
            real_height,
            ratio,
        }
    }

    /// Where a block goes, if it is needed.
    #[inline(always)]
    pub fn block(&mut self, x: usize, y: usize) -> Option<&mut [u8]> {
        let x = (8 * x).checked_sub(self.left)?;
        let y = (8 * y).checked_sub(self.top)?;
        let place = self.samples.get_mut(y * self.stride + x..)?;
        (x < self.stride && place.len() >= 7 * self.stride + 8).then_some(place)
    }

    /// A row of samples, from `left` on.
    #[inline(always)]
    pub fn row(&self, y: usize) -> &[u8] {
        &self.samples[(y - self.top) * self.stride..][..self.stride]
    }

    /// The row of samples that an image's row lies in, and the one that it lies next to,
    /// in a component of half the height.
    #[inline(always)]
    pub fn neighbours(&self, y: usize) -> [&[u8]; 2] {
        let near = y / 2;
        let far = match y % 2 {
            0 => near.saturating_sub(1),
            _ => (near + 1).min(self.real_height - 1),
        };
        [self.row(near), self.row(far)]
    }

    /// How many rows of blocks must be read.
    pub fn last_block_row(&self) -> usize {
        (self.top + self.samples.len() / self.stride.max(1)) / 8
    }
}
