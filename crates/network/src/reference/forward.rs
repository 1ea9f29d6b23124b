//! Forward pass, node by node.

use kernels::geometry::Shape;
use kernels::reference::{
    self, BatchStatistics, Real, average_pool, batch_norm_eval, batch_statistics, max_pool,
};

use super::{ReferenceTape, tokens};
use crate::activation::averaged_relu;
use crate::graph::Graph;
use crate::op::Op;
use crate::verbs::Mode;

/// Evaluates every node for all images.
pub(super) fn run<T: Real>(
    graph: &Graph,
    values: &[Vec<T>],
    images: &[T],
    mode: Mode,
) -> ReferenceTape<T> {
    let count = images.len() / graph.input().len();
    let mut tape = ReferenceTape {
        mode,
        images: count,
        activations: vec![images.to_vec()],
        statistics: vec![None],
    };
    for id in 1..graph.nodes().len() {
        let mut y = vec![T::ZERO; count * graph.shape(id).len()];
        let statistics = node(graph, values, id, &tape, &mut y);
        tape.activations.push(y);
        tape.statistics.push(statistics);
    }
    tape
}

/// Splits `x` and `y` into images.
fn each<'a, T>(
    x: &'a [T],
    input: Shape,
    y: &'a mut [T],
    output: Shape,
) -> impl Iterator<Item = (&'a [T], &'a mut [T])> {
    x.chunks_exact(input.len())
        .zip(y.chunks_exact_mut(output.len()))
}

fn add_bias<T: Real>(bias: Option<&Vec<T>>, y: &mut [T]) {
    if let Some(bias) = bias {
        for row in y.chunks_exact_mut(bias.len()) {
            row.iter_mut().zip(bias).for_each(|(y, &b)| *y += b);
        }
    }
}

