//! Images per second of the CPU executor, for tuning; `heatsmooth bench` is the
//! user's version.
//!
//! `cargo run --release -p heatsmooth-network --example inference NAME [side] [batch] [threads]`

use network::architecture::{Task, build};
use network::*;
use std::sync::Arc;
use std::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize, default: usize| {
        args.get(i)
            .map_or(default, |a| a.parse().expect("a number"))
    };
    let name = args.get(1).map_or("resnet20-cifar", String::as_str);
    let (side, batch, threads) = (number(2, 32), number(3, 128), number(4, 2));
    let graph = build(name, &Task::new(Shape::new(side, side, 3), 10)).expect("a network");
    let model = Model::initialised(graph, 0, ModelInfo::default());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let cpu = Cpu::new(&model, Arc::new(pool.expect("threads")));
    let images = vec![0.5; batch * cpu.input().len()];
    let mut logits = vec![0.0; batch * cpu.classes()];
    let noise = Noise {
        seed: 1,
        purpose: Purpose::Bench,
        sigma: 0.1,
    };
    let noisy = [NoisyImage {
        pixels: &images[..cpu.input().len()],
        image: 0,
        first_sample: 0,
        count: batch,
    }];
    let mut median = |noisy_too: bool| {
        let mut times: Vec<f64> = (0..12)
            .map(|_| {
                let start = Instant::now();
                if noisy_too {
                    cpu.noisy_logits(&noise, &noisy, &mut logits);
                } else {
                    cpu.logits(&images, &mut logits);
                }
                start.elapsed().as_secs_f64()
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (plain, with_noise) = (median(false), median(true));
    let gflop = 2e-9 * model.graph.macs() as f64 * batch as f64;
    println!(
        "{name} {side}x{side} batch {batch} threads {threads}: {:.1} images/s ({:.0} GFLOP/s), noisy {:.1}, {:.3} ms a batch",
        batch as f64 / plain,
        gflop / plain,
        batch as f64 / with_noise,
        1e3 * plain
    );
}
