//! The memory of a heat step does not grow with kappa.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use data::Batch;
use network::architecture::{Task, build};
use network::{
    Classify, Differentiable, Gradients, Graph, Mode, Model, Noise, NoisyImage, Parameters,
    Purpose, Reference, ReferenceTape, Shape,
};
use train::methods::{Fit, Heat, HeatParams, Scale, Start};
use train::{Method, Position};

/// Tapes: how many live, the most that ever did, and how many there were.
#[derive(Default)]
struct Tapes {
    live: AtomicUsize,
    peak: AtomicUsize,
    total: AtomicUsize,
}

/// A network whose tapes are counted.
struct Counting {
    network: Reference<f32>,
    tapes: Arc<Tapes>,
}

struct CountedTape {
    tape: ReferenceTape<f32>,
    tapes: Arc<Tapes>,
}

impl Drop for CountedTape {
    fn drop(&mut self) {
        self.tapes.live.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Classify for Counting {
    fn input(&self) -> Shape {
        self.network.input()
    }

    fn classes(&self) -> usize {
        self.network.classes()
    }

    fn logits(&self, images: &[f32], logits: &mut [f32]) {
        self.network.logits(images, logits);
    }

    fn noisy_logits(&self, noise: &Noise, batch: &[NoisyImage<'_>], logits: &mut [f32]) {
        self.network.noisy_logits(noise, batch, logits);
    }
}

impl Differentiable for Counting {
    type Tape = CountedTape;

    fn graph(&self) -> &Graph {
        self.network.graph()
    }

    fn parameters(&self) -> &Parameters {
        self.network.parameters()
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        self.network.parameters_mut()
    }

    fn forward(&self, images: &[f32], mode: Mode) -> (Vec<f32>, Self::Tape) {
        let (logits, tape) = self.network.forward(images, mode);
        let live = self.tapes.live.fetch_add(1, Ordering::Relaxed) + 1;
        self.tapes.peak.fetch_max(live, Ordering::Relaxed);
        self.tapes.total.fetch_add(1, Ordering::Relaxed);
        let tapes = Arc::clone(&self.tapes);
        (logits, CountedTape { tape, tapes })
    }

    fn input_gradient(&self, tape: &Self::Tape, cotangent: &[f32], dx: &mut [f32]) {
        self.network.input_gradient(&tape.tape, cotangent, dx);
    }

    fn parameter_gradient(&self, tape: &Self::Tape, cotangent: &[f32], gradients: &mut Gradients) {
        self.network
            .parameter_gradient(&tape.tape, cotangent, gradients);
    }

    fn update_running_statistics(&mut self, tape: &Self::Tape) {
        self.network.update_running_statistics(&tape.tape);
    }
}

fn params(kappa: u32) -> HeatParams {
    HeatParams {
        sigma: 0.25,
        lambda: 5.0,
        timesteps: 1,
        kappa,
        fd_step: 0.1,
        fit: Fit::L2,
        start: Start::Warm,
        scale: Scale::Unbiased,
        scale_free: true,
        noisy_share: 0.0,
    }
}

/// One clean student pass and one for each projection, two tapes at a time.
#[test]
fn two_tapes_are_alive_whatever_kappa() {
    let graph = build("mlp", &Task::new(Shape::new(8, 8, 1), 10)).unwrap();
    let model = Model::initialised(graph, 1, Default::default());
    let noise = Noise {
        seed: 0,
        purpose: Purpose::Bench,
        sigma: 0.3,
    };
    let batch = Batch {
        number: 0,
        indices: (0..8).collect(),
        images: noise.draw(0, 0, 8 * 64),
        labels: vec![0; 8],
    };
    for kappa in [1, 20] {
        let tapes = Arc::new(Tapes::default());
        let make = || Counting {
            network: Reference::new(&model),
            tapes: Arc::clone(&tapes),
        };
        let mut student = make();
        let mut heat = Heat::new(params(kappa), make(), &batch.images).unwrap();
        let mut gradients = Gradients::zeros(student.graph());
        let position = Position {
            seed: 0,
            epoch: 0,
            step: 0,
        };
        heat.step(&mut student, &batch, position, &mut gradients)
            .unwrap();
        assert_eq!(tapes.total.load(Ordering::Relaxed), 1 + kappa as usize);
        assert_eq!(tapes.peak.load(Ordering::Relaxed), 2);
        assert_eq!(tapes.live.load(Ordering::Relaxed), 0);
    }
}

/// Peak resident memory of this process, in KiB.
#[cfg(target_os = "linux")]
fn peak_resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

/// What the operating system sees: after a step with one projection, steps with
/// twenty need no more memory. Each tape that were kept would be visible.
#[cfg(target_os = "linux")]
#[test]
fn the_process_does_not_grow_with_kappa() {
    let graph = build("smallcnn", &Task::new(Shape::new(32, 32, 3), 10)).unwrap();
    let model = Model::initialised(graph, 1, Default::default());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    let pool = Arc::new(pool.unwrap());
    let make = || network::Cpu::new(&model, Arc::clone(&pool));
    let (images, len) = (64, 32 * 32 * 3);
    let noise = Noise {
        seed: 0,
        purpose: Purpose::Bench,
        sigma: 0.3,
    };
    let batch = Batch {
        number: 0,
        indices: (0..images).collect(),
        images: noise.draw(0, 0, images as usize * len),
        labels: vec![0; images as usize],
    };
    let mut student = make();
    let mut gradients = Gradients::zeros(student.graph());
    let mut peaks = Vec::new();
    for kappa in [1, 20] {
        let mut heat = Heat::new(params(kappa), make(), &batch.images).unwrap();
        for step in 0..2 {
            let position = Position {
                seed: 0,
                epoch: 0,
                step,
            };
            gradients.clear();
            heat.step(&mut student, &batch, position, &mut gradients)
                .unwrap();
        }
        peaks.push(peak_resident());
    }
    // The output of the first convolution alone: a tape keeps more.
    let tape = u64::from(images) * 32 * 32 * 16 * 4 / 1024;
    assert!(peaks[1] - peaks[0] < 2 * tape, "{peaks:?} KiB");
}
