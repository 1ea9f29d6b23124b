//! Vision transformers (Dosovitskiy et al. 2021), named as in torchvision or timm.

use kernels::geometry::{Shape, Window};

use super::Task;
use super::tokens::{GELU, attention, layer_norm, linear};
use crate::graph::GraphBuilder;
use crate::op::Op;
use crate::parameters::Role;
use crate::rearrange::Rearrange;

/// Sizes of a transformer.
pub(super) struct Sizes {
    pub patch: usize,
    pub channels: usize,
    pub layers: usize,
    pub heads: usize,
}

/// ViT-B/16.
pub(super) const BASE: Sizes = Sizes {
    patch: 16,
    channels: 768,
    layers: 12,
    heads: 12,
};

/// ViT-Ti/16.
pub(super) const TINY: Sizes = Sizes {
    patch: 16,
    channels: 192,
    layers: 12,
    heads: 3,
};

/// For small images.
pub(super) const SMALL: Sizes = Sizes {
    patch: 2,
    channels: 48,
    layers: 3,
    heads: 3,
};

/// Whose names the layers have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    Torchvision,
    Timm,
}

impl Names {
    fn of(self, torchvision: &'static str, timm: &'static str) -> &'static str {
        match self {
            Self::Torchvision => torchvision,
            Self::Timm => timm,
        }
    }
}

/// Patches as tokens behind a class token, whose last value gives the logits.
pub(super) fn vit(task: &Task, sizes: &Sizes, names: Names) -> GraphBuilder {
    let &Sizes {
        patch,
        channels,
        layers,
        heads,
    } = sizes;
    let mut graph = task.start();
    let patches = Op::Conv {
        out_channels: channels,
        window: Window::square(patch, patch, 0),
        groups: 1,
        bias: true,
    };
    let patches = graph.then(names.of("conv_proj", "patch_embed.proj"), patches);
    let [rows, columns] = [task.input.height, task.input.width].map(|size| size / patch);
    let count = rows * columns;
    let parameter = |tokens: usize| Op::Parameter {
        shape: Shape::new(1, tokens, channels),
        role: Role::Embedding,
    };
    // Joined as vectors: along the tokens.
    let class = graph.add(names.of("class_token", "cls_token"), parameter(1), &[]);
    let image = Shape::new(rows, columns, channels);
    let flat = Rearrange::reshape(image, Shape::vector(image.len()));
    let flat = graph.add("patches", Op::Rearrange(flat), &[patches]);
    let all = graph.add("all", Op::Concat, &[class, flat]);
    let tokens = Shape::new(1, count + 1, channels);
    let as_tokens = Rearrange::reshape(Shape::vector(tokens.len()), tokens);
    let mut x = graph.add("tokens", Op::Rearrange(as_tokens), &[all]);
    let places = names.of("encoder.pos_embedding", "pos_embed");
    let places = graph.add(places, parameter(count + 1), &[]);
    x = graph.add("placed", Op::Add, &[x, places]);
    for layer in 0..layers {
        let block = match names {
            Names::Torchvision => format!("encoder.layers.encoder_layer_{layer}"),
            Names::Timm => format!("blocks.{layer}"),
        };
        let part = |torchvision, timm| format!("{block}.{}", names.of(torchvision, timm));
        graph.add(part("ln_1", "norm1"), layer_norm(1e-6), &[x]);
        let qkv = part("self_attention.in_proj", "attn.qkv");
        graph.then(qkv, linear(3 * channels, true));
        let name = part("self_attention", "attn");
        attention(
            &mut graph,
            &name,
            [1, count + 1, channels],
            heads,
            |_, scores| scores,
        );
        let out = part("self_attention.out_proj", "attn.proj");
        let out = graph.then(out, linear(channels, true));
        x = graph.add(format!("{block}.add1"), Op::Add, &[out, x]);
        graph.add(part("ln_2", "norm2"), layer_norm(1e-6), &[x]);
        graph.then(part("mlp.0", "mlp.fc1"), linear(4 * channels, true));
        graph.then(format!("{block}.gelu"), GELU);
        let out = graph.then(part("mlp.3", "mlp.fc2"), linear(channels, true));
        x = graph.add(format!("{block}.add2"), Op::Add, &[out, x]);
    }
    // Only the class token is read any more.
    let first = Rearrange::of(&[count + 1, channels]).sliced(0, 0, 1, 1);
    let first = Op::Rearrange(first.into_shape(Shape::vector(channels)));
    graph.add("first", first, &[x]);
    graph.then(names.of("encoder.ln", "norm"), layer_norm(1e-6));
    let head = Op::Linear {
        out_features: task.classes,
        bias: true,
    };
    graph.then(names.of("heads.head", "head"), head);
    graph
}
