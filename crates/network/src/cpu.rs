//! The verbs on the CPU, by the kernels of this workspace.

mod attention;
mod constants;
mod folded;
mod inference;
mod tokens;
mod training;

use std::sync::Arc;

use kernels::geometry::Shape;
use kernels::isa::Isa;
use rayon::ThreadPool;
use rayon::prelude::*;

use crate::collective::{Collective, NormSharing, sum_in_buckets};
use crate::device_error::DeviceError;
use crate::graph::Graph;
use crate::model::Model;
use crate::noise::{Noise, NoisyImage};
use crate::optimiser::{SgdStep, TrainingState};
use crate::parameters::{HostGradients, Parameters};
use crate::verbs::{Classify, Executor, Gradients, Mode, Tape};
use folded::Folding;
use inference::Inference;
use training::{CpuTape, QuarterGradients, Training, other};

/// Noisy copies that are evaluated at once: a few hundred on each thread of a
/// large machine.
const BATCH: usize = 1024;
/// Pixels of a batch, in bytes, at most.
const BATCH_BYTES: usize = 256 << 20;
/// Activations kept for one backward pass, roughly, in bytes.
const TAPE_BYTES: usize = 1 << 30;
/// Fewer images a taped pass than the first leave threads idle, more than the
/// second do not make a network faster.
const TAPED: std::ops::RangeInclusive<usize> = 8..=256;

/// A network on the threads of a pool.
///
/// Results are the same to the bit for any number of threads.
#[derive(Debug)]
pub struct Cpu {
    graph: Graph,
    parameters: Parameters,
    /// At rest (`None`) until the first step.
    velocity: Option<HostGradients>,
    training: Training,
    folding: Folding,
    inference: Inference,
    isa: Isa,
    pool: Arc<ThreadPool>,
}

impl Cpu {
    /// A model on a pool, with the best instructions of this CPU.
    pub fn new(model: &Model, pool: Arc<ThreadPool>) -> Self {
        Self::with_isa(model, pool, Isa::detect())
    }

    /// The same with given instructions.
    pub fn with_isa(model: &Model, pool: Arc<ThreadPool>, isa: Isa) -> Self {
        Self {
            inference: Inference::new(isa, Arc::clone(&pool)),
            training: Training::new(&model.graph, isa, Arc::clone(&pool)),
            folding: Folding::default(),
            graph: model.graph.clone(),
            parameters: model.parameters.clone(),
            velocity: None,
            isa,
            pool,
        }
    }

    /// Forgets what was derived from the parameters.
    fn parameters_change(&mut self) {
        self.training.parameters_change();
        self.folding.parameters_change();
        self.inference.parameters_change();
    }
}

impl Classify for Cpu {
    fn input(&self) -> Shape {
        self.graph.input()
    }

    fn classes(&self) -> usize {
        self.graph.classes()
    }

    fn logits(&self, images: &[f32], logits: &mut [f32]) -> Result<(), DeviceError> {
        let count = self.graph.count_images(images)?;
        DeviceError::length("logits", count * self.classes(), logits.len())?;
        self.inference
            .logits(&self.graph, &self.parameters, images, logits);
        Ok(())
    }

    fn noisy_logits(
        &self,
        noise: &Noise,
        batch: &[NoisyImage<'_>],
        logits: &mut [f32],
    ) -> Result<(), DeviceError> {
        let copies = NoisyImage::count_all(batch, self.input())?;
        DeviceError::length("logits", copies * self.classes(), logits.len())?;
        self.inference
            .noisy_logits(&self.graph, &self.parameters, noise, batch, logits);
        Ok(())
    }

    fn batch(&self) -> usize {
        let fit = BATCH_BYTES / (size_of::<f32>() * self.input().len());
        fit.clamp(1, BATCH)
    }
}

impl Executor for Cpu {
    fn graph(&self) -> &Graph {
        &self.graph
    }

    fn forward(&self, images: &[f32], mode: Mode) -> Result<(Vec<f32>, Tape), DeviceError> {
        self.graph.count_images(images)?;
        let (graph, parameters) = (&self.graph, &self.parameters);
        let (logits, tape) = match mode {
            Mode::Train | Mode::Frozen => self.training.forward(graph, parameters, images, mode)?,
            Mode::Eval => (self.folding.get(graph, parameters, &self.training)).forward(images)?,
        };
        Ok((logits, Tape::new(tape)))
    }

    fn input_gradient(&self, tape: &Tape, cotangent: &[f32]) -> Result<Vec<f32>, DeviceError> {
        let tape: &CpuTape = tape.of()?;
        let images = tape.images();
        DeviceError::length("cotangent", images * self.classes(), cotangent.len())?;
        let mut dx = vec![0.0; images * self.input().len()];
        match &tape.folded {
            Some(folded) => folded.input_gradient(tape, cotangent, &mut dx)?,
            None => {
                let (graph, parameters) = (&self.graph, &self.parameters);
                (self.training).input_gradient(graph, parameters, tape, cotangent, &mut dx)?;
            }
        }
        Ok(dx)
    }

