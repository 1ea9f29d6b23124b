//! Execution of a backward pass.

use std::sync::Arc;

use kernels::averaged_relu::averaged_relu_gradient;
use kernels::backward::sum_rows;
use kernels::buffer::{Buffer, bring_near};
use kernels::gradient::{ConvInputs, InputPass};
use kernels::norm::{self, BackwardTerms, Mask, Masking};
use rayon::prelude::*;

use super::backward_program::{BackwardProgram, BufferId, Gradient, Place, Step};
use super::forward::{Group, Reader, norm_index, own_parameters};
use super::memory::Scratch;
use super::packed::Packed;
use super::plan::{Factors, Unit, inputs};
use super::quarters::QuarterGradients;
use super::stage::Stage;
use super::tape::{CpuTape, Share};
use super::{Training, other, packed_of};
use crate::collective::NormSharing;
use crate::cpu::attention::Heads;
use crate::cpu::tokens::Token;
use crate::device_error::DeviceError;
use crate::graph::{Graph, NodeId};
use crate::op::Op;
use crate::parameters::{HostGradients, Parameters};
use crate::verbs::Mode;

pub(super) struct PullBack<'a> {
    pub training: &'a Training,
    pub graph: &'a Graph,
    pub parameters: &'a Parameters,
    pub packed: Arc<Vec<Option<Packed>>>,
    pub tape: &'a CpuTape,
    pub program: &'a BackwardProgram,
}

/// Gradients of one share of the images.
#[derive(Default)]
struct Work {
    /// The quarter of the batch that the share belongs to.
    quarter: usize,
    /// Buffers for all images of the share, by place.
    buffers: Vec<Buffer>,
    /// Sums of each batch norm, in the order of the plan.
    sums: Vec<[Vec<f64>; 2]>,
    /// Weight gradient of the stage's convolution, in its own order.
    weights: Buffer,
    /// Whether nothing of this stage is in it yet.
    fresh: bool,
    /// Its bias gradient.
    bias: Vec<f64>,
    /// Other sums over the images, by node; see [`Plan::sums`](super::plan::Plan).
    others: Vec<Vec<f64>>,
}

/// `dx = gain * dy + slope * (x - mean) + offset` of a batch norm in train mode.
struct Terms {
    gain: Vec<f32>,
    slope: Vec<f32>,
    offset: Vec<f32>,
}

/// The shares of each quarter that has some, and its gradients.
fn by_quarter<'a>(
    work: &'a mut [Work],
    gradients: &'a mut [HostGradients],
) -> Vec<(&'a mut [Work], &'a mut HostGradients)> {
    let mut gradients: Vec<_> = gradients.iter_mut().map(Some).collect();
    let quarters = work.chunk_by_mut(|a, b| a.quarter == b.quarter);
    let beside = |work: &'a mut [Work]| gradients[work[0].quarter].take().map(|g| (work, g));
    quarters.filter_map(beside).collect()
}

/// Takes the buffer at a place out, so that the others can be read.
fn slot<'b>(place: Place, batch: &'b mut [Buffer], group: &'b mut [Buffer]) -> &'b mut Buffer {
    match place {
        Place::Batch(i) => &mut batch[i],
        Place::Group(i) => &mut group[i],
    }
}

