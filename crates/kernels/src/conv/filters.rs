//! How packing reads the weights of a convolution.

use crate::geometry::ConvShape;

/// Weights (`out x in/groups x kh x kw`) of a convolution, or of the one that it
/// pulls back: then its windows are theirs turned by 180 degrees, and the
/// channels are swapped within each group.
#[derive(Clone, Copy)]
pub(crate) struct Filters<'a> {
    pub weights: &'a [f32],
    pub rotated: bool,
}

impl<'a> Filters<'a> {
    pub fn plain(weights: &'a [f32]) -> Self {
        Self {
            weights,
            rotated: false,
        }
    }

    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// Where tap `t` of the window from input `i` to the first output of a group
    /// lies, for the convolution `shape` that is packed, and how far it is to the
    /// next output's.
    #[inline(always)]
    pub fn place(&self, shape: &ConvShape, group: usize, i: usize, t: usize) -> (usize, usize) {
        let taps = shape.window.kernel[0] * shape.window.kernel[1];
        let (inputs, outputs) = (shape.in_per_group(), shape.out_channels / shape.groups);
        if self.rotated {
            let first = (group * inputs + i) * outputs * taps;
            (first + taps - 1 - t, taps)
        } else {
            let first = (group * outputs * inputs + i) * taps;
            (first + t, inputs * taps)
        }
    }
}
