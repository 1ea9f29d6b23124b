//! Wide residual networks (Zagoruyko and Komodakis 2016), laid out and named as in
//! RobustBench and TRADES.

use super::{BATCH_NORM, Task, conv};
use crate::graph::GraphBuilder;
use crate::op::Op;

/// `6 * blocks + 4` layers; norms and rectifiers stand before the convolutions.
pub(super) fn wide(task: &Task, blocks: usize, wider: usize) -> GraphBuilder {
    let mut graph = task.start();
    graph.then("conv1", conv(16, 3, 1));
    let mut in_channels = 16;
    for stage in 1..=3 {
        let channels = (8 << stage) * wider;
        for block in 0..blocks {
            let name = format!("block{stage}.layer.{block}");
            let stride = if stage > 1 && block == 0 { 2 } else { 1 };
            let x = graph.last();
            graph.then(format!("{name}.bn1"), BATCH_NORM);
            let normal = graph.then(format!("{name}.relu1"), Op::RELU);
            graph.then(format!("{name}.conv1"), conv(channels, 3, stride));
            graph.then(format!("{name}.bn2"), BATCH_NORM);
            graph.then(format!("{name}.relu2"), Op::RELU);
            let y = graph.then(format!("{name}.conv2"), conv(channels, 3, 1));
            // Where the channels change, the shortcut reads the normalised image.
            let skip = match in_channels == channels {
                true => x,
                false => {
                    let project = conv(channels, 1, stride);
                    graph.add(format!("{name}.convShortcut"), project, &[normal])
                }
            };
            graph.add(format!("{name}.add"), Op::Add, &[y, skip]);
            in_channels = channels;
        }
    }
    graph.then("bn1", BATCH_NORM);
    graph.then("relu", Op::RELU);
    graph.then("average", Op::GlobalAveragePool);
    let head = Op::Linear {
        out_features: task.classes,
        bias: true,
    };
    graph.then("fc", head);
    graph
}