impl PullBack<'_> {
    pub fn run(
        &self,
        cotangent: &[f32],
        dx: Option<&mut [f32]>,
        gradients: Option<&mut QuarterGradients>,
    ) -> Result<(), DeviceError> {
        self.training
            .pool
            .install(|| self.run_inside(cotangent, dx, gradients))
    }

    fn run_inside(
        &self,
        cotangent: &[f32],
        dx: Option<&mut [f32]>,
        gradients: Option<&mut QuarterGradients>,
    ) -> Result<(), DeviceError> {
        let mut gradients =
            gradients.map(|gradients| gradients.first(self.tape.quarters, self.graph));
        let (program, store) = (self.program, &self.training.store);
        let weights = self.largest_weights();
        let mut work: Vec<Work> = (self.tape.shares.iter())
            .map(|share| Work {
                quarter: share.quarter,
                buffers: (program.batch_sizes.iter())
                    .map(|size| store.take(size * share.images))
                    .collect(),
                sums: vec![Default::default(); self.training.plan.norms.len()],
                weights: match gradients {
                    Some(_) => store.take(weights),
                    None => Buffer::default(),
                },
                fresh: true,
                bias: vec![],
                others: match gradients {
                    Some(_) => {
                        let sums = self.training.plan.sums.iter();
                        sums.map(|&len| vec![0.0; len]).collect()
                    }
                    None => vec![],
                },
            })
            .collect();
        let classes = self.graph.classes();
        for (work, share) in work.iter_mut().zip(&self.tape.shares) {
            let from = &cotangent[share.first * classes..][..share.images * classes];
            let start = slot(program.places[program.start], &mut work.buffers, &mut []);
            start[..from.len()].copy_from_slice(from);
        }
        let mut terms: Vec<Option<Terms>> = self.graph.nodes().iter().map(|_| None).collect();
        for stage in &program.stages {
            work.par_iter_mut()
                .zip(&self.tape.shares)
                .for_each(|(work, share)| {
                    (self.training.scratches)
                        .with(|scratch| self.stage(stage, share, &terms, work, scratch));
                });
            self.finish(stage, &mut work, &mut terms, gradients.as_deref_mut())?;
        }
        if let Some(dx) = dx {
            self.write_input_gradient(&mut work, dx);
        }
        if let Some(gradients) = gradients {
            for (work, gradients) in by_quarter(&mut work, gradients) {
                self.other_gradients(work, gradients);
            }
        }
        for work in work {
            work.buffers.into_iter().for_each(|b| store.give(b));
            store.give(work.weights);
        }
        Ok(())
    }

    /// Adds the gradients of layer norms' parameters and of constants, of one quarter.
    fn other_gradients(&self, work: &[Work], gradients: &mut HostGradients) {
        let total = |id: NodeId| -> Vec<f64> {
            let mut total = vec![0.0; self.training.plan.sums[id]];
            for work in work {
                total
                    .iter_mut()
                    .zip(&work.others[id])
                    .for_each(|(t, x)| *t += x);
            }
            total
        };
        let mut totals: Vec<Vec<f64>> = (0..self.graph.nodes().len()).map(total).collect();
        let mut add = |parameter: usize, values: &[f64]| {
            let gradient = gradients.get_mut(parameter).iter_mut();
            gradient.zip(values).for_each(|(g, &v)| *g += v as f32);
        };
        // Backwards, as what is rearranged of a constant comes after it.
        for id in (0..totals.len())
            .rev()
            .filter(|&id| self.training.plan.sums[id] > 0)
        {
            let own = std::mem::take(&mut totals[id]);
            let range = self.graph.parameters_of(id);
            match &self.graph.nodes()[id].op {
                Op::LayerNorm { scale, shift, .. } => {
                    let (dscale, dshift) = own.split_at(own.len() / 2);
                    if *scale {
                        add(range.start, dscale);
                    }
                    if *shift {
                        add(range.end - 1, dshift);
                    }
                }
                Op::Rearrange(rearrange) => {
                    let source = self.graph.nodes()[id].inputs[0];
                    rearrange.runs().add_back(&own, &mut totals[source]);
                }
                _ => add(range.start, &own),
            }
        }
    }

    /// Length of the longest weight accumulator.
    fn largest_weights(&self) -> usize {
        let plans = self.training.weight_gradients.iter().flatten();
        plans.map(|plan| plan.accumulator_len()).max().unwrap_or(0)
    }

    fn write_input_gradient(&self, work: &mut [Work], dx: &mut [f32]) {
        let len = self.graph.input().len();
        let Some(end) = self.program.end else {
            dx.fill(0.0);
            return;
        };
        for (work, share) in work.iter_mut().zip(&self.tape.shares) {
            let from = slot(self.program.places[end], &mut work.buffers, &mut []);
            let to = &mut dx[share.first * len..][..share.images * len];
            to.copy_from_slice(&from[..to.len()]);
        }
    }

    /// All steps of a stage for one share.
    fn stage(
        &self,
        stage: &Stage<Step>,
        share: &Share,
        terms: &[Option<Terms>],
        work: &mut Work,
        scratch: &mut Scratch,
    ) {
        for step in &stage.steps {
            if let Step::Conv {
                id,
                parameters: true,
                ..
            } = *step
            {
                work.fresh = true;
                work.bias.clear();
                work.bias.resize(self.graph.shape(id).channels, 0.0);
            }
            if let Some(unit) = step.reduces() {
                let (k, _) = norm_index(&self.training.plan, unit);
                let channels = self.graph.shape(unit).channels;
                work.sums[k].iter_mut().for_each(|sums| {
                    sums.clear();
                    sums.resize(channels, 0.0);
                });
            }
        }
        if scratch.gradients.len() < self.program.group_sizes.len() {
            let count = self.program.group_sizes.len();
            scratch.gradients.resize_with(count, Buffer::default);
        }
        let sizes = self.program.group_sizes.iter();
        for (buffer, &size) in scratch.gradients.iter_mut().zip(sizes) {
            buffer.reserve(size);
        }
        for group in Group::of(share.images, stage.group) {
            let reader = Reader {
                isa: self.training.isa,
                plan: &self.training.plan,
                applied: &self.tape.applied,
                constants: &self.tape.constants,
                values: &share.values,
                passing: &[],
                slots: &self.training.passing.slots,
                group,
            };
            for step in &stage.steps {
                Runner {
                    pull_back: self,
                    bits: &share.bits,
                    reader,
                    terms,
                    work,
                    scratch,
                }
                .step(step);
            }
        }
    }

    /// Sums of a stage over the batch.
    fn finish(
        &self,
        stage: &Stage<Step>,
        work: &mut [Work],
        terms: &mut [Option<Terms>],
        mut gradients: Option<&mut [HostGradients]>,
    ) -> Result<(), DeviceError> {
        for step in &stage.steps {
            if let Some(unit) = step.reduces() {
                terms[unit] = self.norm_terms(unit, work, gradients.as_deref_mut())?;
            }
            if let Step::Conv {
                id,
                parameters: true,
                ..
            } = *step
                && let Some(gradients) = gradients.as_deref_mut()
            {
                let quarters = by_quarter(work, gradients).into_par_iter();
                quarters.for_each(|(work, gradients)| self.conv_gradients(id, work, gradients));
            }
        }
        Ok(())
    }

    /// Adds the gradients of a batch norm's parameters; in train mode, gives
    /// the terms of its pull-back.
    fn norm_terms(
        &self,
        apply: NodeId,
        work: &[Work],
        gradients: Option<&mut [HostGradients]>,
    ) -> Result<Option<Terms>, DeviceError> {
        let (k, norm) = norm_index(&self.training.plan, apply);
        let Some(applied) = self.tape.applied[apply].as_ref() else {
            return Ok(None);
        };
        let channels = applied.scale.len();
        let add = |to: &mut [f64], from: &[f64]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        };
        // First the sums of all channels, then the dots, for each quarter.
        let mut quarters = vec![vec![0.0; 2 * channels]; self.tape.quarters];
        for work in work {
            let (sums, dots) = quarters[work.quarter].split_at_mut(channels);
            add(sums, &work.sums[k][0]);
            add(dots, &work.sums[k][1]);
        }
        for quarter in &mut quarters {
            let dots = quarter[channels..].iter_mut().zip(&applied.inverse);
            dots.for_each(|(dot, &inverse)| *dot *= f64::from(inverse));
        }
        if let (Some(gradients), Op::BatchNorm { scale, shift, .. }) =
            (gradients, &self.graph.nodes()[norm].op)
        {
            let range = self.graph.parameters_of(norm);
            for (quarter, gradients) in quarters.iter().zip(gradients) {
                let (sums, dots) = quarter.split_at(channels);
                let wanted = [(*scale, range.start, dots), (*shift, range.end - 3, sums)];
                for (_, parameter, values) in wanted.into_iter().filter(|(wanted, ..)| *wanted) {
                    for (g, v) in gradients.get_mut(parameter).iter_mut().zip(values) {
                        *g += *v as f32;
                    }
                }
            }
        }
        if self.tape.mode != Mode::Train {
            return Ok(None);
        }
        let mut all = quarters.concat();
        if let NormSharing::Statistics(ranks) = &self.training.sharing {
            // The gradients of the parameters are summed up later, with all others.
            all = ranks.gather(&all)?;
        }
        let mut total = vec![0.0; 2 * channels];
        (all.chunks_exact(2 * channels)).for_each(|quarter| add(&mut total, quarter));
        let (sums, dots) = total.split_at(channels);
        let rows = applied.rows as f64;
        let term = |of: &dyn Fn(usize) -> f64| (0..channels).map(|c| of(c) as f32).collect();
        let gain = |c: usize| f64::from(applied.scale[c]);
        Ok(Some(Terms {
            gain: applied.scale.clone(),
            slope: term(&|c| -gain(c) * dots[c] * f64::from(applied.inverse[c]) / rows),
            offset: term(&|c| -gain(c) * sums[c] / rows),
        }))
    }

    /// Adds the gradients of a convolution's weights and bias, of one quarter.
    fn conv_gradients(&self, id: NodeId, work: &[Work], gradients: &mut HostGradients) {
        let Unit::Conv { parameters, .. } = &self.training.plan.units[id] else {
            unreachable!("only convolutions have weights")
        };
        let plan = self.training.weight_gradient(id);
        let len = plan.accumulator_len();
        // Each element is summed in the order of the shares.
        let sums: Vec<&[f32]> = work.iter().map(|work| &work.weights[..len]).collect();
        // Sixteen outputs at a time, which lie beside each other in the sums.
        const ROWS: usize = 16;
        let gradient = gradients.get_mut(parameters.start);
        let row = gradient.len() / self.graph.shape(id).channels;
        let rows = gradient.par_chunks_mut(ROWS * row).enumerate();
        rows.for_each(|(i, rows)| plan.add_to(&sums, i * ROWS, rows));
        if let Some(bias) = parameters.clone().nth(1) {
            for (c, g) in gradients.get_mut(bias).iter_mut().enumerate() {
                *g += work.iter().map(|work| work.bias[c]).sum::<f64>() as f32;
            }
        }
    }
}

