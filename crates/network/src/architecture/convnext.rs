//! ConvNeXt (Liu et al. 2022), named as in torchvision.

use kernels::geometry::{Shape, Window};

use super::Task;
use super::tokens::{GELU, layer_norm, linear};
use crate::graph::GraphBuilder;
use crate::op::Op;
use crate::parameters::Role;

/// A convolution whose windows do not overlap.
fn patches(out_channels: usize, side: usize) -> Op {
    Op::Conv {
        out_channels,
        window: Window::square(side, side, 0),
        groups: 1,
        bias: true,
    }
}

/// Patches of `side` pixels, then stages of blocks: a depthwise 7x7 convolution, a layer
/// norm, two linear layers.
pub(super) fn convnext(task: &Task, side: usize, blocks: &[usize], first: usize) -> GraphBuilder {
    let mut graph = task.start();
    graph.then("features.0.0", patches(first, side));
    graph.then("features.0.1", layer_norm(1e-6));
    for (stage, &count) in blocks.iter().enumerate() {
        let channels = first << stage;
        if stage > 0 {
            let name = format!("features.{}", 2 * stage);
            graph.then(format!("{name}.0"), layer_norm(1e-6));
            graph.then(format!("{name}.1"), patches(channels, 2));
        }
        for block in 0..count {
            let name = format!("features.{}.{block}", 2 * stage + 1);
            let x = graph.last();
            let depthwise = Op::Conv {
                out_channels: channels,
                window: Window::square(7, 1, 3),
                groups: channels,
                bias: true,
            };
            graph.then(format!("{name}.block.0"), depthwise);
            graph.then(format!("{name}.block.2"), layer_norm(1e-6));
            graph.then(format!("{name}.block.3"), linear(4 * channels, true));
            graph.then(format!("{name}.block.4"), GELU);
            let y = graph.then(format!("{name}.block.5"), linear(channels, true));
            let scale = Op::Parameter {
                shape: Shape::vector(channels),
                role: Role::NormScale,
            };
            let scale = graph.add(format!("{name}.layer_scale"), scale, &[]);
            let y = graph.add(format!("{name}.scaled"), Op::Mul, &[y, scale]);
            graph.add(format!("{name}.add"), Op::Add, &[x, y]);
        }
    }
    graph.then("avgpool", Op::GlobalAveragePool);
    graph.then("classifier.0", layer_norm(1e-6));
    let head = Op::Linear {
        out_features: task.classes,
        bias: true,
    };
    graph.then("classifier.2", head);
    graph
}
