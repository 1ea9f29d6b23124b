//! ONNX models of other programs against what those compute;
//! `goldens/onnx_models.py` makes the files.

use std::path::{Path, PathBuf};

use exchange::onnx::{self, Fold, OnnxError};
use exchange::{ImportError, LoadOptions, Loaded, load};
use network::architecture::{self, Task};
use network::{
    Activation, Classify, Executor, Graph, GraphBuilder, Mode, Model, ModelInfo, Op, Padding,
    Reference, Shape, Window, initialise,
};
use proptest::prelude::*;
use serde_json::Value;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/goldens/onnx")
        .join(name)
}

fn floats(value: &Value) -> Vec<f32> {
    let numbers = value.as_array().unwrap().iter();
    numbers.map(|v| v.as_f64().unwrap() as f32).collect()
}

fn imported(name: &str) -> Loaded {
    let path = golden(&format!("{name}.onnx"));
    load(&path, &LoadOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn assert_close(what: &str, got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len(), "{what}");
    let largest = want.iter().fold(1e-3f32, |m, v| m.max(v.abs()));
    for (a, b) in got.iter().zip(want) {
        assert!((a - b).abs() < 2e-5 * largest, "{what}: {got:?} {want:?}");
    }
}

/// Logits and input gradients of a model against the golden ones.
fn assert_computes(name: &str, model: &Model) {
    let text = std::fs::read(golden(&format!("{name}.json"))).unwrap();
    let expected: Value = serde_json::from_slice(&text).unwrap();
    let images = floats(&expected["images"]);
    let reference = Reference::<f64>::new(model);
    let (logits, tape) = reference.forward(&images, Mode::Eval).unwrap();
    assert_close(name, &logits, &floats(&expected["logits"]));
    if let Some(gradient) = expected.get("gradient") {
        let cotangent = floats(&expected["cotangent"]);
        let dx = reference.input_gradient(&tape, &cotangent).unwrap();
        assert_close(name, &dx, &floats(gradient));
    }
}

/// What `tokens.py` makes.
const TOKENS: [&str; 3] = ["vit", "windows", "mixer"];

/// What `resized.py` makes.
const RESIZED: [&str; 9] = [
    "pyramid-script-11",
    "pyramid-script-20",
    "pyramid-dynamo",
    "vit-dynamo-23",
    "helper-resize",
    "helper-attention",
    "helper-groups",
    "helper-constants",
    "helper-activations",
];

const MODELS: [&str; 22] = [
    "operators-script",
    "operators-script-11",
    "operators-dynamo",
    "option-a-script",
    "option-a-dynamo",
    "option-a-external",
    "normalised-script",
    "normalised-script-11",
    "helper-9",
    "helper-18",
    "helper-24",
    "keras-pooled",
    "keras-flat",
    "vit-script-14",
    "vit-script-17",
    "vit-dynamo",
    "windows-script-11",
    "windows-script-17",
    "windows-dynamo",
    "mixer-script-12",
    "mixer-script-17",
    "mixer-dynamo",
];

#[test]
fn every_exporters_models_compute_the_same_here() {
    for name in MODELS {
        assert_computes(name, &imported(name).model);
    }
}

/// Resizing is a matrix along each dimension, attention as one operator its parts: what is
/// written is not the node that was read, but computes the same.
#[test]
fn images_are_resized_and_the_newest_operators_read() {
    for name in RESIZED {
        let model = imported(name).model;
        assert_computes(name, &model);
        for fold in [Fold::Keep, Fold::Fold] {
            let (again, _) = onnx::read(onnx::write(&model, fold), None).unwrap();
            assert_computes(name, &again);
        }
    }
}

/// Out and in again: the same network, weights to the bit.
#[test]
fn exported_models_come_back() {
    for name in MODELS {
        let model = imported(name).model;
        let (again, _) = onnx::read(onnx::write(&model, Fold::Keep), None).unwrap();
        assert_computes(name, &again);
        // Values of the network's own may come back spread.
        if !TOKENS.contains(&name.split('-').next().unwrap()) {
            assert_eq!(again.graph.parameters(), model.graph.parameters(), "{name}");
            assert_eq!(again.parameters, model.parameters, "{name}");
        }
        assert_eq!(again.info, model.info);
        let folded = onnx::write(&model, Fold::Fold);
        let (folded, _) = onnx::read(folded, None).unwrap();
        assert_computes(name, &folded);
        let norm = |node: &network::Node| matches!(node.op, Op::BatchNorm { .. });
        assert!(!folded.graph.nodes().iter().any(norm), "{name}");
    }
}

/// A class token and places are learned on behind ONNX as before it, under the same names.
#[test]
fn tokens_of_a_transformer_come_back_with_their_names_and_stay_trainable() {
    let task = Task::new(Shape::new(8, 8, 1), 10);
    let graph = architecture::build("smallvit", &task).unwrap();
    let parameters = initialise(&graph, 8);
    let model = Model {
        graph,
        parameters,
        info: ModelInfo::default(),
    };
    let (again, _) = onnx::read(onnx::write(&model, Fold::Keep), None).unwrap();
    let trained = |model: &Model| {
        let specs = model.graph.parameters().iter();
        let all = specs.zip(model.parameters.iter());
        let trained = all.filter(|(spec, _)| spec.role.trainable());
        let mut list: Vec<_> = trained
            .map(|(spec, values)| (spec.name.clone(), values.to_vec()))
            .collect();
        list.sort_by(|a, b| a.0.cmp(&b.0));
        list
    };
    let (before, after) = (trained(&model), trained(&again));
    assert!(before.iter().any(|(name, _)| name == "pos_embed"));
    assert!(before.iter().any(|(name, _)| name == "cls_token"));
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before.0, after.0);
        assert!(before.1 == after.1, "{}", before.0);
    }
    assert_eq!(before.len(), after.len());
    let [want, got] = [&model, &again].map(|model| {
        let pixels: Vec<f32> = (0..64).map(|at| at as f32 / 64.0).collect();
        let mut logits = vec![0.0; 10];
        let network = Reference::<f64>::new(model);
        network.logits(&pixels, &mut logits).unwrap();
        logits
    });
    assert_close("smallvit", &got, &want);
}

