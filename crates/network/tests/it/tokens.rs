//! Layer norms, attention and rearranging: central differences of the oracle, and the
//! device's verbs against it.

use network::{
    Activation, Classify, Cpu, Graph, GraphBuilder, GraphError, Node, NodeId, Op, Rearrange,
    Reference, Role, Shape, Walk, Window,
};

use crate::common::{model, pixels, pool};
use crate::{gradients, verbs};

fn linear(out_channels: usize) -> Op {
    Op::Conv {
        out_channels,
        window: Window::square(1, 1, 0),
        groups: 1,
        bias: true,
    }
}

const LAYER_NORM: Op = Op::LayerNorm {
    groups: 1,
    over_pixels: false,
    centred: true,
    epsilon: 1e-5,
    scale: true,
    shift: true,
};

fn parameter(height: usize, width: usize, channels: usize, role: Role) -> Op {
    let shape = Shape::new(height, width, channels);
    Op::Parameter { shape, role }
}

/// Attention with two heads of three channels over a grid of tokens, with a bias by
/// their relative places and a mask.
fn attention(g: &mut GraphBuilder, name: &str, side: usize, x: NodeId) -> NodeId {
    let (tokens, heads, width) = (side * side, 2, 3);
    let part = |part: &str| format!("{name}.{part}");
    let qkv = g.add(part("qkv"), linear(3 * heads * width), &[x]);
    let mut head = |which: usize| {
        let rearrange = Rearrange::of(&[tokens, 3, heads, width])
            .sliced(1, which, 1, 1)
            .permuted(&[1, 2, 0, 3])
            .into_shape(Shape::new(heads, tokens, width));
        g.add(
            part(["q", "k", "v"][which]),
            Op::Rearrange(rearrange),
            &[qkv],
        )
    };
    let (q, k, v) = (head(0), head(1), head(2));
    let scores = g.add(part("scores"), Op::MatMul { transposed: true }, &[q, k]);
    let affine = Op::Affine {
        scale: vec![0.6],
        shift: vec![0.0],
    };
    let scores = g.add(part("scaled"), affine, &[scores]);
    let reach = 2 * side - 1;
    let table = g.add(
        part("table"),
        parameter(reach, reach, heads, Role::Embedding),
        &[],
    );
    // Heads, then rows and columns of one token, then of the other.
    let step = |row: usize, column: usize, head: usize, count: usize| Walk {
        count,
        steps: vec![row, column, head],
    };
    let bias = Rearrange {
        sizes: vec![reach, reach, heads],
        starts: vec![side - 1, side - 1, 0],
        axes: vec![
            step(0, 0, 1, heads),
            step(1, 0, 0, side),
            step(0, 1, 0, side),
            step(reach - 1, 0, 0, side),
            step(0, reach - 1, 0, side),
        ],
        shape: Shape::new(heads, tokens, tokens),
    };
    let bias = g.add(part("bias"), Op::Rearrange(bias), &[table]);
    let scores = g.add(part("biased"), Op::Add, &[scores, bias]);
    let mask = g.add(
        part("mask"),
        parameter(1, tokens, tokens, Role::Constant),
        &[],
    );
    let scores = g.add(part("masked"), Op::Add, &[scores, mask]);
    let shares = g.add(part("softmax"), Op::Softmax, &[scores]);
    let mixed = g.add(
        part("mixed"),
        Op::MatMul { transposed: false },
        &[shares, v],
    );
    let back = Rearrange::of(&[heads, tokens, width])
        .permuted(&[1, 0, 2])
        .into_shape(Shape::new(1, tokens, heads * width));
    let back = g.add(part("joined"), Op::Rearrange(back), &[mixed]);
    g.add(part("out"), linear(6), &[back])
}

