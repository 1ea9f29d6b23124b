//! Operators without a forward kernel of their own: a small part of any network.

use kernels::backward;
use kernels::geometry::Shape;

use crate::graph::{Graph, NodeId};
use crate::op::Op;

/// Calls `visit(input offset, output offset, length)` for every run of one
/// image that [`Op::Subsample`], [`Op::Pad`] or [`Op::Flatten`] moves.
fn runs(op: &Op, input: Shape, output: Shape, mut visit: impl FnMut(usize, usize, usize)) {
    let at = |s: Shape, y: usize, x: usize| (y * s.width + x) * s.channels;
    match op {
        Op::Subsample { stride: [v, h] } => {
            for y in 0..output.height {
                for x in 0..output.width {
                    visit(at(input, y * v, x * h), at(output, y, x), input.channels);
                }
            }
        }
        Op::Pad { padding, channels } => {
            for y in 0..input.height {
                for x in 0..input.width {
                    let to = at(output, y + padding.top, x + padding.left) + channels[0];
                    visit(at(input, y, x), to, input.channels);
                }
            }
        }
        _ if input.pixels() == 1 => visit(0, 0, input.len()),
        _ => {
            for pixel in 0..input.pixels() {
                for c in 0..input.channels {
                    visit(pixel * input.channels + c, c * input.pixels() + pixel, 1);
                }
            }
        }
    }
}

/// Whether [`pull_back`] looks at the inputs of such a node.
pub(super) fn reads_values(op: &Op) -> bool {
    !matches!(
        op,
        Op::Subsample { .. }
            | Op::Pad { .. }
            | Op::Flatten
            | Op::Concat
            | Op::AveragePool { .. }
            | Op::GlobalAveragePool
    )
}

/// Index of the factor of element `i` of an image in [`Op::Mul`].
fn factor(first: Shape, second: Shape, i: usize) -> usize {
    if first == second {
        i
    } else {
        i % first.channels
    }
}

/// Evaluates a node for a few images.
pub(in crate::cpu) fn forward(graph: &Graph, id: NodeId, inputs: &[&[f32]], y: &mut [f32]) {
    let node = &graph.nodes()[id];
    let (input, output) = (graph.input_of(id), graph.shape(id));
    for (i, y) in y.chunks_exact_mut(output.len()).enumerate() {
        let of = |k: usize| {
            let len = graph.shape(node.inputs[k]).len();
            &inputs[k][i * len..][..len]
        };
        let x = of(0);
        match &node.op {
            Op::Activation(activation) => {
                for (y, &x) in y.iter_mut().zip(x) {
                    *y = activation.value(f64::from(x)) as f32;
                }
            }
            Op::Mul => {
                let (factors, shape) = (of(1), graph.shape(node.inputs[1]));
                for (i, (y, &x)) in y.iter_mut().zip(x).enumerate() {
                    *y = x * factors[factor(input, shape, i)];
                }
            }
            Op::Concat => {
                let mut first = 0;
                for (k, &source) in node.inputs.iter().enumerate() {
                    let channels = graph.shape(source).channels;
                    let rows = y.chunks_exact_mut(output.channels);
                    for (y, x) in rows.zip(of(k).chunks_exact(channels)) {
                        y[first..first + channels].copy_from_slice(x);
                    }
                    first += channels;
                }
            }
            op @ (Op::Subsample { .. } | Op::Pad { .. } | Op::Flatten) => {
                y.fill(0.0);
                runs(op, input, output, |from, to, len| {
                    y[to..to + len].copy_from_slice(&x[from..from + len]);
                });
            }
            op => unreachable!("{} has a kernel", op.name()),
        }
    }
}

fn add(sum: &mut [f32], x: &[f32]) {
    for (sum, x) in sum.iter_mut().zip(x) {
        *sum += x;
    }
}

/// Adds to the gradient `dx` of input number `k` of a node, for a few images.
pub(super) fn pull_back(
    graph: &Graph,
    id: NodeId,
    inputs: &[&[f32]],
    dy: &[f32],
    k: usize,
    dx: &mut [f32],
) {
    let node = &graph.nodes()[id];
    let shape = |k: usize| graph.shape(node.inputs[k]);
    let (input, output) = (shape(0), graph.shape(id));
    let images = dx.chunks_exact_mut(shape(k).len());
    for (i, (dx, dy)) in images.zip(dy.chunks_exact(output.len())).enumerate() {
        let of = |k: usize| &inputs[k][i * shape(k).len()..][..shape(k).len()];
        match &node.op {
            Op::Activation(activation) => {
                for ((dx, &x), &dy) in dx.iter_mut().zip(of(0)).zip(dy) {
                    *dx += dy * activation.derivative(f64::from(x)) as f32;
                }
            }
            Op::Mul => {
                for (i, &dy) in dy.iter().enumerate() {
                    let f = factor(input, shape(1), i);
                    if k == 0 {
                        dx[i] += dy * of(1)[f];
                    } else {
                        dx[f] += dy * of(0)[i];
                    }
                }
            }
            Op::Concat => {
                let first: usize = (0..k).map(|k| shape(k).channels).sum();
                let channels = first..first + shape(k).channels;
                let rows = dy.chunks_exact(output.channels);
                for (dx, dy) in dx.chunks_exact_mut(shape(k).channels).zip(rows) {
                    add(dx, &dy[channels.clone()]);
                }
            }
            Op::MaxPool { window } => backward::max_pool(input, window, of(0), dy, dx),
            Op::AveragePool {
                window,
                count_padding,
            } => backward::average_pool(input, window, *count_padding, dy, dx),
            Op::GlobalAveragePool => backward::global_average_pool(input, dy, dx),
            op => runs(op, input, output, |from, to, len| {
                add(&mut dx[from..from + len], &dy[to..to + len]);
            }),
        }
    }
}
