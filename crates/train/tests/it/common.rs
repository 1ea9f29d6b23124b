//! What several tests need: executors around others, and a heat step.

use std::sync::Arc;

use data::{Dataset, OpenOptions, Split};
use network::{
    Classify, Cpu, DeviceError, Executor, Gradients, Graph, Images, Load, Mode, Model, Noise,
    NoisyImage, Parameters, Reference, SgdStep, Shape, Tape, TrainingState,
};
use rayon::{ThreadPool, ThreadPoolBuilder};
use train::methods::Heat;
use train::{Leg, LegContext, Method};

/// The embedded digits.
pub fn digits() -> Dataset {
    data::open("digits", Split::Train, &OpenOptions::default()).unwrap()
}

/// A pool of this many threads.
pub fn pool(threads: usize) -> Arc<ThreadPool> {
    Arc::new(
        ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap(),
    )
}

/// Puts models on the threads of a pool.
pub fn on_the_cpu(
    pool: &Arc<ThreadPool>,
) -> impl Fn(&Model) -> Result<Box<dyn Executor>, DeviceError> {
    |model| Ok(Box::new(Cpu::new(model, Arc::clone(pool))))
}

/// Evaluates models by plain loops.
pub fn by_plain_loops(model: &Model) -> Result<Box<dyn Executor>, DeviceError> {
    Ok(Box::new(Reference::<f32>::new(model)))
}

/// The first leg of heat smoothing begins: `teacher` is put where `load` says.
pub fn begin(heat: &mut Heat, teacher: &Model, load: Load<'_>, images: &Images) -> Model {
    let leg = Leg {
        number: 0,
        of: heat.legs(),
    };
    let stage = LegContext {
        load,
        images,
        seed: 0,
    };
    heat.begin(leg, teacher, &stage).unwrap()
}

/// The optimiser's usual settings.
pub fn sgd(rate: f32) -> SgdStep {
    SgdStep {
        rate,
        momentum: 0.9,
        weight_decay: 5e-4,
        clip: None,
    }
}

/// What a test changes about an executor; the rest is passed on.
pub trait Around: Send + Sync {
    /// The executor that does the work.
    fn network(&self) -> &dyn Executor;

    /// The same, to be changed.
    fn network_mut(&mut self) -> &mut dyn Executor;

    /// Verb one.
    fn logits(&self, images: &[f32], logits: &mut [f32]) -> Result<(), DeviceError> {
        self.network().logits(images, logits)
    }

    /// What becomes of a tape that the network gave.
    fn keep(&self, tape: Tape) -> Tape {
        tape
    }

    /// The network's own tape again.
    fn kept<'a>(&self, tape: &'a Tape) -> Result<&'a Tape, DeviceError> {
        Ok(tape)
    }
}

/// An executor around another one.
pub struct Wrapped<A>(pub A);

impl<A: Around> Classify for Wrapped<A> {
    fn input(&self) -> Shape {
        self.0.network().input()
    }

    fn classes(&self) -> usize {
        self.0.network().classes()
    }

    fn logits(&self, images: &[f32], logits: &mut [f32]) -> Result<(), DeviceError> {
        self.0.logits(images, logits)
    }

    fn noisy_logits(
        &self,
        noise: &Noise,
        batch: &[NoisyImage<'_>],
        logits: &mut [f32],
    ) -> Result<(), DeviceError> {
        self.0.logits(&self.noisy(noise, batch)?, logits)
    }

    fn batch(&self) -> usize {
        self.0.network().batch()
    }
}

impl<A: Around> Executor for Wrapped<A> {
    fn graph(&self) -> &Graph {
        self.0.network().graph()
    }

    fn forward(&self, images: &[f32], mode: Mode) -> Result<(Vec<f32>, Tape), DeviceError> {
        let (logits, tape) = self.0.network().forward(images, mode)?;
        Ok((logits, self.0.keep(tape)))
    }

    fn input_gradient(&self, tape: &Tape, cotangent: &[f32]) -> Result<Vec<f32>, DeviceError> {
        let tape = self.0.kept(tape)?;
        self.0.network().input_gradient(tape, cotangent)
    }

    fn parameter_gradient(
        &self,
        tape: &Tape,
        cotangent: &[f32],
        gradients: &mut Gradients,
    ) -> Result<(), DeviceError> {
        let (network, tape) = (self.0.network(), self.0.kept(tape)?);
        network.parameter_gradient(tape, cotangent, gradients)
    }

    fn gradients(&self) -> Result<Gradients, DeviceError> {
        self.0.network().gradients()
    }

    fn update_running_statistics(&mut self, tape: &Tape) -> Result<(), DeviceError> {
        let tape = self.0.kept(tape)?;
        self.0.network_mut().update_running_statistics(tape)
    }

    fn optimise(&mut self, step: &SgdStep, gradients: &mut Gradients) -> Result<f64, DeviceError> {
        self.0.network_mut().optimise(step, gradients)
    }

    fn parameters(&self) -> Result<Parameters, DeviceError> {
        self.0.network().parameters()
    }

    fn state(&self) -> Result<TrainingState, DeviceError> {
        self.0.network().state()
    }

    fn restore(&mut self, state: TrainingState) -> Result<(), DeviceError> {
        self.0.network_mut().restore(state)
    }

    fn noisy(&self, noise: &Noise, batch: &[NoisyImage<'_>]) -> Result<Vec<f32>, DeviceError> {
        self.0.network().noisy(noise, batch)
    }

    fn taped_batch(&self) -> usize {
        self.0.network().taped_batch()
    }
}