fn count(graph: &Graph, op: &str) -> usize {
    graph.nodes().iter().filter(|n| n.op.name() == op).count()
}

/// ONNX has no averaged ReLU; what stands for it comes back as the same function.
#[test]
fn averaged_relus_survive_as_what_they_compute() {
    for (fold, name) in [(Fold::Keep, "kept"), (Fold::Fold, "folded")] {
        let mut model = imported("option-a-script").model.with_averaged_relus();
        let relus: Vec<usize> = (0..model.graph.nodes().len())
            .filter(|&id| model.graph.nodes()[id].op == Op::AveragedRelu)
            .collect();
        assert!(!relus.is_empty());
        for id in relus {
            let width = model.graph.parameters_of(id).start;
            let values = model.parameters.get_mut(width).iter_mut().enumerate();
            values.for_each(|(i, width)| *width = 0.1 * (i % 5) as f32);
        }
        let (again, _) = onnx::read(onnx::write(&model, fold), None).unwrap();
        let pixels: Vec<f32> = (0..2 * model.graph.input().len())
            .map(|i| (i * 7919 % 1000) as f32 / 1000.0)
            .collect();
        let [want, got] = [&model, &again].map(|model| {
            let network = Reference::<f64>::new(model);
            let mut logits = vec![0.0; 2 * model.graph.classes()];
            network.logits(&pixels, &mut logits).unwrap();
            logits
        });
        for (want, got) in want.iter().zip(&got) {
            assert!(
                (want - got).abs() < 1e-4 * (1.0 + want.abs()),
                "{name}: {want} {got}"
            );
        }
    }
}

#[test]
fn layers_keep_their_names_and_stay_trainable() {
    let model = imported("option-a-script").model;
    let names: Vec<&str> = model
        .graph
        .parameters()
        .iter()
        .map(|p| p.name.as_str())
        .collect();
    assert!(
        names.starts_with(&["conv1.weight", "bn1.weight", "bn1.bias"]),
        "{names:?}"
    );
    assert_eq!(names.last(), Some(&"linear.bias"));
    assert_eq!(count(&model.graph, "batch-norm"), 2);
    assert_eq!(count(&model.graph, "subsample"), 2);
}

#[test]
fn patterns_become_one_activation_and_softmax_goes() {
    for (name, gelus) in [
        ("operators-script", 1),
        ("operators-dynamo", 2),
        ("helper-18", 1),
        ("keras-pooled", 0),
    ] {
        let loaded = imported(name);
        assert_eq!(count(&loaded.model.graph, "gelu"), gelus, "{name}");
        let notes = loaded.report.notes.join(" ");
        assert!(
            notes.contains("oftmax") && notes.contains("removed"),
            "{name}: {notes}"
        );
    }
    let graph = imported("operators-script").model.graph;
    assert_eq!(count(&graph, "silu"), 1);
    // One written as such, one as `x * hard_sigmoid(x)`.
    assert_eq!(count(&graph, "hard-swish"), 2);
    // MatMul and Add are a linear layer whose bias is trained.
    let graph = imported("helper-18").model.graph;
    let linear = &graph.nodes()[graph.output()].op;
    assert!(
        matches!(linear, Op::Linear { bias: true, .. }),
        "{linear:?}"
    );
}

