//! Layer norms, products of matrices, softmax, rearranging and Gelu by their kernels.

use kernels::buffer::Buffer;
use kernels::gelu::{self, Form};
use kernels::geometry::Shape;
use kernels::isa::Isa;
use kernels::layer_norm::LayerNorm;
use kernels::matmul::{Matrix, Product};
use kernels::softmax;

use super::attention::Heads;
use crate::activation::Activation;
use crate::graph::{Graph, NodeId};
use crate::op::Op;
use crate::rearrange::Runs;

/// What such a node computes, ready to run.
#[derive(Clone, Debug)]
pub(super) enum Token {
    Norm {
        norm: LayerNorm,
        scale: bool,
        shift: bool,
    },
    MatMul(MatMul),
    /// Of rows of so many channels.
    Softmax(usize),
    Rearrange(Runs),
    Gelu(Form),
    /// Of several nodes, by the one that ends it.
    Attention(Heads),
}

impl Token {
    /// Of a node, if it is one of these.
    pub fn of(graph: &Graph, id: NodeId) -> Option<Self> {
        let node = &graph.nodes()[id];
        let input = graph.input_of(id);
        Some(match &node.op {
            Op::LayerNorm {
                groups,
                over_pixels,
                centred,
                epsilon,
                scale,
                shift,
            } => Self::Norm {
                norm: LayerNorm {
                    shape: input,
                    groups: *groups,
                    over_pixels: *over_pixels,
                    centred: *centred,
                    epsilon: *epsilon,
                },
                scale: *scale,
                shift: *shift,
            },
            Op::MatMul { transposed } => Self::MatMul(MatMul {
                shapes: [input, graph.shape(node.inputs[1]), graph.shape(id)],
                transposed: *transposed,
            }),
            Op::Softmax => Self::Softmax(input.channels),
            Op::Rearrange(rearrange) => Self::Rearrange(rearrange.runs()),
            &Op::Activation(Activation::Gelu { tanh }) => Self::Gelu(gelu(tanh)),
            _ => return None,
        })
    }

    /// Floats of scratch that both ways need.
    pub fn scratch_len(&self, isa: Isa) -> usize {
        match self {
            Self::MatMul(product) => {
                let both = [product.forward()].into_iter().chain(product.backward());
                let lengths = both.map(|p| p.scratch_len(isa));
                lengths.max().unwrap_or(0)
            }
            Self::Attention(heads) => heads.scratch_len(isa),
            _ => 0,
        }
    }

    /// Evaluates for a few images; `parameters` are the node's own.
    pub fn forward(
        &self,
        isa: Isa,
        parameters: &[&[f32]],
        inputs: &[&[f32]],
        y: &mut [f32],
        scratch: &mut [f32],
    ) {
        let x = inputs[0];
        match self {
            Self::Norm { norm, scale, shift } => {
                let scale = scale.then(|| parameters[0]);
                let shift = shift.then(|| parameters[parameters.len() - 1]);
                norm.forward(isa, scale, shift, x, y);
            }
            Self::MatMul(product) => product.run(isa, [inputs[0], inputs[1]], y, scratch),
            Self::Softmax(channels) => softmax::softmax(isa, *channels, x, y),
            Self::Rearrange(runs) => {
                let len = runs.length * runs.offsets.len();
                let images = y.len() / len;
                let each = x.chunks_exact(x.len() / images);
                for (x, y) in each.zip(y.chunks_exact_mut(len)) {
                    runs.copy(x, y);
                }
            }
            Self::Gelu(form) => gelu::gelu(isa, *form, x, y),
            Self::Attention(heads) => heads.forward(isa, inputs, y, scratch),
        }
    }

