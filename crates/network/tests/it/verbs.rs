//! A device's verbs against the naive ones in `f64`, on every built-in network
//! and on operators that none of them uses, in both modes.

use network::architecture::{Task, build};
use network::{
    Activation, Executor, Graph, GraphBuilder, HostGradients, Mode, Model, Node, Op, Padding,
    Reference, Shape, Tape, Window,
};

use crate::common::{executor, model, pixels};

fn distance(got: &[f32], want: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let norm: f64 = want.iter().map(|&w| square(f64::from(w))).sum();
    let pairs = got.iter().zip(want);
    let error: f64 = pairs
        .map(|(&g, &w)| square(f64::from(g) - f64::from(w)))
        .sum();
    (error / norm.max(1e-12)).sqrt()
}

/// Parameter gradients in host memory.
fn gradients(network: &dyn Executor, tape: &Tape, cotangent: &[f32]) -> HostGradients {
    let mut gradients = network.gradients().unwrap();
    network
        .parameter_gradient(tape, cotangent, &mut gradients)
        .unwrap();
    network.read_gradients(&gradients).unwrap()
}

/// Logits, input gradient, parameter gradients, running statistics.
pub fn verbs(
    network: &mut dyn Executor,
    images: &[f32],
    mode: Mode,
) -> (Vec<f32>, Vec<f32>, HostGradients, Vec<Vec<f32>>) {
    let (logits, tape) = network.forward(images, mode).unwrap();
    let cotangent: Vec<f32> = pixels(logits.len(), 5).iter().map(|p| p - 0.5).collect();
    let dx = network.input_gradient(&tape, &cotangent).unwrap();
    let gradients = gradients(network, &tape, &cotangent);
    network.update_running_statistics(&tape).unwrap();
    let parameters = network.parameters().unwrap();
    let parameters = parameters.iter().map(<[f32]>::to_vec).collect();
    (logits, dx, gradients, parameters)
}

/// Relative errors of logits, input gradient, all parameter gradients, the
/// worst single parameter gradient, and running statistics.
fn errors(model: &Model, images: &[f32], mode: Mode) -> [f64; 5] {
    let want = verbs(&mut Reference::<f64>::new(model), images, mode);
    let got = verbs(&mut *executor(model), images, mode);
    let all = |g: &HostGradients| g.iter().flatten().copied().collect::<Vec<f32>>();
    let largest = |g: &[f32]| g.iter().fold(0.0_f32, |m, g| m.max(g.abs()));
    // A weight in front of a batch norm may have no gradient but rounding.
    let single = got.2.iter().zip(want.2.iter());
    let single = single
        .filter(|(_, want)| largest(want) > 1e-5)
        .map(|(got, want)| distance(got, want));
    let running = got.3.iter().zip(&want.3);
    [
        distance(&got.0, &want.0),
        distance(&got.1, &want.1),
        distance(&all(&got.2), &all(&want.2)),
        single.fold(0.0, f64::max),
        running.map(|(g, w)| distance(g, w)).fold(0.0, f64::max),
    ]
}

/// Everything that goes into a ReLU, as the outputs of a network.
fn before_relus(model: &Model) -> Option<Model> {
    let mut nodes = model.graph.nodes().to_vec();
    let is_relu = |op: &Op| {
        let leaky = matches!(op, Op::Activation(Activation::LeakyRelu { .. }));
        leaky || *op == Op::RELU
    };
    let relus = nodes.iter().filter(|node| is_relu(&node.op));
    let before: Vec<usize> = relus.map(|node| node.inputs[0]).collect();
    let flat = nodes.len()..nodes.len() + before.len();
    for (i, input) in before.into_iter().enumerate() {
        nodes.push(Node {
            name: format!("before relu {i}"),
            op: Op::Flatten,
            inputs: vec![input],
        });
    }
    match flat.len() {
        0 => return None,
        1 => {}
        _ => nodes.push(Node {
            name: "before all relus".into(),
            op: Op::Concat,
            inputs: flat.collect(),
        }),
    }
    Some(Model {
        graph: Graph::new(nodes).expect("the same with other outputs"),
        ..model.clone()
    })
}

