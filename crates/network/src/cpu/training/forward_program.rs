//! The forward pass as stages of steps.

use super::plan::{Apply, Factors, Plan, Unit, inputs};
use super::stage::{Stage, Stages, group_size};
use crate::graph::{Graph, NodeId};
use crate::verbs::Mode;

/// One step of the forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Computes a value that is kept.
    Compute(NodeId),
    /// The same of a convolution, with the statistics over it for the unit that applies
    /// a batch norm.
    ComputeWithStatistics(NodeId, NodeId),
    /// Statistics over the source of the unit that applies a batch norm.
    Statistics(NodeId),
}

impl Step {
    /// The value that the step computes.
    pub fn computes(self) -> Option<NodeId> {
        match self {
            Step::Compute(id) | Step::ComputeWithStatistics(id, _) => Some(id),
            Step::Statistics(_) => None,
        }
    }

    /// The unit whose statistics the step computes.
    pub fn statistics(self) -> Option<NodeId> {
        match self {
            Step::Statistics(apply) | Step::ComputeWithStatistics(_, apply) => Some(apply),
            Step::Compute(_) => None,
        }
    }
}

/// Stages in order; batch statistics are complete at the end of a stage.
pub(super) fn compile(graph: &Graph, plan: &Plan, mode: Mode) -> Vec<Stage<Step>> {
    let mut stages = Stages::new();
    // Applications of batch norms whose statistics the current stage computes.
    let mut pending: Vec<NodeId> = vec![];
    for (id, unit) in plan.units.iter().enumerate() {
        if !plan.kept[id] {
            continue;
        }
        let inputs = inputs(graph, id, unit);
        let shapes = inputs.iter().chain([&id]).map(|&id| plan.shapes[id]);
        let group = group_size(shapes);
        if !matches!(unit, Unit::Input) {
            let own = matches!(
                unit,
                Unit::Apply(Apply {
                    factors: Factors::Norm(_),
                    ..
                })
            );
            let mut needed = inputs
                .iter()
                .filter_map(|&input| plan.norm_behind(input))
                .chain(own.then_some(id));
            let barrier = needed.any(|norm| pending.contains(&norm));
            let before = stages.list.len();
            stages.push(Step::Compute(id), group, barrier);
            if stages.list.len() > before {
                pending.clear();
            }
        }
        if mode == Mode::Train {
            for &(_, apply) in &plan.norms {
                if plan.apply(apply).source == id {
                    let plain = matches!(
                        unit,
                        Unit::Conv {
                            residual: None,
                            relu: false,
                            ..
                        }
                    );
                    let last = stages.list.last_mut();
                    match last.and_then(|stage| stage.steps.last_mut()) {
                        Some(step) if plain && *step == Step::Compute(id) => {
                            *step = Step::ComputeWithStatistics(id, apply);
                        }
                        _ => stages.push(Step::Statistics(apply), group, false),
                    }
                    pending.push(apply);
                }
            }
        }
    }
    stages.list
}
