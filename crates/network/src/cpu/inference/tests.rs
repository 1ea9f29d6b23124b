use std::sync::Arc;

use kernels::geometry::{Padding, Shape, Window};
use kernels::isa::Isa;
use proptest::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::compile;
use crate::activation::Activation;
use crate::architecture::{self, Task};
use crate::cpu::Cpu;
use crate::graph::{Graph, GraphBuilder};
use crate::model::{Model, ModelInfo};
use crate::noise::{Noise, NoisyImage, Purpose};
use crate::op::Op;
use crate::parameters::Role;
use crate::reference::Reference;
use crate::verbs::{Classify, Executor};

fn pool(threads: usize) -> Arc<ThreadPool> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    Arc::new(pool.expect("threads"))
}

/// Random weights, and running statistics that are not 0 and 1.
fn model(graph: Graph) -> Model {
    let mut model = Model::initialised(graph, 3, ModelInfo::default());
    let roles: Vec<Role> = model.graph.parameters().iter().map(|p| p.role).collect();
    for (index, role) in roles.into_iter().enumerate() {
        for (i, v) in model.parameters.get_mut(index).iter_mut().enumerate() {
            let wave = ((index * 31 + i * 17) % 29) as f32 / 29.0 - 0.5;
            match role {
                Role::Weight => {}
                Role::RunningVariance => *v = 1.0 + wave,
                Role::NormScale => *v = 1.0 + 0.5 * wave,
                _ => *v = 0.3 * wave,
            }
        }
    }
    model
}

fn images(input: Shape, count: usize) -> Vec<f32> {
    let value = |i: usize| ((i * 7919 + i / 13) % 256) as f32 / 255.0;
    (0..count * input.len()).map(value).collect()
}

fn logits(network: &impl Classify, images: &[f32]) -> Vec<f32> {
    let count = images.len() / network.input().len();
    let mut logits = vec![f32::NAN; count * network.classes()];
    network.logits(images, &mut logits).unwrap();
    logits
}

/// Against f64, on every instruction set, and to the bit for every split.
fn check(graph: Graph, count: usize) {
    let model = model(graph);
    let x = images(model.graph.input(), count);
    let want = logits(&Reference::<f64>::new(&model), &x);
    let scale = want.iter().fold(1.0_f32, |a, w| a.max(w.abs()));
    for isa in Isa::available() {
        let whole = logits(&Cpu::with_isa(&model, pool(1), isa), &x);
        for (g, w) in whole.iter().zip(&want) {
            assert!((g - w).abs() < 1e-4 * scale, "{isa}: {g} {w}");
        }
        for threads in 1..=3 {
            let cpu = Cpu::with_isa(&model, pool(threads), isa);
            assert_eq!(logits(&cpu, &x), whole, "{isa}, {threads} threads");
            let length = model.graph.input().len();
            for (i, one) in x.chunks_exact(length).enumerate() {
                let classes = model.graph.classes();
                // One image alone: on one thread, and cut up among all.
                for _ in 0..2 {
                    assert_eq!(logits(&cpu, one), whole[i * classes..][..classes]);
                }
            }
        }
    }
}

#[test]
fn every_kind_of_architecture() {
    for (name, side) in [
        ("mlp", 8),
        ("smallcnn", 8),
        ("resnet20-cifar", 12),
        ("resnet34-cifar", 8),
        ("resnet18-wide-cifar", 8),
        ("resnet50", 32),
    ] {
        let task =
            Task::new(Shape::new(side, side, 3), 10).normalised(&[0.4, 0.5, 0.6], &[0.2, 0.3, 0.4]);
        check(architecture::build(name, &task).unwrap(), 2);
    }
}

