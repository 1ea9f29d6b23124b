//! What is measured, in the verbs.

use std::sync::Arc;

use anyhow::Result;
use attack::{Deterministic, PgdParams, maximise};
use clap::ValueEnum;
use data::Batch;
use network::{
    Classify as _, Cpu, Differentiable as _, Gradients, Mode, Model, Noise, NoisyImage, Purpose,
};
use rayon::ThreadPool;
use train::loss::cross_entropy;
use train::methods::{Baseline, Fit, Heat, HeatParams, Scale, Start};
use train::{Method, Position, Sgd, SgdParams};

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
    /// A step of the PGD attack itself on a batch, one of 20.
    Pgd,
    /// A step of heat smoothing with `--kappa` projections, SGD included.
    Heat,
}

impl Work {
    pub const ALL: [Self; 7] = [
        Self::Forward,
        Self::Noisy,
        Self::Latency,
        Self::Train,
        Self::InputGradient,
        Self::Pgd,
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
            Self::Pgd => "pgd",
            Self::Heat => "heat",
        }
    }

    /// Needs tapes and gradients.
    pub fn trains(self) -> bool {
        matches!(
            self,
            Self::Train | Self::InputGradient | Self::Pgd | Self::Heat
        )
    }

    /// Steps in one call of [`Bench::run`]; times are those of one step.
    pub fn steps(self) -> u32 {
        match self {
            Self::Pgd => PgdParams::default().steps,
            _ => 1,
        }
    }
}

/// A network with all that the works need.
pub struct Bench {
    cpu: Cpu,
    heat: Heat<Cpu>,
    batch: Batch,
    /// The batch around grey, in [0, 1], for attacks.
    pixels: Vec<f32>,
    logits: Vec<f32>,
    cotangent: Vec<f32>,
    gradients: Gradients,
    dx: Vec<f32>,
    sgd: Sgd,
    noise: Noise,
    position: Position,
}

/// So small that hours of steps on noise move nothing far.
const RATE: f32 = 1e-5;

impl Bench {
    /// All works on `images` images of noise at a time.
    pub fn new(
        model: &Model,
        pool: Arc<ThreadPool>,
        images: usize,
        kappa: u32,
        seed: u64,
    ) -> Result<Self> {
        let noise = Noise {
            seed,
            purpose: Purpose::Bench,
            sigma: 0.1,
        };
        let cpu = Cpu::new(model, Arc::clone(&pool));
        let (length, classes) = (cpu.input().len(), cpu.classes());
        let batch = Batch {
            number: 0,
            indices: (0..images as u32).collect(),
            images: noise.draw(0, 0, images * length),
            labels: (0..images).map(|i| (i % classes) as u32).collect(),
        };
        let params = HeatParams {
            sigma: 0.1,
            lambda: 5.0,
            timesteps: 1,
            kappa,
            fd_step: 0.1,
            fit: Fit::L2,
            start: Start::Reinit,
            scale: Scale::Unbiased,
            scale_free: true,
            noisy_share: 0.0,
        };
        Ok(Self {
            heat: Heat::new(params, Cpu::new(model, pool), &batch.images[..length])?,
            logits: vec![0.0; images * classes],
            cotangent: vec![0.0; images * classes],
            pixels: batch
                .images
                .iter()
                .map(|v| (0.5 + v).clamp(0.0, 1.0))
                .collect(),
            gradients: Gradients::zeros(cpu.graph()),
            dx: vec![0.0; images * length],
            sgd: Sgd::new(cpu.graph(), SgdParams::default()),
            noise,
            position: Position {
                seed,
                epoch: 0,
                step: 0,
            },
            cpu,
            batch,
        })
    }

    /// Images that one call of [`Bench::run`] works on.
    pub fn images(&self, work: Work) -> usize {
        match work {
            Work::Latency => 1,
            _ => self.batch.labels.len(),
        }
    }

    /// Does the work once.
    pub fn run(&mut self, work: Work) -> Result<()> {
        let (length, classes) = (self.cpu.input().len(), self.cpu.classes());
        let images = &self.batch.images;
        match work {
            Work::Forward => self.cpu.logits(images, &mut self.logits),
            Work::Noisy => {
                let noisy = NoisyImage {
                    pixels: &images[..length],
                    image: 0,
                    first_sample: 0,
                    count: self.batch.labels.len(),
                };
                self.cpu
                    .noisy_logits(&self.noise, &[noisy], &mut self.logits);
            }
            Work::Latency => {
                let logits = &mut self.logits[..classes];
                self.cpu.logits(&images[..length], logits);
            }
            Work::InputGradient => {
                let (logits, tape) = self.cpu.forward(images, Mode::Eval);
                cross_entropy(classes, &logits, &self.batch.labels, &mut self.cotangent);
                self.cpu
                    .input_gradient(&tape, &self.cotangent, &mut self.dx);
            }
            Work::Pgd => {
                let Batch {
                    indices, labels, ..
                } = &self.batch;
                let batch = attack::Batch::new(&self.pixels, indices, labels);
                // No image is done early: every step is one on the whole batch.
                let params = PgdParams {
                    stop_at_success: false,
                    ..PgdParams::default()
                };
                maximise(&params.check()?, &Deterministic::new(&self.cpu), &batch)?;
            }
            Work::Train | Work::Heat => {
                let method: &mut dyn Method<Cpu> = match work {
                    Work::Train => &mut Baseline,
                    _ => &mut self.heat,
                };
                self.gradients.clear();
                method.step(
                    &mut self.cpu,
                    &self.batch,
                    self.position,
                    &mut self.gradients,
                )?;
                // The graph is cheap to clone beside a step, and frees the borrow.
                let graph = self.cpu.graph().clone();
                let parameters = self.cpu.parameters_mut();
                self.sgd.step(&graph, RATE, &self.gradients, parameters);
            }
        }
        Ok(())
    }
}
