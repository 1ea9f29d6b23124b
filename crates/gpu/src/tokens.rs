//! Nodes that transformers are made of, both ways.

use burn_backend::tensor::{IndexingUpdateOp, IntTensor};
use burn_backend::{Backend, TensorMetadata};
use network::{Op, Shape};

use crate::tensor::Tensor;

/// From channels first to pixels first.
fn pixels_first<B: Backend>(x: Tensor<B>) -> Tensor<B> {
    x.permute(&[0, 2, 3, 1])
}

/// And back.
fn channels_first<B: Backend>(x: Tensor<B>) -> Tensor<B> {
    x.permute(&[0, 3, 1, 2])
}

/// A value of the network's own, for every image.
pub(crate) fn spread<B: Backend>(value: Tensor<B>, images: usize, shape: Shape) -> Tensor<B> {
    let Shape {
        height,
        width,
        channels,
    } = shape;
    let value = channels_first(value.reshape([1, height, width, channels]));
    value.expand([images, channels, height, width])
}

/// The gradient of such a value.
pub(crate) fn spread_pull_back<B: Backend>(dy: Tensor<B>, shape: Shape) -> Tensor<B> {
    let sum = pixels_first(dy.sum(0));
    sum.reshape([shape.height, shape.width, shape.channels])
}

/// What is normalised together lies along axis 2 of this.
fn in_groups<B: Backend>(op: &Op, x: Tensor<B>) -> Tensor<B> {
    let Op::LayerNorm {
        groups,
        over_pixels,
        ..
    } = *op
    else {
        unreachable!("a layer norm")
    };
    let [images, channels, height, width] = x.dims();
    let (own, pixels) = (channels / groups, height * width);
    match over_pixels {
        true => x.reshape([images, groups, own * pixels, 1]),
        false => x.reshape([images, groups, own, pixels]),
    }
}

/// Normalised values in the shape of `x`, and the factors that made them, to be
/// spread over the groups.
pub(crate) fn normalised<B: Backend>(op: &Op, x: Tensor<B>) -> (Tensor<B>, Tensor<B>) {
    let Op::LayerNorm {
        centred, epsilon, ..
    } = *op
    else {
        unreachable!("a layer norm")
    };
    let dims = x.dims::<4>();
    let grouped = in_groups(op, x);
    let moved = match centred {
        true => grouped.clone().minus(&grouped.mean(2)),
        false => grouped,
    };
    let variance = moved.clone().times(&moved).mean(2);
    let deviation = variance.plus_number(epsilon).sqrt();
    let inverse = Tensor(B::float_recip(deviation.0));
    (moved.times(&inverse).reshape(dims), inverse)
}

/// A layer norm's scale and shift, one value a channel, where it has them.
pub(crate) fn norm_factors<B: Backend>(
    op: &Op,
    parameters: &[Tensor<B>],
) -> (Option<Tensor<B>>, Option<Tensor<B>>) {
    let Op::LayerNorm { scale, shift, .. } = *op else {
        unreachable!("a layer norm")
    };
    let mut parameters = parameters.iter().cloned().map(Tensor::per_channel);
    let scale = if scale { parameters.next() } else { None };
    let shift = if shift { parameters.next() } else { None };
    (scale, shift)
}

/// With `z` normalised, `dx = (dz - mean(dz) - z mean(dz z)) / deviation`; without
/// the first mean where values are not centred.
pub(crate) fn norm_pull_back<B: Backend>(op: &Op, x: Tensor<B>, dz: Tensor<B>) -> Tensor<B> {
    let Op::LayerNorm { centred, .. } = *op else {
        unreachable!("a layer norm")
    };
    let dims = x.dims::<4>();
    let (z, inverse) = normalised(op, x);
    let (z, dz) = (in_groups(op, z), in_groups(op, dz));
    let along = dz.clone().times(&z).mean(2);
    let centred = match centred {
        true => dz.clone().minus(&dz.mean(2)),
        false => dz,
    };
    let dx = centred.minus(&z.times(&along));
    dx.times(&inverse).reshape(dims)
}

/// The last two axes exchanged.
fn turned<B: Backend>(x: Tensor<B>) -> Tensor<B> {
    x.permute(&[0, 1, 3, 2])
}

/// `a b`, or `a b^T`: matrices with a row for each step of the width and a column for
/// each channel.
pub(crate) fn mat_mul<B: Backend>(transposed: bool, a: Tensor<B>, b: Tensor<B>) -> Tensor<B> {
    let (a, b) = (pixels_first(a), pixels_first(b));
    let b = if transposed { turned(b) } else { b };
    channels_first(a.matmul(b))
}

/// Gradients of both matrices.
pub(crate) fn mat_mul_pull_back<B: Backend>(
    transposed: bool,
    inputs: [Tensor<B>; 2],
    dy: Tensor<B>,
) -> Vec<Tensor<B>> {
    let ([a, b], dy) = (inputs.map(pixels_first), pixels_first(dy));
    let gradients = match transposed {
        true => [dy.clone().matmul(b), turned(dy).matmul(a)],
        false => [dy.clone().matmul(turned(b)), turned(a).matmul(dy)],
    };
    gradients.map(channels_first).into()
}

/// Exponentials of the channels of each pixel, divided by their sum.
pub(crate) fn softmax<B: Backend>(x: Tensor<B>) -> Tensor<B> {
    let largest = Tensor(B::float_max_dim(x.0.clone(), 1));
    let exp = x.minus(&largest).exp();
    exp.clone().over(&exp.sum(1))
}

/// `y (dy - sum(dy y))`.
pub(crate) fn softmax_pull_back<B: Backend>(x: Tensor<B>, dy: Tensor<B>) -> Tensor<B> {
    let y = softmax(x);
    let mean = dy.clone().times(&y).sum(1);
    dy.minus(&mean).times(&y)
}

/// Elements in other places, given where each comes from.
pub(crate) fn rearranged<B: Backend>(
    x: Tensor<B>,
    places: Option<&IntTensor<B>>,
    shape: Shape,
) -> Tensor<B> {
    let [images, channels, height, width] = x.dims();
    let x = pixels_first(x).reshape([images, height * width * channels]);
    let y = match places {
        Some(places) => Tensor(B::float_select(x.0, 1, places.clone())),
        None => x,
    };
    channels_first(y.reshape([images, shape.height, shape.width, shape.channels]))
}

/// Puts gradients back to where the elements came from, and adds them up there.
pub(crate) fn rearranged_pull_back<B: Backend>(
    dy: Tensor<B>,
    places: Option<&IntTensor<B>>,
    dims: [usize; 4],
) -> Tensor<B> {
    let [images, channels, height, width] = dims;
    let flat = [images, height * width * channels];
    let elements = dy.0.shape().num_elements() / images;
    let dy = pixels_first(dy).reshape([images, elements]);
    let dx = match places {
        Some(places) => {
            let zeros = B::float_zeros(flat.into(), &dy.0.device(), dy.0.dtype().into());
            let add = IndexingUpdateOp::Add;
            Tensor(B::float_select_assign(zeros, 1, places.clone(), dy.0, add))
        }
        None => dy,
    };
    channels_first(dx.reshape([images, height, width, channels]))
}
