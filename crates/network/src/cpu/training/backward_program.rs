//! The backward pass as stages of steps over gradient buffers.
//!
//! A value's gradient is complete when all its readers have contributed. Three
//! things keep the traffic small: the gradient of what a batch norm normalises
//! is never stored but computed by its reader ([`Gradient::Behind`]); what
//! passes through an addition unchanged is shared, not copied; and a buffer
//! that lives within one stage holds a few images only.

use super::plan::{Apply, Factors, Plan, Unit, inputs};
use super::stage::{Stage, Stages, group_size};
use crate::graph::{Graph, NodeId};
use crate::verbs::Mode;

/// Number of a gradient buffer; each is written by one step, and by those that
/// add to it.
pub(super) type BufferId = usize;

/// How a unit finds the gradient of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gradient {
    /// Stored.
    Buffer(BufferId),
    /// That of the only reader, a unit that applies factors, pulled back
    /// through them.
    Behind(NodeId, BufferId),
}

/// One step of the backward pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Sets a buffer of the shape of this node to zero.
    Zero(NodeId, BufferId),
    /// Copies a buffer of the shape of this node.
    Copy(NodeId, BufferId, BufferId),
    /// Adds the first to the second.
    Add(NodeId, BufferId, BufferId),
    /// Masks the gradient of a unit's value by its ReLU and, for a batch norm,
    /// sums it up.
    Mask {
        unit: NodeId,
        buffer: BufferId,
        reduce: bool,
    },
    /// Writes the gradient of the source of a unit that applies factors.
    PullBack {
        apply: NodeId,
        from: BufferId,
        to: BufferId,
    },
    /// Convolution: its input's gradient, added to what came before, and its
    /// parameters'.
    Conv {
        id: NodeId,
        dy: Gradient,
        dx: Option<BufferId>,
        add: Option<BufferId>,
        parameters: bool,
        /// The unit that masks the input's gradient, which is complete, and
        /// whether it sums it up: [`Step::Mask`] while the values are at hand.
        mask: Option<(NodeId, bool)>,
    },
    /// Adds to the gradient of each input that has a buffer.
    Other {
        id: NodeId,
        dy: Gradient,
        inputs: Vec<Option<BufferId>>,
        /// Sums up the gradients of its parameters and of the constants it reads.
        parameters: bool,
    },
}

impl Step {
    /// The unit of a batch norm whose sums the step computes.
    pub fn reduces(&self) -> Option<NodeId> {
        match self {
            Step::Mask {
                unit, reduce: true, ..
            }
            | Step::Conv {
                mask: Some((unit, true)),
                ..
            } => Some(*unit),
            _ => None,
        }
    }

    /// Buffers that the step reads or writes.
    fn buffers(&self) -> Vec<BufferId> {
        let of = |gradient: &Gradient| match gradient {
            Gradient::Buffer(b) | Gradient::Behind(_, b) => *b,
        };
        match self {
            Step::Zero(_, b) | Step::Mask { buffer: b, .. } => vec![*b],
            Step::Copy(_, a, b) | Step::Add(_, a, b) => vec![*a, *b],
            Step::PullBack { from, to, .. } => vec![*from, *to],
            Step::Conv { dy, dx, add, .. } => {
                std::iter::once(of(dy)).chain(*dx).chain(*add).collect()
            }
            Step::Other { dy, inputs, .. } => std::iter::once(of(dy))
                .chain(inputs.iter().flatten().copied())
                .collect(),
        }
    }
}

/// Where a buffer lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// For all images.
    Batch(usize),
    /// For a few images, within one stage.
    Group(usize),
}

/// What is pulled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The gradient with respect to the images.
    Input,
    /// Those with respect to the parameters.
    Parameters,
}

#[derive(Clone, Debug)]
pub(super) struct BackwardProgram {
    pub stages: Vec<Stage<Step>>,
    pub places: Vec<Place>,
    /// Floats per image of each place for all images.
    pub batch_sizes: Vec<usize>,
    /// Floats of each place for a few images.
    pub group_sizes: Vec<usize>,
    /// Takes the cotangent.
    pub start: BufferId,
    /// Gradient of the images, if the logits depend on them.
    pub end: Option<BufferId>,
}

