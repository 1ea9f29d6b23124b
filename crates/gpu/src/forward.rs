//! Forward pass, node by node.

use burn_backend::ops::ConvOptions;
use burn_backend::tensor::IntTensor;
use burn_backend::{Backend, IntDType};
use network::{Mode, Op, Padding, Window};

use crate::activation::{averaged_relu, value};
use crate::fused::{BatchMoments, Fused};
use crate::net::{Constants, Network, subsampled};
use crate::tensor::Tensor;
use crate::tokens;

/// What a forward pass keeps for its pull-backs.
#[derive(Debug)]
pub(crate) struct DeviceTape<B: Backend> {
    pub mode: Mode,
    pub images: usize,
    /// By node, where a pull-back reads them.
    pub values: Vec<Option<Tensor<B>>>,
    /// By node: what a batch norm normalised by.
    pub moments: Vec<Option<BatchMoments<B>>>,
    /// By node: which pixel was the largest.
    pub largest: Vec<Option<IntTensor<B>>>,
}

/// What one node gives.
struct Result<B: Backend> {
    y: Tensor<B>,
    moments: Option<BatchMoments<B>>,
    largest: Option<IntTensor<B>>,
}

impl<B: Backend> From<Tensor<B>> for Result<B> {
    fn from(y: Tensor<B>) -> Self {
        Self {
            y,
            moments: None,
            largest: None,
        }
    }
}

impl<B: Fused> Network<B> {
    /// The last node's values in eval mode, nothing kept.
    pub fn evaluate(&self, x: Tensor<B>) -> Tensor<B> {
        let mut values = vec![None; self.graph.nodes().len()];
        values[0] = Some(x);
        let images = x_images(&values);
        for id in 1..values.len() {
            let y = self.node(id, images, &values, None).y;
            values[id] = Some(y);
            for &input in &self.graph.nodes()[id].inputs {
                if self.last_reader[input] == id {
                    values[input] = None;
                }
            }
        }
        values.pop().flatten().expect("the last node was evaluated")
    }

    /// The last node's values, and a tape.
    pub fn record(&self, x: Tensor<B>, mode: Mode) -> (Tensor<B>, DeviceTape<B>) {
        let nodes = self.graph.nodes().len();
        let mut tape = DeviceTape {
            mode,
            images: x.dims::<4>()[0],
            values: vec![None; nodes],
            moments: vec![None; nodes],
            largest: vec![None; nodes],
        };
        tape.values[0] = Some(x);
        for id in 1..nodes {
            let result = self.node(id, tape.images, &tape.values, Some(mode));
            tape.values[id] = Some(result.y);
            tape.moments[id] = result.moments;
            tape.largest[id] = result.largest;
            for &input in &self.graph.nodes()[id].inputs {
                if self.last_reader[input] == id && !self.kept[input] {
                    tape.values[input] = None;
                }
            }
        }
        let logits = tape.values[nodes - 1].clone();
        (logits.expect("the last node was evaluated"), tape)
    }

