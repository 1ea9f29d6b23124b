//! Execution of the forward pass.

use std::sync::Arc;

use kernels::averaged_relu::averaged_relu;
use kernels::buffer::{Buffer, bring_near};
use kernels::conv::Epilogue;
use kernels::norm::{self, Moments};
use kernels::pool;
use rayon::prelude::*;

use super::forward_program::Step;
use super::memory::Scratch;
use super::packed::Packed;
use super::places::Passing;
use super::plan::{Apply, Factors, Plan, Unit, inputs};
use super::quarters::shares;
use super::stage::Stage;
use super::tape::{Applied, CpuTape, Share};
use super::{Training, factors, index, other, packed_of};
use crate::collective::NormSharing;
use crate::cpu::constants;
use crate::device_error::DeviceError;
use crate::graph::{Graph, NodeId};
use crate::op::Op;
use crate::parameters::Parameters;
use crate::verbs::Mode;
use kernels::isa::Isa;

/// A few images of a share.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub first: usize,
    pub count: usize,
}

impl Group {
    /// All groups of `size` images of a share, in order.
    pub fn of(images: usize, size: usize) -> impl Iterator<Item = Self> {
        (0..images).step_by(size).map(move |first| Self {
            first,
            count: size.min(images - first),
        })
    }

    /// The elements of these images in a buffer of `len` floats an image.
    pub fn range(&self, len: usize) -> std::ops::Range<usize> {
        self.first * len..(self.first + self.count) * len
    }
}

/// How to read values of a share: kept ones, and those computed on the way.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub isa: Isa,
    pub plan: &'a Plan,
    pub applied: &'a [Option<Applied>],
    /// Values that are the same for every image, by node.
    pub constants: &'a [Vec<f32>],
    pub values: &'a [Buffer],
    /// Values of this stage, and the slot of each, by node.
    pub passing: &'a [Buffer],
    pub slots: &'a [Option<usize>],
    pub group: Group,
}

impl<'a> Reader<'a> {
    /// Factors of a unit.
    pub fn factors(&self, id: NodeId) -> &'a Applied {
        self.applied[id]
            .as_ref()
            .expect("factors are known before they are applied")
    }

    /// A value that is kept.
    pub fn kept(&self, id: NodeId) -> &'a [f32] {
        let len = self.plan.shapes[id].len();
        match self.slots[id] {
            Some(slot) => &self.passing[slot][..self.group.count * len],
            None => &self.values[id][self.group.range(len)],
        }
    }

    /// Whether a value lies in memory, where it is kept for all images.
    pub fn is_far(&self, id: NodeId) -> bool {
        self.plan.kept[id] && self.slots[id].is_none()
    }

    /// Any value; one that is not kept is computed into `spare`. A constant is as
    /// long as one image.
    pub fn value<'s>(&self, id: NodeId, spare: &'s mut Buffer) -> &'s [f32]
    where
        'a: 's,
    {
        if self.plan.kept[id] {
            return self.kept(id);
        }
        if let Unit::Constant = self.plan.units[id] {
            return &self.constants[id];
        }
        let len = self.group.count * self.plan.shapes[id].len();
        let (apply, applied) = (self.plan.apply(id), self.factors(id));
        spare.reserve(len);
        norm::apply(
            self.isa,
            (&applied.scale, &applied.shift),
            self.kept(apply.source),
            None,
            apply.relu,
            &mut spare[..len],
        );
        &spare[..len]
    }

    /// All inputs of a unit.
    pub fn all<'s>(&self, ids: &[NodeId], spares: &'s mut Vec<Buffer>) -> Vec<&'s [f32]>
    where
        'a: 's,
    {
        if spares.len() < ids.len() {
            spares.resize_with(ids.len(), Buffer::default);
        }
        let each = ids.iter().zip(spares.iter_mut());
        each.map(|(&id, spare)| self.value(id, spare)).collect()
    }
}

pub(super) struct Forward<'a> {
    pub training: &'a Training,
    pub graph: &'a Graph,
    pub parameters: &'a Parameters,
    pub packed: &'a [Option<Packed>],
}

