//! A graph with its parameters on a device.

use burn_backend::tensor::IntTensor;
use burn_backend::{Backend, IntDType};
use network::{DeviceError, Graph, Model, Op, Parameters, Shape, Window};

use crate::fused::Fused;
use crate::place::Place;
use crate::tensor::Tensor;

/// A graph, its parameters, and what nodes need besides them.
#[derive(Clone, Debug)]
pub(crate) struct Network<B: Backend> {
    pub graph: Graph,
    /// In the order and the shapes of [`Graph::parameters`].
    pub parameters: Vec<Tensor<B>>,
    /// By node.
    pub constants: Vec<Constants<B>>,
    /// Nodes whose values a pull-back reads.
    pub kept: Vec<bool>,
    /// By node, the last one that reads it.
    pub last_reader: Vec<usize>,
}

/// What a node needs besides its parameters.
#[derive(Clone, Debug)]
pub(crate) enum Constants<B: Backend> {
    None,
    /// A factor and an offset for each channel.
    Affine {
        scale: Tensor<B>,
        shift: Tensor<B>,
    },
    /// In the place of a batch norm's scale or shift that it does not have.
    Norm {
        one: Tensor<B>,
        zero: Tensor<B>,
    },
    /// A mean over windows as a convolution of each channel: taps of 1, and one
    /// over the number of pixels under each window.
    Mean {
        taps: Tensor<B>,
        share: Tensor<B>,
    },
    /// Where each element of the output comes from, pixel by pixel; nothing where
    /// they stay in their order.
    Places(Option<IntTensor<B>>),
}

impl<B: Fused> Network<B> {
    /// Puts a model on a device.
    pub fn new(place: &Place<B>, model: &Model) -> Result<Self, DeviceError> {
        let graph = model.graph.clone();
        let nodes = graph.nodes();
        if let Some(node) = nodes.iter().find(|node| !supported(&node.op)) {
            return Err(DeviceError::Operator {
                device: place.name.clone(),
                node: node.name.clone(),
                op: node.op.name(),
            });
        }
        let constants = (0..nodes.len()).map(|id| Constants::new(place, &graph, id));
        let mut kept = vec![false; nodes.len()];
        let mut last_reader: Vec<usize> = (0..nodes.len()).collect();
        for (id, node) in nodes.iter().enumerate() {
            for &input in &node.inputs {
                kept[input] |= reads_inputs(&node.op);
                last_reader[input] = id;
            }
        }
        last_reader[graph.output()] = nodes.len();
        Ok(Self {
            constants: constants.collect(),
            parameters: upload(place, &graph, &model.parameters),
            kept,
            last_reader,
            graph,
        })
    }

    /// The parameters of a node.
    pub fn parameters_of(&self, node: usize) -> &[Tensor<B>] {
        &self.parameters[self.graph.parameters_of(node)]
    }
}

/// Parameters on a device.
pub(crate) fn upload<B: Fused>(
    place: &Place<B>,
    graph: &Graph,
    parameters: &Parameters,
) -> Vec<Tensor<B>> {
    let specs = graph.parameters().iter().zip(parameters.iter());
    specs
        .map(|(spec, values)| {
            let values = place.upload(values, spec.shape.clone());
            Tensor(B::in_order_of_convolutions(values.0))
        })
        .collect()
}

/// Operators that [`crate::forward`] and [`crate::backward`] know.
fn supported(op: &Op) -> bool {
    matches!(
        op,
        Op::Input { .. }
            | Op::Affine { .. }
            | Op::Conv { .. }
            | Op::BatchNorm { .. }
            | Op::Activation(_)
            | Op::AveragedRelu
            | Op::Add
            | Op::Mul
            | Op::Concat
            | Op::MaxPool { .. }
            | Op::AveragePool { .. }
            | Op::GlobalAveragePool
            | Op::Subsample { .. }
            | Op::Pad { .. }
            | Op::Flatten
            | Op::Linear { .. }
            | Op::Parameter { .. }
            | Op::LayerNorm { .. }
            | Op::MatMul { .. }
            | Op::Softmax
            | Op::Rearrange(_)
    )
}

