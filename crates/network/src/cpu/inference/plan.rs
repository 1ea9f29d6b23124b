//! A compiled graph: steps over numbered buffers.

use kernels::conv::Conv;
use kernels::geometry::{Shape, Window};

use crate::graph::NodeId;

/// Where a step reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The images.
    Input,
    /// A buffer of the arena.
    Slot(usize),
}

/// What a step computes, before residual and ReLU.
#[derive(Debug)]
pub(super) enum Work {
    /// Convolution or linear layer, batch norm folded in.
    Conv {
        conv: Box<Conv>,
        bias: Option<Vec<f32>>,
    },
    /// A factor and an offset per channel, repeated along a row of the image.
    Affine {
        scale: Vec<f32>,
        shift: Vec<f32>,
    },
    /// Sum of two inputs.
    Add,
    /// The input itself: for a ReLU that nothing absorbed.
    Relu,
    MaxPool(Window),
    AveragePool {
        window: Window,
        count_padding: bool,
    },
    GlobalAveragePool,
    /// As the node says, by plain loops.
    Other(NodeId),
}

#[derive(Debug)]
pub(super) struct Step {
    pub work: Work,
    pub inputs: Vec<Source>,
    pub residual: Option<Source>,
    pub relu: bool,
    /// Slot that is written.
    pub output: usize,
    /// Shapes of the first input and of the output.
    pub shapes: [Shape; 2],
}

#[derive(Debug)]
pub(super) struct Plan {
    pub graph: crate::graph::Graph,
    pub steps: Vec<Step>,
    /// Floats an image in each slot.
    pub slots: Vec<usize>,
    /// Where the logits end up.
    pub output: Source,
    /// Floats of an input image.
    pub input: usize,
    /// Logits an image.
    pub classes: usize,
    /// Images that a thread takes down the network together.
    pub block: usize,
}

impl Plan {
    /// Floats of scratch for a block of `images`, or for one image in `parts`.
    pub fn scratch(&self, images: usize, parts: usize) -> usize {
        let scratch = |step: &Step| match &step.work {
            Work::Conv { conv, .. } => conv.scratch_len(images).max(parts * conv.scratch_len(1)),
            _ => 0,
        };
        self.steps.iter().map(scratch).max().unwrap_or(0)
    }
}