/// Gradient of a value so far.
#[derive(Clone, Copy, Debug)]
enum State {
    Nothing,
    Owned(BufferId),
    /// Another value's: must not be written.
    Shared(BufferId),
    Behind(NodeId, BufferId),
}

struct Compiler<'a> {
    graph: &'a Graph,
    plan: &'a Plan,
    mode: Mode,
    wanted: Wanted,
    stages: Stages<Step>,
    states: Vec<State>,
    /// Node whose shape each buffer has.
    buffers: Vec<NodeId>,
    /// Applications of batch norms whose sums the current stage computes.
    pending: Vec<NodeId>,
    /// The current stage has a weight gradient.
    weights: bool,
}

pub(super) fn compile(graph: &Graph, plan: &Plan, mode: Mode, wanted: Wanted) -> BackwardProgram {
    let mut compiler = Compiler {
        graph,
        plan,
        mode,
        wanted,
        stages: Stages::new(),
        states: vec![State::Nothing; plan.units.len()],
        buffers: vec![],
        pending: vec![],
        weights: false,
    };
    let start = compiler.buffer(graph.output());
    compiler.states[graph.output()] = State::Owned(start);
    let needed = needed(graph, plan, wanted);
    for id in (1..plan.units.len()).rev() {
        compiler.unit(id, &needed);
    }
    let end = match compiler.states[0] {
        State::Owned(b) | State::Shared(b) => Some(b),
        State::Nothing | State::Behind(..) => None,
    };
    compiler.finish(start, end)
}

/// Values whose gradient is of use.
fn needed(graph: &Graph, plan: &Plan, wanted: Wanted) -> Vec<bool> {
    let mut needed = vec![false; plan.units.len()];
    needed[0] = wanted == Wanted::Input;
    for (id, unit) in plan.units.iter().enumerate() {
        let own = wanted == Wanted::Parameters
            && match unit {
                Unit::Conv { .. } => true,
                Unit::Apply(Apply {
                    factors: Factors::Norm(norm),
                    ..
                }) => {
                    let mut parameters = graph.parameters_of(*norm);
                    parameters.any(|p| graph.parameters()[p].role.trainable())
                }
                Unit::Other | Unit::Attention(_) => sums(graph, plan, id),
                _ => false,
            };
        needed[id] |= own || inputs(graph, id, unit).iter().any(|&input| needed[input]);
    }
    needed
}

/// Whether a node has parameters, or reads constants, whose gradients are summed up.
fn sums(graph: &Graph, plan: &Plan, id: NodeId) -> bool {
    let constant = |&&input: &&NodeId| matches!(plan.units[input], Unit::Constant);
    let read = inputs(graph, id, &plan.units[id]);
    let mut read = read.iter().filter(constant);
    plan.sums[id] > 0 || read.any(|&input| plan.sums[input] > 0)
}

