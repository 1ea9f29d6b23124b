//! One heat step against PyTorch, which builds the loss as Algorithm 1 says it:
//! `goldens/heat.py` made the numbers.

use std::collections::BTreeMap;

use network::{
    Cpu, DeviceError, Executor, Graph, GraphBuilder, Images, Model, Op, Parameters, Reference,
    Shape, Window,
};
use serde::Deserialize;
use train::methods::{Fit, Heat, HeatParams, Scale, Start};
use train::{Method, Position};

use crate::common::{begin, pool};

type Tensors = BTreeMap<String, Vec<f32>>;

#[derive(Deserialize)]
struct Golden {
    seed: u64,
    epoch: u32,
    indices: Vec<u32>,
    sigma: f64,
    lambda: f64,
    timesteps: u32,
    kappa: u32,
    fd_step: f64,
    student: Tensors,
    teacher: Tensors,
    images: Vec<f32>,
    cases: Vec<Case>,
    running: Tensors,
}

#[derive(Deserialize)]
struct Case {
    fit: Fit,
    scale: Scale,
    scale_free: bool,
    distance: f64,
    penalty: f64,
    gradients: Tensors,
}

fn graph() -> Graph {
    let mut graph = GraphBuilder::new(Shape::new(8, 8, 2));
    let conv = Op::Conv {
        out_channels: 8,
        window: Window::square(3, 1, 1),
        groups: 1,
        bias: false,
    };
    let norm = |scale| Op::BatchNorm {
        epsilon: 1e-5,
        momentum: 0.1,
        scale,
        shift: true,
    };
    graph.then("normalise", Op::normalise(&[0.45; 2], &[0.25; 2]));
    graph.then("conv1", conv.clone());
    graph.then("bn1", norm(true));
    let x = graph.then("relu1", Op::RELU);
    graph.then("conv2", conv);
    let y = graph.then("bn2", norm(false));
    graph.add("add", Op::Add, &[y, x]);
    graph.then("relu2", Op::RELU);
    graph.then("pool", Op::GlobalAveragePool);
    let (out_features, bias) = (4, true);
    graph.then("linear", Op::Linear { out_features, bias });
    graph.build().unwrap()
}

fn model(tensors: &Tensors) -> Model {
    let graph = graph();
    let values = graph.parameters().iter().map(|s| tensors[&s.name].clone());
    Model {
        parameters: Parameters::new(&graph, values.collect()),
        graph,
        info: Default::default(),
    }
}

/// `||got - expected|| / ||expected||`.
fn relative(got: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let norm = |values: &mut dyn Iterator<Item = f32>| {
        let squares = values.map(|v| f64::from(v) * f64::from(v));
        squares.sum::<f64>().sqrt()
    };
    norm(&mut got.iter().zip(expected).map(|(g, e)| g - e)) / norm(&mut expected.iter().copied())
}

fn agrees<N: Executor + 'static>(make: impl Fn(&Model) -> N, tolerance: f64) {
    let golden: Golden = serde_json::from_str(include_str!("../goldens/heat.json")).unwrap();
    let batch = Images {
        shape: Shape::new(8, 8, 2),
        indices: golden.indices.clone(),
        pixels: golden.images.clone(),
        labels: vec![0; golden.indices.len()],
        values: vec![],
    };
    let position = Position {
        seed: golden.seed,
        epoch: golden.epoch,
        step: 0,
    };
    assert_eq!(golden.cases.len(), 8);
    for case in &golden.cases {
        let what = format!("{:?} {:?} {}", case.fit, case.scale, case.scale_free);
        let params = HeatParams {
            lambda: golden.lambda,
            timesteps: golden.timesteps,
            kappa: golden.kappa,
            fd_step: golden.fd_step,
            fit: case.fit,
            start: Start::Reinit,
            scale: case.scale,
            scale_free: case.scale_free,
            noisy_share: 0.0,
            keep_iterates: false,
        };
        let mut student = make(&model(&golden.student));
        let load =
            |model: &Model| -> Result<Box<dyn Executor>, DeviceError> { Ok(Box::new(make(model))) };
        let mut heat = Heat::new(golden.sigma, params).unwrap();
        begin(&mut heat, &model(&golden.teacher), &load, &batch);
        let mut gradients = student.gradients().unwrap();
        let measured = heat.step_alone(&mut student, &batch, position, &mut gradients);
        let measured = measured.unwrap();

        let expected = [case.distance + case.penalty, case.distance, case.penalty];
        for (got, expected) in measured.iter().zip(expected) {
            assert!(
                (got / expected - 1.0).abs() < tolerance,
                "{what}: {got} {expected}"
            );
        }
        let parameters = student.parameters().unwrap();
        let gradients = student.read_gradients(&gradients).unwrap();
        let pairs = parameters.iter().zip(gradients.iter());
        for (spec, (values, gradient)) in student.graph().parameters().iter().zip(pairs) {
            let error = if spec.role.trainable() {
                relative(gradient, &case.gradients[&spec.name])
            } else {
                // Once, by the clean pass, though 1 + kappa passes were made.
                relative(values, &golden.running[&spec.name])
            };
            assert!(error < tolerance, "{what}, {}: {error:e}", spec.name);
        }
    }
}

#[test]
fn the_reference_agrees_with_pytorch() {
    agrees(Reference::<f64>::new, 1e-5);
}

#[test]
fn the_cpu_agrees_with_pytorch() {
    agrees(|model| Cpu::new(model, pool(2)), 1e-4);
}
