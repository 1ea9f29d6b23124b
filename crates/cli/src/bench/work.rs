//! What is measured, in the verbs.

use clap::ValueEnum;
use network::{
    Classify as _, Cpu, Differentiable as _, Gradients, Mode, Noise, NoisyImage, Purpose,
};
use train::loss::cross_entropy;
use train::{Sgd, SgdParams};

/// One kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// Logits of a batch.
    Forward,
    /// Logits of noisy copies of one image, the noise included.
    Noisy,
    /// Logits of a single image.
    Latency,
    /// Forward, backward and SGD on a batch.
    Train,
    /// Gradient of the loss with respect to a batch of images: a step of an
    /// attack.
    InputGradient,
    /// A step of heat smoothing with one projection.
    Heat,
}

impl Work {
    pub const ALL: [Self; 6] = [
        Self::Forward,
        Self::Noisy,
        Self::Latency,
        Self::Train,
        Self::InputGradient,
        Self::Heat,
    ];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Noisy => "noisy",
            Self::Latency => "latency",
            Self::Train => "train",
            Self::InputGradient => "input-gradient",
            Self::Heat => "heat",
        }
    }

    /// Needs tapes and gradients.
    pub fn trains(self) -> bool {
        matches!(self, Self::Train | Self::InputGradient | Self::Heat)
    }
}

/// A network with all that the works need.
pub struct Bench {
    cpu: Cpu,
    batch: usize,
    images: Vec<f32>,
    labels: Vec<u32>,
    logits: Vec<f32>,
    cotangent: Vec<f32>,
    gradients: Gradients,
    dx: Vec<f32>,
    sgd: Sgd,
    noise: Noise,
}

/// Finite-difference step and weight of the heat penalty; speed does not depend
/// on them.
const FD_STEP: f32 = 0.1;
/// So small that hours of steps on noise move nothing far.
const RATE: f32 = 1e-5;

impl Bench {
    pub fn new(cpu: Cpu, batch: usize, seed: u64) -> Self {
        let noise = Noise {
            seed,
            purpose: Purpose::Bench,
            sigma: 0.1,
        };
        let (length, classes) = (cpu.input().len(), cpu.classes());
        Self {
            images: noise.draw(0, 0, batch * length),
            labels: (0..batch).map(|i| (i % classes) as u32).collect(),
            logits: vec![0.0; batch * classes],
            cotangent: vec![0.0; batch * classes],
            gradients: Gradients::zeros(cpu.graph()),
            dx: vec![0.0; batch * length],
            sgd: Sgd::new(cpu.graph(), SgdParams::default()),
            noise,
            cpu,
            batch,
        }
    }

    /// Images that one call of [`Bench::run`] works on.
    pub fn images(&self, work: Work) -> usize {
        if work == Work::Latency { 1 } else { self.batch }
    }

    /// Does the work once.
    pub fn run(&mut self, work: Work) {
        let (length, classes) = (self.cpu.input().len(), self.cpu.classes());
        match work {
            Work::Forward => self.cpu.logits(&self.images, &mut self.logits),
            Work::Noisy => {
                let noisy = NoisyImage {
                    pixels: &self.images[..length],
                    image: 0,
                    first_sample: 0,
                    count: self.batch,
                };
                self.cpu
                    .noisy_logits(&self.noise, &[noisy], &mut self.logits);
            }
            Work::Latency => {
                let (image, logits) = (&self.images[..length], &mut self.logits[..classes]);
                self.cpu.logits(image, logits);
            }
            Work::Train => {
                let (logits, tape) = self.cpu.forward(&self.images, Mode::Train);
                cross_entropy(classes, &logits, &self.labels, &mut self.cotangent);
                self.gradients.clear();
                self.cpu
                    .parameter_gradient(&tape, &self.cotangent, &mut self.gradients);
                self.cpu.update_running_statistics(&tape);
                drop(tape);
                self.step();
            }
            Work::InputGradient => {
                let (logits, tape) = self.cpu.forward(&self.images, Mode::Eval);
                cross_entropy(classes, &logits, &self.labels, &mut self.cotangent);
                self.cpu
                    .input_gradient(&tape, &self.cotangent, &mut self.dx);
            }
            Work::Heat => self.heat(),
        }
    }

    fn step(&mut self) {
        // The graph is cheap to clone beside a step, and frees the borrow.
        let graph = self.cpu.graph().clone();
        let parameters = self.cpu.parameters_mut();
        self.sgd.step(&graph, RATE, &self.gradients, parameters);
    }

    /// The passes of method.md's loss with kappa = 1: the teacher's logits, a
    /// clean pass, one input gradient, one pass at `x + fd_step * l`, and both
    /// parameter gradients.
    fn heat(&mut self) {
        let length = self.cpu.input().len();
        self.cpu.logits(&self.images, &mut self.logits);
        let (clean, tape) = self.cpu.forward(&self.images, Mode::Train);
        let w = self.noise.draw(1, 0, clean.len());
        self.cpu.input_gradient(&tape, &w, &mut self.dx);
        for (x, g) in self
            .images
            .chunks_exact(length)
            .zip(self.dx.chunks_exact_mut(length))
        {
            let norm = g.iter().map(|g| g * g).sum::<f32>().sqrt().max(1e-12);
            for (g, x) in g.iter_mut().zip(x) {
                *g = x + FD_STEP * *g / norm;
            }
        }
        self.gradients.clear();
        let (moved, moved_tape) = self.cpu.forward(&self.dx, Mode::Train);
        for i in 0..clean.len() {
            self.cotangent[i] = w[i] * (moved[i] - clean[i]) / FD_STEP;
        }
        self.cpu
            .parameter_gradient(&moved_tape, &self.cotangent, &mut self.gradients);
        drop(moved_tape);
        for i in 0..clean.len() {
            self.cotangent[i] = clean[i] - self.logits[i] - self.cotangent[i];
        }
        self.cpu
            .parameter_gradient(&tape, &self.cotangent, &mut self.gradients);
        self.cpu.update_running_statistics(&tape);
        drop(tape);
        self.step();
    }
}