/// In how many places a ReLU lets through what the oracle's does not, or the reverse:
/// rounding has moved a value across its kink, and the gradients are those of another
/// linear function. Values that rounding moves by half of what they are count as well: the
/// network without the further outputs rounds otherwise.
fn crossings(model: &Model, images: &[f32], mode: Mode) -> usize {
    let Some(model) = before_relus(model) else {
        return 0;
    };
    let (want, _) = Reference::<f64>::new(&model).forward(images, mode).unwrap();
    let (got, _) = executor(&model).forward(images, mode).unwrap();
    let pairs = got.iter().zip(&want);
    let near = |g: f32, w: f32| (g > 0.0) != (w > 0.0) || w.abs() < 2.0 * (g - w).abs();
    pairs.filter(|(g, w)| near(**g, **w)).count()
}

/// Three batches each, of which all count where rounding moves no activation across the
/// kink of a ReLU: one at least. Where it does, a gradient differs by far more than by
/// rounding.
pub(crate) fn check(name: &str, graph: Graph, images: usize) {
    let model = model(graph);
    for mode in [Mode::Train, Mode::Eval, Mode::Frozen] {
        let mut counted = 0;
        for seed in [1, 2, 3] {
            let images = pixels(images * model.graph.input().len(), seed);
            let crossings = crossings(&model, &images, mode);
            counted += usize::from(crossings == 0);
            let errors = errors(&model, &images, mode);
            let limits = [
                ("logits", 1e-4),
                ("dx", 1e-4),
                ("gradient", 1e-4),
                ("one gradient", 1e-3),
                ("statistics", 1e-4),
            ];
            for (error, (what, most)) in errors.into_iter().zip(limits) {
                let kinked = crossings > 0 && what != "logits" && what != "statistics";
                let most = if kinked { 0.2 } else { most };
                assert!(
                    error < most,
                    "{name} {mode:?} {seed}: {what} off by {error}, {crossings} crossings"
                );
            }
        }
        assert!(
            counted > 0,
            "{name} {mode:?}: kinks are crossed in every batch"
        );
    }
}

/// A built-in network for small images, with fewer channels where it is wide.
pub fn small(name: &str) -> (Graph, usize) {
    let (size, images, narrower) = match name {
        "resnet18" | "resnet50" => (40, 6, 8),
        "resnet18-wide-cifar" => (14, 6, 8),
        _ => (14, 5, 1),
    };
    let task = Task::new(Shape::new(size, size, 3), 10).normalised(&[0.4, 0.5, 0.6], &[0.25; 3]);
    let mut nodes = build(name, &task).expect(name).nodes().to_vec();
    for node in &mut nodes {
        if let Op::Conv { out_channels, .. } = &mut node.op {
            *out_channels /= narrower;
        }
    }
    (Graph::new(nodes).expect(name), images)
}

/// One network of every builder.
#[test]
fn agrees_with_the_reference_on_networks() {
    for name in [
        "mlp",
        "smallcnn",
        "resnet20-cifar",
        "resnet34-cifar",
        "resnet18-wide-cifar",
        "resnet18",
    ] {
        let (graph, images) = small(name);
        check(name, graph, images);
    }
}

/// The deepest one: of the most kinks that rounding can cross. So it is tested without
/// any as well: there, every batch counts.
#[test]
fn agrees_with_the_reference_on_the_deepest() {
    let (graph, images) = small("resnet50");
    let mut smooth = graph.nodes().to_vec();
    for node in smooth.iter_mut().filter(|node| node.op == Op::RELU) {
        node.op = Op::Activation(Activation::Silu);
    }
    check("resnet50", graph, images);
    let smooth = Graph::new(smooth).expect("a graph");
    check("smooth resnet50", smooth, images);
}

/// A network as a student: every ReLU an average.
#[test]
fn agrees_with_the_reference_on_averaged_relus() {
    let (graph, images) = small("resnet20-cifar");
    let student = Model::initialised(graph, 0, Default::default()).with_averaged_relus();
    check("averaged ReLUs", student.graph, images);
}