/// Runs steps for a few images.
struct Runner<'a, 'w> {
    pull_back: &'a PullBack<'a>,
    bits: &'a [Vec<u8>],
    reader: Reader<'a>,
    terms: &'a [Option<Terms>],
    work: &'w mut Work,
    scratch: &'w mut Scratch,
}

impl Runner<'_, '_> {
    fn place(&self, id: BufferId) -> Place {
        self.pull_back.program.places[id]
    }

    /// The elements of this group in a buffer of the shape of a node.
    fn range(&self, shape_of: NodeId, id: BufferId) -> std::ops::Range<usize> {
        let len = self.reader.plan.shapes[shape_of].len();
        match self.place(id) {
            Place::Batch(_) => self.reader.group.range(len),
            Place::Group(_) => 0..self.reader.group.count * len,
        }
    }

    /// Whether a buffer lies in memory, for all images.
    fn is_far(&self, id: BufferId) -> bool {
        matches!(self.place(id), Place::Batch(_))
    }

    fn take(&mut self, id: BufferId) -> Buffer {
        let place = self.place(id);
        let scratch = &mut self.scratch.gradients;
        std::mem::take(slot(place, &mut self.work.buffers, scratch))
    }

    fn put(&mut self, id: BufferId, buffer: Buffer) {
        let place = self.place(id);
        *slot(place, &mut self.work.buffers, &mut self.scratch.gradients) = buffer;
    }

