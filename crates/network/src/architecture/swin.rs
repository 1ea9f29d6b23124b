//! Swin transformers (Liu et al. 2021), named as in torchvision.

use kernels::geometry::{Shape, Window};

use super::Task;
use super::tokens::{GELU, attention, layer_norm, linear};
use crate::graph::{GraphBuilder, NodeId};
use crate::op::Op;
use crate::parameters::Role;
use crate::rearrange::{Rearrange, Walk};

/// Side of a window.
const SIDE: usize = 7;
const TOKENS: usize = SIDE * SIDE;

/// An image rolled by so much, in both directions.
fn rolled([h, w, c]: [usize; 3], shift: usize) -> Rearrange {
    Rearrange::of(&[h, w, c])
        .sliced(0, shift, h, 1)
        .sliced(1, shift, w, 1)
        .into_shape(Shape::new(h, w, c))
}

/// A bias for every head by the places of two tokens relative to each other, the same
/// in all windows.
fn relative(heads: usize, windows: usize) -> Rearrange {
    let reach = 2 * SIDE - 1;
    let walk = |count: usize, row: usize, column: usize, head: usize| Walk {
        count,
        steps: vec![row, column, head],
    };
    Rearrange {
        sizes: vec![reach, reach, heads],
        starts: vec![SIDE - 1, SIDE - 1, 0],
        axes: vec![
            walk(windows, 0, 0, 0),
            walk(heads, 0, 0, usize::from(heads > 1)),
            walk(SIDE, 1, 0, 0),
            walk(SIDE, 0, 1, 0),
            // Backwards.
            walk(SIDE, reach - 1, 0, 0),
            walk(SIDE, 0, reach - 1, 0),
        ],
        shape: Shape::new(windows * heads, TOKENS, TOKENS),
    }
}

/// One block: attention within windows, rolled by `shift`, then two linear layers.
fn block(graph: &mut GraphBuilder, name: &str, size: [usize; 3], heads: usize, shift: usize) {
    let [h, w, c] = size;
    let [rows, columns] = [h / SIDE, w / SIDE];
    let windows = rows * columns;
    let x = graph.last();
    graph.then(format!("{name}.norm1"), layer_norm(1e-5));
    let cut = rolled(size, shift)
        .split(0, SIDE)
        .split(2, SIDE)
        .permuted(&[0, 2, 1, 3, 4])
        .into_shape(Shape::new(windows, TOKENS, c));
    graph.then(format!("{name}.windows"), Op::Rearrange(cut));
    graph.then(format!("{name}.attn.qkv"), linear(3 * c, true));
    let attn = format!("{name}.attn");
    let biased = |graph: &mut GraphBuilder, scores: NodeId| {
        let table = Op::Parameter {
            shape: Shape::new(1, (2 * SIDE - 1) * (2 * SIDE - 1), heads),
            role: Role::Embedding,
        };
        let table = graph.add(format!("{attn}.relative_position_bias_table"), table, &[]);
        let bias = Op::Rearrange(relative(heads, windows));
        let bias = graph.add(format!("{attn}.bias"), bias, &[table]);
        let scores = graph.add(format!("{attn}.biased"), Op::Add, &[scores, bias]);
        if shift == 0 {
            return scores;
        }
        let mask = Op::Parameter {
            shape: Shape::new(rows, columns, TOKENS * TOKENS),
            role: Role::Mask,
        };
        let mask = graph.add(format!("{attn}.mask"), mask, &[]);
        let spread = Rearrange::of(&[windows, TOKENS * TOKENS])
            .repeated(1, heads)
            .into_shape(Shape::new(windows * heads, TOKENS, TOKENS));
        let mask = graph.add(format!("{attn}.masks"), Op::Rearrange(spread), &[mask]);
        graph.add(format!("{attn}.masked"), Op::Add, &[scores, mask])
    };
    attention(graph, &attn, [windows, TOKENS, c], heads, biased);
    graph.then(format!("{attn}.proj"), linear(c, true));
    let joined = Rearrange::of(&[rows, columns, SIDE, SIDE, c])
        .permuted(&[0, 2, 1, 3, 4])
        .into_shape(Shape::new(h, w, c));
    graph.then(format!("{name}.image"), Op::Rearrange(joined));
    if shift > 0 {
        let back = Op::Rearrange(
            Rearrange::of(&size)
                .sliced(0, h - shift, h, 1)
                .sliced(1, w - shift, w, 1)
                .into_shape(Shape::new(h, w, c)),
        );
        graph.then(format!("{name}.back"), back);
    }
    let y = graph.last();
    let x = graph.add(format!("{name}.add1"), Op::Add, &[y, x]);
    graph.then(format!("{name}.norm2"), layer_norm(1e-5));
    graph.then(format!("{name}.mlp.0"), linear(4 * c, true));
    graph.then(format!("{name}.gelu"), GELU);
    let y = graph.then(format!("{name}.mlp.3"), linear(c, true));
    graph.add(format!("{name}.add2"), Op::Add, &[y, x]);
}

/// Four stages of blocks; between stages, four pixels become one.
pub(super) fn swin(task: &Task, blocks: [usize; 4], first: usize, heads: usize) -> GraphBuilder {
    let mut graph = task.start();
    let patches = Op::Conv {
        out_channels: first,
        window: Window::square(4, 4, 0),
        groups: 1,
        bias: true,
    };
    graph.then("features.0.0", patches);
    graph.then("features.0.2", layer_norm(1e-5));
    let [mut h, mut w] = [task.input.height / 4, task.input.width / 4];
    for (stage, &count) in blocks.iter().enumerate() {
        let c = first << stage;
        if stage > 0 {
            let name = format!("features.{}", 2 * stage);
            (h, w) = (h / 2, w / 2);
            // Of each square the left column, then the right one.
            let merged = Rearrange::of(&[h, 2, w, 2, c / 2])
                .permuted(&[0, 2, 3, 1, 4])
                .into_shape(Shape::new(h, w, 2 * c));
            graph.then(format!("{name}.merged"), Op::Rearrange(merged));
            graph.then(format!("{name}.norm"), layer_norm(1e-5));
            graph.then(format!("{name}.reduction"), linear(c, false));
        }
        for index in 0..count {
            let name = format!("features.{}.{index}", 2 * stage + 1);
            // A single window is not rolled.
            let shift = if index % 2 == 1 && h.min(w) > SIDE {
                SIDE / 2
            } else {
                0
            };
            block(&mut graph, &name, [h, w, c], heads << stage, shift);
        }
    }
    graph.then("norm", layer_norm(1e-5));
    graph.then("avgpool", Op::GlobalAveragePool);
    let head = Op::Linear {
        out_features: task.classes,
        bias: true,
    };
    graph.then("head", head);
    graph
}
