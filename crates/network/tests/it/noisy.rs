//! Noisy copies do not depend on who draws them.

use network::architecture::{Task, build};
use network::{Cpu, Executor, Noise, NoisyImage, Purpose, Reference, Shape};

use crate::common::{model, pixels, pool};

/// Images with 0, 1 and many copies, from other first samples.
fn batch(pixels: &[f32], len: usize) -> Vec<NoisyImage<'_>> {
    let counts = [3, 0, 1, 40];
    let images = pixels.chunks_exact(len).zip(counts).enumerate();
    images
        .map(|(i, (pixels, count))| NoisyImage {
            pixels,
            image: 7 * i as u32,
            first_sample: 100 * i as u32,
            count,
        })
        .collect()
}

#[test]
fn every_executor_draws_the_same_copies() {
    let shape = Shape::new(7, 5, 3);
    let model = model(build("mlp", &Task::new(shape, 4)).unwrap());
    let pixels = pixels(4 * shape.len(), 1);
    let batch = batch(&pixels, shape.len());
    let noise = Noise::gaussian(11, Purpose::Training, 0.25);
    let want = noise.copies(&batch);
    assert_eq!(want.len(), 44 * shape.len());
    for threads in [1, 2] {
        let got = Cpu::new(&model, pool(threads)).noisy(&noise, &batch);
        assert_eq!(got.unwrap(), want, "{threads} threads");
    }
    let got = Reference::<f64>::new(&model).noisy(&noise, &batch);
    assert_eq!(got.unwrap(), want);
}
