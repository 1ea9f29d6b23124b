//! Pull-back of a cotangent, node by node.

use burn_backend::Backend;
use burn_backend::tensor::FloatTensor;
use network::{Mode, Op, Padding, Window};

use crate::activation::{averaged_relu_pull_back, pull_back};
use crate::forward::{DeviceTape, options, pool_padding};
use crate::fused::{BatchMoments, Fused};
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

impl<B: Fused> Network<B> {
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
            let sums = self.norm_sums(id, tape, &dy, wanted);
            if wanted == Wanted::Parameters {
                self.parameter_gradients(id, tape, &dy, sums.as_ref(), gradients);
            }
            if nodes[id].inputs.iter().any(|&input| leads[input]) {
                let dx = self.node_inputs(id, tape, dy, sums);
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
        sums: Option<&[FloatTensor<B>; 2]>,
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
                    add(bias, Tensor(B::channel_sums(dy.0.clone())));
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
                let Some([sum, along]) = sums.cloned() else {
                    return;
                };
                let [sum, along] = [Tensor(sum), Tensor(along)];
                if *scale {
                    add(&mut own[0], along);
                }
                if *shift {
                    add(&mut own[usize::from(*scale)], sum);
                }
            }
            Op::Parameter { .. } => {
                let shape = self.graph.shape(id);
                add(&mut own[0], tokens::spread_pull_back(dy.clone(), shape));
            }
            op @ Op::LayerNorm { scale, shift, .. } => {
                if *scale {
                    let (z, _) = tokens::normalised(op, self.input(id, tape, 0));
                    add(&mut own[0], Tensor(B::channel_sums(z.times(dy).0)));
                }
                if *shift {
                    let place = usize::from(*scale);
                    add(&mut own[place], Tensor(B::channel_sums(dy.0.clone())));
                }
            }
            _ => {}
        }
    }

    /// What a batch norm normalised by.
    fn moments<'a>(&self, id: usize, tape: &'a DeviceTape<B>) -> &'a BatchMoments<B> {
        tape.moments[id]
            .as_ref()
            .expect("a norm's moments are kept")
    }

    /// The sums that a batch norm's gradients are made of: those of its parameters, and
    /// of its input if its moments are the batch's own.
    fn norm_sums(
        &self,
        id: usize,
        tape: &DeviceTape<B>,
        dy: &Tensor<B>,
        wanted: Wanted,
    ) -> Option<[FloatTensor<B>; 2]> {
        let Op::BatchNorm { scale, shift, .. } = self.graph.nodes()[id].op else {
            return None;
        };
        let own = wanted == Wanted::Parameters && (scale || shift);
        (own || tape.mode == Mode::Train).then(|| {
            let x = self.input(id, tape, 0);
            B::norm_sums(x.0, dy.0.clone(), self.moments(id, tape))
        })
    }

    /// Gradients with respect to each input of one node.
    fn node_inputs(
        &self,
        id: usize,
        tape: &DeviceTape<B>,
        dy: Tensor<B>,
        sums: Option<[FloatTensor<B>; 2]>,
    ) -> Vec<Tensor<B>> {
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
            Op::BatchNorm { .. } => self.norm_input(id, tape, dy, sums),
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

    fn norm_input(
        &self,
        id: usize,
        tape: &DeviceTape<B>,
        dy: Tensor<B>,
        sums: Option<[FloatTensor<B>; 2]>,
    ) -> Tensor<B> {
        let [scale, _] = self.norm_factors(id);
        let sums = sums.filter(|_| tape.mode == Mode::Train);
        let (x, moments) = (self.input(id, tape, 0), self.moments(id, tape));
        Tensor(B::norm_pull_back(x.0, dy.0, moments, scale.0, sums))
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