/// Every operator, in orders that no built-in network has.
#[test]
fn every_operator() {
    let conv = |out_channels, groups, bias| Op::Conv {
        out_channels,
        window: Window::square(3, 1, 1),
        groups,
        bias,
    };
    let norm = |scale, shift| Op::BatchNorm {
        epsilon: 1e-3,
        momentum: 0.1,
        scale,
        shift,
    };
    let mut g = GraphBuilder::new(Shape::new(9, 7, 3));
    g.then(
        "affine",
        Op::Affine {
            scale: vec![2.0],
            shift: vec![-1.0],
        },
    );
    let a = g.then("conv-a", conv(6, 3, true));
    g.then("bn-a", norm(true, true));
    let a2 = g.then(
        "affine-a",
        Op::Affine {
            scale: vec![0.5; 6],
            shift: vec![0.25],
        },
    );
    // A residual that is also a convolution, and one that is the same value.
    let b = g.add("conv-b", conv(6, 2, false), &[a]);
    let sum = g.add("sum", Op::Add, &[b, a2]);
    let relu = g.add("relu", Op::RELU, &[sum]);
    let twice = g.add("twice", Op::Add, &[relu, relu]);
    let bn = g.add("bn-alone", norm(false, true), &[twice]);
    let sum = g.add("sum2", Op::Add, &[bn, sum]);
    g.add("relu2", Op::RELU, &[sum]);
    let act = g.then(
        "leaky",
        Op::Activation(Activation::LeakyRelu { slope: 0.1 }),
    );
    let squeeze = g.then("squeeze", Op::GlobalAveragePool);
    let gate = g.add(
        "gate",
        Op::Activation(Activation::HardSigmoid {
            slope: 0.2,
            offset: 0.5,
        }),
        &[squeeze],
    );
    let mul = g.add("mul", Op::Mul, &[act, gate]);
    let cat = g.add("cat", Op::Concat, &[mul, relu, a]);
    let max = g.add(
        "max",
        Op::MaxPool {
            window: Window::square(3, 2, 1),
        },
        &[cat],
    );
    let average = Op::AveragePool {
        window: Window::square(3, 2, 1),
        count_padding: false,
    };
    let mean = g.add("mean", average, &[cat]);
    let sum = g.add("sum3", Op::Add, &[mean, max]);
    let half = g.add("half", Op::Subsample { stride: [2, 3] }, &[sum]);
    let padding = Padding {
        top: 1,
        left: 0,
        bottom: 2,
        right: 1,
    };
    g.add(
        "pad",
        Op::Pad {
            padding,
            channels: [2, 1],
        },
        &[half],
    );
    g.then("gelu", Op::Activation(Activation::Gelu { tanh: false }));
    let flat = g.then("flat", Op::Flatten);
    g.then(
        "linear",
        Op::Linear {
            out_features: 5,
            bias: true,
        },
    );
    let bn = g.then("bn-out", norm(true, false));
    let other = g.add(
        "other",
        Op::Linear {
            out_features: 5,
            bias: false,
        },
        &[flat],
    );
    g.add("out", Op::Add, &[bn, other]);
    check(g.build().unwrap(), 5);
}

/// A Gelu behind each kind of convolution, and a factor a channel before a sum, are part
/// of the convolution's step.
#[test]
fn gelu_and_learned_factors_are_fused() {
    let conv = |out_channels, kernel, groups| Op::Conv {
        out_channels,
        window: Window::square(kernel, 1, kernel / 2),
        groups,
        bias: true,
    };
    let gelu = |tanh| Op::Activation(Activation::Gelu { tanh });
    let mut g = GraphBuilder::new(Shape::new(7, 6, 3));
    g.then("direct", conv(18, 1, 1));
    g.then("gelu-a", gelu(false));
    g.then("winograd", conv(18, 3, 1));
    g.then("gelu-b", gelu(true));
    g.then("depthwise", conv(18, 7, 18));
    let x = g.then("gelu-c", gelu(false));
    let y = g.then("linear", conv(18, 1, 1));
    let scale = Op::Parameter {
        shape: Shape::vector(18),
        role: Role::NormScale,
    };
    let scale = g.add("scale", scale, &[]);
    let y = g.add("scaled", Op::Mul, &[y, scale]);
    g.add("sum", Op::Add, &[x, y]);
    g.then("gelu-d", gelu(false));
    g.then("pool", Op::GlobalAveragePool);
    let graph = g.build().unwrap();
    let model = model(graph.clone());
    let plan = compile::compile(Isa::detect(), &model.graph, &model.parameters);
    let steps: usize = plan.sections.iter().map(|s| s.steps.len()).sum();
    assert_eq!(steps, 5);
    check(graph, 3);
}

