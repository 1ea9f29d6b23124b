//! The verbs against PyTorch on a small residual network, in both modes:
//! `goldens/generate.py` made the numbers.

use std::collections::BTreeMap;

use network::{
    Executor, Graph, GraphBuilder, Mode, Model, Op, Parameters, Reference, Shape, Window,
};
use serde::Deserialize;

use crate::common::executor;

#[derive(Deserialize)]
struct Golden {
    parameters: BTreeMap<String, Vec<f32>>,
    images: Vec<f32>,
    cotangent: Vec<f32>,
    eval: Pass,
    train: Pass,
    running: BTreeMap<String, Vec<f32>>,
}

#[derive(Deserialize)]
struct Pass {
    logits: Vec<f32>,
    input_gradient: Vec<f32>,
    gradients: BTreeMap<String, Vec<f32>>,
}

fn graph() -> Graph {
    let mut graph = GraphBuilder::new(Shape::new(12, 12, 3));
    let conv = |out_channels, kernel, stride, groups, bias| Op::Conv {
        out_channels,
        window: Window::square(kernel, stride, kernel / 2),
        groups,
        bias,
    };
    let norm = |scale| Op::BatchNorm {
        epsilon: 1e-5,
        momentum: 0.1,
        scale,
        shift: true,
    };
    graph.then("normalise", Op::normalise(&[0.45; 3], &[0.25; 3]));
    graph.then("conv1", conv(8, 3, 1, 1, false));
    graph.then("bn1", norm(true));
    graph.then("relu1", Op::RELU);
    let window = Window::square(3, 2, 1);
    let x = graph.then("pool", Op::MaxPool { window });
    graph.then("conv2", conv(12, 3, 2, 1, true));
    graph.then("bn2", norm(false));
    graph.then("relu2", Op::RELU);
    graph.then("conv3", conv(12, 3, 1, 2, false));
    let y = graph.then("bn3", norm(true));
    graph.add("project", conv(12, 1, 2, 1, false), &[x]);
    let skip = graph.then("project_bn", norm(true));
    graph.add("add", Op::Add, &[y, skip]);
    graph.then("relu3", Op::RELU);
    let window = Window::square(2, 1, 0);
    let count_padding = true;
    graph.then(
        "average",
        Op::AveragePool {
            window,
            count_padding,
        },
    );
    graph.then("flatten", Op::Flatten);
    graph.then(
        "linear",
        Op::Linear {
            out_features: 5,
            bias: true,
        },
    );
    graph.then("bn4", norm(true));
    graph.build().unwrap()
}

/// Largest difference, relative to the norm of what is expected.
fn close(what: &str, got: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let norm = expected.iter().map(|x| x * x).sum::<f32>().sqrt();
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        let bound = tolerance * (0.1 + norm);
        assert!((g - e).abs() <= bound, "{what}[{i}]: got {g}, PyTorch {e}");
    }
}

fn agrees(make: impl Fn(&Model) -> Box<dyn Executor>, tolerance: f32) {
    let golden: Golden = serde_json::from_str(include_str!("../goldens/residual.json")).unwrap();
    let graph = graph();
    let values = graph.parameters().iter();
    let values = values.map(|spec| golden.parameters[&spec.name].clone());
    let model = Model {
        parameters: Parameters::new(&graph, values.collect()),
        graph,
        info: Default::default(),
    };
    let mut network = make(&model);
    for (mode, pass) in [(Mode::Eval, &golden.eval), (Mode::Train, &golden.train)] {
        let (logits, tape) = network.forward(&golden.images, mode).unwrap();
        close("logits", &logits, &pass.logits, tolerance);
        let dx = network.input_gradient(&tape, &golden.cotangent).unwrap();
        close("input gradient", &dx, &pass.input_gradient, tolerance);
        let mut gradients = network.gradients().unwrap();
        network
            .parameter_gradient(&tape, &golden.cotangent, &mut gradients)
            .unwrap();
        let gradients = network.read_gradients(&gradients).unwrap();
        for (spec, gradient) in model.graph.parameters().iter().zip(gradients.iter()) {
            if spec.role.trainable() {
                close(&spec.name, gradient, &pass.gradients[&spec.name], tolerance);
            }
        }
        let before = network.parameters().unwrap();
        network.update_running_statistics(&tape).unwrap();
        if mode == Mode::Eval {
            assert_eq!(network.parameters().unwrap(), before);
        }
    }
    let parameters = network.parameters().unwrap();
    for (spec, values) in model.graph.parameters().iter().zip(parameters.iter()) {
        if !spec.role.trainable() {
            close(&spec.name, values, &golden.running[&spec.name], tolerance);
        }
    }
    // The running statistics have moved, so eval-mode logits are new ones.
    let mut logits = vec![0.0; golden.eval.logits.len()];
    network.logits(&golden.images, &mut logits).unwrap();
    assert_ne!(logits, golden.eval.logits);
}

#[test]
fn reference_in_f64() {
    agrees(|model| Box::new(Reference::<f64>::new(model)), 1e-6);
}

#[test]
fn on_the_device() {
    agrees(executor, 1e-5);
}

#[test]
fn reference_in_f32() {
    agrees(|model| Box::new(Reference::<f32>::new(model)), 1e-5);
}
