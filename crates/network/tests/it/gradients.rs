//! Central differences in f64 of every operator and of the built-in networks,
//! with respect to inputs and parameters, in train and eval mode.

use network::architecture::{Task, build};
use network::{
    Activation, Executor, Graph, GraphBuilder, Mode, Model, Node, Noise, Op, Padding, Purpose,
    Reference, Role, Shape, Window,
};

/// `count` standard normal values, a pure function of `key`.
fn normal(key: u32, count: usize) -> Vec<f64> {
    let noise = Noise::gaussian(20, Purpose::Bench, 1.0);
    let draw = noise.draw(key, 0, count);
    draw.into_iter().map(f64::from).collect()
}

/// Scaled to length 1: a short step crosses few kinks of a ReLU.
fn unit(v: Vec<f64>) -> Vec<f64> {
    let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
    v.into_iter().map(|x| x / length).collect()
}

/// Random weights, also for biases, shifts and running statistics.
fn network(graph: Graph) -> Reference<f64> {
    let mut model = Model::initialised(graph, 3, Default::default());
    let roles: Vec<Role> = model.graph.parameters().iter().map(|p| p.role).collect();
    for (i, (values, role)) in model.parameters.iter_mut().zip(roles).enumerate() {
        let draws = normal(100 + i as u32, values.len());
        for (v, z) in values.iter_mut().zip(draws) {
            match role {
                Role::Weight | Role::Mask => {}
                Role::Constant => *v = 0.1 * z as f32,
                Role::RunningVariance => *v = 1.0 + 0.5 * z.tanh() as f32,
                Role::Width => *v = 0.5 + 0.4 * z.tanh() as f32,
                Role::NormScale => *v = 1.0 + 0.2 * z as f32,
                Role::Bias | Role::NormShift | Role::RunningMean | Role::Embedding => {
                    *v = 0.3 * z as f32;
                }
            }
        }
    }
    Reference::new(&model)
}

/// Compares the pulled-back gradient with central differences in a random
/// direction of each parameter and of the input.
pub(crate) fn check(name: &str, graph: Graph, images: usize) {
    let network = network(graph);
    let graph = network.graph();
    let cotangent = normal(1, images * graph.classes());
    let x = normal(2, images * graph.input().len());
    let values = network.values();
    for mode in [Mode::Train, Mode::Eval, Mode::Frozen] {
        let tape = network.evaluate(&values, &x, mode);
        let (dx, gradients) = network.pull_back(&values, &tape, &cotangent);
        let loss = |values: &[Vec<f64>], x: &[f64]| -> f64 {
            let tape = network.evaluate(values, x, mode);
            let terms = tape.logits().iter().zip(&cotangent);
            terms.map(|(l, c)| l * c).sum()
        };
        let step = 1e-5;
        let moved = |from: &[f64], direction: &[f64], by: f64| -> Vec<f64> {
            from.iter()
                .zip(direction)
                .map(|(a, d)| a + by * d)
                .collect()
        };
        let compare = |what: &str, gradient: &[f64], numeric: &dyn Fn(&[f64]) -> f64| {
            let direction = unit(normal(50, gradient.len()));
            let numeric = numeric(&direction);
            let exact: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
            let size = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
            assert!(
                (numeric - exact).abs() <= 1e-7 * (1.0 + size),
                "{name}, {mode:?}, {what}: {numeric} by differences, {exact} by gradient"
            );
        };
        compare("input", &dx, &|direction| {
            let at = |by| loss(&values, &moved(&x, direction, by));
            (at(step) - at(-step)) / (2.0 * step)
        });
        for (i, gradient) in gradients.iter().enumerate() {
            if graph.parameters()[i].role.trainable() {
                compare(&graph.parameters()[i].name, gradient, &|direction| {
                    let at = |by| {
                        let mut values = values.clone();
                        values[i] = moved(&values[i], direction, by);
                        loss(&values, &x)
                    };
                    (at(step) - at(-step)) / (2.0 * step)
                });
            }
        }
    }
}

/// A graph around one operator: a convolution before it, a linear head after.
pub(crate) fn around(op: Op) -> Graph {
    let mut graph = GraphBuilder::new(Shape::new(6, 5, 2));
    let window = Window::square(3, 1, 1);
    graph.then(
        "first",
        Op::Conv {
            out_channels: 4,
            window,
            groups: 1,
            bias: true,
        },
    );
    graph.then("op", op);
    graph.then("flatten", Op::Flatten);
    graph.then(
        "head",
        Op::Linear {
            out_features: 3,
            bias: true,
        },
    );
    graph.build().unwrap()
}

