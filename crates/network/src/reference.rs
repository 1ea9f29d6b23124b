//! The verbs as plain loops, in `f32` or `f64`: the oracle of the executors.

mod backward;
mod forward;

use std::marker::PhantomData;

use kernels::geometry::Shape;
use kernels::reference::{BatchStatistics, Real};

use crate::graph::Graph;
use crate::model::Model;
use crate::noise::{Noise, NoisyImage};
use crate::parameters::{Gradients, Parameters};
use crate::verbs::{Classify, Differentiable, Mode};

/// A network evaluated by the naive kernels in precision `T`.
///
/// [`Reference::evaluate`] and [`Reference::pull_back`] take parameters in `T`,
/// for central differences; the verbs take the model's.
#[derive(Clone, Debug)]
pub struct Reference<T> {
    graph: Graph,
    parameters: Parameters,
    precision: PhantomData<T>,
}

/// Activations of every node, and the batch statistics that were used.
#[derive(Clone, Debug)]
pub struct ReferenceTape<T> {
    mode: Mode,
    images: usize,
    activations: Vec<Vec<T>>,
    statistics: Vec<Option<BatchStatistics<T>>>,
}

impl<T> ReferenceTape<T> {
    /// The logits.
    pub fn logits(&self) -> &[T] {
        self.activations.last().expect("a graph has nodes")
    }
}

fn convert<A: Real, B: Real>(values: &[A]) -> Vec<B> {
    values.iter().map(|v| B::from_f64(v.to_f64())).collect()
}

impl<T: Real> Reference<T> {
    /// Evaluates this model.
    pub fn new(model: &Model) -> Self {
        Self {
            graph: model.graph.clone(),
            parameters: model.parameters.clone(),
            precision: PhantomData,
        }
    }

    /// The parameters in precision `T`.
    pub fn values(&self) -> Vec<Vec<T>> {
        self.parameters.iter().map(convert).collect()
    }

    /// Forward pass with the given parameter values.
    pub fn evaluate(&self, values: &[Vec<T>], images: &[T], mode: Mode) -> ReferenceTape<T> {
        forward::run(&self.graph, values, images, mode)
    }

    /// Pulls a cotangent on the logits back to the input and to all
    /// parameters.
    pub fn pull_back(
        &self,
        values: &[Vec<T>],
        tape: &ReferenceTape<T>,
        cotangent: &[T],
    ) -> (Vec<T>, Vec<Vec<T>>) {
        backward::run(&self.graph, values, tape, cotangent)
    }
}

impl<T: Real> Classify for Reference<T> {
    fn input(&self) -> Shape {
        self.graph.input()
    }

    fn classes(&self) -> usize {
        self.graph.classes()
    }

    fn logits(&self, images: &[f32], logits: &mut [f32]) {
        logits.copy_from_slice(&self.forward(images, Mode::Eval).0);
    }

    fn noisy_logits(&self, noise: &Noise, batch: &[NoisyImage<'_>], logits: &mut [f32]) {
        let images = noise.copies(batch);
        self.logits(&images, logits);
    }
}

impl<T: Real> Differentiable for Reference<T> {
    type Tape = ReferenceTape<T>;

    fn graph(&self) -> &Graph {
        &self.graph
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn forward(&self, images: &[f32], mode: Mode) -> (Vec<f32>, Self::Tape) {
        let tape = self.evaluate(&self.values(), &convert(images), mode);
        (convert(tape.logits()), tape)
    }

    fn input_gradient(&self, tape: &Self::Tape, cotangent: &[f32], dx: &mut [f32]) {
        let (gradient, _) = self.pull_back(&self.values(), tape, &convert(cotangent));
        dx.copy_from_slice(&convert::<T, f32>(&gradient));
    }

    fn parameter_gradient(&self, tape: &Self::Tape, cotangent: &[f32], gradients: &mut Gradients) {
        let (_, add) = self.pull_back(&self.values(), tape, &convert(cotangent));
        for (sum, add) in gradients.iter_mut().zip(add) {
            for (sum, add) in sum.iter_mut().zip(add) {
                *sum += add.to_f64() as f32;
            }
        }
    }

    fn update_running_statistics(&mut self, tape: &Self::Tape) {
        for (id, statistics) in tape.statistics.iter().enumerate() {
            if let (Some(s), crate::Op::BatchNorm { momentum, .. }) =
                (statistics, &self.graph.nodes()[id].op)
            {
                self.parameters.update_running(
                    self.graph.parameters_of(id),
                    *momentum,
                    &convert::<T, f32>(&s.mean),
                    &convert::<T, f32>(&s.variance),
                    s.rows,
                );
            }
        }
    }
}
