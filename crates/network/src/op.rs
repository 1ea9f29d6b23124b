//! What a node computes.

use kernels::geometry::{ConvShape, Shape, Window};
use serde::{Deserialize, Serialize};

use crate::activation::Activation;
use crate::parameters::{ParameterSpec, Role};
use crate::rearrange::Rearrange;

/// A node's operator. Parameters are named after the node: a convolution called
/// `conv1` owns `conv1.weight` and, if it has one, `conv1.bias`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Op {
    /// The image, `height x width x channels`, pixels in [0, 1]. Node 0, and no
    /// other.
    Input {
        /// Of one image.
        shape: Shape,
    },
    /// `y_c = scale_c * x_c + shift_c` with constants; input normalisation is
    /// `scale = 1/std`, `shift = -mean/std`. One value stands for all channels.
    Affine {
        /// Factors.
        scale: Vec<f32>,
        /// Offsets.
        shift: Vec<f32>,
    },
    /// Convolution: `weight` (OIHW) and optionally `bias`.
    Conv {
        /// Channels that come out.
        out_channels: usize,
        /// The window.
        window: Window,
        /// Channel groups.
        groups: usize,
        /// With a bias.
        bias: bool,
    },
    /// Batch normalisation over images and pixels: optionally `weight` (scale)
    /// and `bias` (shift), then `running_mean` and `running_var`.
    BatchNorm {
        /// Added to the variance.
        epsilon: f32,
        /// `running <- (1 - momentum) * running + momentum * batch`.
        momentum: f32,
        /// With a trainable scale.
        scale: bool,
        /// With a trainable shift.
        shift: bool,
    },
    /// An element-wise non-linearity.
    Activation(Activation),
    /// The ReLU's average over Gaussian noise, `E max(x + width_c z, 0)`: `width`,
    /// one value a channel; 0 is the ReLU itself.
    AveragedRelu,
    /// Sum of two inputs of one shape; where the second has a height, width or
    /// number of channels of 1, it is spread along it (a position embedding).
    Add,
    /// Product of two inputs, spread as in [`Op::Add`] (squeeze-and-excitation).
    Mul,
    /// Channels of all inputs, one behind the other.
    Concat,
    /// Maximum over a window; padding never wins.
    MaxPool {
        /// The window.
        window: Window,
    },
    /// Mean over a window.
    AveragePool {
        /// The window.
        window: Window,
        /// Zeros of the padding count.
        count_padding: bool,
    },
    /// Mean over all pixels; gives a vector.
    GlobalAveragePool,
    /// Every `stride`-th row and column, from the first.
    Subsample {
        /// `[vertical, horizontal]`.
        stride: [usize; 2],
    },
    /// Zeros around the image and around the channels.
    Pad {
        /// Rows and columns.
        padding: kernels::geometry::Padding,
        /// Channels before and after.
        channels: [usize; 2],
    },
    /// A vector in PyTorch's order: channel by channel, each row by row.
    Flatten,
    /// `y = W x + b` on a vector: `weight` (out x in) and optionally `bias`.
    Linear {
        /// Features that come out.
        out_features: usize,
        /// With a bias.
        bias: bool,
    },
    /// A value of the network's own, the same for every image: a class token, a
    /// position embedding, factors. Reads nothing; has one parameter, called like
    /// the node. It can be added, multiplied with, joined, rearranged.
    Parameter {
        /// Of the value.
        shape: Shape,
        /// How it starts, and whether it is learned.
        role: Role,
    },
    /// Mean 0 and variance 1 over the channels of each group, at each pixel on its
    /// own (layer norm) or over all pixels (group norm): optionally `weight` (scale)
    /// and `bias` (shift), one value a channel.
    LayerNorm {
        /// Groups of channels.
        groups: usize,
        /// Over all pixels.
        over_pixels: bool,
        /// The mean is taken away; else values are only divided by the root of
        /// their mean square.
        centred: bool,
        /// Added to the variance.
        epsilon: f32,
        /// With a trainable scale.
        scale: bool,
        /// With a trainable shift.
        shift: bool,
    },
    /// Products of matrices, as many as the inputs are high: each has a row for
    /// every step of the width and a column for every channel.
    MatMul {
        /// The second matrix is turned around: `a b^T`.
        transposed: bool,
    },
    /// Exponentials of the channels of each pixel, divided by their sum.
    Softmax,
    /// Elements in other places.
    Rearrange(Rearrange),
    /// A whole network of another program, which alone can evaluate it. Here it is
    /// known by its parameters and outputs only, so that it can be trained, hashed
    /// and kept like any other. Reads the image, and is the last node.
    Foreign {
        /// The program.
        program: String,
        /// The program's name for the network.
        network: String,
        /// Logits that come out.
        classes: usize,
        /// All parameters, by the program's own names.
        parameters: Vec<ParameterSpec>,
    },
}

impl Op {
    /// `ReLU`.
    pub const RELU: Op = Op::Activation(Activation::Relu);