    fn read(&self, shape_of: NodeId, id: BufferId) -> &[f32] {
        let range = self.range(shape_of, id);
        match self.place(id) {
            Place::Batch(i) => &self.work.buffers[i][range],
            Place::Group(i) => &self.scratch.gradients[i][range],
        }
    }

    fn step(mut self, step: &Step) {
        match *step {
            Step::Zero(node, id) => {
                let (mut buffer, range) = (self.take(id), self.range(node, id));
                buffer[range].fill(0.0);
                self.put(id, buffer);
            }
            Step::Copy(node, from, to) => {
                let (mut buffer, range) = (self.take(to), self.range(node, to));
                buffer[range].copy_from_slice(self.read(node, from));
                self.put(to, buffer);
            }
            Step::Add(node, from, to) => {
                let (mut buffer, range) = (self.take(to), self.range(node, to));
                for (sum, x) in buffer[range].iter_mut().zip(self.read(node, from)) {
                    *sum += x;
                }
                self.put(to, buffer);
            }
            Step::Mask {
                unit,
                buffer: id,
                reduce,
            } => {
                let (mut buffer, range) = (self.take(id), self.range(unit, id));
                self.mask(unit, &mut buffer[range], reduce);
                self.put(id, buffer);
            }
            Step::PullBack { apply, from, to } => {
                let source = self.reader.plan.apply(apply).source;
                let (mut buffer, range) = (self.take(to), self.range(source, to));
                self.behind(apply, self.read(apply, from), &mut buffer[range]);
                self.put(to, buffer);
            }
            Step::Conv {
                id,
                dy,
                dx,
                add,
                parameters,
                mask,
            } => {
                self.prepare(id, dy);
                let input_side = dx.map(|dx| InputSide { dx, add, mask });
                self.conv(id, dy, input_side, parameters);
            }
            Step::Other {
                id,
                dy,
                ref inputs,
                parameters,
            } => match &self.reader.plan.tokens[id] {
                Some(Token::Attention(heads)) => self.attention(id, heads, dy, inputs, parameters),
                _ => self.other(id, dy, inputs, parameters),
            },
        }
    }

