//! Backward pass, node by node.

use kernels::reference::{
    BatchNorm, Real, average_pool_gradient, conv_input_gradient, conv_weight_gradient,
    max_pool_gradient,
};

use super::forward::{moves, spread_index};
use super::{ReferenceTape, tokens};
use crate::activation::averaged_relu;
use crate::graph::Graph;
use crate::op::Op;

/// Gradients with respect to the images and to every parameter (running
/// statistics: empty).
pub(super) fn run<T: Real>(
    graph: &Graph,
    values: &[Vec<T>],
    tape: &ReferenceTape<T>,
    cotangent: &[T],
) -> (Vec<T>, Vec<Vec<T>>) {
    let zeros = |x: &Vec<T>| vec![T::ZERO; x.len()];
    let mut activations: Vec<Vec<T>> = tape.activations.iter().map(zeros).collect();
    let mut parameters: Vec<Vec<T>> = values
        .iter()
        .zip(graph.parameters())
        .map(|(v, spec)| {
            if spec.role.trainable() {
                zeros(v)
            } else {
                vec![]
            }
        })
        .collect();
    activations[graph.output()].copy_from_slice(cotangent);
    for id in (1..graph.nodes().len()).rev() {
        let dy = std::mem::take(&mut activations[id]);
        let range = graph.parameters_of(id);
        let gradients = &mut parameters[range.clone()];
        let inputs = node(graph, &values[range], id, tape, &dy, gradients);
        for (&input, add) in graph.nodes()[id].inputs.iter().zip(inputs) {
            for (sum, add) in activations[input].iter_mut().zip(add) {
                *sum += add;
            }
        }
    }
    (activations.swap_remove(0), parameters)
}

fn add_bias_gradient<T: Real>(gradient: Option<&mut Vec<T>>, dy: &[T]) {
    if let Some(gradient) = gradient {
        for row in dy.chunks_exact(gradient.len()) {
            gradient.iter_mut().zip(row).for_each(|(g, &dy)| *g += dy);
        }
    }
}