/// Evaluates one node into `y`; returns the batch statistics that it used.
fn node<T: Real>(
    graph: &Graph,
    values: &[Vec<T>],
    id: usize,
    tape: &ReferenceTape<T>,
    y: &mut [T],
) -> Option<BatchStatistics<T>> {
    let node = &graph.nodes()[id];
    let (input, output) = (graph.input_of(id), graph.shape(id));
    if let Op::Parameter { .. } = node.op {
        let value = &values[graph.parameters_of(id)][0];
        y.chunks_exact_mut(output.len())
            .for_each(|y| y.copy_from_slice(value));
        return None;
    }
    let x = tape.activations[node.inputs[0]].as_slice();
    let second = || tape.activations[node.inputs[1]].as_slice();
    let values = &values[graph.parameters_of(id)];
    match &node.op {
        Op::Input { .. } | Op::Parameter { .. } => unreachable!("reads nothing"),
        Op::Foreign { .. } => unreachable!("only its own program evaluates it"),
        Op::Affine { scale, shift } => {
            for (i, (y, &x)) in y.iter_mut().zip(x).enumerate() {
                let c = i % input.channels;
                *y = x * T::from_f32(scale[c % scale.len()]) + T::from_f32(shift[c % shift.len()]);
            }
        }
        op @ Op::Conv { .. } => {
            let shape = op.conv_shape(input).expect("a convolution");
            for (x, y) in each(x, input, y, output) {
                reference::conv(&shape, x, &values[0], y);
            }
            add_bias(values.get(1), y);
        }
        Op::BatchNorm {
            epsilon,
            scale,
            shift,
            ..
        } => {
            let trainable = values.len() - 2;
            let (mean, variance) = (&values[trainable], &values[trainable + 1]);
            let scale = scale.then(|| values[0].as_slice());
            let shift = shift.then(|| values[trainable - 1].as_slice());
            let epsilon = T::from_f32(*epsilon);
            if tape.mode != Mode::Train {
                batch_norm_eval((mean, variance), epsilon, scale, shift, x, y);
            } else {
                let s = batch_statistics(input.channels, x);
                batch_norm_eval((&s.mean, &s.variance), epsilon, scale, shift, x, y);
                return Some(s);
            }
        }
        Op::Activation(activation) => {
            for (y, &x) in y.iter_mut().zip(x) {
                *y = T::from_f64(activation.value(x.to_f64()));
            }
        }
        Op::AveragedRelu => {
            for (i, (y, &x)) in y.iter_mut().zip(x).enumerate() {
                let width = values[0][i % input.channels].to_f64();
                *y = T::from_f64(averaged_relu(x.to_f64(), width).0);
            }
        }
        op @ (Op::Add | Op::Mul) => {
            let spread = spread_index(input, graph.shape(node.inputs[1]));
            for (i, (y, &a)) in y.iter_mut().zip(x).enumerate() {
                let b = second()[spread(i)];
                *y = if *op == Op::Add { a + b } else { a * b };
            }
        }
        Op::LayerNorm { epsilon, .. } => {
            let norm = tokens::Norm::of(&node.op, input, *epsilon);
            norm.forward(x, values, y);
        }
        Op::MatMul { transposed } => {
            let shapes = [input, graph.shape(node.inputs[1]), output];
            tokens::mat_mul(*transposed, shapes, x, second(), y);
        }
        Op::Softmax => tokens::softmax(input.channels, x, y),
        Op::Rearrange(rearrange) => {
            let runs = rearrange.runs();
            for (x, y) in each(x, input, y, output) {
                runs.copy(x, y);
            }
        }
        Op::Concat => {
            let mut first = 0;
            for &source in &node.inputs {
                let channels = graph.shape(source).channels;
                let rows = tape.activations[source].chunks_exact(channels);
                for (from, to) in rows.zip(y.chunks_exact_mut(output.channels)) {
                    to[first..first + channels].copy_from_slice(from);
                }
                first += channels;
            }
        }
        Op::MaxPool { window } => {
            for (x, y) in each(x, input, y, output) {
                max_pool(input, window, x, y);
            }
        }
        Op::AveragePool {
            window,
            count_padding,
        } => {
            for (x, y) in each(x, input, y, output) {
                average_pool(input, window, *count_padding, x, y);
            }
        }
        Op::GlobalAveragePool => {
            let n = T::from_f64(input.pixels() as f64);
            for (x, y) in each(x, input, y, output) {
                for pixel in x.chunks_exact(input.channels) {
                    y.iter_mut().zip(pixel).for_each(|(y, &x)| *y += x);
                }
                y.iter_mut().for_each(|y| *y = *y / n);
            }
        }
        Op::Subsample { .. } | Op::Pad { .. } | Op::Flatten => {
            for (x, y) in each(x, input, y, output) {
                moves(&node.op, input, output, |i, o| y[o] = x[i]);
            }
        }
        Op::Linear { .. } => {
            for (x, y) in each(x, input, y, output) {
                for (y, w) in y.iter_mut().zip(values[0].chunks_exact(x.len())) {
                    for (&w, &x) in w.iter().zip(x) {
                        *y += w * x;
                    }
                }
            }
            add_bias(values.get(1), y);
        }
    }
    None
}

/// Index into the second input of [`Op::Add`] or [`Op::Mul`] for element `i` of the
/// first.
pub(super) fn spread_index(first: Shape, second: Shape) -> impl Fn(usize) -> usize {
    let at = |size: usize, i: usize| if size == 1 { 0 } else { i };
    move |i| {
        let (pixel, c) = (i / first.channels, i % first.channels);
        let (row, x) = (pixel / first.width, pixel % first.width);
        let (image, y) = (row / first.height, row % first.height);
        let row = image * second.height + at(second.height, y);
        let pixel = row * second.width + at(second.width, x);
        pixel * second.channels + at(second.channels, c)
    }
}

/// Calls `visit(input element, output element)` for every element of one image
/// that [`Op::Subsample`], [`Op::Pad`] or [`Op::Flatten`] moves.
pub(super) fn moves(op: &Op, input: Shape, output: Shape, mut visit: impl FnMut(usize, usize)) {
    let at = |s: Shape, y: usize, x: usize, c: usize| (y * s.width + x) * s.channels + c;
    for c in 0..input.channels {
        for y in 0..input.height {
            for x in 0..input.width {
                let from = at(input, y, x, c);
                match op {
                    Op::Subsample { stride: [v, h] } if y % v == 0 && x % h == 0 => {
                        visit(from, at(output, y / v, x / h, c));
                    }
                    Op::Pad {
                        padding: p,
                        channels,
                    } => {
                        visit(from, at(output, y + p.top, x + p.left, c + channels[0]));
                    }
                    Op::Flatten => visit(from, (c * input.height + y) * input.width + x),
                    _ => {}
                }
            }
        }
    }
}
