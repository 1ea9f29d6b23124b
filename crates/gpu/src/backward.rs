//! Pull-back of a cotangent, node by node.

use burn_backend::Backend;
use network::{Mode, Op, Padding, Window};

use crate::activation::{averaged_relu_pull_back, pull_back};
use crate::forward::{DeviceTape, options, pool_padding};
use crate::net::{Constants, Network, subsampled};
use crate::tensor::Tensor;
use crate::tokens;

/// What a cotangent is pulled back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Images,
    Parameters,
}

/// Gradients of all parameters; none for those that no cotangent has reached yet.
pub(crate) type DeviceGradients<B> = Vec<Option<Tensor<B>>>;

fn add<B: Backend>(sum: &mut Option<Tensor<B>>, more: Tensor<B>) {
    *sum = Some(match sum.take() {
        Some(sum) => sum.plus(&more),
        None => more,
    });
}

impl<B: Backend> Network<B> {
    /// The gradient with respect to the images, where that is wanted and the images
    /// matter; or gradients of the parameters, added to `gradients`.
    pub fn pull_back(
        &self,
        tape: &DeviceTape<B>,
        cotangent: Tensor<B>,
        wanted: Wanted,
        gradients: &mut DeviceGradients<B>,
    ) -> Option<Tensor<B>> {
        let nodes = self.graph.nodes();
        // Whether anything wanted stands at or before a node.
        let mut leads = vec![false; nodes.len()];
        for (id, node) in nodes.iter().enumerate() {
            let specs = &self.graph.parameters()[self.graph.parameters_of(id)];
            let own = match wanted {
                Wanted::Images => id == 0,
                Wanted::Parameters => specs.iter().any(|spec| spec.role.trainable()),
            };
            leads[id] = own || node.inputs.iter().any(|&input| leads[input]);
        }
        let mut cotangents = vec![None; nodes.len()];
        cotangents[nodes.len() - 1] = Some(cotangent);
        for id in (1..nodes.len()).rev() {
            let Some(dy) = cotangents[id].take() else {
                continue;
            };
            if !leads[id] {
                continue;
            }
            if wanted == Wanted::Parameters {
                self.parameter_gradients(id, tape, &dy, gradients);
            }
            if nodes[id].inputs.iter().any(|&input| leads[input]) {
                let dx = self.node_inputs(id, tape, dy);
                for (&input, dx) in nodes[id].inputs.iter().zip(dx) {
                    if leads[input] {
                        add(&mut cotangents[input], dx);
                    }
                }
            }
        }
        cotangents.swap_remove(0)
    }

    fn input(&self, id: usize, tape: &DeviceTape<B>, input: usize) -> Tensor<B> {
        let node = self.graph.nodes()[id].inputs[input];
        let value = tape.values[node].clone();
        value.expect("what a pull-back reads is kept")
    }

    /// Extents of a node's input.
    fn input_dims(&self, id: usize, tape: &DeviceTape<B>, input: usize) -> [usize; 4] {
        let shape = self.graph.shape(self.graph.nodes()[id].inputs[input]);
        [tape.images, shape.channels, shape.height, shape.width]
    }

