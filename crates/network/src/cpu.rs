//! The verbs on the CPU, by the kernels of this workspace.

mod inference;
mod training;

use std::sync::Arc;

use kernels::geometry::Shape;
use kernels::isa::Isa;
use rayon::ThreadPool;

use crate::graph::Graph;
use crate::model::Model;
use crate::noise::{Noise, NoisyImage};
use crate::parameters::{Gradients, Parameters};
use crate::verbs::{Classify, Differentiable, Mode};
use inference::Inference;
use training::{Training, other};

pub use training::Tape as CpuTape;

/// A network on the threads of a pool.
///
/// Results are the same to the bit for any number of threads.
#[derive(Debug)]
pub struct Cpu {
    graph: Graph,
    parameters: Parameters,
    training: Training,
    inference: Inference,
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
            training: Training::new(&model.graph, isa, pool),
            graph: model.graph.clone(),
            parameters: model.parameters.clone(),
        }
    }
}

impl Classify for Cpu {
    fn input(&self) -> Shape {
        self.graph.input()
    }

    fn classes(&self) -> usize {
        self.graph.classes()
    }

    fn logits(&self, images: &[f32], logits: &mut [f32]) {
        self.inference
            .logits(&self.graph, &self.parameters, images, logits);
    }

    fn noisy_logits(&self, noise: &Noise, batch: &[NoisyImage<'_>], logits: &mut [f32]) {
        self.inference
            .noisy_logits(&self.graph, &self.parameters, noise, batch, logits);
    }
}

impl Differentiable for Cpu {
    type Tape = CpuTape;

    fn graph(&self) -> &Graph {
        &self.graph
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        self.training.parameters_change();
        self.inference.parameters_change();
        &mut self.parameters
    }

    fn forward(&self, images: &[f32], mode: Mode) -> (Vec<f32>, CpuTape) {
        self.training
            .forward(&self.graph, &self.parameters, images, mode)
    }

    fn input_gradient(&self, tape: &CpuTape, cotangent: &[f32], dx: &mut [f32]) {
        self.training
            .input_gradient(&self.graph, &self.parameters, tape, cotangent, dx);
    }

    fn parameter_gradient(&self, tape: &CpuTape, cotangent: &[f32], gradients: &mut Gradients) {
        self.training
            .parameter_gradient(&self.graph, &self.parameters, tape, cotangent, gradients);
    }

    fn update_running_statistics(&mut self, tape: &CpuTape) {
        self.inference.parameters_change();
        self.training
            .update_running_statistics(&self.graph, &mut self.parameters, tape);
    }
}