/// A small transformer with a class token, in all the ways that the nodes know.
fn transformer() -> Graph {
    let mut g = GraphBuilder::new(Shape::new(6, 6, 2));
    let window = Window::square(2, 2, 0);
    let patches = g.then(
        "patches",
        Op::Conv {
            out_channels: 6,
            window,
            groups: 1,
            bias: true,
        },
    );
    // Rolled by one, cut into windows of 3 x 1 and put together again.
    let rolled = Rearrange::of(&[3, 3, 6])
        .sliced(0, 1, 3, 1)
        .split(1, 1)
        .permuted(&[1, 0, 2, 3]);
    let rolled = g.then(
        "rolled",
        Op::Rearrange(rolled.into_shape(Shape::new(3, 3, 6))),
    );
    let both = g.add("both", Op::Add, &[rolled, patches]);
    let tokens = Rearrange::reshape(Shape::new(3, 3, 6), Shape::new(1, 9, 6));
    let x = g.add("tokens", Op::Rearrange(tokens), &[both]);
    let position = g.add("position", parameter(1, 9, 6, Role::Embedding), &[]);
    let x = g.add("placed", Op::Add, &[x, position]);
    let norm = g.add("norm1", LAYER_NORM, &[x]);
    let attended = attention(&mut g, "attention", 3, norm);
    let scale = g.add("scale", parameter(1, 1, 6, Role::NormScale), &[]);
    let attended = g.add("scaled", Op::Mul, &[attended, scale]);
    let x = g.add("sum1", Op::Add, &[x, attended]);
    let norm = Op::LayerNorm {
        groups: 2,
        over_pixels: true,
        centred: true,
        epsilon: 1e-4,
        scale: true,
        shift: true,
    };
    g.add("norm2", norm, &[x]);
    g.then("mlp1", linear(12));
    g.then("gelu", Op::Activation(Activation::Gelu { tanh: false }));
    let hidden = g.then("mlp2", linear(6));
    let x = g.add("sum2", Op::Add, &[x, hidden]);
    // The class token in front: joined as vectors, which is along the tokens.
    let class = g.add("class", parameter(1, 1, 6, Role::Embedding), &[]);
    let flat = g.add(
        "flat",
        Op::Rearrange(Rearrange::reshape(Shape::new(1, 9, 6), Shape::vector(54))),
        &[x],
    );
    let joined = g.add("joined", Op::Concat, &[class, flat]);
    let joined = g.add(
        "tokens10",
        Op::Rearrange(Rearrange::reshape(Shape::vector(60), Shape::new(1, 10, 6))),
        &[joined],
    );
    let first = Rearrange::of(&[10, 6])
        .sliced(0, 0, 1, 1)
        .into_shape(Shape::vector(6));
    let first = g.add("first", Op::Rearrange(first), &[joined]);
    let norm = Op::LayerNorm {
        groups: 1,
        over_pixels: false,
        centred: false,
        epsilon: 1e-6,
        scale: false,
        shift: false,
    };
    let norm = g.add("norm3", norm, &[joined]);
    let mean = g.add("mean", Op::GlobalAveragePool, &[norm]);
    let both = g.add("ends", Op::Add, &[mean, first]);
    g.add(
        "head",
        Op::Linear {
            out_features: 4,
            bias: true,
        },
        &[both],
    );
    g.build().unwrap()
}

#[test]
fn gradients_of_a_transformer() {
    gradients::check("transformer", transformer(), 2);
}

#[test]
fn gradients_of_norms_and_softmax() {
    for (groups, over_pixels) in [(1, false), (2, false), (1, true), (4, true)] {
        for (centred, scale, shift) in [
            (true, true, true),
            (false, true, false),
            (true, false, true),
        ] {
            let op = Op::LayerNorm {
                groups,
                over_pixels,
                centred,
                epsilon: 1e-3,
                scale,
                shift,
            };
            let graph = gradients::around(op.clone());
            gradients::check(&format!("{op:?}"), graph.clone(), 2);
            verbs::check(&format!("{op:?}"), graph, 3);
        }
    }
    gradients::check("softmax", gradients::around(Op::Softmax), 2);
    verbs::check("softmax", gradients::around(Op::Softmax), 3);
}

/// Sums and products that spread the second input along each axis, computed or not.
#[test]
fn spreading() {
    for (height, width, channels) in [
        (1, 5, 4),
        (6, 1, 4),
        (6, 5, 1),
        (1, 1, 1),
        (1, 1, 4),
        (6, 5, 4),
    ] {
        for op in [Op::Add, Op::Mul] {
            let mut g = GraphBuilder::new(Shape::new(6, 5, 2));
            let x = g.then("x", linear(4));
            // Only the first element along each short axis.
            let part = Rearrange::of(&[6, 5, 4])
                .sliced(0, 0, height, 1)
                .sliced(1, 0, width, 1)
                .sliced(2, 0, channels, 1)
                .into_shape(Shape::new(height, width, channels));
            let part = g.then("part", Op::Rearrange(part));
            let y = g.add("y", op.clone(), &[x, part]);
            let constant = g.add(
                "p",
                parameter(height, width, channels, Role::Embedding),
                &[],
            );
            g.add("z", op.clone(), &[y, constant]);
            g.then("flatten", Op::Flatten);
            g.then(
                "head",
                Op::Linear {
                    out_features: 3,
                    bias: true,
                },
            );
            let name = format!("{op:?} {height}x{width}x{channels}");
            let graph = g.build().unwrap();
            gradients::check(&name, graph.clone(), 2);
            verbs::check(&name, graph, 3);
        }
    }
}