    /// Masks the gradient of a unit's value, and sums it up.
    fn mask(&mut self, unit: NodeId, dy: &mut [f32], reduce: bool) {
        if self.keep_bits(unit, dy) {
            return;
        }
        let mut sums = std::mem::take(&mut self.scratch.sums);
        masking(self.reader, unit, reduce, &mut sums).apply(self.reader.isa, dy);
        self.add_sums(unit, reduce, sums);
    }

    /// Masks the gradient of a unit's value by its bits, if it has some.
    fn keep_bits(&self, unit: NodeId, dy: &mut [f32]) -> bool {
        let reader = self.reader;
        if reader.plan.bits[unit] {
            let len = reader.plan.shapes[unit].len();
            let range = reader.group.range(norm::bit_bytes(len));
            norm::keep_bits(reader.isa, len, &self.bits[unit][range], dy);
        }
        reader.plan.bits[unit]
    }

    /// Adds what a masking has summed up, and gives its memory back.
    fn add_sums(&mut self, unit: NodeId, reduce: bool, sums: [Vec<f32>; 2]) {
        if reduce {
            let (k, _) = norm_index(self.reader.plan, unit);
            for (total, part) in self.work.sums[k].iter_mut().zip(&sums) {
                for (total, part) in total.iter_mut().zip(part) {
                    *total += f64::from(*part);
                }
            }
        }
        self.scratch.sums = sums;
    }

    /// Gradient of the source of a unit from the masked one of its value.
    fn behind(&self, apply: NodeId, dy: &[f32], dx: &mut [f32]) {
        let (reader, isa) = (self.reader, self.reader.isa);
        let unit = reader.plan.apply(apply);
        let applied = reader.factors(apply);
        match (&self.terms[apply], unit.factors) {
            (Some(terms), Factors::Norm(_)) => {
                let terms = BackwardTerms {
                    gain: &terms.gain,
                    slope: &terms.slope,
                    offset: &terms.offset,
                    mean: &applied.mean,
                };
                norm::backward_apply(isa, terms, reader.kept(unit.source), dy, dx);
            }
            _ => norm::scale(isa, &applied.scale, dy, dx),
        }
    }

