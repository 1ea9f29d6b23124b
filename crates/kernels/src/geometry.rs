//! Shapes of activations and of sliding windows.

use serde::{Deserialize, Serialize};

/// Height, width and channels of one image's activations.
///
/// A vector of `k` features is `1 x 1 x k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Channels, the fastest running index.
    pub channels: usize,
}

impl Shape {
    /// `height x width x channels`.
    pub const fn new(height: usize, width: usize, channels: usize) -> Self {
        Self {
            height,
            width,
            channels,
        }
    }

    /// A vector of `channels` features.
    pub const fn vector(channels: usize) -> Self {
        Self::new(1, 1, channels)
    }

    /// Pixels of one channel: `height * width`.
    pub const fn pixels(&self) -> usize {
        self.height * self.width
    }

    /// Elements: `height * width * channels`.
    #[expect(clippy::len_without_is_empty, reason = "no shape is empty")]
    pub const fn len(&self) -> usize {
        self.pixels() * self.channels
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}x{}", self.height, self.width, self.channels)
    }
}

/// Zeros around an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Padding {
    /// Rows above.
    pub top: usize,
    /// Columns to the left.
    pub left: usize,
    /// Rows below.
    pub bottom: usize,
    /// Columns to the right.
    pub right: usize,
}

impl Padding {
    /// The same on all four sides.
    pub const fn same(p: usize) -> Self {
        Self {
            top: p,
            left: p,
            bottom: p,
            right: p,
        }
    }
}

/// A sliding window: what convolution and pooling have in common.
///
/// Pairs are `[vertical, horizontal]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Window {
    /// Taps of the window.
    pub kernel: [usize; 2],
    /// Distance of two neighbouring outputs, in input pixels.
    pub stride: [usize; 2],
    /// Zeros (convolution, average) or nothing (maximum) around the input.
    pub padding: Padding,
    /// Distance of two neighbouring taps, in input pixels.
    pub dilation: [usize; 2],
}

impl Window {
    /// A square window without dilation.
    pub const fn square(kernel: usize, stride: usize, padding: usize) -> Self {
        Self {
            kernel: [kernel; 2],
            stride: [stride; 2],
            padding: Padding::same(padding),
            dilation: [1; 2],
        }
    }

    /// Output height and width,
    /// `floor((in + pads - dilation*(kernel-1) - 1) / stride) + 1`,
    /// or `None` where the window does not fit into the padded input or has a
    /// zero extent.
    pub fn output(&self, height: usize, width: usize) -> Option<[usize; 2]> {
        let p = self.padding;
        let along = |size: usize, before: usize, after: usize, axis: usize| {
            let reach = self.dilation[axis]
                .checked_mul(self.kernel[axis].checked_sub(1)?)?
                .checked_add(1)?;
            let padded = size.checked_add(before)?.checked_add(after)?;
            let room = padded.checked_sub(reach)?;
            room.checked_div(self.stride[axis])?.checked_add(1)
        };
        if self.dilation.contains(&0) {
            return None;
        }
        Some([
            along(height, p.top, p.bottom, 0)?,
            along(width, p.left, p.right, 1)?,
        ])
    }
}

/// A convolution of one image: geometry without weights.
///
/// Weights have the shape `out_channels x input.channels/groups x kh x kw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConvShape {
    /// What goes in.
    pub input: Shape,
    /// Channels that come out.
    pub out_channels: usize,
    /// The window.
    pub window: Window,
    /// Both channel counts are multiples of this.
    pub groups: usize,
}

impl ConvShape {
    /// What comes out.
    ///
    /// # Panics
    /// If the window does not fit; [`Window::output`] checks beforehand.
    pub fn output(&self) -> Shape {
        let [height, width] = self
            .window
            .output(self.input.height, self.input.width)
            .expect("the window fits the input");
        Shape::new(height, width, self.out_channels)
    }

    /// Number of weights.
    pub fn weights(&self) -> usize {
        let [kh, kw] = self.window.kernel;
        self.out_channels * self.in_per_group() * kh * kw
    }

    /// Input channels that one output channel sees.
    pub fn in_per_group(&self) -> usize {
        self.input.channels / self.groups
    }

    /// Multiply-accumulates for one image, padding counted as work.
    pub fn macs(&self) -> u64 {
        self.output().pixels() as u64 * self.weights() as u64
    }
}
