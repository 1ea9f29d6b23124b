//! Logits in eval mode, nothing kept: what certification runs millions of
//! times.
//!
//! The graph is compiled once per set of parameters: batch norms are folded into
//! the convolutions before them, bias, residual and ReLU become epilogues. A
//! thread takes a block of images all the way down the network, in an arena of
//! its own, a few at a time where they are large, so activations stay in its
//! cache. A single image is cut
//! up layer by layer instead, where that is faster. No image's logits depend on the split.

mod alone;
mod arena;
mod compile;
mod plan;
mod run;
mod sections;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use kernels::isa::Isa;
use kernels::team::Team;
use rayon::ThreadPool;
use rayon::prelude::*;

use crate::graph::Graph;
use crate::noise::{Noise, NoisyImage};
use crate::parameters::Parameters;
use alone::Alone;
use arena::Arenas;
use plan::Plan;
use run::Runner;

/// Runs one graph for inference.
#[derive(Debug)]
pub(super) struct Inference {
    isa: Isa,
    pool: Arc<ThreadPool>,
    plan: Mutex<Option<Arc<Plan>>>,
    arenas: Arenas,
    alone: Alone,
}

/// Where the images of a batch come from.
trait Images: Sync {
    /// Images `first..first + count`: in place, or written to `buffer`.
    fn block<'a>(&'a self, first: usize, count: usize, buffer: &'a mut [f32]) -> &'a [f32];
}

impl Inference {
    pub fn new(isa: Isa, pool: Arc<ThreadPool>) -> Self {
        Self {
            isa,
            pool,
            plan: Mutex::default(),
            arenas: Arenas::default(),
            alone: Alone::default(),
        }
    }

    /// Forgets what was derived from the parameters.
    pub fn parameters_change(&mut self) {
        *self.plan.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn plan(&self, graph: &Graph, parameters: &Parameters) -> Arc<Plan> {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let compile = || Arc::new(compile::compile(self.isa, graph, parameters));
        Arc::clone(plan.get_or_insert_with(compile))
    }

    /// Logits of NHWC images.
    pub fn logits(&self, graph: &Graph, parameters: &Parameters, images: &[f32], out: &mut [f32]) {
        let length = graph.input().len();
        let plan = self.plan(graph, parameters);
        self.run(&plan, &Given { images, length }, out);
    }

    /// Logits of noisy copies; the threads make the noise.
    pub fn noisy_logits(
        &self,
        graph: &Graph,
        parameters: &Parameters,
        noise: &Noise,
        batch: &[NoisyImage<'_>],
        out: &mut [f32],
    ) {
        let mut ends = Vec::with_capacity(batch.len());
        let mut count = 0;
        for noisy in batch {
            count += noisy.count;
            ends.push(count);
        }
        let plan = self.plan(graph, parameters);
        let images = Noisy {
            isa: self.isa,
            noise,
            batch,
            ends: &ends,
        };
        self.run(&plan, &images, out);
    }

    fn run(&self, plan: &Plan, images: &impl Images, out: &mut [f32]) {
        let count = out.len() / plan.classes;
        if count == 0 {
            return;
        }
        let threads = self.pool.current_num_threads();
        // Inside the pool the other threads have work of their own.
        if count == 1 && threads > 1 && self.pool.current_thread_index().is_none() {
            self.alone.run(|split| {
                if split {
                    self.split(plan, images, threads, out);
                } else {
                    self.blocks(plan, images, 1, out);
                }
            });
        } else {
            self.blocks(plan, images, threads, out);
        }
    }

    /// One image, each layer cut up among the threads.
    fn split(&self, plan: &Plan, images: &impl Images, threads: usize, out: &mut [f32]) {
        let isa = self.isa;
        let team = Team::new(threads);
        self.pool.in_place_scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|_| team.help());
            }
            self.arenas.with(plan, 1, threads, |arena| {
                let mut leader = team.lead();
                let mut buffer = std::mem::take(&mut arena.input);
                let x = images.block(0, 1, &mut buffer);
                Runner { isa, plan }.split(threads, &mut leader, x, arena, out);
                arena.input = buffer;
            });
        });
    }

    /// Blocks of images, each on one thread.
    fn blocks(&self, plan: &Plan, images: &impl Images, threads: usize, out: &mut [f32]) {
        let isa = self.isa;
        let count = out.len() / plan.classes;
        let block = plan.block.min(count.div_ceil(threads));
        let work = |(i, out): (usize, &mut [f32])| {
            self.arenas.with(plan, block, 1, |arena| {
                let mut buffer = std::mem::take(&mut arena.input);
                let x = images.block(i * block, out.len() / plan.classes, &mut buffer);
                Runner { isa, plan }.block(x, arena, out);
                arena.input = buffer;
            });
        };
        let size = block * plan.classes;
        if threads == 1 || count <= block {
            // Waking a thread and waiting for it would take a fifth of a small
            // network's pass.
            out.chunks_mut(size).enumerate().for_each(work);
        } else {
            let blocks = out.par_chunks_mut(size).enumerate();
            self.pool.install(|| blocks.with_max_len(1).for_each(work));
        }
    }
}

/// Images that lie there.
struct Given<'a> {
    images: &'a [f32],
    length: usize,
}

impl Images for Given<'_> {
    fn block<'a>(&'a self, first: usize, count: usize, _: &'a mut [f32]) -> &'a [f32] {
        &self.images[first * self.length..][..count * self.length]
    }
}

/// Noisy copies of a few images.
struct Noisy<'a> {
    isa: Isa,
    noise: &'a Noise,
    batch: &'a [NoisyImage<'a>],
    /// Copies of all images up to and with each.
    ends: &'a [usize],
}

impl Images for Noisy<'_> {
    fn block<'a>(&'a self, first: usize, count: usize, buffer: &'a mut [f32]) -> &'a [f32] {
        let mut image = self.ends.partition_point(|&end| end <= first);
        let length = self.batch[image].pixels.len();
        let out = &mut buffer[..count * length];
        for (copy, out) in (first..).zip(out.chunks_exact_mut(length)) {
            while self.ends[image] <= copy {
                image += 1;
            }
            let noisy = &self.batch[image];
            let sample = copy - (self.ends[image] - noisy.count);
            let sample = noisy.first_sample.wrapping_add(sample as u32);
            let key = (noisy.image, sample);
            self.noise.add_with(self.isa, key, noisy.pixels, out);
        }
        out
    }
}