    /// Brings the gradient of a unit's value into the scratch, if it is not
    /// stored.
    fn prepare(&mut self, id: NodeId, dy: Gradient) {
        if let Gradient::Behind(apply, from) = dy {
            let mut buffer = std::mem::take(&mut self.scratch.dy);
            let len = self.reader.group.count * self.reader.plan.shapes[id].len();
            buffer.reserve(len);
            self.behind(apply, self.read(apply, from), &mut buffer[..len]);
            self.scratch.dy = buffer;
        }
    }

    /// The gradient of a unit's value, once prepared.
    fn gradient(&self, id: NodeId, dy: Gradient) -> &[f32] {
        match dy {
            Gradient::Buffer(buffer) => self.read(id, buffer),
            Gradient::Behind(..) => {
                let len = self.reader.group.count * self.reader.plan.shapes[id].len();
                &self.scratch.dy[..len]
            }
        }
    }

    fn conv(mut self, id: NodeId, dy: Gradient, side: Option<InputSide>, parameters: bool) {
        let (reader, count) = (self.reader, self.reader.group.count);
        let Unit::Conv {
            input,
            parameters: ref range,
            ..
        } = reader.plan.units[id]
        else {
            unreachable!("a step of a convolution")
        };
        let packed = packed_of(&self.pull_back.packed, id);
        let mut scratch = std::mem::take(&mut self.scratch.conv);
        let mut sums = std::mem::take(&mut self.scratch.sums);
        let mut dx = side.map(|side| (self.take(side.dx), self.range(input, side.dx)));
        let mut values = std::mem::take(&mut self.scratch.values);
        let mut weights = std::mem::take(&mut self.work.weights);
        let mut bias = std::mem::take(&mut self.work.bias);
        let fresh = std::mem::take(&mut self.work.fresh);
        let gradient = self.gradient(id, dy);
        let residual = (side.and_then(|side| side.add)).map(|add| self.read(input, add));
        let mask = side.and_then(|side| side.mask);
        let mut masked = mask
            .filter(|&(unit, _)| !reader.plan.bits[unit])
            .map(|(unit, reduce)| masking(reader, unit, reduce, &mut sums));
        if let (Some(side), Some((dx, range))) = (side, &dx)
            && self.is_far(side.dx)
        {
            bring_near(&dx[range.clone()]);
        }
        if let (Some(add), Some(residual)) = (side.and_then(|side| side.add), residual)
            && self.is_far(add)
        {
            bring_near(residual);
        }
        if let Some(Mask::Positive(y)) = masked.as_ref().map(|masked| masked.mask)
            && mask.is_some_and(|(unit, _)| reader.is_far(unit))
        {
            bring_near(y);
        }
        let mut pulled = side.is_none();
        if parameters {
            let plan = self.pull_back.training.weight_gradient(id);
            scratch.reserve(plan.scratch_len());
            let inputs = match reader.plan.kept[input] || !plan.applies_factors() {
                true => ConvInputs {
                    x: reader.all(&[input], &mut values)[0],
                    factors: None,
                    relu: false,
                },
                false => {
                    let (apply, applied) = (reader.plan.apply(input), reader.factors(input));
                    ConvInputs {
                        x: reader.kept(apply.source),
                        factors: Some((&applied.scale, &applied.shift)),
                        relu: apply.relu,
                    }
                }
            };
            bring_near(inputs.x);
            let fused = packed.backward().filter(|conv| plan.pulls_back(conv));
            let input_pass = match (fused, &mut dx) {
                (Some(conv), Some((dx, range))) => {
                    pulled = true;
                    Some(InputPass {
                        conv,
                        residual,
                        dx: &mut dx[range.clone()],
                        masking: masked.take(),
                    })
                }
                _ => None,
            };
            let accumulator = &mut weights[..plan.accumulator_len()];
            plan.accumulate(
                count,
                inputs,
                gradient,
                accumulator,
                fresh,
                &mut scratch,
                input_pass,
            );
            if range.len() > 1 {
                let mut sums = vec![0.0; bias.len()];
                sum_rows(gradient, &mut sums);
                for (bias, sum) in bias.iter_mut().zip(sums) {
                    *bias += f64::from(sum);
                }
            }
        }
        if let (Some((dx, range)), false) = (&mut dx, pulled) {
            scratch.reserve(packed.scratch_len(count));
            let dx = &mut dx[range.clone()];
            packed.pull_back(count, gradient, residual, dx, &mut scratch);
            if let Some(masked) = masked {
                masked.apply(reader.isa, dx);
            } else if let Some((unit, _)) = mask {
                self.keep_bits(unit, dx);
            }
        }
        (self.work.weights, self.work.bias) = (weights, bias);
        self.work.fresh = fresh && !parameters;
        (self.scratch.values, self.scratch.conv) = (values, scratch);
        match mask {
            Some((unit, reduce)) => self.add_sums(unit, reduce, sums),
            None => self.scratch.sums = sums,
        }
        if let (Some(side), Some((dx, _))) = (side, dx) {
            self.put(side.dx, dx);
        }
    }