#[test]
fn a_flattened_image_and_an_input_can_be_the_output() {
    let mut g = GraphBuilder::new(Shape::new(4, 3, 2));
    g.then(
        "conv",
        Op::Conv {
            out_channels: 3,
            window: Window::square(1, 1, 0),
            groups: 1,
            bias: true,
        },
    );
    g.then("flat", Op::Flatten);
    check(g.build().unwrap(), 3);
    check(GraphBuilder::new(Shape::vector(4)).build().unwrap(), 3);
}

#[test]
fn new_parameters_take_effect() {
    let task = Task::new(Shape::new(8, 8, 3), 4);
    let model = model(architecture::build("smallcnn", &task).unwrap());
    let x = images(model.graph.input(), 2);
    let mut cpu = Cpu::new(&model, pool(2));
    let before = logits(&cpu, &x);
    let mut state = cpu.state().unwrap();
    for values in state.parameters.iter_mut() {
        values.iter_mut().for_each(|v| *v *= 1.5);
    }
    cpu.restore(state).unwrap();
    let changed = Model {
        parameters: cpu.parameters().unwrap(),
        ..model
    };
    assert_eq!(logits(&cpu, &x), logits(&Cpu::new(&changed, pool(1)), &x));
    assert_ne!(logits(&cpu, &x), before);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Logits of noisy copies are those of the copies, however they are asked
    /// for.
    #[test]
    fn noisy_copies(counts in prop::collection::vec(0usize..9, 1..4), seed: u64, threads in 1usize..4) {
        let task = Task::new(Shape::new(6, 6, 3), 4);
        let model = model(architecture::build("smallcnn", &task).unwrap());
        let cpu = Cpu::new(&model, pool(threads));
        let x = images(model.graph.input(), counts.len());
        let noise = Noise::gaussian(seed, Purpose::Estimation, 0.25);
        let batch: Vec<NoisyImage<'_>> = counts
            .iter()
            .zip(x.chunks_exact(model.graph.input().len()))
            .enumerate()
            .map(|(i, (&count, pixels))| NoisyImage {
                pixels,
                image: i as u32 + 7,
                first_sample: 10 * i as u32,
                count,
            })
            .collect();
        let total: usize = counts.iter().sum();
        let mut got = vec![f32::NAN; total * 4];
        cpu.noisy_logits(&noise, &batch, &mut got).unwrap();
        let want = logits(&cpu, &noise.copies(&batch));
        for (g, w) in got.iter().zip(&want) {
            prop_assert!((g - w).abs() < 1e-4, "{} {}", g, w);
        }
        for noisy in &batch {
            for sample in 0..noisy.count {
                let one = NoisyImage {
                    first_sample: noisy.first_sample + sample as u32,
                    count: 1,
                    ..*noisy
                };
                let mut alone = vec![f32::NAN; 4];
                cpu.noisy_logits(&noise, &[one], &mut alone).unwrap();
                let before: usize = counts[..noisy.image as usize - 7].iter().sum();
                prop_assert_eq!(&alone[..], &got[(before + sample) * 4..][..4]);
            }
        }
    }
}

/// At full size a network is cut into sections of different groups, to no
/// effect but speed.
#[test]
fn sections_take_more_images_where_they_are_small() {
    let task = Task::new(Shape::new(32, 32, 3), 10);
    let model = model(architecture::build("resnet20-cifar", &task).unwrap());
    let plan = compile::compile(Isa::detect(), &model.graph, &model.parameters);
    let groups: Vec<usize> = plan.sections.iter().map(|s| s.group).collect();
    assert_eq!(groups, [2, 4, 8]);
    assert_eq!(plan.block, 8);
    let x = images(model.graph.input(), 11);
    let cpu = Cpu::new(&model, pool(2));
    let whole = logits(&cpu, &x);
    let alone = x.chunks_exact(model.graph.input().len());
    let alone: Vec<f32> = alone.flat_map(|one| logits(&cpu, one)).collect();
    assert_eq!(whole, alone);
}
