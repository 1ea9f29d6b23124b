//! The loop: epochs, batches, schedule, checkpoints, records.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use data::{Augment, Dataset, Loader, LoaderOptions};
use network::{Differentiable, Gradients};
use record::TableWriter;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{self, State};
use crate::error::TrainError;
use crate::evaluate::evaluate;
use crate::methods::{Method, Position};
use crate::observer::{EpochReport, Observer, Progress};
use crate::schedule::Schedule;
use crate::sgd::{Sgd, SgdParams};

/// Name of the finished model in a run folder.
pub const MODEL_FILE: &str = "model.safetensors";
/// Name of the table of epochs in a run folder.
pub const EPOCHS_FILE: &str = "epochs.tsv";
/// Name of the checkpoint in a run folder.
pub const CHECKPOINT_FILE: &str = "checkpoint.safetensors";

/// Everything about a run that is not the method's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Passes over the data.
    pub epochs: u32,
    /// Images a step.
    pub batch_size: usize,
    /// Base learning rate.
    pub lr: f64,
    /// Factor on it over time.
    pub schedule: Schedule,
    /// Epochs over which the rate first rises from 0; may be a fraction.
    pub warmup_epochs: f64,
    /// Momentum, decay, clipping.
    pub sgd: SgdParams,
    /// Variations of the training images.
    pub augment: Augment,
    /// How many images at the end of the data are kept out of training, so
    /// that choices can be made on them rather than on test images.
    #[serde(default)]
    pub hold_out: usize,
    /// Of everything random.
    pub seed: u64,
}

impl Plan {
    /// Refuses nonsense.
    pub fn check(&self) -> Result<(), TrainError> {
        let wrong = |name, expected, got: String| {
            Err(TrainError::Setting {
                name,
                expected,
                got,
            })
        };
        let SgdParams {
            momentum,
            weight_decay,
            clip,
        } = self.sgd;
        if self.epochs == 0 {
            return wrong("epochs", "at least 1", "0".into());
        }
        if self.batch_size < 2 {
            let expected = "at least 2, for batch norm";
            return wrong("batch size", expected, self.batch_size.to_string());
        }
        if !(self.lr > 0.0 && self.lr.is_finite()) {
            return wrong("lr", "a positive number", self.lr.to_string());
        }
        if !(0.0..1.0).contains(&momentum) {
            return wrong("momentum", "at least 0 and below 1", momentum.to_string());
        }
        if !(weight_decay >= 0.0 && weight_decay.is_finite()) {
            return wrong("weight decay", "at least 0", weight_decay.to_string());
        }
        if let Some(clip) = clip
            && !(clip > 0.0 && clip.is_finite())
        {
            return wrong("clip", "a positive number", clip.to_string());
        }
        if !(self.warmup_epochs >= 0.0 && self.warmup_epochs <= f64::from(self.epochs)) {
            let expected = "between 0 and the number of epochs";
            return wrong("warm-up epochs", expected, self.warmup_epochs.to_string());
        }
        Ok(())
    }

    /// The images that are trained on.
    pub fn images(&self, data: &Dataset) -> Result<Dataset, TrainError> {
        match data.len().checked_sub(self.hold_out) {
            Some(len) if len >= 2 => Ok(data.first(len)),
            _ => Err(TrainError::Setting {
                name: "hold-out",
                expected: "fewer than the training images",
                got: self.hold_out.to_string(),
            }),
        }
    }

    /// Learning rate after `done` epochs (a fraction within an epoch).
    pub fn rate(&self, done: f64) -> f64 {
        let warm = match self.warmup_epochs {
            warmup if done < warmup => done / warmup,
            _ => 1.0,
        };
        self.lr * warm * self.schedule.factor(done, f64::from(self.epochs))
    }
}

/// Where a run lives and what it learns from.
#[derive(Debug)]
pub struct Run<'a> {
    /// The run folder.
    pub folder: PathBuf,
    /// Images to learn from.
    pub train: &'a Dataset,
    /// Images whose accuracy is logged after each epoch; nothing is selected on
    /// it.
    pub test: Option<&'a Dataset>,
    /// Time between two checkpoints within an epoch.
    pub checkpoint_every: Duration,
    /// Which leg of the run this is.
    pub leg: Leg,
}

/// A run may have several legs, one network trained after another (the
/// timesteps of heat smoothing), in one folder and one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// From 0.
    pub number: u32,
    /// Of how many.
    pub of: u32,
}

impl Leg {
    /// The only one.
    pub const ONLY: Self = Self { number: 0, of: 1 };

    /// Name of this leg's checkpoint.
    pub fn checkpoint(&self) -> String {
        match self.of {
            1 => CHECKPOINT_FILE.into(),
            _ => format!("timestep-{}-{CHECKPOINT_FILE}", self.number + 1),
        }
    }
}

/// Trains `network` in place, resuming from the folder's checkpoint if there is
/// one. The result is a pure function of the network, the method, the plan and
/// the data: not of threads, checkpoints or interruptions.
pub fn train<N: Differentiable>(
    network: &mut N,
    method: &mut dyn Method<N>,
    plan: &Plan,
    run: &Run<'_>,
    observer: &mut dyn Observer,
) -> Result<(), TrainError> {
    plan.check()?;
    matches(network, run.train)?;
    let images = plan.images(run.train)?;
    let mut epochs = Epochs::open(&run.folder, method.columns(), run.test.is_some())?;
    let path = run.folder.join(run.leg.checkpoint());
    let before = run.leg.number * plan.epochs;
    let mut sgd = Sgd::new(network.graph(), plan.sgd);
    let mut state = match checkpoint::load(&path, network, &mut sgd)? {
        Some(state) => {
            observer.resumed(&run.leg, state.step);
            state
        }
        None => State::default(),
    };
    let mut gradients = Gradients::zeros(network.graph());
    while state.epoch < plan.epochs {
        epoch(
            network,
            method,
            plan,
            (run, &images),
            observer,
            (&mut sgd, &mut gradients, &mut state),
        )?;
        let test = match run.test {
            Some(test) => Some(evaluate(network, test, None, 0..test.len(), |_| {})?.top1()),
            None => None,
        };
        let report = epochs.append(plan, method.columns(), (before, &state), test)?;
        observer.epoch(&report);
        state = State {
            epoch: state.epoch + 1,
            step: state.step,
            ..State::default()
        };
        checkpoint::save(&path, network, &sgd, &state)?;
    }
    Ok(())
}