    /// Adds to the gradient `dx` of input `k`, for a few images; all of them if the
    /// input is a constant. Softmax wants room for its values.
    #[expect(clippy::too_many_arguments, reason = "all that a gradient depends on")]
    pub fn pull_back(
        &self,
        isa: Isa,
        parameters: &[&[f32]],
        inputs: &[&[f32]],
        dy: &[f32],
        k: usize,
        dx: &mut [f32],
        scratch: &mut [f32],
        values: &mut Buffer,
    ) {
        match self {
            Self::Norm { norm, scale, .. } => {
                let scale = scale.then(|| parameters[0]);
                norm.backward(isa, scale, inputs[0], dy, Some(dx), None);
            }
            Self::MatMul(product) => {
                product.pull_back(isa, [inputs[0], inputs[1]], dy, k, dx, scratch);
            }
            Self::Softmax(channels) => {
                values.reserve(dy.len());
                let y = &mut values[..dy.len()];
                softmax::softmax(isa, *channels, inputs[0], y);
                softmax::softmax_gradient(isa, *channels, y, dy, dx);
            }
            Self::Rearrange(runs) => {
                let len = runs.length * runs.offsets.len();
                let each = dx.len() / (dy.len() / len);
                for (dy, dx) in dy.chunks_exact(len).zip(dx.chunks_exact_mut(each)) {
                    runs.add_back(dy, dx);
                }
            }
            Self::Gelu(form) => gelu::gelu_gradient(isa, *form, inputs[0], dy, dx),
            Self::Attention(_) => unreachable!("pulled back to all inputs at once"),
        }
    }
}

/// How a Gelu is computed.
pub(super) fn gelu(tanh: bool) -> Form {
    match tanh {
        true => Form::Tanh,
        false => Form::Erf,
    }
}

/// [`Op::MatMul`] on these shapes: both factors and the product.
#[derive(Clone, Copy, Debug)]
pub(super) struct MatMul {
    shapes: [Shape; 3],
    transposed: bool,
}

/// Matrix number `i` of a value, or of a constant, which has one image only.
fn matrix(values: &[f32], shape: Shape, i: usize) -> &[f32] {
    let len = shape.width * shape.channels;
    let i = i % (values.len() / len);
    &values[i * len..][..len]
}

impl MatMul {
    fn forward(&self) -> Product {
        let [a, _, y] = self.shapes;
        Product {
            rows: y.width,
            depth: a.channels,
            columns: y.channels,
        }
    }

    /// Those that give the gradients of both factors.
    fn backward(&self) -> [Product; 2] {
        let Product {
            rows,
            depth,
            columns,
        } = self.forward();
        let second = match self.transposed {
            false => (depth, rows, columns),
            true => (columns, rows, depth),
        };
        [(rows, columns, depth), second].map(|(rows, depth, columns)| Product {
            rows,
            depth,
            columns,
        })
    }

    fn run(&self, isa: Isa, [a, b]: [&[f32]; 2], y: &mut [f32], scratch: &mut [f32]) {
        let product = self.forward();
        let [first, second, _] = self.shapes;
        for (i, y) in y
            .chunks_exact_mut(product.rows * product.columns)
            .enumerate()
        {
            let b = Matrix {
                values: matrix(b, second, i),
                transposed: self.transposed,
            };
            product.run(isa, Matrix::new(matrix(a, first, i)), b, false, y, scratch);
        }
    }

    fn pull_back(
        &self,
        isa: Isa,
        [a, b]: [&[f32]; 2],
        dy: &[f32],
        k: usize,
        dx: &mut [f32],
        scratch: &mut [f32],
    ) {
        let [first, second, last] = self.shapes;
        let product = self.backward()[k];
        let len = product.rows * product.columns;
        for (i, dy) in dy.chunks_exact(last.width * last.channels).enumerate() {
            let at = i % (dx.len() / len);
            let dx = &mut dx[at * len..][..len];
            let (a, b) = (matrix(a, first, i), matrix(b, second, i));
            let (left, right) = match (k, self.transposed) {
                // da = dy b^T, or dy b.
                (0, transposed) => {
                    let transposed = !transposed;
                    (
                        Matrix::new(dy),
                        Matrix {
                            values: b,
                            transposed,
                        },
                    )
                }
                // db = a^T dy, or dy^T a.
                (_, false) => (Matrix::transposed(a), Matrix::new(dy)),
                (_, true) => (Matrix::transposed(dy), Matrix::new(a)),
            };
            product.run(isa, left, right, true, dx, scratch);
        }
    }
}
