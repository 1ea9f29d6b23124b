//! The built-in networks, by name.
//!
//! Nodes are named as in the PyTorch code that made each network known, so that
//! public weights fit without renaming.

mod cifar;
mod convnext;
mod small;
mod swin;
mod tokens;
mod torchvision;
mod vit;
mod wide;

use kernels::geometry::{Shape, Window};

use crate::graph::{Graph, GraphBuilder, GraphError};
use crate::op::Op;

/// Name and one line about every built-in network.
pub const ARCHITECTURES: &[(&str, &str)] = &[
    ("mlp", "two hidden layers of 128 and 64 units"),
    ("smallcnn", "three 3x3 convolutions, for small images"),
    (
        "smallvit",
        "a transformer of three layers on patches of 2x2, for small images",
    ),
    (
        "smallconvnext",
        "ConvNeXt of two stages of two blocks, for small images",
    ),
    (
        "resnet20-cifar",
        "He et al., 0.27 M parameters, 41 M MACs at 32x32",
    ),
    ("resnet32-cifar", "He et al., 0.46 M parameters, 69 M MACs"),
    ("resnet44-cifar", "He et al., 0.66 M parameters, 97 M MACs"),
    ("resnet56-cifar", "He et al., 0.85 M parameters, 126 M MACs"),
    ("resnet110-cifar", "He et al., 1.7 M parameters, 253 M MACs"),
    (
        "resnet110-cifar-projection",
        "the same with 1x1 convolutions as shortcuts, of Cohen et al. and Salman et al.",
    ),
    (
        "resnet34-cifar",
        "the paper's, 0.49 M parameters, 72 M MACs",
    ),
    (
        "resnet18-wide-cifar",
        "64 to 512 channels at 32x32, 11.2 M parameters",
    ),
    (
        "resnet34-wide-cifar",
        "64 to 512 channels at 32x32, 21.3 M parameters",
    ),
    ("resnet18", "torchvision's, 11.7 M parameters"),
    ("resnet34", "torchvision's, 21.8 M parameters"),
    ("resnet50", "torchvision's (v1.5), 25.6 M parameters"),
    (
        "wide_resnet28_10",
        "RobustBench's, for 32x32, 36.5 M parameters",
    ),
    ("convnext_tiny", "torchvision's, 28.6 M parameters"),
    ("vit_b_16", "torchvision's, at 224x224 86.6 M parameters"),
    (
        "vit_tiny_patch16_224",
        "timm's, at 224x224 5.7 M parameters",
    ),
    ("swin_t", "torchvision's, for 224x224, 28.3 M parameters"),
];

/// What a built-in network is made for.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Shape of one image.
    pub input: Shape,
    /// Number of logits, or of real values.
    pub classes: usize,
    /// Mean and standard deviation per channel for input normalisation; a node
    /// of the network, so that `sigma`, `eps` and radii keep their meaning.
    pub normalise: Option<(Vec<f32>, Vec<f32>)>,
    /// Mean and standard deviation of the real values that the outputs are to be;
    /// the last node of the network, so that what is learned has unit variance.
    pub values: Option<(Vec<f32>, Vec<f32>)>,
}

impl Task {
    /// Without input normalisation.
    pub fn new(input: Shape, classes: usize) -> Self {
        Self {
            input,
            classes,
            normalise: None,
            values: None,
        }
    }

    /// With input normalisation.
    pub fn normalised(mut self, mean: &[f32], std: &[f32]) -> Self {
        self.normalise = Some((mean.to_vec(), std.to_vec()));
        self
    }

    /// With real values of this mean and standard deviation as outputs.
    pub fn predicting(mut self, mean: &[f32], std: &[f32]) -> Self {
        self.values = Some((mean.to_vec(), std.to_vec()));
        self
    }