/// A model with every operator, some of them on vectors.
fn everything() -> Model {
    let mut g = GraphBuilder::new(Shape::new(7, 6, 2));
    let activation = |g: &mut GraphBuilder, name: &str, a| {
        g.then(name, Op::Activation(a));
    };
    g.then("normalise", Op::normalise(&[0.4, 0.5], &[0.2, 0.25]));
    let window = Window {
        kernel: [3, 2],
        stride: [1, 2],
        padding: Padding {
            top: 1,
            left: 0,
            bottom: 2,
            right: 1,
        },
        dilation: [2, 1],
    };
    let conv = |out_channels, window, groups, bias| Op::Conv {
        out_channels,
        window,
        groups,
        bias,
    };
    g.then("conv", conv(4, window, 2, true));
    let norm = |scale, shift| Op::BatchNorm {
        epsilon: 1e-3,
        momentum: 0.1,
        scale,
        shift,
    };
    g.then("norm", norm(false, true));
    activation(&mut g, "leaky", Activation::LeakyRelu { slope: 0.1 });
    let (low, high) = (-0.5, 2.0);
    activation(&mut g, "clip", Activation::Clip { low, high });
    activation(&mut g, "hard-swish", Activation::HardSwish);
    let trunk = g.last();
    let mean = g.then("mean", Op::GlobalAveragePool);
    g.then("squeeze", conv(4, Window::square(1, 1, 0), 1, false));
    let (slope, offset) = (0.2, 0.5);
    activation(&mut g, "gate", Activation::HardSigmoid { slope, offset });
    let gate = g.last();
    let scaled = g.add("scaled", Op::Mul, &[trunk, gate]);
    let both = g.add("both", Op::Concat, &[trunk, scaled]);
    let pad = Op::Pad {
        padding: Padding {
            top: 1,
            left: 2,
            bottom: 0,
            right: 0,
        },
        channels: [1, 2],
    };
    g.add("pad", pad, &[both]);
    activation(&mut g, "silu", Activation::Silu);
    let mut pool = Window::square(2, 1, 1);
    g.then("max", Op::MaxPool { window: pool });
    pool.dilation = [2, 1];
    let average = Op::AveragePool {
        window: pool,
        count_padding: false,
    };
    g.then("average", average);
    g.then("subsample", Op::Subsample { stride: [2, 1] });
    activation(&mut g, "gelu", Activation::Gelu { tanh: true });
    g.then("flatten", Op::Flatten);
    let linear = |out_features, bias| Op::Linear { out_features, bias };
    let a = g.then("a", linear(4, false));
    activation(&mut g, "tanh", Activation::Tanh);
    let tanh = g.last();
    let sum = g.add("sum", Op::Add, &[a, tanh]);
    // A vector of one kind and one of the other.
    g.add("join", Op::Concat, &[sum, mean]);
    g.then("last-norm", norm(true, false));
    activation(&mut g, "sigmoid", Activation::Sigmoid);
    g.then("logits", linear(3, true));
    let info = ModelInfo {
        classes: vec!["a".into(), "b".into(), "c".into()],
        sigma: Some(0.25),
        ..ModelInfo::default()
    };
    let mut model = Model::initialised(g.build().unwrap(), 3, info);
    for (spec, values) in model
        .graph
        .parameters()
        .to_vec()
        .iter()
        .zip(model.parameters.iter_mut())
    {
        if spec.shape.len() == 1 {
            let wave = |i: usize| (i as f32 * 1.7).sin();
            values
                .iter_mut()
                .enumerate()
                .for_each(|(i, v)| *v = 1.0 + 0.5 * wave(i));
        }
    }
    model
}

#[test]
fn every_operator_is_exported() {
    let model = everything();
    let images: Vec<f32> = (0..3 * 84).map(|i| (i as f32 * 0.37).sin().abs()).collect();
    let logits = |model: &Model| {
        let mut logits = vec![0.0; 9];
        Reference::<f64>::new(model)
            .logits(&images, &mut logits)
            .unwrap();
        logits
    };
    let want = logits(&model);
    for fold in [Fold::Keep, Fold::Fold] {
        let (again, report) = onnx::read(onnx::write(&model, fold), None).unwrap();
        assert_close("exported", &logits(&again), &want);
        assert_eq!(again.info, model.info);
        assert!(report.notes.is_empty(), "{report:?}");
    }
}

