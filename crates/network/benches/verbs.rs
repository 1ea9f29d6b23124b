//! Images per second of the verbs on the CPU, for tuning; `heatsmooth bench` is
//! the user's version.
//!
//!     cargo bench -p heatsmooth-network [-- FILTER]

use std::sync::Arc;

use divan::Bencher;
use divan::counter::ItemsCount;
use network::architecture::{Task, build};
use network::{Classify, Cpu, Executor, Mode, Model, Noise, NoisyImage, Purpose, SgdStep, Shape};

/// Architecture, side of its images, images in a batch.
const NETWORKS: [(&str, usize, usize); 2] = [("resnet20-cifar", 32, 128), ("resnet50", 224, 8)];
/// So small a rate that no number of steps moves anything far.
const STEP: SgdStep = SgdStep {
    rate: 1e-6,
    momentum: 0.9,
    weight_decay: 0.0,
    clip: None,
};
const MODES: [Mode; 2] = [Mode::Eval, Mode::Train];

/// A network with a batch of images and cotangents for it.
struct Work {
    cpu: Cpu,
    batch: usize,
    images: Vec<f32>,
    cotangent: Vec<f32>,
}

fn work((name, side, batch): (&str, usize, usize)) -> Work {
    let graph = build(name, &Task::new(Shape::new(side, side, 3), 10)).expect("a network");
    let model = Model::initialised(graph, 1, Default::default());
    let pool = rayon::ThreadPoolBuilder::new().build().expect("threads");
    let cpu = Cpu::new(&model, Arc::new(pool));
    Work {
        images: (0..batch * cpu.input().len())
            .map(|i| (i * 2_654_435_761 % 1000) as f32 / 1000.0)
            .collect(),
        cotangent: (0..batch * cpu.classes())
            .map(|i| (i * 40_503 % 7) as f32 * 1e-3 - 3e-3)
            .collect(),
        cpu,
        batch,
    }
}

#[divan::bench(args = NETWORKS, sample_count = 12)]
fn logits(bencher: Bencher<'_, '_>, network: (&str, usize, usize)) {
    let work = work(network);
    let mut logits = vec![0.0; work.batch * work.cpu.classes()];
    bencher
        .counter(ItemsCount::new(work.batch))
        .bench_local(|| work.cpu.logits(&work.images, &mut logits));
}

/// Of noisy copies of one image, the noise included.
#[divan::bench(args = NETWORKS, sample_count = 12)]
fn noisy_logits(bencher: Bencher<'_, '_>, network: (&str, usize, usize)) {
    let work = work(network);
    let mut logits = vec![0.0; work.batch * work.cpu.classes()];
    let noise = Noise::gaussian(1, Purpose::Bench, 0.1);
    let copies = [NoisyImage {
        pixels: &work.images[..work.cpu.input().len()],
        image: 0,
        first_sample: 0,
        count: work.batch,
    }];
    bencher
        .counter(ItemsCount::new(work.batch))
        .bench_local(|| work.cpu.noisy_logits(&noise, &copies, &mut logits));
}

#[divan::bench(args = MODES, sample_count = 12)]
fn forward(bencher: Bencher<'_, '_>, mode: Mode) {
    let work = work(NETWORKS[0]);
    bencher
        .counter(ItemsCount::new(work.batch))
        .bench_local(|| work.cpu.forward(&work.images, mode));
}

#[divan::bench(args = MODES, sample_count = 12)]
fn input_gradient(bencher: Bencher<'_, '_>, mode: Mode) {
    let work = work(NETWORKS[0]);
    let (_, tape) = work.cpu.forward(&work.images, mode).expect("a pass");
    bencher
        .counter(ItemsCount::new(work.batch))
        .bench_local(|| work.cpu.input_gradient(&tape, &work.cotangent));
}

#[divan::bench(args = MODES, sample_count = 12)]
fn parameter_gradient(bencher: Bencher<'_, '_>, mode: Mode) {
    let work = work(NETWORKS[0]);
    let (_, tape) = work.cpu.forward(&work.images, mode).expect("a pass");
    let mut gradients = work.cpu.gradients().expect("memory");
    bencher
        .counter(ItemsCount::new(work.batch))
        .bench_local(|| {
            let cotangent = &work.cotangent;
            work.cpu
                .parameter_gradient(&tape, cotangent, &mut gradients)
        });
}

/// Forward, backward and a step of the optimiser.
#[divan::bench(sample_count = 12)]
fn training_step(bencher: Bencher<'_, '_>) {
    let mut work = work(NETWORKS[0]);
    let mut gradients = work.cpu.gradients().expect("memory");
    bencher
        .counter(ItemsCount::new(work.batch))
        .bench_local(|| {
            let (_, tape) = work.cpu.forward(&work.images, Mode::Train)?;
            work.cpu
                .parameter_gradient(&tape, &work.cotangent, &mut gradients)?;
            work.cpu.update_running_statistics(&tape)?;
            work.cpu.optimise(&STEP, &mut gradients)
        });
}

fn main() {
    divan::main();
}
