//! Where the values of a forward pass are kept.

use super::backward_program::Slots;
use super::forward_program::Step;
use super::other::reads_values;
use super::plan::{Apply, Factors, Plan, Unit, inputs};
use super::stage::Stage;
use crate::graph::{Graph, NodeId};

/// Values that only the stage that computes them needs: they live in the
/// scratch of a thread, for a few images.
#[derive(Clone, Debug, Default)]
pub(super) struct Passing {
    /// Slot of such a value, by node.
    pub slots: Vec<Option<usize>>,
    /// Floats of each slot.
    pub sizes: Vec<usize>,
}

impl Passing {
    /// Every value is kept.
    pub fn none(plan: &Plan) -> Self {
        Self {
            slots: vec![None; plan.units.len()],
            sizes: vec![],
        }
    }

    /// Finds them, for pull-backs to the images only.
    pub fn find(graph: &Graph, plan: &Plan, stages: &[Stage<Step>]) -> Self {
        let needed = needed(graph, plan);
        // First and last use as (stage, step).
        let mut lives = vec![None; plan.units.len()];
        for (s, stage) in stages.iter().enumerate() {
            for (i, step) in stage.steps.iter().enumerate() {
                let Some(id) = step.computes() else { continue };
                let read = inputs(graph, id, &plan.units[id]);
                let read = read.into_iter().filter_map(|id| stored(plan, id));
                for id in read.chain([id]) {
                    let (first, _) = *lives[id].get_or_insert(((s, i), (s, i)));
                    lives[id] = Some((first, (s, i)));
                }
            }
        }
        let mut slots = Slots::default();
        let mut order: Vec<NodeId> = (0..lives.len()).collect();
        order.sort_by_key(|&id| lives[id].map(|(first, _)| first));
        let mut passing = Self::none(plan);
        for id in order {
            if let Some((first, last)) = lives[id]
                && first.0 == last.0
                && !needed[id]
            {
                let len = stages[first.0].group * plan.shapes[id].len();
                passing.slots[id] = Some(slots.take(first, last, len));
            }
        }
        passing.sizes = slots.sizes;
        passing
    }
}

/// The value that is stored where `id` is read; none where that is a constant.
fn stored(plan: &Plan, id: NodeId) -> Option<NodeId> {
    match plan.units[id] {
        Unit::Constant => None,
        _ if plan.kept[id] => Some(id),
        _ => Some(plan.apply(id).source),
    }
}

/// Values that a pull-back to the images reads, the images and the logits.
fn needed(graph: &Graph, plan: &Plan) -> Vec<bool> {
    let mut needed = vec![false; plan.units.len()];
    needed[0] = true;
    needed[graph.output()] = true;
    for (id, unit) in plan.units.iter().enumerate() {
        match unit {
            Unit::Other | Unit::Attention(_) if reads_values(&graph.nodes()[id].op) => {
                for input in inputs(graph, id, unit) {
                    if let Some(stored) = stored(plan, input) {
                        needed[stored] = true;
                    }
                }
            }
            Unit::Apply(Apply {
                factors,
                source,
                relu,
                ..
            }) => {
                let norm = matches!(factors, Factors::Norm(_));
                needed[*source] |= norm || (*relu && !plan.kept[id]);
                needed[id] |= *relu && plan.kept[id];
            }
            _ => {}
        }
    }
    needed
}