/// Operators that no built-in network has, values that are read twice, and a
/// branch that leads nowhere.
pub fn zoo() -> Graph {
    let mut g = GraphBuilder::new(Shape::new(11, 9, 3));
    let conv = |out_channels, window, groups, bias| Op::Conv {
        out_channels,
        window,
        groups,
        bias,
    };
    let norm = |scale, shift| Op::BatchNorm {
        epsilon: 1e-3,
        momentum: 0.2,
        scale,
        shift,
    };
    let x = g.then("norm0", norm(true, false));
    let a = g.then("conv1", conv(12, Window::square(3, 1, 1), 3, true));
    let b = g.then("silu", Op::Activation(Activation::Silu));
    g.add("nowhere", conv(4, Window::square(1, 1, 0), 1, false), &[x]);
    let c = g.add(
        "leaky",
        Op::Activation(Activation::LeakyRelu { slope: 0.1 }),
        &[a],
    );
    let d = g.add("double", Op::Add, &[c, c]);
    let sum = g.add("sum", Op::Add, &[b, d]);
    let n = g.add("norm1", norm(false, false), &[sum]);
    let relu = g.add("relu", Op::RELU, &[sum]);
    let pre = g.add("pre", Op::Add, &[n, relu]);
    let pooled = g.add("squeeze", Op::GlobalAveragePool, &[pre]);
    let gate = Op::Linear {
        out_features: 12,
        bias: true,
    };
    g.add("gate", gate, &[pooled]);
    let gate = g.then("sigmoid", Op::Activation(Activation::Sigmoid));
    let scaled = g.add("excite", Op::Mul, &[pre, gate]);
    let square = g.add("square", Op::Mul, &[scaled, scaled]);
    g.add("concat", Op::Concat, &[scaled, square, relu]);
    let window = Window {
        kernel: [3, 2],
        stride: [2, 1],
        padding: Padding {
            top: 1,
            left: 0,
            bottom: 0,
            right: 1,
        },
        dilation: [1, 2],
    };
    g.then("conv2", conv(8, window, 1, false));
    let y = g.then("norm2", norm(true, true));
    let short = g.add("project", conv(8, window, 1, true), &[scaled]);
    let odd = Op::Pad {
        padding: Padding::same(0),
        channels: [0, 0],
    };
    g.add("odd", odd, &[short]);
    let s = g.then("norm3", norm(true, true));
    g.add("join", Op::Add, &[y, s]);
    g.then("relu2", Op::RELU);
    g.then(
        "max",
        Op::MaxPool {
            window: Window::square(3, 2, 1),
        },
    );
    let average = Op::AveragePool {
        window: Window::square(2, 1, 1),
        count_padding: false,
    };
    g.then("average", average);
    g.then("half", Op::Subsample { stride: [1, 2] });
    g.then("flatten", Op::Flatten);
    let linear = Op::Linear {
        out_features: 6,
        bias: false,
    };
    g.then("linear", linear);
    g.then("norm4", norm(false, true));
    g.build().expect("a graph")
}

#[test]
fn agrees_with_the_reference_on_every_operator() {
    check("zoo", zoo(), 7);
}

/// Steps reuse memory and packed weights: a second and third pass, with other
/// batch sizes and other weights in between, must not see the first.
#[test]
fn nothing_is_left_over_from_earlier_steps() {
    let model = model(small("resnet20-cifar").0);
    let len = model.graph.input().len();
    let mut network = executor(&model);
    let fresh = |network: &dyn Executor| {
        let mut copy = model.clone();
        copy.parameters = network.parameters().unwrap();
        executor(&copy)
    };
    for (step, images) in [6, 3, 17].into_iter().enumerate() {
        let images = pixels(images * len, step as u64);
        for mode in [Mode::Eval, Mode::Train] {
            let (logits, tape) = network.forward(&images, mode).unwrap();
            let (want, want_tape) = fresh(&*network).forward(&images, mode).unwrap();
            assert_eq!(logits, want);
            let cotangent = pixels(logits.len(), 9);
            let gradient = gradients(&*network, &tape, &cotangent);
            assert!(gradient == gradients(&*fresh(&*network), &want_tape, &cotangent));
            let norm = gradient.norm() as f32;
            let mut state = network.state().unwrap();
            for (values, gradient) in state.parameters.iter_mut().zip(gradient.iter()) {
                for (v, g) in values.iter_mut().zip(gradient) {
                    *v -= 0.1 * g / norm;
                }
            }
            network.restore(state).unwrap();
        }
    }
}
