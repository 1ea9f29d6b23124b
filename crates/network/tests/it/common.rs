//! What several tests need.

use std::sync::Arc;

use network::{Cpu, Executor, Graph, Model, ModelInfo, Role};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// A pool of this many threads.
pub fn pool(threads: usize) -> Arc<ThreadPool> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    Arc::new(pool.expect("threads"))
}

/// The executor that the verbs are tested on. `crates/gpu` runs the same tests on
/// another.
pub fn executor(model: &Model) -> Box<dyn Executor> {
    Box::new(Cpu::new(model, pool(2)))
}

/// Numbers in [0, 1].
pub fn pixels(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32
    };
    std::iter::repeat_with(next).take(n).collect()
}

/// A model whose running statistics and shifts are not the trivial ones.
pub fn model(graph: Graph) -> Model {
    let mut model = Model::initialised(graph, 3, ModelInfo::default());
    let specs = model.graph.parameters().to_vec();
    for (i, (values, spec)) in model.parameters.iter_mut().zip(specs).enumerate() {
        if spec.shape.len() == 1 || spec.role == Role::Embedding {
            let least = match spec.role {
                Role::Width => 0.0,
                _ => 0.3,
            };
            for (v, p) in values.iter_mut().zip(pixels(spec.len(), i as u64)) {
                *v += 0.3 * (p - least);
            }
        }
    }
    model
}
