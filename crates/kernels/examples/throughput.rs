//! GFLOP/s of the convolution kernels on one thread, by shape and algorithm.
//!
//! `cargo run --release -p heatsmooth-kernels --example throughput [filter]`
//!
//! Work is counted as for the direct algorithm (two operations per
//! multiply-accumulate), so that Winograd's figures are comparable and may
//! exceed the machine's peak.

use heatsmooth_kernels::buffer::Buffer;
use heatsmooth_kernels::conv::{Algorithm, Conv, Epilogue};
use heatsmooth_kernels::geometry::{ConvShape, Shape, Window};
use heatsmooth_kernels::isa::Isa;
use std::time::{Duration, Instant};

/// Seconds of a call in the best of several rounds of a millisecond or more.
fn seconds(mut f: impl FnMut()) -> f64 {
    f();
    let once = Instant::now();
    f();
    let repeat = (1e-3 / once.elapsed().as_secs_f64()).ceil().max(1.0) as u32;
    let rounds = (0..15).map(|_| {
        let start = Instant::now();
        (0..repeat).for_each(|_| f());
        start.elapsed() / repeat
    });
    rounds.min().unwrap_or(Duration::MAX).as_secs_f64()
}

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    // Side, input channels, output channels, window, stride, images.
    let shapes = [
        (32, 3, 16, 3, 1, 4),
        (32, 16, 16, 3, 1, 1),
        (32, 16, 16, 3, 1, 4),
        (32, 16, 32, 3, 2, 4),
        (32, 16, 32, 1, 1, 4),
        (16, 32, 32, 3, 1, 1),
        (16, 32, 32, 3, 1, 4),
        (16, 32, 64, 3, 2, 4),
        (16, 32, 64, 1, 1, 4),
        (8, 64, 64, 3, 1, 1),
        (8, 64, 64, 3, 1, 4),
        (8, 64, 64, 3, 1, 8),
        (32, 64, 64, 3, 1, 2),
        (16, 128, 128, 3, 1, 4),
        (8, 256, 256, 3, 1, 8),
        (4, 512, 512, 3, 1, 16),
        (224, 3, 64, 7, 2, 1),
        (56, 64, 64, 1, 1, 2),
        (56, 64, 256, 1, 1, 2),
        (56, 256, 64, 1, 1, 2),
        (56, 64, 64, 3, 1, 2),
        (28, 512, 128, 1, 1, 2),
        (28, 128, 512, 1, 1, 2),
        (28, 128, 128, 3, 1, 2),
        (56, 128, 128, 3, 2, 2),
        (14, 1024, 256, 1, 1, 4),
        (14, 256, 1024, 1, 1, 4),
        (14, 256, 256, 3, 1, 4),
        (28, 256, 256, 3, 2, 4),
        (7, 2048, 512, 1, 1, 8),
        (7, 512, 2048, 1, 1, 8),
        (7, 512, 512, 3, 1, 8),
        (14, 512, 512, 3, 2, 4),
    ];
    let isa = Isa::detect();
    println!("{isa}; chosen algorithms are starred");
    for (side, inputs, outputs, kernel, stride, images) in shapes {
        let shape = ConvShape {
            input: Shape::new(side, side, inputs),
            out_channels: outputs,
            window: Window::square(kernel, stride, kernel / 2),
            groups: 1,
        };
        let name = format!("{side}x{side}x{inputs}->{outputs} k{kernel} s{stride} n{images}");
        if !name.contains(&filter) {
            continue;
        }
        print!("{name:32}");
        let weights: Vec<f32> = (0..shape.weights())
            .map(|i| ((i * 7919) % 1000) as f32 * 1e-3 - 0.5)
            .collect();
        let mut x = Buffer::zeroed(images * shape.input.len());
        x.fill(0.5);
        let mut y = Buffer::zeroed(images * shape.output().len());
        let residual = y.clone();
        let bias = vec![0.1; outputs];
        for algorithm in Algorithm::ALL {
            if !algorithm.can(&shape) {
                continue;
            }
            let conv = Conv::with_algorithm(isa, shape, &weights, algorithm);
            let mut scratch = Buffer::zeroed(conv.scratch_len(images));
            let epilogue = Epilogue {
                bias: Some(&bias),
                residual: Some(&residual),
                relu: true,
            };
            let time = seconds(|| conv.run(images, &x, epilogue, &mut y, &mut scratch));
            let rate = 2e-9 * (images as u64 * shape.macs()) as f64 / time;
            let star = if algorithm == Algorithm::choose(&shape) {
                "*"
            } else {
                " "
            };
            print!("  {algorithm:?}{star} {rate:6.1}");
        }
        println!();
    }
}
