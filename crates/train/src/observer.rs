//! How a run reports: libraries know no terminal.

use std::ops::ControlFlow;

use crate::methods::Leg;

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainProgress {
    /// Epoch under way, from 1.
    pub epoch: u32,
    /// Epochs in total.
    pub epochs: u32,
    /// Steps done in the whole run.
    pub step: u64,
    /// Steps of the whole run.
    pub steps: u64,
    /// Mean loss of this epoch so far.
    pub loss: f64,
}

/// What an epoch came to: the row of `epochs.tsv`.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochReport {
    /// Epoch, from 1.
    pub epoch: u32,
    /// Names and values in the order of the table.
    pub values: Vec<(&'static str, f64)>,
}

/// Receives progress; may stop the run.
pub trait TrainObserver {
    /// After every step.
    fn step(&mut self, progress: &TrainProgress) -> ControlFlow<()> {
        let _ = progress;
        ControlFlow::Continue(())
    }

    /// After every epoch.
    fn epoch(&mut self, report: &EpochReport) {
        let _ = report;
    }

    /// A run continues from a checkpoint.
    fn resumed(&mut self, leg: &Leg, step: u64) {
        let _ = (leg, step);
    }
}

/// Says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl TrainObserver for Silent {}
