//! How far the CPU executor is from plain loops in f64, at full size.
//!
//! `cargo run --release -p heatsmooth-exchange --example accuracy ARCH [WEIGHTS]`
//!
//! Sixteen images of 32x32 smooth patterns; without WEIGHTS the network is as
//! initialised. Prints the largest difference of a logit, and the relative
//! distances in norm of the input gradients and of all parameter gradients: of
//! the images one by one in eval mode, sorted, and of the batch in train mode.
//! A rectifier within rounding of 0 may be open in one computation and closed in
//! the other; on the images where this happens gradients differ by 1e-3 to 1e-2.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use exchange::{LoadOptions, load};
use network::architecture::{Task, build};
use network::{Cpu, DeviceError, Executor, Mode, Model, ModelInfo, Reference, Shape};

/// Logits, input gradient and parameter gradients of one network.
fn derivatives(
    network: &dyn Executor,
    images: &[f32],
    mode: Mode,
) -> Result<[Vec<f32>; 3], DeviceError> {
    let (logits, tape) = network.forward(images, mode)?;
    let wave = |i: usize| ((i * 37 + 11) % 23) as f32 / 11.0 - 1.0;
    let cotangent: Vec<f32> = (0..logits.len()).map(wave).collect();
    let dx = network.input_gradient(&tape, &cotangent)?;
    let mut gradients = network.gradients()?;
    network.parameter_gradient(&tape, &cotangent, &mut gradients)?;
    let gradients = network.read_gradients(&gradients)?;
    let all = gradients.iter().flatten().copied().collect();
    Ok([logits, dx, all])
}

const IMAGES: usize = 16;

/// An image of soft stripes, another one for every number.
fn pattern(number: usize) -> impl Iterator<Item = f32> {
    let wave = move |i: usize| {
        let (y, x, c) = (i / 96, i / 3 % 32, i % 3);
        let phase = (number * (c + 1)) as f32 + (x * (number % 5 + 1)) as f32 * 0.2;
        0.5 + 0.4 * (phase + (y * (number % 3 + 1)) as f32 * 0.3).sin()
    };
    (0..32 * 32 * 3).map(wave)
}

/// Largest difference.
fn largest(a: &[f32], b: &[f32]) -> f64 {
    let differences = a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs()));
    differences.fold(0.0, f64::max)
}

/// `|a - b| / |b|`.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let mut difference = a.iter().zip(b).map(|(a, b)| f64::from(a - b));
    norm(&mut difference) / norm(&mut b.iter().map(|&b| f64::from(b)))
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [architecture, rest @ ..] = words.as_slice() else {
        return Err("accuracy ARCH [WEIGHTS]".into());
    };
    let task = Task::new(Shape::new(32, 32, 3), 10);
    let model = match rest.first() {
        None => Model::initialised(build(architecture, &task)?, 0, ModelInfo::default()),
        Some(path) => {
            let options = LoadOptions {
                architecture: Some((architecture.clone(), task)),
                ..LoadOptions::default()
            };
            load(Path::new(path), &options)?.model
        }
    };
    let pool = rayon::ThreadPoolBuilder::new().build()?;
    let (cpu, plain) = (
        Cpu::new(&model, Arc::new(pool)),
        Reference::<f64>::new(&model),
    );
    let images: Vec<f32> = (0..IMAGES).flat_map(pattern).collect();
    let (mut logits, mut inputs, mut parameters) = (0.0_f64, vec![], vec![]);
    for image in images.chunks(images.len() / IMAGES) {
        let [a, b] = [
            derivatives(&cpu, image, Mode::Eval)?,
            derivatives(&plain, image, Mode::Eval)?,
        ];
        logits = logits.max(largest(&a[0], &b[0]));
        inputs.push(distance(&a[1], &b[1]));
        parameters.push(distance(&a[2], &b[2]));
    }
    println!("eval:  logits {logits:.1e}");
    for (name, mut all) in [("input", inputs), ("parameters", parameters)] {
        all.sort_by(f64::total_cmp);
        let all: Vec<String> = all.iter().map(|d| format!("{d:.0e}")).collect();
        println!("       gradients, {name}: {}", all.join(" "));
    }
    let [a, b] = [
        derivatives(&cpu, &images, Mode::Train)?,
        derivatives(&plain, &images, Mode::Train)?,
    ];
    println!(
        "train: logits {:.1e}, gradients, input: {:.0e}, parameters: {:.0e}",
        largest(&a[0], &b[0]),
        distance(&a[1], &b[1]),
        distance(&a[2], &b[2]),
    );
    Ok(())
}
