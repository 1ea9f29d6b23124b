//! The memory of a heat step does not grow with kappa, as the operating system
//! sees it. A binary of its own: other tests would raise the peak of the process.
#![cfg(target_os = "linux")]

use std::sync::Arc;

use network::architecture::{Task, build};
use network::{Cpu, DeviceError, Executor, Images, Model, Noise, Purpose, Shape};
use train::methods::{Fit, Heat, HeatParams, Scale, Start};
use train::{Leg, LegContext, Method, Position};

fn params(kappa: u32) -> HeatParams {
    HeatParams {
        lambda: 5.0,
        timesteps: 1,
        kappa,
        fd_step: 0.1,
        fit: Fit::L2,
        start: Start::Warm,
        scale: Scale::Unbiased,
        scale_free: true,
        noisy_share: 0.0,
        keep_iterates: false,
    }
}

/// Peak resident memory of this process, in KiB.
fn peak_resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

/// After a step with one projection, steps with twenty need no more memory. Each
/// tape that were kept would be visible.
#[test]
fn the_process_does_not_grow_with_kappa() {
    let graph = build("smallcnn", &Task::new(Shape::new(32, 32, 3), 10)).unwrap();
    let model = Model::initialised(graph, 1, Default::default());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    let pool = Arc::new(pool.unwrap());
    let load = |model: &Model| -> Result<Box<dyn Executor>, DeviceError> {
        Ok(Box::new(Cpu::new(model, Arc::clone(&pool))))
    };
    let (images, len) = (64, 32 * 32 * 3);
    let noise = Noise::gaussian(0, Purpose::Bench, 0.3);
    let batch = Images {
        shape: Shape::new(32, 32, 3),
        indices: (0..images).collect(),
        pixels: noise.draw(0, 0, images as usize * len),
        labels: vec![0; images as usize],
        values: vec![],
    };
    let mut student = load(&model).unwrap();
    let mut gradients = student.gradients().unwrap();
    let mut peaks = Vec::new();
    for kappa in [1, 20] {
        let mut heat = Heat::new(0.25, params(kappa)).unwrap();
        let stage = LegContext {
            load: &load,
            images: &batch,
            seed: 0,
        };
        heat.begin(Leg { number: 0, of: 1 }, &model, &stage)
            .unwrap();
        for step in 0..2 {
            let position = Position {
                seed: 0,
                epoch: 0,
                step,
            };
            heat.step_alone(&mut *student, &batch, position, &mut gradients)
                .unwrap();
        }
        peaks.push(peak_resident());
    }
    // The output of the first convolution alone: a tape keeps more.
    let tape = u64::from(images) * 32 * 32 * 16 * 4 / 1024;
    assert!(peaks[1] - peaks[0] < 2 * tape, "{peaks:?} KiB");
}
