//! Runs networks that were read, if they are small.

use std::cell::LazyCell;
use std::sync::Arc;

use network::{Classify, Cpu, Executor, Mode, Model, Reference};

thread_local! {
    static POOL: LazyCell<Arc<rayon::ThreadPool>> = LazyCell::new(|| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread();
        pool.build().expect("a pool of this thread").into()
    });
}

/// Few enough values and products for plain loops under sanitizers.
fn small(model: &Model) -> bool {
    let graph = &model.graph;
    let values: usize = (0..graph.nodes().len())
        .map(|node| graph.shape(node).len())
        .sum();
    values < 1 << 15 && graph.parameter_count() < 1 << 16 && graph.macs() < 1 << 19
}

fn images(model: &Model) -> Vec<f32> {
    let count = 2 * model.graph.input().len();
    (0..count).map(|at| (at * 7 % 11) as f32 / 11.0).collect()
}

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |most, value| most.max(value.abs()))
}

/// Logits of two images by plain loops in double precision: none of a large network, or of
/// one that single precision is too rough for. Where changed bits make a weight huge, the sign
/// of a difference of such products is chance, which the same loops in single precision
/// may well hit.
pub fn logits(model: &Model) -> Option<Vec<f32>> {
    let weights = || model.parameters.iter().flatten();
    if !small(model) || !weights().all(|weight| weight.abs() < 1e3) {
        return None;
    }
    let count = 2 * model.graph.classes();
    let (mut exact, mut rough) = (vec![0.0; count], vec![0.0; count]);
    let images = images(model);
    let plain = Reference::<f64>::new(model).logits(&images, &mut exact);
    plain.expect("lengths that fit");
    let plain = Reference::<f32>::new(model).logits(&images, &mut rough);
    plain.expect("lengths that fit");
    same(&exact, &rough, 1e-6).then_some(exact)
}

/// Whether values are as close to each other as this share of the largest.
pub fn same(some: &[f32], others: &[f32], share: f32) -> bool {
    let largest = largest(some);
    let mut pairs = some.iter().zip(others);
    (1e-20..1e20).contains(&largest) && pairs.all(|(a, b)| (a - b).abs() <= share * largest)
}

/// All that the fast executor does with a network, and that it finds these logits.
pub fn run(model: &Model, logits: Option<&[f32]>) {
    if !small(model) {
        return;
    }
    let cpu = Cpu::new(model, POOL.with(|pool| Arc::clone(pool)));
    let images = images(model);
    let mut found = vec![0.0; 2 * model.graph.classes()];
    cpu.logits(&images, &mut found).expect("lengths that fit");
    if let Some(logits) = logits {
        assert!(same(logits, &found, 1e-2), "{logits:?} {found:?}");
    }
    for mode in [Mode::Eval, Mode::Train] {
        let (taped, tape) = cpu.forward(&images, mode).expect("lengths that fit");
        if let (Mode::Eval, Some(logits)) = (mode, logits) {
            assert!(same(logits, &taped, 1e-2), "{logits:?} {taped:?}");
        }
        let pulled = cpu.input_gradient(&tape, &taped).expect("lengths that fit");
        assert_eq!(pulled.len(), images.len());
        let mut gradients = cpu.gradients().expect("room");
        let pulled = cpu.parameter_gradient(&tape, &taped, &mut gradients);
        pulled.expect("lengths that fit");
    }
}
