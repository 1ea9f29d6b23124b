//! Forward with a tape, and the two backward passes.

mod backward_program;
mod factors;
mod forward;
mod forward_program;
mod memory;
pub(super) mod other;
mod packed;
mod places;
mod plan;
mod pull_back;
mod quarters;
mod stage;
mod tape;

use std::sync::{Arc, Mutex, PoisonError};

use kernels::gradient::WeightGradient;
use kernels::isa::Isa;
use rayon::ThreadPool;
use rayon::prelude::*;

use crate::collective::{Collective, NormSharing};
use crate::device_error::DeviceError;
use crate::graph::{Graph, NodeId};
use crate::parameters::Parameters;
use crate::verbs::Mode;
use backward_program::{BackwardProgram, Wanted};
use memory::{Scratches, Store};
use packed::Packed;
use places::Passing;
use plan::{Plan, Unit};
use stage::Stage;

pub(super) use quarters::QuarterGradients;
use tape::Applied;
pub use tape::CpuTape;

/// Runs one graph forward and backward on the CPU.
///
/// The images of a batch are cut into shares, by the batch size only; threads
/// take shares. All sums over the batch are made share by share in their order
/// within each quarter of the batch, then over the quarters, so that results do not
/// depend on the number of threads, nor on whether there are one, two or four ranks.
#[derive(Debug)]
pub(crate) struct Training {
    isa: Isa,
    pool: Arc<ThreadPool>,
    plan: Plan,
    passing: Passing,
    forward: [Vec<Stage<forward_program::Step>>; 2],
    input_gradient: [BackwardProgram; 2],
    parameter_gradient: [BackwardProgram; 2],
    /// By node.
    weight_gradients: Vec<Option<WeightGradient>>,
    packed: Mutex<PackedWeights>,
    /// What batch norms share with those of other ranks.
    pub sharing: NormSharing,
    store: Arc<Store>,
    scratches: Arc<Scratches>,
}

/// Packed weights by node, and whether they are those of the parameters. Stale
/// ones are overwritten: so large a memory costs more to get than to fill.
#[derive(Debug, Default)]
struct PackedWeights {
    by_node: Option<Arc<Vec<Option<Packed>>>>,
    stale: bool,
}

/// Index of what exists once for each mode.
fn index(mode: Mode) -> usize {
    match mode {
        Mode::Train => 0,
        Mode::Eval | Mode::Frozen => 1,
    }
}

impl Training {
    /// Plans for a graph, to run on the threads of a pool.
    pub fn new(graph: &Graph, isa: Isa, pool: Arc<ThreadPool>) -> Self {
        let plan = Plan::new(graph);
        Self::with_plan(graph, isa, pool, plan)
    }

    fn with_plan(graph: &Graph, isa: Isa, pool: Arc<ThreadPool>, plan: Plan) -> Self {
        let modes = [Mode::Train, Mode::Eval];
        let backward =
            |wanted| modes.map(|mode| backward_program::compile(graph, &plan, mode, wanted));
        let weight_gradient = |unit: &Unit| match unit {
            Unit::Conv { shape, .. } => Some(WeightGradient::new(isa, *shape)),
            _ => None,
        };
        Self {
            isa,
            pool,
            forward: modes.map(|mode| forward_program::compile(graph, &plan, mode)),
            input_gradient: backward(Wanted::Input),
            parameter_gradient: backward(Wanted::Parameters),
            weight_gradients: plan.units.iter().map(weight_gradient).collect(),
            passing: Passing::none(&plan),
            plan,
            packed: Mutex::default(),
            sharing: NormSharing::Alone,
            store: Arc::default(),
            scratches: Arc::default(),
        }
    }

    /// For eval-mode passes over another graph and their pull-backs to the images,
    /// on the same threads and in the same memory.
    pub fn for_images(&self, graph: &Graph) -> Self {
        let plan = Plan::for_images(graph);
        let new = Self::with_plan(graph, self.isa, Arc::clone(&self.pool), plan);
        Self {
            passing: Passing::find(graph, &new.plan, &new.forward[index(Mode::Eval)]),
            store: Arc::clone(&self.store),
            scratches: Arc::clone(&self.scratches),
            ..new
        }
    }

    /// Forgets what was derived from the parameters.
    pub fn parameters_change(&mut self) {
        let packed = self.packed.get_mut();
        packed.unwrap_or_else(PoisonError::into_inner).stale = true;
    }

    /// Packed weights by node, made if the parameters have changed.
    fn packed(&self, parameters: &Parameters) -> Arc<Vec<Option<Packed>>> {
        let mut packed = self.packed.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that a pass still reads are left to it.
        let kept = packed.by_node.take().and_then(|kept| match packed.stale {
            true => Arc::try_unwrap(kept).ok().map(|mut kept| {
                self.pool.install(|| self.pack_again(&mut kept, parameters));
                Arc::new(kept)
            }),
            false => Some(kept),
        });
        let by_node = kept.unwrap_or_else(|| Arc::new(self.pool.install(|| self.pack(parameters))));
        packed.stale = false;
        Arc::clone(packed.by_node.insert(by_node))
    }

    fn pack(&self, parameters: &Parameters) -> Vec<Option<Packed>> {
        let pack = |unit: &Unit| match unit {
            Unit::Conv {
                shape,
                parameters: range,
                ..
            } => Some(Packed::new(self.isa, *shape, parameters.get(range.start))),
            _ => None,
        };
        self.plan.units.par_iter().map(pack).collect()
    }