impl Compiler<'_> {
    fn buffer(&mut self, shape_of: NodeId) -> BufferId {
        self.buffers.push(shape_of);
        self.buffers.len() - 1
    }

    fn push(&mut self, step: Step, group: usize) {
        let behind = match &step {
            Step::Conv { dy, .. } | Step::Other { dy, .. } => match dy {
                Gradient::Behind(apply, _) => Some(*apply),
                Gradient::Buffer(_) => None,
            },
            Step::PullBack { apply, .. } => Some(*apply),
            _ => None,
        };
        let weights = matches!(
            step,
            Step::Conv {
                parameters: true,
                ..
            }
        );
        let barrier =
            behind.is_some_and(|b| self.pending.contains(&b)) || (weights && self.weights);
        let reduces = step.reduces();
        if !self.absorbed(&step, group) {
            let before = self.stages.list.len();
            self.stages.push(step, group, barrier);
            if self.stages.list.len() > before {
                self.pending.clear();
                self.weights = false;
            }
        }
        self.weights |= weights;
        if self.mode == Mode::Train {
            self.pending.extend(reduces);
        }
    }

    /// Lets a convolution that has just completed a gradient mask it too.
    fn absorbed(&mut self, step: &Step, group: usize) -> bool {
        let Step::Mask {
            unit,
            buffer,
            reduce,
        } = *step
        else {
            return false;
        };
        let stage = self.stages.list.last_mut().filter(|s| s.group == group);
        match stage.and_then(|stage| stage.steps.last_mut()) {
            Some(Step::Conv {
                dx: Some(dx),
                mask: mask @ None,
                ..
            }) if *dx == buffer => {
                *mask = Some((unit, reduce));
                true
            }
            _ => false,
        }
    }

    /// The gradient of a value as a buffer that may be added to.
    fn owned(&mut self, id: NodeId, group: usize) -> BufferId {
        let buffer = match self.states[id] {
            State::Owned(buffer) => return buffer,
            State::Nothing => {
                let buffer = self.buffer(id);
                self.push(Step::Zero(id, buffer), group);
                buffer
            }
            State::Shared(from) => {
                let buffer = self.buffer(id);
                self.push(Step::Copy(id, from, buffer), group);
                buffer
            }
            State::Behind(..) => unreachable!("a value with one reader has one contribution"),
        };
        self.states[id] = State::Owned(buffer);
        buffer
    }

    /// Contributes a whole buffer to the gradient of a value.
    fn share(&mut self, id: NodeId, buffer: BufferId, group: usize) {
        if let State::Nothing = self.states[id] {
            self.states[id] = State::Shared(buffer);
        } else {
            let sum = self.owned(id, group);
            self.push(Step::Add(id, buffer, sum), group);
        }
    }

    fn unit(&mut self, id: NodeId, needed: &[bool]) {
        if matches!(self.states[id], State::Nothing) || !needed[id] {
            return;
        }
        let unit = &self.plan.units[id];
        let inputs = inputs(self.graph, id, unit);
        let group = group_size(inputs.iter().chain([&id]).map(|&id| self.plan.shapes[id]));
        let gradient = |state: State| match state {
            State::Owned(b) | State::Shared(b) => Gradient::Buffer(b),
            State::Behind(apply, b) => Gradient::Behind(apply, b),
            State::Nothing => unreachable!("checked on entry"),
        };
        match unit {
            Unit::Input | Unit::Fused | Unit::Constant => {}
            Unit::Apply(apply) => self.apply(id, apply, needed, group),
            Unit::Conv {
                input,
                residual,
                relu,
                ..
            } => {
                if *relu {
                    let step = Step::Mask {
                        unit: id,
                        buffer: self.owned(id, group),
                        reduce: false,
                    };
                    self.push(step, group);
                }
                let dy = gradient(self.states[id]);
                if let (Some(residual), Gradient::Buffer(buffer)) = (residual, dy)
                    && needed[*residual]
                {
                    self.share(*residual, buffer, group);
                }
                let add = match self.states[*input] {
                    State::Owned(b) | State::Shared(b) => Some(b),
                    State::Nothing | State::Behind(..) => None,
                };
                let dx = needed[*input].then(|| self.buffer(*input));
                let parameters = self.wanted == Wanted::Parameters;
                let add = dx.and(add);
                let step = Step::Conv {
                    id,
                    dy,
                    dx,
                    add,
                    parameters,
                    mask: None,
                };
                self.push(step, group);
                if let Some(dx) = dx {
                    self.states[*input] = State::Owned(dx);
                }
            }
            Unit::Other | Unit::Attention(_) => {
                let dy = gradient(self.states[id]);
                let inputs = inputs
                    .iter()
                    .map(|&input| needed[input].then(|| self.owned(input, group)))
                    .collect();
                let parameters =
                    self.wanted == Wanted::Parameters && sums(self.graph, self.plan, id);
                let step = Step::Other {
                    id,
                    dy,
                    inputs,
                    parameters,
                };
                self.push(step, group);
            }
        }
    }

    fn apply(&mut self, id: NodeId, apply: &Apply, needed: &[bool], group: usize) {
        let norm = matches!(apply.factors, Factors::Norm(_));
        let reduce = norm && (self.mode == Mode::Train || self.wanted == Wanted::Parameters);
        let buffer = match self.states[id] {
            State::Shared(b) if !apply.relu => b,
            _ => self.owned(id, group),
        };
        if apply.relu || reduce {
            let step = Step::Mask {
                unit: id,
                buffer,
                reduce,
            };
            self.push(step, group);
        }
        if let Some(residual) = apply.residual.filter(|&r| needed[r]) {
            self.share(residual, buffer, group);
        }
        let source = apply.source;
        if !needed[source] {
            return;
        }
        let stored = match &self.plan.units[source] {
            Unit::Input | Unit::Apply(_) => true,
            // Its gradient is masked, or passed on as it stands.
            Unit::Conv { residual, relu, .. } => residual.is_some() || *relu,
            _ => false,
        };
        if apply.factors == Factors::Identity {
            self.share(source, buffer, group);
        } else if self.plan.readers[source] == 1 && !stored {
            self.states[source] = State::Behind(id, buffer);
        } else {
            let to = self.buffer(source);
            self.push(
                Step::PullBack {
                    apply: id,
                    from: buffer,
                    to,
                },
                group,
            );
            match self.states[source] {
                State::Nothing => {}
                State::Owned(b) | State::Shared(b) => self.push(Step::Add(source, b, to), group),
                State::Behind(..) => unreachable!("only values with one reader"),
            }
            self.states[source] = State::Owned(to);
        }
    }

    /// Gives every buffer a place: its life is counted in stages for buffers of
    /// all images, in steps for those of a few.
    fn finish(self, start: BufferId, end: Option<BufferId>) -> BackwardProgram {
        let stages = self.stages.list;
        // First and last use as (stage, step).
        let mut lives = vec![None; self.buffers.len()];
        let mut touch = |buffer: BufferId, at: (usize, usize)| {
            let (first, _) = *lives[buffer].get_or_insert((at, at));
            lives[buffer] = Some((first, at));
        };
        touch(start, (0, 0));
        for (s, stage) in stages.iter().enumerate() {
            for (i, step) in stage.steps.iter().enumerate() {
                step.buffers().into_iter().for_each(|b| touch(b, (s, i)));
            }
        }
        if let Some(end) = end {
            touch(end, (stages.len(), 0));
        }
        let mut batch = Slots::default();
        let mut group = Slots::default();
        let mut places = vec![Place::Batch(0); self.buffers.len()];
        let mut order: Vec<BufferId> = (0..self.buffers.len()).collect();
        order.sort_by_key(|&b| lives[b].map(|(first, _)| first));
        for b in order {
            let Some((first, last)) = lives[b] else {
                continue;
            };
            let len = self.plan.shapes[self.buffers[b]].len();
            places[b] = if first.0 == last.0 && b != start {
                let images = stages[first.0].group;
                Place::Group(group.take(first, last, len * images))
            } else {
                Place::Batch(batch.take((first.0, 0), (last.0, usize::MAX), len))
            };
        }
        BackwardProgram {
            stages,
            places,
            batch_sizes: batch.sizes,
            group_sizes: group.sizes,
            start,
            end,
        }
    }
}

/// Places that are taken again when their last user is gone.
#[derive(Default)]
pub(super) struct Slots {
    pub sizes: Vec<usize>,
    last: Vec<(usize, usize)>,
}

impl Slots {
    pub fn take(&mut self, first: (usize, usize), last: (usize, usize), len: usize) -> usize {
        let free = (0..self.sizes.len()).filter(|&s| self.last[s] < first);
        // The smallest one that is large enough, else the largest.
        let best = free.min_by_key(|&s| match self.sizes[s] {
            size if size >= len => (0, size),
            size => (1, usize::MAX - size),
        });
        let slot = best.unwrap_or_else(|| {
            self.sizes.push(0);
            self.last.push(last);
            self.sizes.len() - 1
        });
        self.sizes[slot] = self.sizes[slot].max(len);
        self.last[slot] = last;
        slot
    }
}