/// The pull-back through an operator reads what went in. Shapes alone are enough for
/// the others.
fn reads_inputs(op: &Op) -> bool {
    matches!(
        op,
        Op::Conv { .. }
            | Op::BatchNorm { .. }
            | Op::Activation(_)
            | Op::AveragedRelu
            | Op::Mul
            | Op::MaxPool { .. }
            | Op::AveragePool { .. }
            | Op::Subsample { .. }
            | Op::Linear { .. }
            | Op::LayerNorm { .. }
            | Op::MatMul { .. }
            | Op::Softmax
    )
}

impl<B: Backend> Constants<B> {
    fn new(place: &Place<B>, graph: &Graph, id: usize) -> Self {
        let channels = graph.shape(id).channels;
        match &graph.nodes()[id].op {
            Op::Affine { scale, shift } => {
                let per_channel = |values: &[f32]| place.upload(values, [1, values.len(), 1, 1]);
                Self::Affine {
                    scale: per_channel(scale),
                    shift: per_channel(shift),
                }
            }
            Op::BatchNorm { .. } => Self::Norm {
                one: place.upload(&vec![1.0; channels], [channels]),
                zero: place.zeros([channels]),
            },
            Op::AveragePool {
                window,
                count_padding,
            } => Self::mean(place, graph.input_of(id), window, *count_padding),
            Op::Subsample { stride } => {
                Self::mean(place, graph.input_of(id), &subsampled(*stride), true)
            }
            Op::Rearrange(rearrange) => {
                if rearrange.keeps_order(graph.input_of(id)) {
                    return Self::Places(None);
                }
                let mut places = Vec::with_capacity(rearrange.shape.len());
                rearrange.places(|from| places.push(from as u32));
                let words = place.upload_words(&places, [places.len()]);
                Self::Places(Some(B::int_cast(words, IntDType::I32)))
            }
            _ => Self::None,
        }
    }

    fn mean(place: &Place<B>, input: Shape, window: &Window, count_padding: bool) -> Self {
        let [height, width] = window.kernel;
        let ones = vec![1.0; input.channels * height * width];
        let rows = pixels_under(window, 0, input.height, count_padding);
        let columns = pixels_under(window, 1, input.width, count_padding);
        let counts = rows
            .iter()
            .flat_map(|row| columns.iter().map(move |column| row * column));
        let shares: Vec<f32> = counts.map(|count| 1.0 / count as f32).collect();
        Self::Mean {
            taps: place.upload(&ones, [input.channels, 1, height, width]),
            share: place.upload(&shares, [1, 1, rows.len(), columns.len()]),
        }
    }

    /// In another precision.
    pub fn cast(self, precision: burn_backend::FloatDType) -> Self {
        match self {
            unchanged @ (Self::None | Self::Places(_)) => unchanged,
            Self::Affine { scale, shift } => Self::Affine {
                scale: scale.cast(precision),
                shift: shift.cast(precision),
            },
            Self::Norm { one, zero } => Self::Norm {
                one: one.cast(precision),
                zero: zero.cast(precision),
            },
            Self::Mean { taps, share } => Self::Mean {
                taps: taps.cast(precision),
                share: share.cast(precision),
            },
        }
    }
}

/// [`Op::Subsample`] is the mean over windows of one pixel.
pub(crate) fn subsampled(stride: [usize; 2]) -> Window {
    Window {
        stride,
        ..Window::square(1, 1, 0)
    }
}

/// Along an axis, for each place of the window, how many of its taps are pixels, or
/// padding that counts; at least one.
fn pixels_under(window: &Window, axis: usize, size: usize, count_padding: bool) -> Vec<usize> {
    let padding = window.padding;
    let (before, after) = match axis {
        0 => (padding.top, padding.bottom),
        _ => (padding.left, padding.right),
    };
    let (taps, stride, dilation) = (
        window.kernel[axis],
        window.stride[axis],
        window.dilation[axis],
    );
    let reach = dilation * (taps - 1) + 1;
    let places = (size + before + after - reach) / stride + 1;
    let count = |place: usize| {
        let at = |tap: usize| place * stride + tap * dilation;
        let inside = |tap: &usize| count_padding || (before..before + size).contains(&at(*tap));
        (0..taps).filter(inside).count().max(1)
    };
    (0..places).map(count).collect()
}
