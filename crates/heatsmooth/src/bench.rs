//! How fast this machine is: what is measured, in the verbs.

use std::time::{Duration, Instant};

use attack::{Challenge, Deterministic, Pgd, PgdParams, maximise};
use certify::Smoothing;
use network::{Executor, Gradients, Images, Mode, Model, Noise, NoisyImage, Purpose, SgdStep};
use settings::choices;
use train::loss::cross_entropy;
use train::methods::{Average, AverageParams, Baseline, Heat, HeatParams, Relus, Start};
use train::{Leg, LegContext, Method, Position};

use crate::device::Device;
use crate::error::Error;

choices! {
    /// One kind of work.
    pub enum Work {
        /// Logits of a batch.
        Forward = "forward",
        /// Logits of noisy copies of one image, the noise included.
        Noisy = "noisy",
        /// The same with exact noise.
        NoisyExact = "noisy-exact",
        /// Logits of a single image.
        Latency = "latency",
        /// Forward, backward and SGD on a batch.
        Train = "train",
        /// Gradient of the loss with respect to a batch of images: a step of an
        /// attack.
        InputGradient = "input-gradient",
        /// A step of the PGD attack itself on a batch, one of 20.
        Pgd = "pgd",
        /// A step of heat smoothing with kappa projections, SGD included.
        Heat = "heat",
        /// A step of averaging with two draws of noise, SGD included; ReLUs are kept,
        /// so that the network is the same as elsewhere.
        Average = "average",
    }
}

impl Work {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Forward,
        Self::Noisy,
        Self::NoisyExact,
        Self::Latency,
        Self::Train,
        Self::InputGradient,
        Self::Pgd,
        Self::Heat,
        Self::Average,
    ];

    /// Needs tapes and gradients.
    pub fn trains(self) -> bool {
        matches!(
            self,
            Self::Train | Self::InputGradient | Self::Pgd | Self::Heat | Self::Average
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
    network: Box<dyn Executor>,
    heat: Heat,
    average: Average,
    batch: Images,
    /// The batch around grey, in [0, 1], for attacks.
    grey: Images,
    logits: Vec<f32>,
    cotangent: Vec<f32>,
    gradients: Gradients,
    noise: Noise,
    exact: Noise,
    position: Position,
}

/// So small a rate that hours of steps on noise move nothing far.
const STEP: SgdStep = SgdStep {
    rate: 1e-5,
    momentum: 0.9,
    weight_decay: 5e-4,
    clip: None,
};

impl Bench {
    /// All works on `images` images of noise at a time.
    ///
    /// # Errors
    /// A device without room for it.
    pub fn new(
        model: &Model,
        device: &Device,
        images: usize,
        kappa: u32,
        seed: u64,
    ) -> Result<Self, Error> {
        let noise = Noise::gaussian(seed, Purpose::Bench, 0.1);
        let network = device.load(model)?;
        let (shape, classes) = (network.input(), network.classes());
        let batch = Images {
            shape,
            indices: (0..images as u32).collect(),
            pixels: noise.draw(0, 0, images * shape.len()),
            labels: (0..images).map(|i| (i % classes) as u32).collect(),
            values: vec![],
        };
        let params = HeatParams {
            lambda: 5.0,
            kappa,
            start: Start::Reinit,
            noisy_share: 0.0,
            ..HeatParams::default()
        };
        let mut heat = Heat::new(0.1, params)?;
        let stage = LegContext {
            load: &|model| device.load(model),
            images: &batch.select(&[0]),
            seed,
        };
        heat.begin(Leg { number: 0, of: 1 }, model, &stage)?;
        let params = AverageParams {
            relus: Relus::Kept,
            ..AverageParams::default()
        };
        let mut average = Average::new(0.1, params, Default::default())?;
        average.begin(Leg { number: 0, of: 1 }, model, &stage)?;
        let grey = batch.pixels.iter().map(|v| (0.5 + v).clamp(0.0, 1.0));
        Ok(Self {
            heat,
            average,
            logits: vec![0.0; images * classes],
            cotangent: vec![0.0; images * classes],
            grey: Images {
                pixels: grey.collect(),
                ..batch.clone()
            },
            gradients: network.gradients()?,
            noise,
            exact: Smoothing::exact(0.1, 255)?.noise(seed, Purpose::Bench),
            position: Position {
                seed,
                epoch: 0,
                step: 0,
            },
            network,
            batch,
        })
    }

    /// Images that one call of [`Bench::run`] works on.
    pub fn images(&self, work: Work) -> usize {
        match work {
            Work::Latency => 1,
            _ => self.batch.len(),
        }
    }

    /// Logits of an image that anyone can make, to compare engines: element `i` in
    /// NHWC order is `(i * 7919 mod 256) / 255`.
    ///
    /// # Errors
    /// A device that fails.
    pub fn first_logits(&self) -> Result<Vec<f32>, Error> {
        let pixels = 0..self.network.input().len();
        let image: Vec<f32> = pixels.map(|i| (i * 7919 % 256) as f32 / 255.0).collect();
        let mut logits = vec![0.0; self.network.classes()];
        self.network.logits(&image, &mut logits)?;
        Ok(logits)
    }

    /// Median seconds of one step of the work, after two calls to warm up; at
    /// least five calls.
    ///
    /// # Errors
    /// A device that fails.
    pub fn seconds(&mut self, work: Work, time: Duration) -> Result<f64, Error> {
        self.run(work)?;
        self.run(work)?;
        let start = Instant::now();
        let mut times = Vec::new();
        while times.len() < 5 || start.elapsed() < time {
            let start = Instant::now();
            self.run(work)?;
            times.push(start.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2] / f64::from(work.steps()))
    }

    /// Does the work once.
    ///
    /// # Errors
    /// A device that fails.
    pub fn run(&mut self, work: Work) -> Result<(), Error> {
        let classes = self.network.classes();
        let images = &self.batch.pixels;
        match work {
            Work::Forward => self.network.logits(images, &mut self.logits)?,
            Work::Noisy | Work::NoisyExact => {
                let noisy = NoisyImage {
                    pixels: self.batch.image(0),
                    image: 0,
                    first_sample: 0,
                    count: self.batch.len(),
                };
                let noise = match work {
                    Work::Noisy => &self.noise,
                    _ => &self.exact,
                };
                self.network
                    .noisy_logits(noise, &[noisy], &mut self.logits)?;
            }
            Work::Latency => {
                let logits = &mut self.logits[..classes];
                self.network.logits(self.batch.image(0), logits)?;
            }
            Work::InputGradient => {
                let (logits, tape) = self.network.forward(images, Mode::Eval)?;
                let labels = (&self.batch.labels[..], self.batch.len());
                cross_entropy(classes, &logits, labels, &mut self.cotangent);
                self.network.input_gradient(&tape, &self.cotangent)?;
            }
            Work::Pgd => {
                // No image is done early: every step is one on the whole batch.
                let pgd = Pgd::new(PgdParams::default(), 0)?.without_stopping();
                let target = Deterministic::new(&*self.network);
                maximise(&pgd, &target, &Challenge::new(&self.grey))?;
            }
            Work::Train | Work::Heat | Work::Average => {
                let method: &mut dyn Method = match work {
                    Work::Train => &mut Baseline::default(),
                    Work::Average => &mut self.average,
                    _ => &mut self.heat,
                };
                let (network, gradients) = (&mut *self.network, &mut self.gradients);
                method.step_alone(network, &self.batch, self.position, gradients)?;
                network.optimise(&STEP, gradients)?;
            }
        }
        Ok(())
    }
}
