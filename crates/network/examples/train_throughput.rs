//! Images per second of the verbs: `train_throughput [ARCH] [BATCH] [THREADS]`.

use std::sync::Arc;
use std::time::Instant;

use network::architecture::{Task, build};
use network::{Cpu, Differentiable, Gradients, Mode, Model, ModelInfo, Shape};

/// Median images per second of five runs, after one to warm up.
fn rate(images: usize, mut run: impl FnMut()) -> f64 {
    run();
    let mut rates: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            run();
            images as f64 / start.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[2]
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or("resnet20-cifar".into());
    let mut number = |default| {
        arguments
            .next()
            .map_or(default, |a| a.parse().expect("number"))
    };
    let (batch, threads) = (number(128), number(2));
    let (size, classes) = match name.contains("cifar") {
        true => (32, 10),
        false => (224, 1000),
    };
    let graph = build(&name, &Task::new(Shape::new(size, size, 3), classes)).expect("a network");
    let model = Model::initialised(graph, 1, ModelInfo::default());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let mut network = Cpu::new(&model, Arc::new(pool.expect("threads")));
    let images: Vec<f32> = (0..batch * size * size * 3)
        .map(|i| (i * 2654435761 % 1000) as f32 / 1000.0)
        .collect();
    let cotangent: Vec<f32> = (0..batch * classes)
        .map(|i| (i * 40503 % 7) as f32 * 1e-3 - 3e-3)
        .collect();
    let mut gradients = Gradients::zeros(network.graph());
    let mut momentum = gradients.clone();
    let mut dx = vec![0.0; images.len()];

    println!("{name}, batch {batch}, {threads} threads, images/s:");
    for mode in [Mode::Eval, Mode::Train] {
        let forward = rate(batch, || drop(network.forward(&images, mode)));
        let (_, tape) = network.forward(&images, mode);
        let input = rate(batch, || network.input_gradient(&tape, &cotangent, &mut dx));
        let parameter = rate(batch, || {
            network.parameter_gradient(&tape, &cotangent, &mut gradients);
        });
        println!(
            "{mode:?}: forward {forward:.0}, input gradient {input:.0}, both {:.0}, \
             parameter gradient {parameter:.0}",
            1.0 / (1.0 / forward + 1.0 / input)
        );
    }
    let step = rate(batch, || {
        gradients.clear();
        let (_, tape) = network.forward(&images, Mode::Train);
        network.parameter_gradient(&tape, &cotangent, &mut gradients);
        network.update_running_statistics(&tape);
        let parameters = network.parameters_mut().iter_mut();
        for ((v, g), m) in parameters.zip(gradients.iter()).zip(momentum.iter_mut()) {
            for ((v, g), m) in v.iter_mut().zip(g).zip(m) {
                *m = 0.9 * *m + g;
                *v -= 1e-3 * *m;
            }
        }
    });
    println!("train step {step:.0}");
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let peak = status.lines().find(|line| line.starts_with("VmHWM"));
        println!("{}", peak.unwrap_or("peak memory unknown"));
    }
}
