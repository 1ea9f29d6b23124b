//! Runs the steps of a plan on a block of images, or on one image in parts.

use kernels::buffer::Buffer;
use kernels::conv::Epilogue;
use kernels::isa::Isa;
use kernels::team::Leader;
use kernels::{averaged_relu, elementwise, norm, pool};

use super::arena::Arena;
use super::plan::{Plan, Section, Source, Step, Work};
use crate::cpu::other;

/// Number of parts, and who hands them out; none for work on one thread.
type Workers<'a, 'b> = Option<(usize, &'a mut Leader<'b>)>;

pub(super) struct Runner<'a> {
    pub isa: Isa,
    pub plan: &'a Plan,
}

impl Runner<'_> {
    /// Logits of a block of images, on this thread.
    pub fn block(&self, x: &[f32], arena: &mut Arena, logits: &mut [f32]) {
        self.run(None, x, arena, logits);
    }

    /// Logits of one image, convolutions cut into parts for a team.
    pub fn split(
        &self,
        parts: usize,
        leader: &mut Leader<'_>,
        x: &[f32],
        arena: &mut Arena,
        logits: &mut [f32],
    ) {
        self.run(Some((parts, leader)), x, arena, logits);
    }

    fn run(&self, mut team: Workers<'_, '_>, x: &[f32], arena: &mut Arena, logits: &mut [f32]) {
        let images = logits.len() / self.plan.classes;
        let [mut from, mut to] = std::mem::take(&mut arena.between);
        let last = self.plan.sections.len() - 1;
        for (i, section) in self.plan.sections.iter().enumerate() {
            let [input, output] = section.lengths.map(|len| section.group * len);
            let x = if i == 0 { x } else { &from[..] }[..images * section.lengths[0]].chunks(input);
            let out = if i == last { &mut *logits } else { &mut to[..] };
            let out = out[..images * section.lengths[1]].chunks_mut(output);
            for (x, out) in x.zip(out) {
                self.section(section, &mut team, x, arena, out);
            }
            std::mem::swap(&mut from, &mut to);
        }
        arena.between = [from, to];
    }

    /// All steps of a section for a group of images.
    fn section(
        &self,
        section: &Section,
        team: &mut Workers<'_, '_>,
        x: &[f32],
        arena: &mut Arena,
        out: &mut [f32],
    ) {
        let images = x.len() / section.lengths[0];
        for step in &section.steps {
            let mut y = std::mem::take(&mut arena.slots[step.output]);
            let length = images * step.shapes[1].len();
            let values = Values {
                images,
                x,
                slots: &arena.slots,
                constants: &self.plan.constants,
            };
            self.step(step, team, &values, &mut y[..length], &mut arena.scratch);
            arena.slots[step.output] = y;
        }
        let values = Values {
            images,
            x,
            slots: &arena.slots,
            constants: &self.plan.constants,
        };
        out.copy_from_slice(values.get(section.output, section.lengths[1]));
    }

    fn step(
        &self,
        step: &Step,
        team: &mut Workers<'_, '_>,
        values: &Values<'_>,
        y: &mut [f32],
        scratch: &mut [f32],
    ) {
        let (isa, [input, output]) = (self.isa, step.shapes);
        let x = values.get(step.inputs[0], input.len());
        let residual = step.residual.map(|r| values.get(r, output.len()));
        match &step.work {
            Work::Conv { conv, bias } => {
                let epilogue = Epilogue {
                    bias: bias.as_deref(),
                    residual,
                    relu: step.relu,
                    gelu: step.gelu,
                };
                match team {
                    None => conv.run(values.images, x, epilogue, y, scratch),
                    Some((parts, leader)) => {
                        conv.run_split(*parts, x, epilogue, y, scratch, leader);
                    }
                }
            }
            Work::Affine { scale, shift } => {
                norm::apply(isa, (scale, shift), x, residual, step.relu, y);
            }
            Work::Add => {
                let other = values.get(step.inputs[1], input.len());
                elementwise::add(isa, x, other, step.relu, y);
            }
            Work::Relu => elementwise::relu(isa, x, y),
            Work::AveragedRelu { width } => averaged_relu::averaged_relu(isa, width, x, y),
            Work::MaxPool(window) => pool::max_pool(isa, input, window, x, y),
            Work::AveragePool {
                window,
                count_padding,
            } => pool::average_pool(isa, input, window, *count_padding, x, y),
            Work::GlobalAveragePool => pool::global_average_pool(isa, input, x, y),
            Work::Token { token, parameters } => {
                let parameters: Vec<&[f32]> = parameters.iter().map(Vec::as_slice).collect();
                let inputs = self.inputs(step, values);
                token.forward(isa, &parameters, &inputs, y, scratch);
            }
            Work::Other(id) => {
                let inputs = self.inputs(step, values);
                other::forward(&self.plan.graph, *id, &inputs, y);
            }
        }
    }
}

impl Runner<'_> {
    /// All inputs of a step.
    fn inputs<'v>(&self, step: &Step, values: &'v Values<'_>) -> Vec<&'v [f32]> {
        let read = step.inputs.iter().zip(&step.lengths);
        read.map(|(&source, &len)| values.get(source, len))
            .collect()
    }
}

/// What a step can read.
struct Values<'a> {
    images: usize,
    x: &'a [f32],
    slots: &'a [Buffer],
    constants: &'a [Vec<f32>],
}

impl Values<'_> {
    /// A value of `length` floats an image; a constant is as long as one image.
    fn get(&self, source: Source, length: usize) -> &[f32] {
        match source {
            Source::Input => &self.x[..self.images * length],
            Source::Slot(slot) => &self.slots[slot][..self.images * length],
            Source::Constant(node) => &self.constants[node],
        }
    }
}
