//! Which algorithm runs which layer: by shape only, here and nowhere else.

use crate::geometry::ConvShape;

/// How a convolution is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Register tiles over the window's taps; any shape.
    Direct,
    /// Winograd's minimal filtering, 2x2 outputs per tile: 2.25 times fewer
    /// products.
    Winograd2,
    /// Winograd's minimal filtering, 4x4 outputs per tile: 4 times fewer
    /// products.
    Winograd4,
    /// One input channel per output channel, vectors along the channels.
    Depthwise,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Direct,
        Self::Winograd2,
        Self::Winograd4,
        Self::Depthwise,
    ];

    /// The fastest one for a shape, as measured by the `convolution` benchmark.
    pub fn choose(shape: &ConvShape) -> Self {
        if Self::Depthwise.can(shape) {
            return Self::Depthwise;
        }
        let output = shape.output();
        let channels = shape.input.channels.min(shape.out_channels);
        if !Self::Winograd4.can(shape) || channels < 16 {
            return Self::Direct;
        }
        match output.height.min(output.width) {
            0..=2 => Self::Winograd2,
            _ => Self::Winograd4,
        }
    }

    /// Whether it can do this shape.
    pub fn can(self, shape: &ConvShape) -> bool {
        let w = &shape.window;
        match self {
            Self::Direct => true,
            Self::Winograd2 | Self::Winograd4 => {
                w.kernel == [3, 3]
                    && w.stride == [1, 1]
                    && w.dilation == [1, 1]
                    && shape.groups == 1
            }
            Self::Depthwise => {
                shape.groups > 1
                    && shape.groups == shape.input.channels
                    && shape.groups == shape.out_channels
            }
        }
    }
}