    /// Evaluates one node; without a mode nothing is needed for a pull-back.
    fn node(
        &self,
        id: usize,
        images: usize,
        values: &[Option<Tensor<B>>],
        mode: Option<Mode>,
    ) -> Result<B> {
        let node = &self.graph.nodes()[id];
        let value_of = |input: usize| -> Tensor<B> {
            let value = values[node.inputs[input]].clone();
            value.expect("an input is kept until its last reader")
        };
        let parameters = self.parameters_of(id);
        if let Op::Parameter { shape, .. } = node.op {
            return tokens::spread(parameters[0].clone(), images, shape).into();
        }
        let x = value_of(0);
        let [_, channels, height, width] = x.dims();
        match &node.op {
            Op::Affine { .. } => {
                let Constants::Affine { scale, shift } = &self.constants[id] else {
                    unreachable!("an affine node has its constants")
                };
                x.times(scale).plus(shift).into()
            }
            Op::Conv { window, groups, .. } => {
                let bias = parameters.get(1).map(|bias| bias.0.clone());
                let weight = parameters[0].0.clone();
                Tensor(B::conv2d(x.0, weight, bias, options(window, *groups))).into()
            }
            Op::BatchNorm { epsilon, .. } => {
                let moments = match mode {
                    Some(Mode::Train) => B::moments(x.0.clone(), *epsilon),
                    _ => self.running(id, *epsilon),
                };
                let factors = self.norm_factors(id).map(|factor| factor.0);
                Result {
                    y: Tensor(B::normalise(x.0, &moments, factors)),
                    moments: Some(moments),
                    largest: None,
                }
            }
            Op::Activation(activation) => value(*activation, x).into(),
            Op::AveragedRelu => averaged_relu(x, &parameters[0]).into(),
            Op::Add => x.plus(&value_of(1)).into(),
            Op::Mul => x.times(&value_of(1)).into(),
            Op::Concat => {
                let parts = (0..node.inputs.len()).map(value_of);
                Tensor::concat(parts.collect(), 1).into()
            }
            Op::MaxPool { window } => {
                let (x, padding) = pool_padding(x, window.padding);
                let Window {
                    kernel,
                    stride,
                    dilation,
                    ..
                } = *window;
                if mode.is_none() {
                    let y = B::max_pool2d(x.0, kernel, stride, padding, dilation, false);
                    return Tensor(y).into();
                }
                let integers = IntDType::I32;
                let pooled = B::max_pool2d_with_indices(
                    x.0, kernel, stride, padding, dilation, false, integers,
                );
                Result {
                    y: Tensor(pooled.output),
                    moments: None,
                    largest: Some(pooled.indices),
                }
            }
            Op::AveragePool { window, .. } => self.mean(id, x, window).into(),
            Op::Subsample { stride } => self.mean(id, x, &subsampled(*stride)).into(),
            Op::GlobalAveragePool => {
                let flat = x.reshape([images, channels, height * width]);
                flat.mean(2).reshape([images, channels, 1, 1]).into()
            }
            Op::Pad {
                padding: p,
                channels,
            } => {
                let padding = [
                    (0, 0),
                    (channels[0], channels[1]),
                    (p.top, p.bottom),
                    (p.left, p.right),
                ];
                x.padded(&padding, 0.0).into()
            }
            Op::Flatten => {
                let features = channels * height * width;
                x.reshape([images, features, 1, 1]).into()
            }
            Op::Linear { out_features, .. } => {
                let weight = parameters[0].clone().transpose();
                let y = x.reshape([images, channels]).matmul(weight);
                let y = match parameters.get(1) {
                    Some(bias) => y.plus(&bias.clone().reshape([1, *out_features])),
                    None => y,
                };
                y.reshape([images, *out_features, 1, 1]).into()
            }
            op @ Op::LayerNorm { .. } => {
                let (z, _) = tokens::normalised(op, x);
                let (gamma, beta) = tokens::norm_factors(op, parameters);
                let y = gamma.map_or(z.clone(), |gamma| z.times(&gamma));
                beta.map_or(y.clone(), |beta| y.plus(&beta)).into()
            }
            Op::MatMul { transposed } => tokens::mat_mul(*transposed, x, value_of(1)).into(),
            Op::Softmax => tokens::softmax(x).into(),
            Op::Rearrange(rearrange) => {
                let Constants::Places(places) = &self.constants[id] else {
                    unreachable!("a rearrangement has its places")
                };
                tokens::rearranged(x, places.as_ref(), rearrange.shape).into()
            }
            op => unreachable!("{} was refused at the beginning", op.name()),
        }
    }

    /// A mean over windows, as a convolution of each channel.
    fn mean(&self, id: usize, x: Tensor<B>, window: &Window) -> Tensor<B> {
        let Constants::Mean { taps, share } = &self.constants[id] else {
            unreachable!("a mean has its constants")
        };
        let options = options(window, x.dims::<4>()[1]);
        Tensor(B::conv2d(x.0, taps.0.clone(), None, options)).times(share)
    }

    /// A batch norm's scale and shift.
    pub fn norm_factors(&self, id: usize) -> [Tensor<B>; 2] {
        let (Constants::Norm { one, zero }, Op::BatchNorm { scale, shift, .. }) =
            (&self.constants[id], &self.graph.nodes()[id].op)
        else {
            unreachable!("a batch norm has its constants")
        };
        let parameters = self.parameters_of(id);
        let gamma = if *scale { &parameters[0] } else { one };
        let beta = match *shift {
            true => &parameters[usize::from(*scale)],
            false => zero,
        };
        [gamma.clone(), beta.clone()]
    }

    /// A batch norm's running mean and variance.
    fn running(&self, id: usize, epsilon: f32) -> BatchMoments<B> {
        let parameters = self.parameters_of(id);
        let end = parameters.len();
        BatchMoments {
            mean: parameters[end - 2].0.clone(),
            variance: parameters[end - 1].0.clone(),
            epsilon,
        }
    }
}

/// How many images there are.
fn x_images<B: Backend>(values: &[Option<Tensor<B>>]) -> usize {
    values[0].as_ref().map_or(0, |x| x.dims::<4>()[0])
}

/// A window as burn's convolutions have it.
pub(crate) fn options(window: &Window, groups: usize) -> ConvOptions<2> {
    let p = window.padding;
    let mut options = ConvOptions::new(window.stride, [0, 0], window.dilation, groups);
    options.padding = [(p.top, p.bottom), (p.left, p.right)];
    options
}

/// What is left of a maximum's padding, which is the same before and after; any other
/// is put around the image here, as numbers that never win.
pub(crate) fn pool_padding<B: Backend>(x: Tensor<B>, padding: Padding) -> (Tensor<B>, [usize; 2]) {
    let Padding {
        top,
        left,
        bottom,
        right,
    } = padding;
    if (top, left) == (bottom, right) {
        return (x, [top, left]);
    }
    let around = [(0, 0), (0, 0), (top, bottom), (left, right)];
    (x.padded(&around, f32::MIN), [0, 0])
}
