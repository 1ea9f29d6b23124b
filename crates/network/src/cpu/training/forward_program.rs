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
    /// Statistics over the source of the unit that applies a batch norm.
    Statistics(NodeId),
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
                    stages.push(Step::Statistics(apply), group, false);
                    pending.push(apply);
                }
            }
        }
    }
    stages.list
}