#[test]
fn every_activation() {
    for activation in [
        Activation::Relu,
        Activation::LeakyRelu { slope: 0.1 },
        Activation::Clip {
            low: -0.5,
            high: 0.7,
        },
        Activation::Sigmoid,
        Activation::HardSigmoid {
            slope: 0.2,
            offset: 0.5,
        },
        Activation::HardSwish,
        Activation::Gelu { tanh: false },
        Activation::Gelu { tanh: true },
        Activation::Silu,
        Activation::Tanh,
        Activation::Exp,
    ] {
        check(
            &format!("{activation:?}"),
            around(Op::Activation(activation)),
            2,
        );
    }
}

#[test]
fn averaged_relus() {
    check("averaged ReLU", around(Op::AveragedRelu), 2);
}

#[test]
fn convolutions() {
    for (kernel, stride, dilation, groups, padding) in [
        ([3, 3], [1, 1], [1, 1], 1, Padding::same(1)),
        ([3, 3], [2, 2], [1, 1], 2, Padding::same(1)),
        ([1, 1], [2, 1], [1, 1], 1, Padding::default()),
        (
            [2, 3],
            [1, 2],
            [2, 1],
            4,
            Padding {
                top: 2,
                left: 0,
                bottom: 1,
                right: 3,
            },
        ),
    ] {
        let window = Window {
            kernel,
            stride,
            padding,
            dilation,
        };
        let op = Op::Conv {
            out_channels: 8,
            window,
            groups,
            bias: groups != 2,
        };
        check(&format!("{op:?}"), around(op), 2);
    }
}

#[test]
fn norms() {
    for (scale, shift) in [(true, true), (false, true), (true, false), (false, false)] {
        let op = Op::BatchNorm {
            epsilon: 1e-5,
            momentum: 0.1,
            scale,
            shift,
        };
        check(&format!("{op:?}"), around(op), 3);
    }
}

#[test]
fn pooling_and_moving() {
    let window = Window {
        kernel: [3, 2],
        stride: [2, 2],
        padding: Padding {
            top: 1,
            left: 0,
            bottom: 0,
            right: 1,
        },
        dilation: [1, 1],
    };
    for op in [
        Op::MaxPool { window },
        Op::AveragePool {
            window,
            count_padding: true,
        },
        Op::AveragePool {
            window,
            count_padding: false,
        },
        Op::GlobalAveragePool,
        Op::Subsample { stride: [2, 3] },
        Op::Pad {
            padding: Padding {
                top: 1,
                left: 2,
                bottom: 0,
                right: 3,
            },
            channels: [1, 2],
        },
        Op::Affine {
            scale: vec![0.5, 2.0, -1.0, 3.0],
            shift: vec![0.1],
        },
    ] {
        check(&format!("{op:?}"), around(op), 2);
    }
}

#[test]
fn branches() {
    let mut graph = GraphBuilder::new(Shape::new(4, 4, 3));
    let window = Window::square(3, 1, 1);
    let a = graph.then(
        "a",
        Op::Conv {
            out_channels: 4,
            window,
            groups: 1,
            bias: false,
        },
    );
    let b = graph.add(
        "b",
        Op::Conv {
            out_channels: 4,
            window,
            groups: 1,
            bias: true,
        },
        &[0],
    );
    let sum = graph.add("sum", Op::Add, &[a, b]);
    let product = graph.add("product", Op::Mul, &[sum, a]);
    let squeeze = graph.then("squeeze", Op::GlobalAveragePool);
    let excite = graph.add("excite", Op::Mul, &[product, squeeze]);
    graph.add("concat", Op::Concat, &[excite, b, 0]);
    graph.then("average", Op::GlobalAveragePool);
    graph.then(
        "head",
        Op::Linear {
            out_features: 3,
            bias: false,
        },
    );
    check("branches", graph.build().unwrap(), 2);
}

#[test]
fn built_in_networks() {
    let task = Task::new(Shape::new(8, 8, 1), 4).normalised(&[0.4], &[0.3]);
    for name in ["mlp", "smallcnn", "resnet20-cifar", "resnet34-cifar"] {
        // A smooth activation instead of ReLU: differences across a kink say
        // nothing about the gradient.
        let mut nodes: Vec<Node> = build(name, &task).unwrap().into();
        for node in nodes.iter_mut().filter(|n| n.op == Op::RELU) {
            node.op = Op::Activation(Activation::Silu);
        }
        check(name, Graph::new(nodes).unwrap(), 3);
    }
}