    fn parameter_gradient(
        &self,
        tape: &Tape,
        cotangent: &[f32],
        gradients: &mut Gradients,
    ) -> Result<(), DeviceError> {
        let tape: &CpuTape = tape.of()?;
        let gradients: &mut QuarterGradients = gradients.of_mut()?;
        DeviceError::length("cotangent", tape.images() * self.classes(), cotangent.len())?;
        let (training, graph, parameters) = (&self.training, &self.graph, &self.parameters);
        // Rare: who wants these asks for a frozen pass.
        let unfolded = (tape.folded.as_ref())
            .map(|_| training.forward(graph, parameters, &tape.pixels(), Mode::Frozen))
            .transpose()?;
        let tape = unfolded.as_ref().map_or(tape, |(_, tape)| tape);
        training.parameter_gradient(graph, parameters, tape, cotangent, gradients)
    }

    fn gradients(&self) -> Result<Gradients, DeviceError> {
        Ok(Gradients::new(QuarterGradients::default()))
    }

    fn read_gradients(&self, gradients: &Gradients) -> Result<HostGradients, DeviceError> {
        let gradients: &QuarterGradients = gradients.of()?;
        Ok(gradients.read(&self.graph))
    }

    fn write_gradients(
        &self,
        values: HostGradients,
        gradients: &mut Gradients,
    ) -> Result<(), DeviceError> {
        let gradients: &mut QuarterGradients = gradients.of_mut()?;
        gradients.write(values);
        Ok(())
    }

    fn update_running_statistics(&mut self, tape: &Tape) -> Result<(), DeviceError> {
        self.folding.parameters_change();
        self.inference.parameters_change();
        self.training
            .update_running_statistics(&self.graph, &mut self.parameters, tape.of()?)
    }

    fn optimise(&mut self, step: &SgdStep, gradients: &mut Gradients) -> Result<f64, DeviceError> {
        self.parameters_change();
        let gradients: &mut QuarterGradients = gradients.of_mut()?;
        let gradients = gradients.sum(&self.graph);
        let velocity = self
            .velocity
            .get_or_insert_with(|| HostGradients::zeros(&self.graph));
        let (graph, parameters) = (&self.graph, &mut self.parameters);
        let norm = (self.pool).install(|| step.apply(graph, gradients, velocity, parameters));
        gradients.clear();
        Ok(norm)
    }

    fn parameters(&self) -> Result<Parameters, DeviceError> {
        Ok(self.parameters.clone())
    }

    fn state(&self) -> Result<TrainingState, DeviceError> {
        let at_rest = || HostGradients::zeros(&self.graph);
        Ok(TrainingState {
            parameters: self.parameters.clone(),
            velocity: self.velocity.clone().unwrap_or_else(at_rest),
        })
    }

    fn restore(&mut self, state: TrainingState) -> Result<(), DeviceError> {
        self.parameters_change();
        self.parameters = state.parameters;
        self.velocity = Some(state.velocity);
        Ok(())
    }

    fn noisy(&self, noise: &Noise, batch: &[NoisyImage<'_>]) -> Result<Vec<f32>, DeviceError> {
        let len = self.input().len();
        let copies = NoisyImage::count_all(batch, self.input())?;
        let mut images = vec![0.0; copies * len];
        // Which image and sample each copy is.
        let keys = batch.iter().flat_map(|noisy| {
            (0..noisy.count as u32).map(move |copy| (noisy, noisy.first_sample + copy))
        });
        let keys: Vec<_> = keys.collect();
        self.pool.install(|| {
            let copies = images.par_chunks_exact_mut(len).zip(&keys);
            copies.for_each(|(out, (noisy, sample))| {
                noise.add_with(self.isa, (noisy.image, *sample), noisy.pixels, out);
            });
        });
        Ok(images)
    }

    fn share_norms(&mut self, sharing: NormSharing) -> Result<(), DeviceError> {
        self.training.sharing = sharing;
        Ok(())
    }

    fn sum_gradients(
        &self,
        gradients: &mut Gradients,
        ranks: &dyn Collective,
    ) -> Result<(), DeviceError> {
        let gradients: &mut QuarterGradients = gradients.of_mut()?;
        sum_in_buckets(ranks, gradients.sum(&self.graph).iter_mut())
    }

    fn taped_batch(&self) -> usize {
        let nodes = 0..self.graph.nodes().len();
        let floats: usize = nodes.map(|id| self.graph.shape(id).len()).sum();
        // Twice: activations, and their gradients on the way back.
        let fit = TAPE_BYTES / (2 * size_of::<f32>() * floats);
        fit.clamp(*TAPED.start(), *TAPED.end())
    }
}
