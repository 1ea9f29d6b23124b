//! How the library reports: it knows no terminal.

use std::ops::ControlFlow;
use std::time::Duration;

use train::{EpochReport, Leg, TrainObserver, TrainProgress};

/// Hears how far a piece of work is, and may stop it.
pub trait Observer {
    /// Work of `total` units begins, of which an earlier run did `done`.
    fn begin(&mut self, what: &str, total: u64, done: u64) {
        let _ = (what, total, done);
    }

    /// So many units are done; `note` says something about them. Breaking stops
    /// the work, which can be resumed.
    fn progress(&mut self, done: u64, note: &dyn Fn() -> String) -> ControlFlow<()> {
        let _ = (done, note);
        ControlFlow::Continue(())
    }

    /// The work that began last has ended.
    fn end(&mut self) {}

    /// What a single epoch came to: worth a line for who watches this one run.
    fn epoch(&mut self, text: &str) {
        let _ = text;
    }

    /// Something worth knowing.
    fn note(&mut self, text: &str) {
        let _ = text;
    }

    /// Something a careful reader of the result must know.
    fn warning(&mut self, text: &str) {
        let _ = text;
    }

    /// A stage of an experiment begins, or the last one has ended.
    fn stage(&mut self, stage: Option<&StageProgress>) {
        let _ = stage;
    }
}

/// Where in an experiment a stage is. Work is counted in forward passes of one
/// image, roughly.
#[derive(Clone, Debug, PartialEq)]
pub struct StageProgress {
    /// `[2/9] heat: certify`.
    pub name: String,
    /// Its work.
    pub here: f64,
    /// Work of the stages behind it.
    pub after: f64,
    /// Work that this run did before it, and how long that took.
    pub done: (f64, Duration),
}

/// Says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Observer for Quiet {}

/// Passes what a training run says on, and remembers its last epoch.
pub(crate) struct TrainingRun<'a> {
    observer: &'a mut dyn Observer,
    begun: bool,
    resumed: bool,
    pub last: Option<EpochReport>,
}

impl<'a> TrainingRun<'a> {
    pub fn new(observer: &'a mut dyn Observer) -> Self {
        Self {
            observer,
            begun: false,
            resumed: false,
            last: None,
        }
    }

    pub fn finish(self) -> Option<EpochReport> {
        if self.begun {
            self.observer.end();
        }
        self.last
    }
}

impl TrainObserver for TrainingRun<'_> {
    fn step(&mut self, progress: &TrainProgress) -> ControlFlow<()> {
        if !std::mem::replace(&mut self.begun, true) {
            let before = if self.resumed { progress.step - 1 } else { 0 };
            self.observer.begin("steps", progress.steps, before);
        }
        self.observer.progress(progress.step, &|| {
            format!(
                "epoch {}/{} loss {:.4}",
                progress.epoch, progress.epochs, progress.loss
            )
        })
    }

    fn epoch(&mut self, report: &EpochReport) {
        let values = report.values.iter();
        let values: Vec<String> = values.map(|(name, v)| format!("{name} {v:.4}")).collect();
        let text = format!("epoch {}: {}", report.epoch, values.join(", "));
        self.observer.epoch(&text);
        self.last = Some(report.clone());
    }

    fn resumed(&mut self, leg: &Leg, step: u64) {
        self.resumed = true;
        self.observer.note(&match leg.of {
            1 => format!("resuming at step {step}"),
            of => format!(
                "resuming timestep {} of {of} at step {step}",
                leg.number + 1
            ),
        });
    }
}