    fn pack_again(&self, packed: &mut [Option<Packed>], parameters: &Parameters) {
        let each = packed.par_iter_mut().zip(&self.plan.units);
        each.for_each(|(packed, unit)| {
            if let (Some(packed), Unit::Conv { parameters: p, .. }) = (packed, unit) {
                packed.set_weights(parameters.get(p.start));
            }
        });
    }

    /// Logits and tape of NHWC images.
    pub fn forward(
        &self,
        graph: &Graph,
        parameters: &Parameters,
        images: &[f32],
        mode: Mode,
    ) -> Result<(Vec<f32>, CpuTape), DeviceError> {
        let packed = self.packed(parameters);
        self.pool.install(|| {
            forward::Forward {
                training: self,
                graph,
                parameters,
                packed: &packed,
            }
            .run(images, mode)
        })
    }

    /// Writes the gradient of `cotangent . logits` with respect to the images.
    pub fn input_gradient(
        &self,
        graph: &Graph,
        parameters: &Parameters,
        tape: &CpuTape,
        cotangent: &[f32],
        dx: &mut [f32],
    ) -> Result<(), DeviceError> {
        let program = &self.input_gradient[index(tape.mode)];
        self.pull_back(graph, parameters, tape, program)
            .run(cotangent, Some(dx), None)
    }

    /// Adds the gradient of `cotangent . logits` with respect to the parameters.
    pub fn parameter_gradient(
        &self,
        graph: &Graph,
        parameters: &Parameters,
        tape: &CpuTape,
        cotangent: &[f32],
        gradients: &mut QuarterGradients,
    ) -> Result<(), DeviceError> {
        let program = &self.parameter_gradient[index(tape.mode)];
        self.pull_back(graph, parameters, tape, program)
            .run(cotangent, None, Some(gradients))
    }

    fn pull_back<'a>(
        &'a self,
        graph: &'a Graph,
        parameters: &'a Parameters,
        tape: &'a CpuTape,
        program: &'a BackwardProgram,
    ) -> pull_back::PullBack<'a> {
        pull_back::PullBack {
            training: self,
            graph,
            parameters,
            packed: self.packed(parameters),
            tape,
            program,
        }
    }

    /// Moves the running statistics towards those of a train-mode tape.
    pub fn update_running_statistics(
        &self,
        graph: &Graph,
        parameters: &mut Parameters,
        tape: &CpuTape,
    ) -> Result<(), DeviceError> {
        if tape.mode != Mode::Train {
            return Ok(());
        }
        let mean_over_ranks = match &self.sharing {
            NormSharing::Running(ranks) => Some(self.mean_statistics(&**ranks, tape)?),
            NormSharing::Alone | NormSharing::Statistics(_) => None,
        };
        for &(norm, apply) in &self.plan.norms {
            let crate::Op::BatchNorm { momentum, .. } = &graph.nodes()[norm].op else {
                continue;
            };
            let applied = match &mean_over_ranks {
                Some(applied) => &applied[apply],
                None => &tape.applied[apply],
            };
            if let Some(applied) = applied {
                let (mean, variance) = (&applied.mean, &applied.variance);
                let range = graph.parameters_of(norm);
                parameters.update_running(range, *momentum, mean, variance, applied.rows);
            }
        }
        Ok(())
    }

    /// The statistics of a pass, by unit, as means over the ranks.
    fn mean_statistics(
        &self,
        ranks: &dyn Collective,
        tape: &CpuTape,
    ) -> Result<Vec<Option<Applied>>, DeviceError> {
        let norms =
            || (self.plan.norms.iter()).filter_map(|&(_, apply)| tape.applied[apply].as_ref());
        let values = norms().flat_map(|applied| {
            let statistics = applied.mean.iter().chain(&applied.variance);
            let rows = applied.rows as f64;
            std::iter::once(rows).chain(statistics.map(move |&value| rows * f64::from(value)))
        });
        let mut sums: Vec<f64> = values.collect();
        ranks.sum_wide(&mut sums)?;
        let mut means = tape.applied.clone();
        let mut sums = sums.into_iter();
        let norms = self.plan.norms.iter().map(|&(_, apply)| apply);
        for apply in norms {
            let Some(applied) = &mut means[apply] else {
                continue;
            };
            let rows = sums.next().unwrap_or(1.0);
            let statistics = applied.mean.iter_mut().chain(&mut applied.variance);
            for (value, sum) in statistics.zip(&mut sums) {
                *value = (sum / rows) as f32;
            }
            applied.rows = rows as usize / ranks.size();
        }
        Ok(means)
    }

    /// Into how many quarters a batch is cut here.
    fn quarters(&self) -> usize {
        quarters::quarters(match &self.sharing {
            NormSharing::Alone => 1,
            NormSharing::Statistics(ranks) | NormSharing::Running(ranks) => ranks.size(),
        })
    }

    /// The weight gradient of a convolution.
    fn weight_gradient(&self, id: NodeId) -> &WeightGradient {
        self.weight_gradients[id]
            .as_ref()
            .expect("every convolution has a weight gradient")
    }
}

/// Packed weights of a convolution.
fn packed_of(packed: &[Option<Packed>], id: NodeId) -> &Packed {
    packed[id].as_ref().expect("every convolution is packed")
}
