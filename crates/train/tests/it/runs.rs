//! Runs on the digits, and how to stop them.

use std::ops::ControlFlow;
use std::path::Path;

use data::Dataset;
use network::architecture::{Task, build};
use network::{Load, Model, Shape};
use train::methods::{Fit, HeatParams, Scale, Start};
use train::{AugmentChoice, Run, Schedule, TrainObserver, TrainProgress, Training};

/// Stops when the whole run has done this many steps.
pub struct StopAt(pub u64);

impl TrainObserver for StopAt {
    fn step(&mut self, progress: &TrainProgress) -> ControlFlow<()> {
        if progress.step == self.0 {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// A fresh network.
pub fn start() -> Model {
    let graph = build("mlp", &Task::new(Shape::new(8, 8, 1), 10)).unwrap();
    Model::initialised(graph, 3, Default::default())
}

/// Digits are moved by up to a pixel.
pub fn training(epochs: u32, lr: f64) -> Training {
    Training {
        epochs,
        batch_size: 128,
        lr,
        schedule: Schedule::Cosine,
        warmup_epochs: 0.5,
        clip: 1.0,
        augment: AugmentChoice::Auto,
        checkpoint_seconds: 3600.0,
        ..Training::default()
    }
}

/// A run without test images; 1437 images are 12 batches an epoch.
pub fn run<'a>(
    folder: &'a Path,
    data: &'a Dataset,
    training: &'a Training,
    load: Load<'a>,
) -> Run<'a> {
    Run {
        folder,
        train: data,
        test: None,
        training,
        seed: 11,
        load,
        ranks: std::sync::Arc::new(network::Alone),
    }
}

/// Two timesteps of heat smoothing.
pub fn heat_params() -> HeatParams {
    HeatParams {
        lambda: 1.0,
        timesteps: 2,
        kappa: 1,
        fd_step: 0.1,
        fit: Fit::L2,
        start: Start::Warm,
        scale: Scale::Unbiased,
        scale_free: true,
        noisy_share: 0.25,
        keep_iterates: true,
    }
}