impl Forward<'_> {
    pub fn run(&self, images: &[f32], mode: Mode) -> Result<(Vec<f32>, CpuTape), DeviceError> {
        let (training, plan) = (self.training, &self.training.plan);
        let count = images.len() / self.graph.input().len();
        let share = |(quarter, range): (usize, std::ops::Range<usize>)| {
            let buffer = |id: NodeId| match plan.kept[id] && training.passing.slots[id].is_none() {
                true => training.store.take(range.len() * plan.shapes[id].len()),
                false => Buffer::default(),
            };
            let moments = |&(_, apply): &(NodeId, NodeId)| {
                Moments::new(plan.shapes[plan.apply(apply).source].channels)
            };
            Share {
                quarter,
                first: range.start,
                images: range.len(),
                values: (0..plan.units.len()).map(buffer).collect(),
                bits: (0..plan.units.len())
                    .map(|id| match plan.bits[id] {
                        true => vec![0; range.len() * norm::bit_bytes(plan.shapes[id].len())],
                        false => vec![],
                    })
                    .collect(),
                moments: plan.norms.iter().map(moments).collect(),
            }
        };
        let mut tape = CpuTape {
            mode,
            images: count,
            quarters: training.quarters(),
            input: self.graph.input().len(),
            shares: shares(count, training.quarters(), plan.share)
                .into_iter()
                .map(share)
                .collect(),
            constants: constants::evaluate(self.graph, self.parameters),
            applied: plan.units.iter().map(|_| None).collect(),
            store: Arc::clone(&training.store),
            folded: None,
        };
        for (id, unit) in plan.units.iter().enumerate() {
            if let Unit::Apply(apply) = unit
                && !(mode == Mode::Train && matches!(apply.factors, Factors::Norm(_)))
            {
                let fixed = factors::fixed(self.graph, self.parameters, plan, id);
                tape.applied[id] = Some(fixed);
            }
        }
        let len = self.graph.input().len();
        tape.shares.par_iter_mut().for_each(|share| {
            let from = &images[share.first * len..][..share.images * len];
            share.values[0][..from.len()].copy_from_slice(from);
        });
        for stage in &training.forward[index(mode)] {
            let known = (&tape.applied[..], &tape.constants[..]);
            tape.shares.par_iter_mut().for_each(|share| {
                training
                    .scratches
                    .with(|scratch| self.stage(stage, share, known, scratch));
            });
            self.join_statistics(stage, &mut tape)?;
        }
        let mut logits = vec![0.0; count * self.graph.classes()];
        for share in &tape.shares {
            let (first, classes) = (share.first * self.graph.classes(), self.graph.classes());
            let values = &share.values[self.graph.output()][..share.images * classes];
            logits[first..first + values.len()].copy_from_slice(values);
        }
        Ok((logits, tape))
    }

    /// Batch statistics of a stage: share by share within each quarter, then over the
    /// quarters of all ranks.
    fn join_statistics(&self, stage: &Stage<Step>, tape: &mut CpuTape) -> Result<(), DeviceError> {
        for step in &stage.steps {
            let Some(apply) = step.statistics() else {
                continue;
            };
            let (k, norm) = norm_index(&self.training.plan, apply);
            let channels = tape.shares[0].moments[k].mean.len();
            let mut quarters = vec![Moments::new(channels); tape.quarters];
            for share in &tape.shares {
                quarters[share.quarter].merge(&share.moments[k]);
            }
            if let NormSharing::Statistics(ranks) = &self.training.sharing {
                let values = quarters.iter().flat_map(|quarter| {
                    let rows = std::iter::once(quarter.rows as f64);
                    let moments = quarter.mean.iter().chain(&quarter.deviation);
                    rows.chain(moments.copied())
                });
                let gathered = ranks.gather(&values.collect::<Vec<f64>>())?;
                let moments = gathered.chunks_exact(1 + 2 * channels).map(|one| Moments {
                    rows: one[0] as usize,
                    mean: one[1..=channels].to_vec(),
                    deviation: one[1 + channels..].to_vec(),
                });
                quarters = moments.collect();
            }
            let mut all = Moments::new(channels);
            quarters.iter().for_each(|quarter| all.merge(quarter));
            let applied = factors::of_batch(self.graph, self.parameters, norm, all);
            tape.applied[apply] = Some(applied);
        }
        Ok(())
    }

    /// All steps of a stage for one share.
    fn stage(
        &self,
        stage: &Stage<Step>,
        share: &mut Share,
        known: (&[Option<Applied>], &[Vec<f32>]),
        scratch: &mut Scratch,
    ) {
        let Passing { slots, sizes } = &self.training.passing;
        let mut passing = std::mem::take(&mut scratch.passing);
        if passing.len() < sizes.len() {
            passing.resize_with(sizes.len(), Buffer::default);
        }
        for (buffer, &size) in passing.iter_mut().zip(sizes) {
            buffer.reserve(size);
        }
        for group in Group::of(share.images, stage.group) {
            for step in &stage.steps {
                if let Some(id) = step.computes() {
                    let len = self.training.plan.shapes[id].len();
                    let place = match slots[id] {
                        Some(slot) => &mut passing[slot],
                        None => &mut share.values[id],
                    };
                    // Taken out, so that the others can be read.
                    let mut buffer = std::mem::take(place);
                    let y = match slots[id] {
                        Some(_) => &mut buffer[..group.count * len],
                        None => &mut buffer[group.range(len)],
                    };
                    let reader = self.reader(&share.values, &passing, known, group);
                    let with_statistics = step.statistics().is_some();
                    self.compute(id, reader, y, scratch, with_statistics);
                    if self.training.plan.bits[id] {
                        let bits = &mut share.bits[id][group.range(norm::bit_bytes(len))];
                        norm::positive_bits(self.training.isa, len, y, bits);
                    }
                    match slots[id] {
                        Some(slot) => passing[slot] = buffer,
                        None => share.values[id] = buffer,
                    }
                }
                if let Some(apply) = step.statistics() {
                    let source = self.training.plan.shapes[self.training.plan.apply(apply).source];
                    let (mean, deviation) = scratch.sums(source.channels);
                    if step.computes().is_none() {
                        let reader = self.reader(&share.values, &passing, known, group);
                        let x = reader.kept(self.training.plan.apply(apply).source);
                        norm::statistics(self.training.isa, x, mean, deviation);
                    }
                    let (k, _) = norm_index(&self.training.plan, apply);
                    share.moments[k].join(group.count * source.pixels(), mean, deviation);
                }
            }
        }
        scratch.passing = passing;
    }

    fn reader<'a>(
        &'a self,
        values: &'a [Buffer],
        passing: &'a [Buffer],
        (applied, constants): (&'a [Option<Applied>], &'a [Vec<f32>]),
        group: Group,
    ) -> Reader<'a> {
        Reader {
            isa: self.training.isa,
            plan: &self.training.plan,
            applied,
            constants,
            values,
            passing,
            slots: &self.training.passing.slots,
            group,
        }
    }

    /// Computes a kept value for a few images; of a convolution also its statistics,
    /// into the scratch, if they are wanted.
    fn compute(
        &self,
        id: NodeId,
        reader: Reader<'_>,
        y: &mut [f32],
        scratch: &mut Scratch,
        with_statistics: bool,
    ) {
        let channels = self.training.plan.shapes[id].channels;
        scratch.sums(channels);
        let Scratch {
            values, conv, sums, ..
        } = scratch;
        let unit = &self.training.plan.units[id];
        match unit {
            Unit::Input | Unit::Fused | Unit::Constant => {}
            Unit::Conv {
                parameters, relu, ..
            } => {
                let packed = &packed_of(self.packed, id).forward;
                let inputs = inputs(self.graph, id, unit);
                let read = reader.all(&inputs, values);
                let count = reader.group.count;
                conv.reserve(packed.scratch_len(count));
                let bias = parameters.clone().nth(1).map(|p| self.parameters.get(p));
                for (&input, values) in inputs.iter().zip(&read) {
                    if reader.is_far(input) {
                        bring_near(values);
                    }
                }
                if reader.is_far(id) {
                    bring_near(y);
                }
                if with_statistics {
                    let [mean, deviation] = sums;
                    packed.run_with_statistics(count, read[0], bias, y, conv, mean, deviation);
                    return;
                }
                let epilogue = Epilogue {
                    bias,
                    residual: read.get(1).copied(),
                    relu: *relu,
                    gelu: None,
                };
                packed.run(count, read[0], epilogue, y, conv);
            }
            Unit::Apply(Apply {
                source,
                residual,
                relu,
                ..
            }) => {
                let applied = reader.factors(id);
                let residual = residual.map(|residual| reader.all(&[residual], values)[0]);
                let factors = (&applied.scale[..], &applied.shift[..]);
                let x = reader.kept(*source);
                norm::apply(self.training.isa, factors, x, residual, *relu, y);
            }
            Unit::Other | Unit::Attention(_) => {
                let inputs = reader.all(&inputs(self.graph, id, unit), values);
                self.other(id, &inputs, y, conv);
            }
        }
    }
}