    fn other(mut self, id: NodeId, dy: Gradient, targets: &[Option<BufferId>], parameters: bool) {
        let (reader, graph) = (self.reader, self.pull_back.graph);
        self.prepare(id, dy);
        let sources = inputs(graph, id, &reader.plan.units[id]);
        let mut values = std::mem::take(&mut self.scratch.values);
        let mut scratch = std::mem::take(&mut self.scratch.conv);
        let mut own = std::mem::take(&mut self.scratch.own);
        let mut others = std::mem::take(&mut self.work.others);
        for (k, &target) in targets.iter().enumerate() {
            let inputs = match other::reads_values(&graph.nodes()[id].op) {
                true => reader.all(&sources, &mut values),
                false => vec![],
            };
            if let Some(to) = target {
                let (mut buffer, range) = (self.take(to), self.range(sources[k], to));
                let room = (&mut scratch, &mut own);
                self.pull_back_other(
                    (id, k),
                    &inputs,
                    self.gradient(id, dy),
                    &mut buffer[range],
                    room,
                );
                self.put(to, buffer);
            } else if let Unit::Constant = reader.plan.units[sources[k]]
                && parameters
                && !others[sources[k]].is_empty()
            {
                let sum = &mut others[sources[k]];
                let mut dx = vec![0.0; sum.len()];
                let room = (&mut scratch, &mut own);
                self.pull_back_other((id, k), &inputs, self.gradient(id, dy), &mut dx, room);
                sum.iter_mut()
                    .zip(dx)
                    .for_each(|(sum, x)| *sum += f64::from(x));
            }
        }
        if parameters
            && !others[id].is_empty()
            && let Some(Token::Norm { norm, .. }) = &reader.plan.tokens[id]
        {
            let x = reader.all(&sources, &mut values)[0];
            let mut sums = vec![0.0; others[id].len()];
            let (dscale, dshift) = sums.split_at_mut(others[id].len() / 2);
            let dy = self.gradient(id, dy);
            norm.backward(reader.isa, None, x, dy, None, Some([dscale, dshift]));
            let total = others[id].iter_mut();
            total
                .zip(sums)
                .for_each(|(total, x)| *total += f64::from(x));
        }
        (self.scratch.values, self.scratch.conv) = (values, scratch);
        (self.scratch.own, self.work.others) = (own, others);
    }

