//! Residual networks for 32x32 images with 16, 32 and 64 channels.

use kernels::geometry::{Padding, Window};

use super::{BATCH_NORM, Task, conv};
use crate::graph::{GraphBuilder, NodeId};
use crate::op::Op;

/// Batch norm without scale but with a shift, as the paper's network has it.
const SHIFT_ONLY: Op = Op::BatchNorm {
    epsilon: 1e-5,
    momentum: 0.1,
    scale: false,
    shift: true,
};

/// `relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut)`.
fn basic_block(
    graph: &mut GraphBuilder,
    name: &str,
    (channels, stride): (usize, usize),
    norm: &Op,
    shortcut: impl FnOnce(&mut GraphBuilder, NodeId) -> NodeId,
) {
    let x = graph.last();
    graph.then(format!("{name}.conv1"), conv(channels, 3, stride));
    graph.then(format!("{name}.bn1"), norm.clone());
    graph.then(format!("{name}.relu1"), Op::RELU);
    graph.then(format!("{name}.conv2"), conv(channels, 3, 1));
    let y = graph.then(format!("{name}.bn2"), norm.clone());
    let skip = shortcut(graph, x);
    graph.add(format!("{name}.add"), Op::Add, &[y, skip]);
    graph.then(format!("{name}.relu2"), Op::RELU);
}

/// He et al. 2016, section 4.2, with `6 * blocks + 2` layers and option A
/// shortcuts: every second pixel, new channels zero, half of them on each side.
pub(super) fn option_a(task: &Task, blocks: usize) -> GraphBuilder {
    residual(task, blocks, false)
}

/// The same with a 1x1 convolution and a batch norm as shortcuts where the size
/// changes, as in the code of Cohen et al. 2019.
pub(super) fn projection(task: &Task, blocks: usize) -> GraphBuilder {
    residual(task, blocks, true)
}

fn residual(task: &Task, blocks: usize, projected: bool) -> GraphBuilder {
    let mut graph = task.start();
    graph.then("conv1", conv(16, 3, 1));
    graph.then("bn1", BATCH_NORM);
    graph.then("relu1", Op::RELU);
    for (stage, channels) in [(1, 16), (2, 32), (3, 64)] {
        for block in 0..blocks {
            let name = format!("layer{stage}.{block}");
            let stride = if stage > 1 && block == 0 { 2 } else { 1 };
            basic_block(
                &mut graph,
                &name,
                (channels, stride),
                &BATCH_NORM,
                |graph, x| {
                    if stride == 1 {
                        return x;
                    }
                    if projected {
                        let project = conv(channels, 1, stride);
                        let project = graph.add(format!("{name}.downsample.0"), project, &[x]);
                        return graph.add(format!("{name}.downsample.1"), BATCH_NORM, &[project]);
                    }
                    let subsample = Op::Subsample { stride: [2, 2] };
                    let pad = Op::Pad {
                        padding: Padding::default(),
                        channels: [channels / 4; 2],
                    };
                    let half = graph.add(format!("{name}.subsample"), subsample, &[x]);
                    graph.add(format!("{name}.pad"), pad, &[half])
                },
            );
        }
    }
    graph.then("average", Op::GlobalAveragePool);
    let bias = true;
    let head = if projected { "fc" } else { "linear" };
    graph.then(
        head,
        Op::Linear {
            out_features: task.classes,
            bias,
        },
    );
    graph
}

/// The paper's "ResNet-34": three stages of five basic blocks; between stages a
/// 1x1 convolution that doubles the channels, then 2x2 average pooling; batch
/// norm also behind the last linear layer, so the logits have unit variance.
pub(super) fn paper(task: &Task) -> GraphBuilder {
    let mut graph = task.start();
    graph.then("conv1", conv(16, 3, 1));
    graph.then("bn1", SHIFT_ONLY);
    graph.then("relu1", Op::RELU);
    for (stage, channels) in [(1, 16), (2, 32), (3, 64)] {
        if stage > 1 {
            graph.then(format!("transition{stage}.conv"), conv(channels, 1, 1));
            graph.then(format!("transition{stage}.bn"), SHIFT_ONLY);
            graph.then(format!("transition{stage}.relu"), Op::RELU);
            let pool = Op::AveragePool {
                window: Window::square(2, 2, 0),
                count_padding: true,
            };
            graph.then(format!("transition{stage}.pool"), pool);
        }
        for block in 0..5 {
            let name = format!("layer{stage}.{block}");
            basic_block(&mut graph, &name, (channels, 1), &SHIFT_ONLY, |_, x| x);
        }
    }
    graph.then("average", Op::GlobalAveragePool);
    let bias = false;
    graph.then(
        "linear",
        Op::Linear {
            out_features: task.classes,
            bias,
        },
    );
    graph.then("bn2", SHIFT_ONLY);
    graph
}