/// The batches of one epoch that are still to do.
fn epoch<N: Differentiable>(
    network: &mut N,
    method: &mut dyn Method<N>,
    plan: &Plan,
    (run, images): (&Run<'_>, &Dataset),
    observer: &mut dyn Observer,
    (sgd, gradients, state): (&mut Sgd, &mut Gradients, &mut State),
) -> Result<(), TrainError> {
    // A last batch of a single image would have no variance to normalise by.
    let drop_last = images.len() % plan.batch_size == 1;
    let options = LoaderOptions {
        augment: plan.augment,
        start_batch: state.batch,
        drop_last,
        ..LoaderOptions::training(
            plan.batch_size,
            images,
            plan.seed,
            u64::from(run.leg.number * plan.epochs + state.epoch),
        )
    };
    let mut loader = Loader::new(images, options)?;
    let batches = state.batch + loader.remaining();
    let mut clock = Instant::now();
    let mut saved = Instant::now();
    while let Some(batch) = loader.next().transpose()? {
        let position = Position {
            seed: plan.seed,
            epoch: run.leg.number * plan.epochs + state.epoch,
            step: state.step,
        };
        gradients.clear();
        let measured = method.step(network, &batch, position, gradients)?;
        let not_finite = |what, value| TrainError::NotFinite {
            what,
            value,
            step: position.step,
            epoch: position.epoch + 1,
        };
        if !measured[0].is_finite() {
            return Err(not_finite("the loss", measured[0]));
        }
        let done = f64::from(state.epoch) + batch.number as f64 / batches as f64;
        let graph = network.graph().clone();
        let rate = plan.rate(done) as f32;
        let norm = sgd.step(&graph, rate, gradients, network.parameters_mut());
        if !norm.is_finite() {
            return Err(not_finite("the gradient's norm", norm));
        }
        state.add(&measured, batch.labels.len());
        state.seconds += clock.elapsed().as_secs_f64();
        clock = Instant::now();
        let progress = Progress {
            epoch: run.leg.number * plan.epochs + state.epoch + 1,
            epochs: run.leg.of * plan.epochs,
            step: u64::from(run.leg.number * plan.epochs) * batches as u64 + state.step,
            steps: u64::from(run.leg.of * plan.epochs) * batches as u64,
            loss: state.sums[0] / state.images as f64,
        };
        let stop = observer.step(&progress).is_break();
        if stop || (saved.elapsed() >= run.checkpoint_every && state.batch < batches) {
            checkpoint::save(&run.folder.join(run.leg.checkpoint()), network, sgd, state)?;
            saved = Instant::now();
        }
        if stop {
            return Err(TrainError::Stopped);
        }
        loader.recycle(batch);
    }
    Ok(())
}

impl State {
    fn add(&mut self, measured: &[f64], images: usize) {
        self.sums.resize(measured.len(), 0.0);
        for (sum, m) in self.sums.iter_mut().zip(measured) {
            *sum += m * images as f64;
        }
        self.images += images as u64;
        self.batch += 1;
        self.step += 1;
    }
}

/// Do network and data belong together?
fn matches<N: Differentiable>(network: &N, data: &Dataset) -> Result<(), TrainError> {
    let input = network.input();
    let [height, width, channels] = data.shape();
    let shape = network::Shape::new(height, width, channels);
    if input != shape || network.classes() < data.classes().len() {
        return Err(TrainError::Mismatch {
            network: format!("{input} and has {} classes", network.classes()),
            data: format!("{shape} with {} classes", data.classes().len()),
        });
    }
    Ok(())
}

/// The table of epochs.
struct Epochs {
    writer: TableWriter,
    rows: usize,
}

impl Epochs {
    fn open(folder: &Path, columns: &[&'static str], test: bool) -> Result<Self, TrainError> {
        let mut names = vec!["epoch", "lr"];
        names.extend(columns);
        names.extend(test.then_some("test_accuracy"));
        names.push("seconds");
        let (writer, found) = TableWriter::open(&folder.join(EPOCHS_FILE), &names)?;
        let rows = found.table.lines().count();
        Ok(Self { writer, rows })
    }

    /// Appends the row of the epoch just done, unless a killed run already did.
    fn append(
        &mut self,
        plan: &Plan,
        columns: &[&'static str],
        (before, state): (u32, &State),
        test: Option<f64>,
    ) -> Result<EpochReport, TrainError> {
        let epoch = before + state.epoch + 1;
        let means = state.sums.iter().map(|sum| sum / state.images as f64);
        let mut values = vec![("lr", plan.rate(f64::from(state.epoch)))];
        values.extend(columns.iter().copied().zip(means));
        values.extend(test.map(|t| ("test_accuracy", t)));
        values.push(("seconds", state.seconds));
        if self.rows < epoch as usize {
            let numbers = values.iter().map(|(_, v)| record::format_number(*v));
            let cells: Vec<String> = std::iter::once(epoch.to_string()).chain(numbers).collect();
            self.writer.append(&cells)?;
            self.rows += 1;
        }
        Ok(EpochReport { epoch, values })
    }
}