#[test]
fn agrees_with_the_reference() {
    for images in [1, 3, 20] {
        verbs::check("transformer", transformer(), images);
    }
}

/// The same to the bit for any number of threads and any neighbours.
#[test]
fn logits_depend_on_nothing_else() {
    let model = model(transformer());
    let length = model.graph.input().len();
    let images = pixels(7 * length, 1);
    let logits = |threads: usize, images: &[f32]| {
        let mut logits = vec![f32::NAN; images.len() / length * 4];
        Cpu::new(&model, pool(threads))
            .logits(images, &mut logits)
            .unwrap();
        logits
    };
    let whole = logits(2, &images);
    let alone: Vec<f32> = images
        .chunks_exact(length)
        .flat_map(|image| logits(2, image))
        .collect();
    assert_eq!(whole, alone);
    assert_eq!(whole, logits(1, &images));
    let mut want = vec![0.0; whole.len()];
    Reference::<f64>::new(&model)
        .logits(&images, &mut want)
        .unwrap();
    assert!(
        whole.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-4),
        "{whole:?} {want:?}"
    );
}

#[test]
fn a_file_keeps_every_node() {
    let model = model(transformer());
    let again = network::Model::from_bytes(&model.to_bytes()).unwrap();
    assert_eq!(again, model);
}

/// What does not fit is refused by name.
#[test]
fn refusals() {
    let node = |name: &str, op: Op, inputs: &[NodeId]| Node {
        name: name.into(),
        op,
        inputs: inputs.to_vec(),
    };
    let input = || {
        node(
            "input",
            Op::Input {
                shape: Shape::new(2, 3, 4),
            },
            &[],
        )
    };
    let constant = || node("p", parameter(1, 1, 4, Role::Embedding), &[]);
    let norm = |groups| Op::LayerNorm {
        groups,
        over_pixels: false,
        centred: true,
        epsilon: 1e-5,
        scale: true,
        shift: true,
    };
    for (rest, words) in [
        (
            vec![node("n", norm(3), &[0])],
            "3 groups do not divide 4 channels",
        ),
        (vec![node("n", norm(0), &[0])], "0 groups"),
        (
            vec![node("n", Op::MatMul { transposed: false }, &[0, 0])],
            "cannot multiply the matrices",
        ),
        (
            vec![node("n", Op::Rearrange(Rearrange::of(&[2, 3])), &[0])],
            "is not the size of 2x3x4",
        ),
        (vec![constant()], "does not depend on the image"),
        (
            vec![constant(), node("n", Op::Softmax, &[1])],
            "reads nothing that depends on the image",
        ),
        (
            vec![constant(), node("n", Op::Add, &[1, 1])],
            "reads nothing that depends on the image",
        ),
        (
            vec![constant(), node("n", Op::Mul, &[1, 0])],
            "cannot multiply",
        ),
        (
            vec![
                node("n", parameter(1, 1, 4, Role::Width), &[]),
                node("m", Op::Add, &[0, 1]),
            ],
            "belongs to another node",
        ),
        (
            vec![
                node("n", parameter(1, 3, 2, Role::Embedding), &[]),
                node("m", Op::Add, &[0, 1]),
            ],
            "cannot add",
        ),
        (
            vec![node(
                "n",
                parameter(1 << 20, 1 << 20, 2, Role::Embedding),
                &[],
            )],
            "too large",
        ),
    ] {
        let nodes = [vec![input()], rest].concat();
        let error = Graph::new(nodes).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    // A parameter's name is its node's: it may not be that of another one.
    let clash = vec![
        input(),
        node("a.weight", parameter(1, 1, 4, Role::Embedding), &[]),
        node("a", linear(4), &[0]),
        node("sum", Op::Add, &[2, 1]),
    ];
    assert_eq!(
        Graph::new(clash),
        Err(GraphError::Duplicate("a.weight".into()))
    );
}