    /// Adds the gradients of a node's own parameters.
    fn parameter_gradients(
        &self,
        id: usize,
        tape: &DeviceTape<B>,
        dy: &Tensor<B>,
        gradients: &mut DeviceGradients<B>,
    ) {
        let range = self.graph.parameters_of(id);
        let own = &mut gradients[range];
        match &self.graph.nodes()[id].op {
            Op::Conv { window, groups, .. } => {
                let x = self.input(id, tape, 0);
                let weight = self.parameters_of(id)[0].0.clone();
                let options = options(window, *groups);
                let gradient = B::conv2d_weight_backward(x.0, weight, dy.0.clone(), options);
                add(&mut own[0], Tensor(gradient));
                if let Some(bias) = own.get_mut(1) {
                    add(bias, dy.clone().sum_of_channels());
                }
            }
            Op::Linear { out_features, .. } => {
                let x = self.input(id, tape, 0);
                let [images, features, _, _] = x.dims();
                let dy = dy.clone().reshape([images, *out_features]);
                let x = x.reshape([images, features]);
                add(&mut own[0], dy.clone().transpose().matmul(x));
                if let Some(bias) = own.get_mut(1) {
                    add(bias, dy.sum(0).reshape([*out_features]));
                }
            }
            Op::BatchNorm { scale, shift, .. } => {
                if *scale {
                    let normalised = self.normalised(id, tape);
                    let products = normalised.times(dy);
                    add(&mut own[0], products.sum_of_channels());
                }
                if *shift {
                    let place = usize::from(*scale);
                    add(&mut own[place], dy.clone().sum_of_channels());
                }
            }
            Op::Parameter { .. } => {
                let shape = self.graph.shape(id);
                add(&mut own[0], tokens::spread_pull_back(dy.clone(), shape));
            }
            op @ Op::LayerNorm { scale, shift, .. } => {
                if *scale {
                    let (z, _) = tokens::normalised(op, self.input(id, tape, 0));
                    add(&mut own[0], z.times(dy).sum_of_channels());
                }
                if *shift {
                    let place = usize::from(*scale);
                    add(&mut own[place], dy.clone().sum_of_channels());
                }
            }
            _ => {}
        }
    }

    /// Mean and `1 / sqrt(variance + epsilon)` that a batch norm used, one value a
    /// channel.
    fn norm_statistics(&self, id: usize, tape: &DeviceTape<B>) -> [Tensor<B>; 2] {
        let [mean, variance] = match (&tape.statistics[id], tape.mode) {
            (Some(statistics), Mode::Train) => statistics.clone(),
            _ => self.running(id),
        };
        let Op::BatchNorm { epsilon, .. } = self.graph.nodes()[id].op else {
            unreachable!("only batch norms have statistics")
        };
        let deviation = variance.plus_number(epsilon).sqrt();
        [
            mean.per_channel(),
            Tensor(B::float_recip(deviation.0)).per_channel(),
        ]
    }

    /// What a batch norm scales and shifts.
    fn normalised(&self, id: usize, tape: &DeviceTape<B>) -> Tensor<B> {
        let [mean, inverse] = self.norm_statistics(id, tape);
        self.input(id, tape, 0).minus(&mean).times(&inverse)
    }

    /// Gradients with respect to each input of one node.
    fn node_inputs(&self, id: usize, tape: &DeviceTape<B>, dy: Tensor<B>) -> Vec<Tensor<B>> {
        let node = &self.graph.nodes()[id];
        let dims = self.input_dims(id, tape, 0);
        let [images, channels, height, width] = dims;
        let dx = match &node.op {
            Op::Affine { .. } => {
                let Constants::Affine { scale, .. } = &self.constants[id] else {
                    unreachable!("an affine node has its constants")
                };
                dy.times(scale)
            }
            Op::Conv { window, groups, .. } => {
                let (x, weight) = (self.input(id, tape, 0), &self.parameters_of(id)[0]);
                let options = options(window, *groups);
                Tensor(B::conv2d_x_backward(x.0, weight.0.clone(), dy.0, options))
            }
            Op::BatchNorm { .. } => self.norm_input(id, tape, dy),
            Op::Activation(activation) => pull_back(*activation, &self.input(id, tape, 0), dy),
            Op::AveragedRelu => {
                let width = &self.parameters_of(id)[0];
                averaged_relu_pull_back(&self.input(id, tape, 0), width, dy)
            }
            Op::Add => {
                let second = self.input_dims(id, tape, 1);
                return vec![dy.clone(), dy.gathered(second)];
            }
            Op::Mul => {
                let (x, factor) = (self.input(id, tape, 0), self.input(id, tape, 1));
                let products = dy.clone().times(&x);
                let second = self.input_dims(id, tape, 1);
                return vec![dy.times(&factor), products.gathered(second)];
            }
            Op::Concat => {
                let mut first = 0;
                let parts = node.inputs.iter().map(|&input| {
                    let channels = self.graph.shape(input).channels;
                    let part = dy.clone().part(1, first, channels);
                    first += channels;
                    part
                });
                return parts.collect();
            }
            Op::MaxPool { window } => self.max_pool_input(id, tape, window, dy),
            Op::AveragePool { window, .. } => self.mean_input(id, tape, window, dy),
            Op::Subsample { stride } => self.mean_input(id, tape, &subsampled(*stride), dy),
            Op::GlobalAveragePool => {
                let share = 1.0 / (height * width) as f32;
                dy.times_number(share).expand(dims)
            }
            Op::Pad {
                padding: p,
                channels: around,
            } => {
                let dx = dy.part(1, around[0], channels);
                dx.part(2, p.top, height).part(3, p.left, width)
            }
            Op::Flatten => dy.reshape(dims),
            Op::Linear { out_features, .. } => {
                let weight = self.parameters_of(id)[0].clone();
                let dx = dy.reshape([images, *out_features]).matmul(weight);
                dx.reshape(dims)
            }
            op @ Op::LayerNorm { .. } => {
                let (gamma, _) = tokens::norm_factors(op, self.parameters_of(id));
                let dz = gamma.map_or(dy.clone(), |gamma| dy.times(&gamma));
                tokens::norm_pull_back(op, self.input(id, tape, 0), dz)
            }
            Op::MatMul { transposed } => {
                let inputs = [self.input(id, tape, 0), self.input(id, tape, 1)];
                return tokens::mat_mul_pull_back(*transposed, inputs, dy);
            }
            Op::Softmax => tokens::softmax_pull_back(self.input(id, tape, 0), dy),
            Op::Rearrange(_) => {
                let Constants::Places(places) = &self.constants[id] else {
                    unreachable!("a rearrangement has its places")
                };
                tokens::rearranged_pull_back(dy, places.as_ref(), dims)
            }
            op => unreachable!("{} was refused at the beginning", op.name()),
        };
        vec![dx]
    }