    fn start(&self) -> GraphBuilder {
        let mut graph = GraphBuilder::new(self.input);
        if let Some((mean, std)) = &self.normalise {
            graph.then("normalise", Op::normalise(mean, std));
        }
        graph
    }
}

/// Why a network cannot be built.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ArchitectureError {
    /// No such name.
    #[error("no architecture is called `{0}`; there are {known}", known = names())]
    Unknown(String),
    /// The network does not fit the images.
    #[error("`{name}` does not fit images of {input}: {source}")]
    Fit {
        /// The architecture.
        name: String,
        /// Shape of one image.
        input: Shape,
        /// Which node fails.
        source: GraphError,
    },
}

fn names() -> String {
    let names: Vec<&str> = ARCHITECTURES.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// Built-in networks with layer norms.
const LAYER_NORMS: [&str; 6] = [
    "smallvit",
    "smallconvnext",
    "convnext_tiny",
    "vit_b_16",
    "vit_tiny_patch16_224",
    "swin_t",
];

/// Whether a built-in network has layer norms rather than batch norms: from scratch, such
/// a network learns better where its gradients are bounded.
pub fn has_layer_norms(name: &str) -> bool {
    LAYER_NORMS.contains(&name)
}

/// Builds a network by name.
pub fn build(name: &str, task: &Task) -> Result<Graph, ArchitectureError> {
    let mut builder = match name {
        "mlp" => small::mlp(task),
        "smallcnn" => small::smallcnn(task),
        "smallvit" => vit::vit(task, &vit::SMALL, vit::Names::Timm),
        "smallconvnext" => convnext::convnext(task, 2, &[2, 2], 32),
        "resnet20-cifar" => cifar::option_a(task, 3),
        "resnet32-cifar" => cifar::option_a(task, 5),
        "resnet44-cifar" => cifar::option_a(task, 7),
        "resnet56-cifar" => cifar::option_a(task, 9),
        "resnet110-cifar" => cifar::option_a(task, 18),
        "resnet110-cifar-projection" => cifar::projection(task, 18),
        "resnet34-cifar" => cifar::paper(task),
        "resnet18-wide-cifar" => torchvision::basic(task, [2, 2, 2, 2], torchvision::Stem::Small),
        "resnet34-wide-cifar" => torchvision::basic(task, [3, 4, 6, 3], torchvision::Stem::Small),
        "resnet18" => torchvision::basic(task, [2, 2, 2, 2], torchvision::Stem::ImageNet),
        "resnet34" => torchvision::basic(task, [3, 4, 6, 3], torchvision::Stem::ImageNet),
        "resnet50" => torchvision::bottleneck(task, [3, 4, 6, 3]),
        "wide_resnet28_10" => wide::wide(task, 4, 10),
        "convnext_tiny" => convnext::convnext(task, 4, &[3, 3, 9, 3], 96),
        "vit_b_16" => vit::vit(task, &vit::BASE, vit::Names::Torchvision),
        "vit_tiny_patch16_224" => vit::vit(task, &vit::TINY, vit::Names::Timm),
        "swin_t" => swin::swin(task, [2, 2, 6, 2], 96, 3),
        _ => return Err(ArchitectureError::Unknown(name.into())),
    };
    if let Some((mean, std)) = &task.values {
        let (scale, shift) = (std.clone(), mean.clone());
        builder.then("values", Op::Affine { scale, shift });
    }
    builder.build().map_err(|source| ArchitectureError::Fit {
        name: name.into(),
        input: task.input,
        source,
    })
}

/// A convolution without bias that keeps the size at stride 1.
fn conv(out_channels: usize, kernel: usize, stride: usize) -> Op {
    Op::Conv {
        out_channels,
        window: Window::square(kernel, stride, kernel / 2),
        groups: 1,
        bias: false,
    }
}

/// PyTorch's batch norm.
const BATCH_NORM: Op = Op::BatchNorm {
    epsilon: 1e-5,
    momentum: 0.1,
    scale: true,
    shift: true,
};
