//! Runs the steps of a plan on a block of images, or on one image in parts.

use kernels::buffer::Buffer;
use kernels::conv::Epilogue;
use kernels::isa::Isa;
use kernels::{elementwise, norm, pool};

use super::arena::Arena;
use super::plan::{Plan, Source, Step, Work};
use crate::cpu::other;

pub(super) struct Runner<'a> {
    pub isa: Isa,
    pub plan: &'a Plan,
}

impl Runner<'_> {
    /// Logits of a block of images, on this thread.
    pub fn block(&self, x: &[f32], arena: &mut Arena, logits: &mut [f32]) {
        self.run(1, x, arena, logits);
    }

    /// Logits of one image, convolutions cut into parts for the threads of the
    /// current pool.
    pub fn split(&self, parts: usize, x: &[f32], arena: &mut Arena, logits: &mut [f32]) {
        self.run(parts, x, arena, logits);
    }

    fn run(&self, parts: usize, x: &[f32], arena: &mut Arena, logits: &mut [f32]) {
        let images = logits.len() / self.plan.classes;
        for step in &self.plan.steps {
            let mut y = std::mem::take(&mut arena.slots[step.output]);
            let length = images * step.shapes[1].len();
            let values = Values {
                images,
                x,
                slots: &arena.slots,
            };
            let out = &mut y[..length];
            self.step(step, parts, &values, out, &mut arena.scratch);
            arena.slots[step.output] = y;
        }
        let values = Values {
            images,
            x,
            slots: &arena.slots,
        };
        logits.copy_from_slice(values.get(self.plan.output, self.plan.classes));
    }

    fn step(
        &self,
        step: &Step,
        parts: usize,
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
                };
                if parts == 1 {
                    conv.run(values.images, x, epilogue, y, scratch);
                } else {
                    conv.run_split(parts, x, epilogue, y, scratch, |parts, f| {
                        fork(0, parts, f);
                    });
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
            Work::MaxPool(window) => pool::max_pool(isa, input, window, x, y),
            Work::AveragePool {
                window,
                count_padding,
            } => pool::average_pool(isa, input, window, *count_padding, x, y),
            Work::GlobalAveragePool => pool::global_average_pool(isa, input, x, y),
            Work::Other(id) => {
                let graph = &self.plan.graph;
                let nodes = graph.nodes()[*id].inputs.iter();
                let inputs: Vec<&[f32]> = nodes
                    .zip(&step.inputs)
                    .map(|(&node, &source)| values.get(source, graph.shape(node).len()))
                    .collect();
                other::forward(graph, *id, &inputs, y);
            }
        }
    }
}

/// What a step can read.
struct Values<'a> {
    images: usize,
    x: &'a [f32],
    slots: &'a [Buffer],
}

impl Values<'_> {
    /// A value of `length` floats an image.
    fn get(&self, source: Source, length: usize) -> &[f32] {
        match source {
            Source::Input => &self.x[..self.images * length],
            Source::Slot(slot) => &self.slots[slot][..self.images * length],
        }
    }
}

/// Calls `f` for all of `from..to`, on several threads of the current pool.
fn fork(from: usize, to: usize, f: &(dyn Fn(usize) + Sync)) {
    if to - from == 1 {
        return f(from);
    }
    let middle = usize::midpoint(from, to);
    rayon::join(|| fork(from, middle, f), || fork(middle, to, f));
}
