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
            | Op::Add
            | Op::Rearrange(_)
            | Op::Concat
            | Op::AveragePool { .. }
            | Op::GlobalAveragePool
    )
}

/// Calls `visit(place in the first, place in the second, length)` for every run of
/// one image of [`Op::Add`] or [`Op::Mul`]; a second of one channel gives one value
/// for the whole run.
fn spread(first: Shape, second: Shape, mut visit: impl FnMut(usize, usize, usize)) {
    if first == second {
        return visit(0, 0, first.len());
    }
    let at = |size: usize, i: usize| if size == 1 { 0 } else { i };
    for y in 0..first.height {
        for x in 0..first.width {
            let pixel = at(second.height, y) * second.width + at(second.width, x);
            let here = (y * first.width + x) * first.channels;
            visit(here, pixel * second.channels, first.channels);
        }
    }
}

/// `y = a op b` for one image; `b` may be spread.
fn arithmetic(
    [first, second]: [Shape; 2],
    a: &[f32],
    b: &[f32],
    y: &mut [f32],
    op: impl Fn(f32, f32) -> f32,
) {
    let single = second.channels == 1 && first != second;
    spread(first, second, |i, j, n| {
        let values = y[i..i + n].iter_mut().zip(&a[i..i + n]);
        if single {
            let b = b[j];
            values.for_each(|(y, &a)| *y = op(a, b));
        } else {
            let values = values.zip(&b[j..j + n]);
            values.for_each(|((y, &a), &b)| *y = op(a, b));
        }
    });
}

/// Evaluates a node for a few images.
pub(in crate::cpu) fn forward(graph: &Graph, id: NodeId, inputs: &[&[f32]], y: &mut [f32]) {
    let node = &graph.nodes()[id];
    let (input, output) = (graph.input_of(id), graph.shape(id));
    for (i, y) in y.chunks_exact_mut(output.len()).enumerate() {
        let of = |k: usize| {
            let len = graph.shape(node.inputs[k]).len();
            image(inputs[k], len, i)
        };
        let x = of(0);
        match &node.op {
            Op::Activation(activation) => {
                for (y, &x) in y.iter_mut().zip(x) {
                    *y = activation.value(f64::from(x)) as f32;
                }
            }
            op @ (Op::Add | Op::Mul) => {
                let shapes = [input, graph.shape(node.inputs[1])];
                match op {
                    Op::Add => arithmetic(shapes, x, of(1), y, |a, b| a + b),
                    _ => arithmetic(shapes, x, of(1), y, |a, b| a * b),
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

/// Image `i` of a value, or the whole of a constant, which has one image only.
fn image(values: &[f32], len: usize, i: usize) -> &[f32] {
    let i = if values.len() == len { 0 } else { i };
    &values[i * len..][..len]
}

fn add(sum: &mut [f32], x: &[f32]) {
    for (sum, x) in sum.iter_mut().zip(x) {
        *sum += x;
    }
}

/// Adds to the gradient `dx` of input number `k` of a node, for a few images; those
/// of a constant are summed.
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
    let len = shape(k).len();
    for (i, dy) in dy.chunks_exact(output.len()).enumerate() {
        let at = if dx.len() == len { 0 } else { i };
        let dx = &mut dx[at * len..][..len];
        let of = |k: usize| image(inputs[k], shape(k).len(), i);
        match &node.op {
            Op::Activation(activation) => {
                for ((dx, &x), &dy) in dx.iter_mut().zip(of(0)).zip(dy) {
                    *dx += dy * activation.derivative(f64::from(x)) as f32;
                }
            }
            Op::Add if k == 0 => add(dx, dy),
            op @ (Op::Add | Op::Mul) => {
                let single = shape(1).channels == 1 && input.channels > 1;
                spread(input, shape(1), |i, j, n| {
                    let dy = &dy[i..i + n];
                    match (op, k) {
                        (Op::Mul, 0) => {
                            let factors = of(1);
                            for (c, (dx, dy)) in dx[i..i + n].iter_mut().zip(dy).enumerate() {
                                *dx += dy * factors[if single { j } else { j + c }];
                            }
                        }
                        (Op::Mul, _) => {
                            for (c, (x, dy)) in of(0)[i..i + n].iter().zip(dy).enumerate() {
                                dx[if single { j } else { j + c }] += dy * x;
                            }
                        }
                        _ if single => dx[j] += dy.iter().sum::<f32>(),
                        _ => add(&mut dx[j..j + n], dy),
                    }
                });
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