    /// With the batch's own statistics, of `n` values each with `z` normalised,
    ///
    /// ```text
    /// dx = scale / deviation * (dy - mean(dy) - z mean(dy z))
    /// ```
    fn norm_input(&self, id: usize, tape: &DeviceTape<B>, dy: Tensor<B>) -> Tensor<B> {
        let [_, inverse] = self.norm_statistics(id, tape);
        let (scale, _) = self.norm_factors(id);
        let factor = scale.per_channel().times(&inverse);
        if tape.mode != Mode::Train {
            return dy.times(&factor);
        }
        let [images, _, height, width] = self.input_dims(id, tape, 0);
        let share = 1.0 / (images * height * width) as f32;
        let mean = |values: Tensor<B>| values.sum_of_channels().times_number(share).per_channel();
        let z = self.normalised(id, tape);
        let along = mean(dy.clone().times(&z));
        let centred = dy.clone().minus(&mean(dy));
        centred.minus(&z.times(&along)).times(&factor)
    }

    fn max_pool_input(
        &self,
        id: usize,
        tape: &DeviceTape<B>,
        window: &Window,
        dy: Tensor<B>,
    ) -> Tensor<B> {
        let [_, _, height, width] = self.input_dims(id, tape, 0);
        let (x, padding) = pool_padding(self.input(id, tape, 0), window.padding);
        let put_around = padding == [0, 0];
        let largest = tape.largest[id]
            .clone()
            .expect("a maximum's pixels are kept");
        let back = B::max_pool2d_with_indices_backward(
            x.0,
            window.kernel,
            window.stride,
            padding,
            window.dilation,
            false,
            dy.0,
            largest,
        );
        let dx = Tensor(back.x_grad);
        let Padding { top, left, .. } = window.padding;
        match put_around {
            true => dx.part(2, top, height).part(3, left, width),
            false => dx,
        }
    }

    fn mean_input(
        &self,
        id: usize,
        tape: &DeviceTape<B>,
        window: &Window,
        dy: Tensor<B>,
    ) -> Tensor<B> {
        let Constants::Mean { taps, share } = &self.constants[id] else {
            unreachable!("a mean has its constants")
        };
        let x = self.input(id, tape, 0);
        let options = options(window, x.dims::<4>()[1]);
        let dy = dy.times(share);
        Tensor(B::conv2d_x_backward(x.0, taps.0.clone(), dy.0, options))
    }
}
