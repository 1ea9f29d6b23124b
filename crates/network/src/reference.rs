//! The verbs as plain loops, in `f32` or `f64`: the oracle of the executors.

mod backward;
mod forward;
mod tokens;

use std::marker::PhantomData;

use kernels::geometry::Shape;
use kernels::reference::{BatchStatistics, Real};

use crate::collective::{Collective, sum_in_buckets};
use crate::device_error::DeviceError;
use crate::graph::Graph;
use crate::model::Model;
use crate::noise::{Noise, NoisyImage};
use crate::optimiser::{SgdStep, TrainingState};
use crate::parameters::{HostGradients, Parameters};
use crate::verbs::{Classify, Executor, Gradients, Mode, Tape};

/// A network evaluated by the naive kernels in precision `T`.
///
/// [`Reference::evaluate`] and [`Reference::pull_back`] take parameters in `T`,
/// for central differences; the verbs take the model's.
#[derive(Clone, Debug)]
pub struct Reference<T> {
    graph: Graph,
    parameters: Parameters,
    velocity: HostGradients,
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
            velocity: HostGradients::zeros(&model.graph),
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

impl<T: Real + Send + 'static> Reference<T> {
    /// The tape in its own form, if the cotangent fits it.
    fn own<'a>(
        &self,
        tape: &'a Tape,
        cotangent: &[f32],
    ) -> Result<&'a ReferenceTape<T>, DeviceError> {
        let tape: &ReferenceTape<T> = tape.of()?;
        DeviceError::length("cotangent", tape.logits().len(), cotangent.len())?;
        Ok(tape)
    }
}

impl<T: Real + Send + 'static> Classify for Reference<T> {
    fn input(&self) -> Shape {
        self.graph.input()
    }

    fn classes(&self) -> usize {
        self.graph.classes()
    }

    fn logits(&self, images: &[f32], logits: &mut [f32]) -> Result<(), DeviceError> {
        let (found, _) = self.forward(images, Mode::Eval)?;
        DeviceError::length("logits", found.len(), logits.len())?;
        logits.copy_from_slice(&found);
        Ok(())
    }

    fn noisy_logits(
        &self,
        noise: &Noise,
        batch: &[NoisyImage<'_>],
        logits: &mut [f32],
    ) -> Result<(), DeviceError> {
        let images = self.noisy(noise, batch)?;
        self.logits(&images, logits)
    }

    fn batch(&self) -> usize {
        64
    }
}

impl<T: Real + Send + 'static> Executor for Reference<T> {
    fn graph(&self) -> &Graph {
        &self.graph
    }

    fn forward(&self, images: &[f32], mode: Mode) -> Result<(Vec<f32>, Tape), DeviceError> {
        self.graph.count_images(images)?;
        let tape = self.evaluate(&self.values(), &convert(images), mode);
        Ok((convert(tape.logits()), Tape::new(tape)))
    }

    fn input_gradient(&self, tape: &Tape, cotangent: &[f32]) -> Result<Vec<f32>, DeviceError> {
        let tape = self.own(tape, cotangent)?;
        let (gradient, _) = self.pull_back(&self.values(), tape, &convert(cotangent));
        Ok(convert::<T, f32>(&gradient))
    }

    fn parameter_gradient(
        &self,
        tape: &Tape,
        cotangent: &[f32],
        gradients: &mut Gradients,
    ) -> Result<(), DeviceError> {
        let tape = self.own(tape, cotangent)?;
        let gradients: &mut HostGradients = gradients.of_mut()?;
        let (_, add) = self.pull_back(&self.values(), tape, &convert(cotangent));
        for (sum, add) in gradients.iter_mut().zip(add) {
            for (sum, add) in sum.iter_mut().zip(add) {
                *sum += add.to_f64() as f32;
            }
        }
        Ok(())
    }

    fn gradients(&self) -> Result<Gradients, DeviceError> {
        Ok(Gradients::new(HostGradients::zeros(&self.graph)))
    }

    fn update_running_statistics(&mut self, tape: &Tape) -> Result<(), DeviceError> {
        let tape: &ReferenceTape<T> = tape.of()?;
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
        Ok(())
    }

    fn optimise(&mut self, step: &SgdStep, gradients: &mut Gradients) -> Result<f64, DeviceError> {
        let gradients: &mut HostGradients = gradients.of_mut()?;
        let norm = step.apply(
            &self.graph,
            gradients,
            &mut self.velocity,
            &mut self.parameters,
        );
        gradients.clear();
        Ok(norm)
    }

    fn parameters(&self) -> Result<Parameters, DeviceError> {
        Ok(self.parameters.clone())
    }

    fn state(&self) -> Result<TrainingState, DeviceError> {
        Ok(TrainingState {
            parameters: self.parameters.clone(),
            velocity: self.velocity.clone(),
        })
    }

    fn restore(&mut self, state: TrainingState) -> Result<(), DeviceError> {
        (self.parameters, self.velocity) = (state.parameters, state.velocity);
        Ok(())
    }

    fn noisy(&self, noise: &Noise, batch: &[NoisyImage<'_>]) -> Result<Vec<f32>, DeviceError> {
        NoisyImage::count_all(batch, self.input())?;
        Ok(noise.copies(batch))
    }

    fn sum_gradients(
        &self,
        gradients: &mut Gradients,
        ranks: &dyn Collective,
    ) -> Result<(), DeviceError> {
        let gradients: &mut HostGradients = gradients.of_mut()?;
        sum_in_buckets(ranks, gradients.iter_mut())
    }

    fn taped_batch(&self) -> usize {
        self.batch()
    }
}
