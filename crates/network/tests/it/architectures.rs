//! Parameter and MAC counts against published ones, and errors of graphs.

use network::architecture::{ARCHITECTURES, ArchitectureError, Task, build, has_layer_norms};
use network::{Activation, Graph, GraphBuilder, GraphError, Op, Shape, Summary};

fn cifar() -> Task {
    Task::new(Shape::new(32, 32, 3), 10)
}

fn imagenet() -> Task {
    Task::new(Shape::new(224, 224, 3), 1000)
}

/// Counts of torchvision's documentation, of the README of the public CIFAR-10
/// ResNets (0.27 M ... 1.7 M), and of `sum(p.numel() for p in net.parameters())`.
#[test]
fn parameter_counts_are_the_published_ones() {
    for (name, task, parameters) in [
        ("resnet20-cifar", cifar(), 269_722),
        ("resnet32-cifar", cifar(), 464_154),
        ("resnet44-cifar", cifar(), 658_586),
        ("resnet56-cifar", cifar(), 853_018),
        ("resnet110-cifar", cifar(), 1_727_962),
        ("resnet18-wide-cifar", cifar(), 11_173_962),
        ("resnet34-wide-cifar", cifar(), 21_282_122),
        ("resnet18", imagenet(), 11_689_512),
        ("resnet34", imagenet(), 21_797_672),
        ("resnet50", imagenet(), 25_557_032),
        ("resnet110-cifar-projection", cifar(), 1_730_714),
        ("wide_resnet28_10", cifar(), 36_479_194),
        ("convnext_tiny", imagenet(), 28_589_128),
        ("vit_b_16", imagenet(), 86_567_656),
        ("vit_tiny_patch16_224", imagenet(), 5_717_416),
        ("swin_t", imagenet(), 28_288_354),
    ] {
        let graph = build(name, &task).unwrap();
        assert_eq!(graph.parameter_count(), parameters, "{name}");
    }
}

/// Millions of multiply-accumulates: He et al., torchvision's documentation.
#[test]
fn mac_counts_are_the_published_ones() {
    for (name, task, millions) in [
        ("resnet20-cifar", cifar(), 40.55),
        ("resnet56-cifar", cifar(), 125.5),
        ("resnet110-cifar", cifar(), 252.9),
        ("resnet34-wide-cifar", cifar(), 1160.0),
        ("resnet18", imagenet(), 1814.0),
        ("resnet34", imagenet(), 3663.0),
        ("resnet50", imagenet(), 4089.0),
        ("convnext_tiny", imagenet(), 4456.0),
        ("vit_b_16", imagenet(), 17564.0),
    ] {
        let macs = build(name, &task).unwrap().macs() as f64 / 1e6;
        assert!((macs / millions - 1.0).abs() < 0.003, "{name}: {macs}");
    }
}

/// The paper's network, added up by hand: a 3x3 stem, 3 stages of 10
/// convolutions of 3x3, two 1x1 transitions, a linear layer, and one shift per
/// normalised channel.
#[test]
fn the_papers_network_has_half_a_million_parameters() {
    let weights = 27 * 16 + 10 * 9 * (16 * 16 + 32 * 32 + 64 * 64) + 16 * 32 + 32 * 64 + 64 * 10;
    let shifts = 16 + 10 * (16 + 32 + 64) + 32 + 64 + 10;
    let graph = build("resnet34-cifar", &cifar()).unwrap();
    assert_eq!(graph.parameter_count(), weights + shifts);
    assert_eq!(graph.macs(), 72_270_464);
}

#[test]
fn every_architecture_builds_on_its_usual_images() {
    for (name, _) in ARCHITECTURES {
        let task = match *name {
            "swin_t" => Task::new(imagenet().input, 10),
            _ => cifar(),
        };
        let graph = build(name, &task).unwrap();
        assert_eq!(graph.classes(), 10, "{name}");
        let mut ops = graph.nodes().iter().map(|node| &node.op);
        let layer_norms = ops.any(|op| matches!(op, Op::LayerNorm { .. }));
        assert_eq!(has_layer_norms(name), layer_norms, "{name}");
        let text = serde_json::to_string(&graph).unwrap();
        assert_eq!(serde_json::from_str::<Graph>(&text).unwrap(), graph);
    }
}

#[test]
fn an_unknown_architecture_lists_the_known_ones() {
    let error = build("resnet21", &cifar()).unwrap_err();
    assert_eq!(error, ArchitectureError::Unknown("resnet21".into()));
    assert!(error.to_string().contains("resnet34-cifar"));
}

#[test]
fn errors_name_the_node() {
    let mut graph = GraphBuilder::new(Shape::new(8, 8, 3));
    let bias = true;
    graph.then(
        "head",
        Op::Linear {
            out_features: 10,
            bias,
        },
    );
    let error = graph.build().unwrap_err().to_string();
    assert_eq!(
        error,
        "node `head` (linear): wants a vector, got 8x8x3: flatten or pool it first"
    );

    let tiny = Task::new(Shape::new(2, 2, 1), 10);
    let error = build("smallcnn", &tiny).unwrap_err().to_string();
    assert!(error.contains("`pool2` (max-pool)"), "{error}");

    let mut graph = GraphBuilder::new(Shape::new(8, 8, 3));
    graph.add("loop", Op::RELU, &[1]);
    let expected = GraphError::Order {
        node: "loop".into(),
        input: 1,
    };
    assert_eq!(graph.build().unwrap_err(), expected);

    let mut graph = GraphBuilder::new(Shape::new(8, 8, 3));
    graph.then("a", Op::RELU);
    graph.then("a", Op::RELU);
    assert_eq!(
        graph.build().unwrap_err(),
        GraphError::Duplicate("a".into())
    );
}

/// A file could not hold them.
#[test]
fn numbers_of_activations_are_finite() {
    for activation in [
        Activation::LeakyRelu { slope: f32::NAN },
        Activation::Clip {
            low: f32::NEG_INFINITY,
            high: 0.0,
        },
    ] {
        let mut graph = GraphBuilder::new(Shape::vector(3));
        graph.then("a", Op::Activation(activation));
        let error = graph.build().unwrap_err().to_string();
        assert!(error.contains("is not finite"), "{error}");
    }
}

#[test]
fn absurd_sizes_are_refused_before_anything_is_allocated() {
    let mut graph = GraphBuilder::new(Shape::new(1 << 20, 1 << 20, 1 << 20));
    graph.then("relu", Op::RELU);
    assert!(matches!(graph.build(), Err(GraphError::Shape { .. })));
    let mut graph = GraphBuilder::new(Shape::vector(1 << 20));
    let out_features = usize::MAX / 2;
    graph.then(
        "wide",
        Op::Linear {
            out_features,
            bias: true,
        },
    );
    assert!(matches!(graph.build(), Err(GraphError::Shape { .. })));
}

#[test]
fn the_summary_adds_up() {
    let graph = build("smallcnn", &Task::new(Shape::new(8, 8, 1), 10)).unwrap();
    let text = Summary(&graph).to_string();
    assert!(
        text.contains("conv2    conv                       4x4x32         4,608          73,728"),
        "{text}"
    );
    assert!(
        text.ends_with("total: 24,058 parameters, 157,312 MACs an image"),
        "{text}"
    );
}