#[test]
fn unsupported_operators_are_refused_by_name() {
    let mut bytes = onnx::write(&everything(), Fold::Keep);
    let at = bytes.windows(9).position(|w| w == b"HardSwish").unwrap();
    bytes[at..at + 9].copy_from_slice(b"LoudSwish");
    let error = onnx::read(bytes, None).unwrap_err();
    let text = error.to_string();
    let start = "node `hard-swish`: operator LoudSwish is not supported; supported are Abs, Add, ";
    assert!(text.starts_with(start), "{text}");
    assert!(error.hint().is_some());
}

#[test]
fn an_open_size_of_the_image_must_be_given() {
    let mut bytes = onnx::write(&everything(), Fold::Keep);
    // The dimensions 2, 7 and 6 of the input; a size of 0 is an open one.
    let sizes = [10, 2, 8, 2, 10, 2, 8, 7, 10, 2, 8, 6];
    let at = bytes.windows(sizes.len()).position(|w| w == sizes);
    bytes[at.unwrap() + 7] = 0;
    let error = onnx::read(bytes.clone(), None).unwrap_err();
    let open = "input `image` of this ONNX file leaves the size of the image open";
    assert_eq!(error.to_string(), open);
    assert!(error.hint().unwrap().contains("input shape"));
    let shape = Shape::new(7, 6, 2);
    let (again, _) = onnx::read(bytes, Some(shape)).unwrap();
    assert_eq!(again.graph.input(), shape);
}

#[test]
fn other_refusals_say_why() {
    let path = golden("option-a-dynamo.onnx");
    let options = LoadOptions {
        input: Some(Shape::new(8, 8, 3)),
        ..LoadOptions::default()
    };
    let error = load(&path, &options).unwrap_err().to_string();
    assert!(
        error.contains("has 6 where the image 8x8x3 has 8"),
        "{error}"
    );
    let bytes = std::fs::read(golden("option-a-external.onnx")).unwrap();
    let error = onnx::read(bytes, None).unwrap_err().to_string();
    assert!(
        error.contains("another file, `option-a-external.onnx.data`"),
        "{error}"
    );
    for (name, reason) in [
        ("refused-batch", "differs between the images of a batch"),
        ("refused-length", "a length of at least 0.5"),
    ] {
        let bytes = std::fs::read(golden(&format!("{name}.onnx"))).unwrap();
        let error = onnx::read(bytes, None).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let error = onnx::read(vec![8, 7, 0x3a, 200], None).unwrap_err();
    assert!(
        matches!(error, ImportError::Onnx(OnnxError::Decode(_))),
        "{error}"
    );
}

#[test]
fn values_outside_the_models_folder_are_refused() {
    let mut bytes = std::fs::read(golden("option-a-external.onnx")).unwrap();
    let name = b"option-a-external.onnx.data";
    while let Some(at) = bytes.windows(name.len()).position(|w| w == name) {
        bytes[at..at + 3].copy_from_slice(b"../");
    }
    let folder = std::env::temp_dir().join(format!("heatsmooth-outside-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("model.onnx"), bytes).unwrap();
    let error = load(&folder.join("model.onnx"), &LoadOptions::default()).unwrap_err();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(error.to_string().contains("outside the folder"), "{error}");
}

/// Changed files that are read; as many as `HEATSMOOTH_MUTATIONS` says.
fn cases() -> u32 {
    let asked = std::env::var("HEATSMOOTH_MUTATIONS").unwrap_or_default();
    let rounds = asked.split(',').next().and_then(|text| text.parse().ok());
    rounds.unwrap_or(3000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// Damaged files give errors or other networks, never a panic; those can be exported
    /// and imported again.
    #[test]
    fn damaged_models_are_survived(
        name in prop::sample::select([&MODELS[..], &RESIZED].concat()),
        changes in prop::collection::vec((0.0..1.0f64, any::<u8>()), 1..4),
        keep in 0.9..1.4f64,
    ) {
        let mut bytes = std::fs::read(golden(&format!("{name}.onnx"))).unwrap();
        for (position, value) in changes {
            let at = (position * bytes.len() as f64) as usize;
            bytes[at] = value;
        }
        bytes.truncate((keep * bytes.len() as f64) as usize);
        if let Ok((model, _)) = onnx::read(bytes, None) {
            let (again, _) = onnx::read(onnx::write(&model, Fold::Keep), None).unwrap();
            prop_assert_eq!(again.graph.classes(), model.graph.classes());
        }
    }
}