/// Gradients with respect to each input of one node; adds those of its
/// parameters.
fn node<T: Real>(
    graph: &Graph,
    values: &[Vec<T>],
    id: usize,
    tape: &ReferenceTape<T>,
    dy: &[T],
    gradients: &mut [Vec<T>],
) -> Vec<Vec<T>> {
    let node = &graph.nodes()[id];
    let (input, output) = (graph.input_of(id), graph.shape(id));
    if let Op::Parameter { .. } = node.op {
        if !gradients[0].is_empty() {
            add_bias_gradient(gradients.get_mut(0), dy);
        }
        return vec![];
    }
    let x = tape.activations[node.inputs[0]].as_slice();
    let second = || tape.activations[node.inputs[1]].as_slice();
    let mut dx = vec![T::ZERO; x.len()];
    let image = |i: usize| {
        (
            i * input.len()..(i + 1) * input.len(),
            i * output.len()..(i + 1) * output.len(),
        )
    };
    match &node.op {
        Op::Input { .. } | Op::Parameter { .. } => unreachable!("reads nothing"),
        Op::Foreign { .. } => unreachable!("only its own program evaluates it"),
        Op::Affine { scale, .. } => {
            for (i, (dx, &dy)) in dx.iter_mut().zip(dy).enumerate() {
                *dx = dy * T::from_f32(scale[i % input.channels % scale.len()]);
            }
        }
        op @ Op::Conv { .. } => {
            let shape = op.conv_shape(input).expect("a convolution");
            for (xs, ys) in (0..tape.images).map(image) {
                conv_input_gradient(&shape, &dy[ys.clone()], &values[0], &mut dx[xs.clone()]);
                conv_weight_gradient(&shape, &x[xs], &dy[ys], &mut gradients[0]);
            }
            add_bias_gradient(gradients.get_mut(1), dy);
        }
        Op::BatchNorm {
            epsilon,
            scale,
            shift,
            ..
        } => {
            let epsilon = T::from_f32(*epsilon);
            let mut sums = [vec![T::ZERO; input.channels], vec![T::ZERO; input.channels]];
            let [dscale, dshift] = &mut sums;
            let factor = scale.then(|| values[0].as_slice());
            if let Some(statistics) = &tape.statistics[id] {
                let norm = BatchNorm {
                    statistics,
                    epsilon,
                    scale: factor,
                };
                norm.backward(x, dy, &mut dx, dscale, dshift);
            } else {
                let (mean, variance) = (&values[values.len() - 2], &values[values.len() - 1]);
                for (i, (dx, &dy)) in dx.iter_mut().zip(dy).enumerate() {
                    let c = i % input.channels;
                    let s = (variance[c] + epsilon).sqrt();
                    *dx = dy * factor.map_or(T::ONE, |f| f[c]) / s;
                    dscale[c] += dy * (x[i] - mean[c]) / s;
                    dshift[c] += dy;
                }
            }
            let wanted = [*scale, *shift]
                .into_iter()
                .zip(sums)
                .filter(|(wanted, _)| *wanted);
            for (gradient, (_, sum)) in gradients.iter_mut().zip(wanted) {
                gradient.iter_mut().zip(sum).for_each(|(g, s)| *g += s);
            }
        }
        Op::Activation(activation) => {
            for ((dx, &x), &dy) in dx.iter_mut().zip(x).zip(dy) {
                *dx = dy * T::from_f64(activation.derivative(x.to_f64()));
            }
        }
        Op::AveragedRelu => {
            for (i, (dx, &dy)) in dx.iter_mut().zip(dy).enumerate() {
                let width = values[0][i % input.channels].to_f64();
                *dx = dy * T::from_f64(averaged_relu(x[i].to_f64(), width).1);
            }
        }
        op @ (Op::Add | Op::Mul) => {
            let mut dsecond = vec![T::ZERO; second().len()];
            let spread = spread_index(input, graph.shape(node.inputs[1]));
            for i in 0..x.len() {
                let (a, b) = match op {
                    Op::Add => (T::ONE, T::ONE),
                    _ => (x[i], second()[spread(i)]),
                };
                dx[i] = dy[i] * b;
                dsecond[spread(i)] += dy[i] * a;
            }
            return vec![dx, dsecond];
        }
        Op::LayerNorm { epsilon, .. } => {
            let norm = tokens::Norm::of(&node.op, input, *epsilon);
            norm.backward(x, values, dy, &mut dx, gradients);
        }
        Op::MatMul { transposed } => {
            let shapes = [input, graph.shape(node.inputs[1]), output];
            return tokens::mat_mul_backward(*transposed, shapes, x, second(), dy);
        }
        Op::Softmax => {
            let y = &tape.activations[id];
            tokens::softmax_backward(input.channels, y, dy, &mut dx);
        }
        Op::Rearrange(rearrange) => {
            let runs = rearrange.runs();
            for (xs, ys) in (0..tape.images).map(image) {
                runs.add_back(&dy[ys], &mut dx[xs]);
            }
        }
        Op::Concat => {
            let mut first = 0;
            let parts = node.inputs.iter().map(|&source| {
                let channels = graph.shape(source).channels;
                let rows = dy.chunks_exact(output.channels);
                let part = rows.flat_map(|row| row[first..first + channels].iter().copied());
                let part = part.collect();
                first += channels;
                part
            });
            return parts.collect();
        }
        Op::MaxPool { window } => {
            for (xs, ys) in (0..tape.images).map(image) {
                max_pool_gradient(input, window, &x[xs.clone()], &dy[ys], &mut dx[xs]);
            }
        }
        Op::AveragePool {
            window,
            count_padding,
        } => {
            for (xs, ys) in (0..tape.images).map(image) {
                average_pool_gradient(input, window, *count_padding, &dy[ys], &mut dx[xs]);
            }
        }
        Op::GlobalAveragePool => {
            let n = T::from_f64(input.pixels() as f64);
            for (i, dx) in dx.iter_mut().enumerate() {
                *dx = dy[i / input.len() * input.channels + i % input.channels] / n;
            }
        }
        Op::Subsample { .. } | Op::Pad { .. } | Op::Flatten => {
            for (xs, ys) in (0..tape.images).map(image) {
                let (dx, dy) = (&mut dx[xs], &dy[ys]);
                moves(&node.op, input, output, |i, o| dx[i] = dy[o]);
            }
        }
        Op::Linear { .. } => {
            for (xs, ys) in (0..tape.images).map(image) {
                let (x, dx) = (&x[xs.clone()], &mut dx[xs]);
                for (o, &dy) in dy[ys].iter().enumerate() {
                    let row = o * x.len()..(o + 1) * x.len();
                    let weights = &values[0][row.clone()];
                    for (i, g) in gradients[0][row].iter_mut().enumerate() {
                        dx[i] += dy * weights[i];
                        *g += dy * x[i];
                    }
                }
            }
            add_bias_gradient(gradients.get_mut(1), dy);
        }
    }
    vec![dx]
}
