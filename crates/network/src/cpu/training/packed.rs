//! What convolutions derive from their weights.

use kernels::conv::{Conv, Epilogue};
use kernels::geometry::ConvShape;
use kernels::gradient::InputGradient;
use kernels::isa::Isa;

/// A convolution and its pull-back, with packed weights.
#[derive(Debug)]
pub(super) struct Packed {
    pub forward: Conv,
    backward: Backward,
}

#[derive(Debug)]
enum Backward {
    /// A convolution of stride 1 pulls back by one with rotated weights.
    Conv(Conv),
    Strided(InputGradient),
}

impl Packed {
    pub fn new(isa: Isa, shape: ConvShape, weights: &[f32]) -> Self {
        let backward = match Conv::input_gradient(isa, shape, weights) {
            Some(conv) => Backward::Conv(conv),
            None => Backward::Strided(InputGradient::new(isa, shape, weights)),
        };
        Self {
            forward: Conv::new(isa, shape, weights),
            backward,
        }
    }

    /// Packs other weights into the same memory.
    pub fn set_weights(&mut self, weights: &[f32]) {
        self.forward.set_weights(weights);
        match &mut self.backward {
            Backward::Conv(conv) => conv.set_weights(weights),
            Backward::Strided(strided) => strided.set_weights(weights),
        }
    }

    /// The pull-back as a convolution, if it is one.
    pub fn backward(&self) -> Option<&Conv> {
        match &self.backward {
            Backward::Conv(conv) => Some(conv),
            Backward::Strided(_) => None,
        }
    }

    /// Floats of scratch that [`Packed::pull_back`] needs.
    pub fn scratch_len(&self, images: usize) -> usize {
        match &self.backward {
            Backward::Conv(conv) => conv.scratch_len(images),
            Backward::Strided(strided) => strided.scratch_len(),
        }
    }

    /// `dx = dL/dx + residual`.
    pub fn pull_back(
        &self,
        images: usize,
        dy: &[f32],
        residual: Option<&[f32]>,
        dx: &mut [f32],
        scratch: &mut [f32],
    ) {
        match &self.backward {
            Backward::Conv(conv) => {
                let epilogue = Epilogue {
                    residual,
                    ..Epilogue::default()
                };
                conv.run(images, dy, epilogue, dx, scratch);
            }
            Backward::Strided(strided) => strided.run(images, dy, residual, dx, scratch),
        }
    }
}
