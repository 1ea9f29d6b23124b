//! A compiled graph: steps over numbered buffers.

use kernels::conv::Conv;
use kernels::gelu::Form;
use kernels::geometry::{Shape, Window};

use crate::cpu::tokens::Token;
use crate::graph::NodeId;

/// Where a step reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The images.
    Input,
    /// A buffer of the arena.
    Slot(usize),
    /// A value of [`Plan::constants`], the same for every image.
    Constant(NodeId),
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
    /// A ReLU averaged over noise of these widths, one a channel.
    AveragedRelu {
        width: Vec<f32>,
    },
    MaxPool(Window),
    AveragePool {
        window: Window,
        count_padding: bool,
    },
    GlobalAveragePool,
    /// By a kernel, with the node's parameters.
    Token {
        token: Token,
        parameters: Vec<Vec<f32>>,
    },
    /// As the node says, by plain loops.
    Other(NodeId),
}

#[derive(Debug)]
pub(super) struct Step {
    pub work: Work,
    pub inputs: Vec<Source>,
    /// Floats an image of each.
    pub lengths: Vec<usize>,
    pub residual: Option<Source>,
    pub relu: bool,
    /// After that, of a convolution.
    pub gelu: Option<Form>,
    /// Slot that is written.
    pub output: usize,
    /// Shapes of the first input and of the output.
    pub shapes: [Shape; 2],
}

/// Steps from one value to another that a group of images goes through
/// together.
#[derive(Debug)]
pub(super) struct Section {
    pub steps: Vec<Step>,
    /// Where the value ends up.
    pub output: Source,
    /// Floats an image of the value that the steps take as input, and of the
    /// one that they end in.
    pub lengths: [usize; 2],
    /// Images of a group.
    pub group: usize,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub graph: crate::graph::Graph,
    pub isa: kernels::isa::Isa,
    /// By node; empty where values depend on the image.
    pub constants: Vec<Vec<f32>>,
    pub sections: Vec<Section>,
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
        let scratch = |(group, step): (usize, &Step)| match &step.work {
            Work::Conv { conv, .. } if parts > 1 => conv.split_scratch_len(parts),
            Work::Conv { conv, .. } => conv.scratch_len(group),
            Work::Token { token, .. } => token.scratch_len(self.isa),
            _ => 0,
        };
        self.steps(images).map(scratch).max().unwrap_or(0)
    }

    /// Slot and floats that each step writes, for a block of `images`.
    pub fn slots(&self, images: usize) -> impl Iterator<Item = (usize, usize)> {
        let written = |(group, step): (usize, &Step)| (step.output, group * step.shapes[1].len());
        self.steps(images).map(written)
    }

    /// Floats of the longest value between two sections, for `images`.
    pub fn between(&self, images: usize) -> usize {
        let inner = self.sections.iter().skip(1);
        images * inner.map(|s| s.lengths[0]).max().unwrap_or(0)
    }

    /// All steps, with the images of a block that go through them together.
    fn steps(&self, images: usize) -> impl Iterator<Item = (usize, &Step)> {
        let of = move |section: &Section| section.group.min(images);
        (self.sections.iter()).flat_map(move |s| s.steps.iter().map(move |step| (of(s), step)))
    }
}
