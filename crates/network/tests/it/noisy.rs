//! Noisy copies do not depend on who draws them.

use std::sync::Arc;

use network::architecture::{Task, build};
use network::{
    Cpu, Distribution, Executor, GraphBuilder, GridNoise, Noise, NoiseKind, NoisyImage, Op,
    Purpose, Reference, Shape,
};

use crate::common::{executor, model, pixels, pool};

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
    assert_eq!(executor(&model).noisy(&noise, &batch).unwrap(), want);
    let got = Reference::<f64>::new(&model).noisy(&noise, &batch);
    assert_eq!(got.unwrap(), want);
}

/// A network that only reorders its pixels: its logits are the noisy copies.
fn copies_inside(noise: &Noise, shape: Shape, batch: &[NoisyImage<'_>]) -> Vec<f32> {
    let mut graph = GraphBuilder::new(shape);
    graph.then("flatten", Op::Flatten);
    let network = executor(&model(graph.build().unwrap()));
    let copies: usize = batch.iter().map(|noisy| noisy.count).sum();
    let mut logits = vec![0.0; copies * shape.len()];
    network.noisy_logits(noise, batch, &mut logits).unwrap();
    // Channel by channel to pixel by pixel.
    let (pixels, channels) = (shape.pixels(), shape.channels);
    let place = |i: usize| i / shape.len() * shape.len() + i % channels * pixels;
    let at = |i: usize| logits[place(i) + i % shape.len() / channels];
    (0..logits.len()).map(at).collect()
}

/// Where a network makes its own noise, the numbers are those of the CPU up to
/// rounding.
#[test]
fn noise_inside_a_network_is_the_same() {
    let shape = Shape::new(7, 5, 3);
    let pixels = pixels(4 * shape.len(), 1);
    let batch = batch(&pixels, shape.len());
    for distribution in [
        Distribution::Gaussian,
        Distribution::Uniform,
        Distribution::Laplace,
    ] {
        let noise = Noise::float(1 << 40 | 11, Purpose::Estimation, distribution, 0.25);
        let want = noise.copies(&batch);
        let got = copies_inside(&noise, shape, &batch);
        for (got, want) in got.iter().zip(&want) {
            assert!((got - want).abs() < 3e-6, "{distribution}: {got} {want}");
        }
    }
}

/// Exact noise is made of the same integers. The second law has so many columns that a few
/// of the pixels need more than 32 random bits (one in 65,536, each with even odds of
/// another integer).
#[test]
fn exact_noise_inside_a_network_has_the_same_integers() {
    let shape = Shape::new(8, 8, 3);
    let levels = 255;
    let pixels = pixels(4 * shape.len(), 1);
    let pixels = pixels.iter().map(|p| (p * 255.0).round() / 255.0);
    let pixels: Vec<f32> = pixels.collect();
    let mut batch = batch(&pixels, shape.len());
    batch[0].count = 2000;
    let third = u64::MAX / 3;
    let mut many = vec![1_u64 << 31; 65_535];
    many[32_767] = 0_u64.wrapping_sub(65_534 << 31);
    for (first, weights) in [(-1, &[third, third + 1, third][..]), (-32_767, &many)] {
        let noise = Noise {
            seed: 5,
            purpose: Purpose::Estimation,
            kind: NoiseKind::Grid(Arc::new(GridNoise::new(levels, first, weights))),
        };
        let want = noise.copies(&batch);
        let got = copies_inside(&noise, shape, &batch);
        for (got, want) in got.iter().zip(&want) {
            // Not every device divides by 255 to the last bit.
            let steps = |value: &f32| (value * 255.0).round();
            assert_eq!(steps(got), steps(want), "from {first}");
            assert!((got - want).abs() <= 1e-6 * (1.0 + want.abs()));
        }
    }
}
