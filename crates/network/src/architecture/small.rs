//! Networks for the embedded data.

use kernels::geometry::Window;

use super::{BATCH_NORM, Task, conv};
use crate::graph::GraphBuilder;
use crate::op::Op;

/// Flatten, then 128 and 64 units with batch norm, then the logits.
pub(super) fn mlp(task: &Task) -> GraphBuilder {
    let mut graph = task.start();
    graph.then("flatten", Op::Flatten);
    for (i, out_features) in [128, 64].into_iter().enumerate() {
        let i = i + 1;
        graph.then(
            format!("fc{i}"),
            Op::Linear {
                out_features,
                bias: false,
            },
        );
        graph.then(format!("bn{i}"), BATCH_NORM);
        graph.then(format!("relu{i}"), Op::RELU);
    }
    graph.then(
        "linear",
        Op::Linear {
            out_features: task.classes,
            bias: true,
        },
    );
    graph
}

/// 3x3 convolutions with 16, 32 and 64 channels, the second and third after
/// halving the size, then the mean over the pixels and the logits.
pub(super) fn smallcnn(task: &Task) -> GraphBuilder {
    let mut graph = task.start();
    for (i, channels) in [16, 32, 64].into_iter().enumerate() {
        let i = i + 1;
        graph.then(format!("conv{i}"), conv(channels, 3, 1));
        graph.then(format!("bn{i}"), BATCH_NORM);
        graph.then(format!("relu{i}"), Op::RELU);
        if i < 3 {
            let window = Window::square(2, 2, 0);
            graph.then(format!("pool{i}"), Op::MaxPool { window });
        }
    }
    graph.then("average", Op::GlobalAveragePool);
    graph.then(
        "linear",
        Op::Linear {
            out_features: task.classes,
            bias: true,
        },
    );
    graph
}