    /// Adds to the gradients of all inputs of attention at once: each needs the weights.
    fn attention(
        mut self,
        id: NodeId,
        heads: &Heads,
        dy: Gradient,
        targets: &[Option<BufferId>],
        parameters: bool,
    ) {
        let reader = self.reader;
        self.prepare(id, dy);
        let sources = inputs(self.pull_back.graph, id, &reader.plan.units[id]);
        let mut values = std::mem::take(&mut self.scratch.values);
        let mut scratch = std::mem::take(&mut self.scratch.conv);
        // Of constants the sum over these images.
        let mut taken: Vec<(Buffer, std::ops::Range<usize>)> = vec![];
        for (&target, &source) in targets.iter().zip(&sources) {
            taken.push(match target {
                Some(to) => (self.take(to), self.range(source, to)),
                None => {
                    let others = self.work.others.get(source);
                    let len = others.filter(|_| parameters).map_or(0, Vec::len);
                    (Buffer::zeroed(len), 0..len)
                }
            });
        }
        scratch.reserve(heads.scratch_len(reader.isa));
        let mut dx: Vec<Option<&mut [f32]>> = (taken.iter_mut())
            .map(|(buffer, range)| (range.end > 0).then(|| &mut buffer[range.clone()]))
            .collect();
        let read = reader.all(&sources, &mut values);
        let dy = self.gradient(id, dy);
        heads.pull_back(reader.isa, &read, dy, &mut dx, &mut scratch);
        for ((&target, &source), (buffer, range)) in targets.iter().zip(&sources).zip(taken) {
            match target {
                Some(to) => self.put(to, buffer),
                None if range.end == 0 => {}
                None => {
                    let total = self.work.others[source].iter_mut();
                    let part = buffer[range].iter();
                    total
                        .zip(part)
                        .for_each(|(total, &x)| *total += f64::from(x));
                }
            }
        }
        (self.scratch.values, self.scratch.conv) = (values, scratch);
    }

    /// Adds to the gradient of input `k` of node `id`.
    fn pull_back_other(
        &self,
        (id, k): (NodeId, usize),
        inputs: &[&[f32]],
        dy: &[f32],
        dx: &mut [f32],
        (scratch, own): (&mut Buffer, &mut Buffer),
    ) {
        let (reader, graph) = (self.reader, self.pull_back.graph);
        let parameters = || own_parameters(graph, self.pull_back.parameters, id);
        match (&reader.plan.tokens[id], &graph.nodes()[id].op) {
            (Some(token), _) => {
                scratch.reserve(token.scratch_len(reader.isa));
                token.pull_back(reader.isa, &parameters(), inputs, dy, k, dx, scratch, own);
            }
            (None, Op::AveragedRelu) => {
                averaged_relu_gradient(reader.isa, parameters()[0], inputs[0], dy, dx);
            }
            _ => other::pull_back(graph, id, inputs, dy, k, dx),
        }
    }
}

/// What is done to the complete gradient of a unit's value.
fn masking<'a>(
    reader: Reader<'a>,
    unit: NodeId,
    reduce: bool,
    [sum, dot]: &'a mut [Vec<f32>; 2],
) -> Masking<'a> {
    let Unit::Apply(apply) = &reader.plan.units[unit] else {
        return Masking {
            mask: Mask::Positive(reader.kept(unit)),
            x: &[],
            mean: &[],
            sums: None,
        };
    };
    let applied = reader.factors(unit);
    let mask = match apply.relu {
        false => Mask::None,
        true if reader.plan.kept[unit] => Mask::Positive(reader.kept(unit)),
        true => Mask::Affine(&applied.scale, &applied.shift),
    };
    sum.resize(applied.scale.len(), 0.0);
    dot.resize(applied.scale.len(), 0.0);
    let sums = if reduce {
        Some((&mut sum[..], &mut dot[..]))
    } else {
        None
    };
    // A tape for images alone keeps the source only where it is read.
    let x = match (reduce, mask) {
        (false, Mask::None | Mask::Positive(_)) => &[][..],
        _ => reader.kept(apply.source),
    };
    Masking {
        mask,
        x,
        mean: &applied.mean,
        sums,
    }
}

/// Where a convolution's input gradient goes, what is added to it, and the unit
/// that masks it.
#[derive(Clone, Copy)]
struct InputSide {
    dx: BufferId,
    add: Option<BufferId>,
    mask: Option<(NodeId, bool)>,
}
