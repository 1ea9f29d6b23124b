//! Residual networks with 64 to 512 channels, laid out and named as in
//! torchvision.

use kernels::geometry::Window;

use super::{BATCH_NORM, Task, conv};
use crate::graph::{GraphBuilder, NodeId};
use crate::op::Op;

/// How the image enters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stem {
    /// 7x7 stride 2, then 3x3 maximum stride 2.
    ImageNet,
    /// 3x3 stride 1, for images of 32x32.
    Small,
}

fn stem(task: &Task, stem: Stem) -> GraphBuilder {
    let mut graph = task.start();
    match stem {
        Stem::ImageNet => graph.then("conv1", conv(64, 7, 2)),
        Stem::Small => graph.then("conv1", conv(64, 3, 1)),
    };
    graph.then("bn1", BATCH_NORM);
    graph.then("relu", Op::RELU);
    if stem == Stem::ImageNet {
        let window = Window::square(3, 2, 1);
        graph.then("maxpool", Op::MaxPool { window });
    }
    graph
}

/// Four stages; `block(graph, name, channels, stride)` adds the residual branch
/// and returns its end, with `channels * expansion` channels.
fn stages(
    mut graph: GraphBuilder,
    classes: usize,
    blocks: [usize; 4],
    expansion: usize,
    branch: impl Fn(&mut GraphBuilder, &str, usize, usize) -> NodeId,
) -> GraphBuilder {
    let mut in_channels = 64;
    for (stage, &count) in blocks.iter().enumerate() {
        let channels = 64 << stage;
        for block in 0..count {
            let name = format!("layer{}.{block}", stage + 1);
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let x = graph.last();
            let y = branch(&mut graph, &name, channels, stride);
            let out_channels = channels * expansion;
            let skip = if stride > 1 || in_channels != out_channels {
                let project = conv(out_channels, 1, stride);
                let project = graph.add(format!("{name}.downsample.0"), project, &[x]);
                graph.add(format!("{name}.downsample.1"), BATCH_NORM, &[project])
            } else {
                x
            };
            graph.add(format!("{name}.add"), Op::Add, &[y, skip]);
            graph.then(format!("{name}.relu"), Op::RELU);
            in_channels = out_channels;
        }
    }
    graph.then("avgpool", Op::GlobalAveragePool);
    let bias = true;
    graph.then(
        "fc",
        Op::Linear {
            out_features: classes,
            bias,
        },
    );
    graph
}

/// Adds `conv{i}`, `bn{i}` and, but for the last, `relu{i}` for each
/// `(channels, kernel, stride)`.
fn chain(graph: &mut GraphBuilder, name: &str, layers: &[(usize, usize, usize)]) -> NodeId {
    for (i, &(channels, kernel, stride)) in layers.iter().enumerate() {
        let number = i + 1;
        graph.then(
            format!("{name}.conv{number}"),
            conv(channels, kernel, stride),
        );
        graph.then(format!("{name}.bn{number}"), BATCH_NORM);
        if number < layers.len() {
            graph.then(format!("{name}.relu{number}"), Op::RELU);
        }
    }
    graph.last()
}

/// ResNet-18 and -34: two 3x3 convolutions a block.
pub(super) fn basic(task: &Task, blocks: [usize; 4], kind: Stem) -> GraphBuilder {
    stages(
        stem(task, kind),
        task.classes,
        blocks,
        1,
        |graph, name, c, stride| chain(graph, name, &[(c, 3, stride), (c, 3, 1)]),
    )
}

/// ResNet-50: 1x1, 3x3 (with the stride, "v1.5"), 1x1 to four times the
/// channels.
pub(super) fn bottleneck(task: &Task, blocks: [usize; 4]) -> GraphBuilder {
    let graph = stem(task, Stem::ImageNet);
    stages(graph, task.classes, blocks, 4, |graph, name, c, stride| {
        chain(graph, name, &[(c, 1, 1), (c, 3, stride), (4 * c, 1, 1)])
    })
}
