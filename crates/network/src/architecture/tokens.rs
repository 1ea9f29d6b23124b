//! What transformers and ConvNeXt are built of.

use kernels::geometry::{Shape, Window};

use crate::activation::Activation;
use crate::graph::{GraphBuilder, NodeId};
use crate::op::Op;
use crate::rearrange::Rearrange;

/// A linear layer on the channels of every pixel.
pub(super) fn linear(out_channels: usize, bias: bool) -> Op {
    Op::Conv {
        out_channels,
        window: Window::square(1, 1, 0),
        groups: 1,
        bias,
    }
}

/// Layer norm over the channels of every pixel.
pub(super) fn layer_norm(epsilon: f32) -> Op {
    Op::LayerNorm {
        groups: 1,
        over_pixels: false,
        centred: true,
        epsilon,
        scale: true,
        shift: true,
    }
}

pub(super) const GELU: Op = Op::Activation(Activation::Gelu { tanh: false });

/// Queries, keys and values of windows of tokens (`windows x tokens x 3 channels`),
/// one behind the other in the channels, to what the heads see in them
/// (`windows x tokens x channels`). `bias` is added to the scores, which are
/// `windows * heads x tokens x tokens`.
pub(super) fn attention(
    graph: &mut GraphBuilder,
    name: &str,
    [windows, tokens, channels]: [usize; 3],
    heads: usize,
    bias: impl FnOnce(&mut GraphBuilder, NodeId) -> NodeId,
) -> NodeId {
    let qkv = graph.last();
    let width = channels / heads;
    let part = |part: &str| format!("{name}.{part}");
    let [q, k, v] = [0, 1, 2].map(|which| {
        let head = Rearrange::of(&[windows, tokens, 3, heads, width])
            .sliced(2, which, 1, 1)
            .permuted(&[0, 2, 3, 1, 4])
            .into_shape(Shape::new(windows * heads, tokens, width));
        graph.add(part(["q", "k", "v"][which]), Op::Rearrange(head), &[qkv])
    });
    let scale = Op::Affine {
        scale: vec![1.0 / (width as f32).sqrt()],
        shift: vec![0.0],
    };
    let q = graph.add(part("scale"), scale, &[q]);
    let scores = graph.add(part("scores"), Op::MatMul { transposed: true }, &[q, k]);
    let scores = bias(graph, scores);
    let shares = graph.add(part("softmax"), Op::Softmax, &[scores]);
    let seen = graph.add(part("seen"), Op::MatMul { transposed: false }, &[shares, v]);
    let joined = Rearrange::of(&[windows, heads, tokens, width])
        .permuted(&[0, 2, 1, 3])
        .into_shape(Shape::new(windows, tokens, channels));
    graph.add(part("joined"), Op::Rearrange(joined), &[seen])
}