impl Forward<'_> {
    fn other(&self, id: NodeId, inputs: &[&[f32]], y: &mut [f32], scratch: &mut Buffer) {
        let (isa, x, shape) = (self.training.isa, inputs[0], self.graph.input_of(id));
        if let Some(token) = &self.training.plan.tokens[id] {
            let parameters = own_parameters(self.graph, self.parameters, id);
            scratch.reserve(token.scratch_len(isa));
            token.forward(isa, &parameters, inputs, y, scratch);
            return;
        }
        match &self.graph.nodes()[id].op {
            Op::MaxPool { window } => pool::max_pool(isa, shape, window, x, y),
            Op::AveragePool {
                window,
                count_padding,
            } => pool::average_pool(isa, shape, window, *count_padding, x, y),
            Op::AveragedRelu => {
                let width = self.parameters.get(self.graph.parameters_of(id).start);
                averaged_relu(isa, width, x, y);
            }
            Op::GlobalAveragePool => pool::global_average_pool(isa, shape, x, y),
            _ => other::forward(self.graph, id, inputs, y),
        }
    }
}

/// The parameters of a node.
pub(super) fn own_parameters<'a>(
    graph: &Graph,
    parameters: &'a Parameters,
    id: NodeId,
) -> Vec<&'a [f32]> {
    let range = graph.parameters_of(id);
    range.map(|i| parameters.get(i)).collect()
}

/// Position in the plan's list, and node, of the batch norm that a unit applies.
pub(super) fn norm_index(plan: &Plan, apply: NodeId) -> (usize, NodeId) {
    let k = plan.norms.iter().position(|&(_, a)| a == apply);
    let k = k.expect("a unit that applies a batch norm");
    (k, plan.norms[k].0)
}