    /// `(x - mean) / std` per channel.
    pub fn normalise(mean: &[f32], std: &[f32]) -> Op {
        Op::Affine {
            scale: std.iter().map(|s| 1.0 / s).collect(),
            shift: mean.iter().zip(std).map(|(m, s)| -m / s).collect(),
        }
    }

    /// Name for summaries and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Input { .. } => "input",
            Op::Affine { .. } => "affine",
            Op::Conv { .. } => "conv",
            Op::BatchNorm { .. } => "batch-norm",
            Op::Activation(Activation::Relu) => "relu",
            Op::Activation(Activation::LeakyRelu { .. }) => "leaky-relu",
            Op::Activation(Activation::Clip { .. }) => "clip",
            Op::Activation(Activation::Sigmoid) => "sigmoid",
            Op::Activation(Activation::HardSigmoid { .. }) => "hard-sigmoid",
            Op::Activation(Activation::HardSwish) => "hard-swish",
            Op::Activation(Activation::Gelu { .. }) => "gelu",
            Op::Activation(Activation::Silu) => "silu",
            Op::Activation(Activation::Tanh) => "tanh",
            Op::Activation(Activation::Exp) => "exp",
            Op::AveragedRelu => "averaged-relu",
            Op::Add => "add",
            Op::Mul => "mul",
            Op::Concat => "concat",
            Op::MaxPool { .. } => "max-pool",
            Op::AveragePool { .. } => "average-pool",
            Op::GlobalAveragePool => "global-average-pool",
            Op::Subsample { .. } => "subsample",
            Op::Pad { .. } => "pad",
            Op::Flatten => "flatten",
            Op::Linear { .. } => "linear",
            Op::Parameter { .. } => "parameter",
            Op::LayerNorm {
                over_pixels: true, ..
            } => "group-norm",
            Op::LayerNorm { centred: false, .. } => "rms-norm",
            Op::LayerNorm { .. } => "layer-norm",
            Op::MatMul { .. } => "mat-mul",
            Op::Softmax => "softmax",
            Op::Rearrange(_) => "rearrange",
            Op::Foreign { .. } => "foreign",
        }
    }

    /// The convolution's geometry on an input of this shape.
    pub fn conv_shape(&self, input: Shape) -> Option<ConvShape> {
        match *self {
            Op::Conv {
                out_channels,
                window,
                groups,
                ..
            } => Some(ConvShape {
                input,
                out_channels,
                window,
                groups,
            }),
            _ => None,
        }
    }

    /// Suffix, shape and role of each parameter, in storage order; an empty suffix
    /// stands for the node's own name. None of a foreign network, which names them
    /// itself.
    pub fn parameters(&self, input: Shape) -> Vec<(&'static str, Vec<usize>, Role)> {
        let mut list = Vec::new();
        match self {
            Op::Conv {
                out_channels,
                window,
                groups,
                bias,
            } => {
                let [kh, kw] = window.kernel;
                let shape = vec![*out_channels, input.channels / groups, kh, kw];
                list.push(("weight", shape, Role::Weight));
                if *bias {
                    list.push(("bias", vec![*out_channels], Role::Bias));
                }
            }
            Op::Linear { out_features, bias } => {
                let shape = vec![*out_features, input.channels];
                list.push(("weight", shape, Role::Weight));
                if *bias {
                    list.push(("bias", vec![*out_features], Role::Bias));
                }
            }
            Op::BatchNorm { scale, shift, .. } => {
                let channels = vec![input.channels];
                if *scale {
                    list.push(("weight", channels.clone(), Role::NormScale));
                }
                if *shift {
                    list.push(("bias", channels.clone(), Role::NormShift));
                }
                list.push(("running_mean", channels.clone(), Role::RunningMean));
                list.push(("running_var", channels, Role::RunningVariance));
            }
            Op::LayerNorm { scale, shift, .. } => {
                if *scale {
                    list.push(("weight", vec![input.channels], Role::NormScale));
                }
                if *shift {
                    list.push(("bias", vec![input.channels], Role::NormShift));
                }
            }
            Op::Parameter { shape, role } => {
                let dims = vec![shape.height, shape.width, shape.channels];
                list.push(("", dims, *role));
            }
            Op::AveragedRelu => list.push(("width", vec![input.channels], Role::Width)),
            _ => {}
        }
        list
    }

    /// Multiply-accumulates for one image.
    pub fn macs(&self, input: Shape, output: Shape) -> u64 {
        match self {
            Op::MatMul { .. } => input.len() as u64 * output.channels as u64,
            Op::Linear { out_features, .. } => *out_features as u64 * input.channels as u64,
            _ => self.conv_shape(input).map_or(0, |conv| conv.macs()),
        }
    }

    /// Number of inputs, as a range.
    pub(crate) fn arity(&self) -> std::ops::RangeInclusive<usize> {
        match self {
            Op::Input { .. } | Op::Parameter { .. } => 0..=0,
            Op::Add | Op::Mul | Op::MatMul { .. } => 2..=2,
            Op::Concat => 1..=usize::MAX,
            _ => 1..=1,
        }
    }
}
