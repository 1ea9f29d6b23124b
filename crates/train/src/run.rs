//! The loop: legs, epochs, batches, checkpoints, records.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use data::{BatchPart, Dataset, Loader, LoaderOptions, Targets};
use network::{Collective, Executor, Gradients, Graph, Images, Load, Model, NormSharing, TaskKind};
use record::TsvWriter;

use crate::checkpoint::{self, State};
use crate::error::TrainError;
use crate::evaluate::{evaluate, evaluate_values};
use crate::methods::{Leg, LegContext, Method, Position};
use crate::minibatch::Minibatch;
use crate::observer::{EpochReport, TrainObserver, TrainProgress};
use crate::ranks;
use crate::training::Training;

/// Name of the finished model in a run folder.
pub const MODEL_FILE: &str = "model.safetensors";
/// Name of the table of epochs in a run folder.
pub const EPOCHS_FILE: &str = "epochs.tsv";
/// Name of the checkpoint in a run folder.
pub const CHECKPOINT_FILE: &str = "checkpoint.safetensors";

/// Clean training images that a method may look at when a leg begins.
const FIRST_IMAGES: usize = 512;

/// Where a run lives, what it learns from, and how.
pub struct Run<'a> {
    /// The run folder.
    pub folder: &'a Path,
    /// Images to learn from.
    pub train: &'a Dataset,
    /// Images whose accuracy (of real values: whose error) is logged after each
    /// epoch; nothing is selected on it.
    pub test: Option<&'a Dataset>,
    /// Epochs, batches, learning rate, ...
    pub training: &'a Training,
    /// Of everything random.
    pub seed: u64,
    /// Puts a model on the device of the run.
    pub load: Load<'a>,
    /// The processes that train together; only rank 0 writes.
    pub ranks: Arc<dyn Collective>,
}

impl Run<'_> {
    /// Whether this process writes.
    fn writes(&self) -> bool {
        self.ranks.rank() == 0
    }
}

impl Leg {
    /// Name of this leg's checkpoint.
    pub fn checkpoint(&self) -> String {
        match self.of {
            1 => CHECKPOINT_FILE.into(),
            _ => format!("timestep-{}-{CHECKPOINT_FILE}", self.number + 1),
        }
    }

    /// Name of the model that this leg ends with, `f^k` of the paper.
    pub fn model(&self) -> String {
        format!("f{}.safetensors", self.number + 1)
    }
}

/// Trains a copy of `start`, resuming from what is in the folder. The result is a
/// pure function of the model, the method, the settings and the data: not of
/// threads, checkpoints or interruptions. Several ranks share each minibatch; how many
/// they are changes the order of sums, and a run may go on with another number.
///
/// # Errors
/// Settings, data or a checkpoint that make no sense; a device or disk that
/// fails; a run that diverges or is stopped.
pub fn train(
    start: &Model,
    method: &mut dyn Method,
    run: &Run<'_>,
    observer: &mut dyn TrainObserver,
) -> Result<Model, TrainError> {
    run.training.check()?;
    ranks::check_batch(&*run.ranks, run.training.batch_size)?;
    matches(start, run.train)?;
    let measures = Measures::of(start.info.task, method, run.train)?;
    let images = run.training.images(run.train)?;
    let first = images.images(0..images.len().min(FIRST_IMAGES) as u32)?;
    let stage = LegContext {
        load: run.load,
        images: &first,
        seed: run.seed,
    };
    let of = method.legs();
    let mut model = start.clone();
    for number in 0..of {
        let leg = Leg { number, of };
        let file = run.folder.join(leg.model());
        if let Some(done) = read_leg(&file, start, &*run.ranks)? {
            model = done;
            continue;
        }
        let student = method.begin(leg, &model, &stage)?;
        let mut network = (run.load)(&student)?;
        network.share_norms(run.training.rank_norms.sharing(&run.ranks))?;
        let here = (run, &images, leg);
        train_leg(&mut *network, method, here, measures, observer)?;
        model = Model {
            parameters: network.parameters()?,
            ..student
        };
        if run.writes() {
            let bytes = model.to_bytes();
            // First the sum: without its model it is nothing, and is written again.
            let sum = network::file::sha256(&bytes);
            record::atomic::write(&sum_of(&file), sum.as_bytes())?;
            record::atomic::write(&file, &bytes)?;
            remove(&run.folder.join(leg.checkpoint()))?;
        }
    }
    Ok(model)
}

/// Removes what only resuming needed, once the finished model is on disk.
///
/// # Errors
/// A file that cannot be removed.
pub fn tidy(folder: &Path, method: &dyn Method) -> Result<(), TrainError> {
    let of = method.legs();
    let legs = (0..of).map(|number| Leg { number, of });
    for file in legs.map(|leg| folder.join(leg.model())) {
        remove(&sum_of(&file))?;
        if !method.keeps_legs() {
            remove(&file)?;
        }
    }
    Ok(())
}

/// The file with the SHA-256 of a leg's model: a flipped bit must not be trained on.
fn sum_of(file: &Path) -> PathBuf {
    file.with_extension("sha256")
}

/// What is logged of every epoch.
#[derive(Clone, Copy)]
struct Measures {
    task: TaskKind,
    /// What steps measure.
    columns: &'static [&'static str],
    /// What is measured on test images.
    test: &'static str,
    /// Nothing is known about the images.
    unlabelled: bool,
}

/// What cannot be measured on images without labels.
const NEEDS_LABELS: &str = "train_accuracy";

impl Measures {
    fn of(task: TaskKind, method: &dyn Method, data: &Dataset) -> Result<Self, TrainError> {
        let (columns, test) = match task {
            TaskKind::Classification => (method.columns(), "test_accuracy"),
            TaskKind::Regression => {
                let columns = method.value_columns();
                let columns = columns.map_err(|what| TrainError::Classes { what })?;
                (columns, "test_rmse")
            }
        };
        Ok(Self {
            task,
            columns,
            test,
            unlabelled: matches!(data.targets(), Targets::Unknown),
        })
    }

    /// Every rank looks at a part of the images.
    fn measure(
        &self,
        network: &dyn Executor,
        test: &Dataset,
        ranks: &dyn Collective,
    ) -> Result<f64, TrainError> {
        let part = ranks::part(ranks, test.len());
        let (images, sum) = match self.task {
            TaskKind::Classification => {
                let found = evaluate(network, test, None, part, |_| {})?;
                (found.images, found.top1 as f64)
            }
            TaskKind::Regression => {
                let found = evaluate_values(network, test, None, part, |_| {})?;
                (found.images, found.square_sum())
            }
        };
        let mut sums = [images as f64, sum];
        ranks.sum_wide(&mut sums)?;
        let [images, sum] = [sums[0].max(1.0), sums[1]];
        Ok(match self.task {
            TaskKind::Classification => sum / images,
            TaskKind::Regression => (sum / (network.classes() as f64 * images)).sqrt(),
        })
    }
}

/// One network, from its first step to its last.
fn train_leg(
    network: &mut dyn Executor,
    method: &mut dyn Method,
    (run, images, leg): (&Run<'_>, &Dataset, Leg),
    measures: Measures,
    observer: &mut dyn TrainObserver,
) -> Result<(), TrainError> {
    let training = run.training;
    let mut epochs = match run.writes() {
        true => Some(Epochs::open(run.folder, measures, run.test.is_some())?),
        false => None,
    };
    let path = run.folder.join(leg.checkpoint());
    let mut state = match checkpoint::load(&path, network, &*run.ranks)? {
        Some(state) => {
            method.restore(&state.method)?;
            observer.resumed(&leg, state.step);
            state
        }
        None => State::default(),
    };
    let mut gradients = network.gradients()?;
    while state.epoch < training.epochs {
        let here = (run, images, leg);
        epoch(
            network,
            method,
            here,
            observer,
            (&mut gradients, &mut state),
        )?;
        let test = match run.test {
            Some(test) => Some(measures.measure(network, test, &*run.ranks)?),
            None => None,
        };
        let before = leg.number * training.epochs;
        let report = report(training, measures, (before, &state), test);
        if let Some(epochs) = &mut epochs {
            epochs.append(&report)?;
        }
        observer.epoch(&report);
        state = State {
            epoch: state.epoch + 1,
            step: state.step,
            method: method.save(),
            ..State::default()
        };
        if run.writes() {
            checkpoint::save(&path, network, &state)?;
        }
    }
    Ok(())
}

/// The batches of one epoch that are still to do.
fn epoch(
    network: &mut dyn Executor,
    method: &mut dyn Method,
    (run, images, leg): (&Run<'_>, &Dataset, Leg),
    observer: &mut dyn TrainObserver,
    (gradients, state): (&mut Gradients, &mut State),
) -> Result<(), TrainError> {
    let training = run.training;
    let before = leg.number * training.epochs;
    // A last batch of a single image would have no variance to normalise by.
    let drop_last = images.len() % training.batch_size == 1;
    let number = u64::from(before + state.epoch);
    let options = LoaderOptions {
        augment: training.augmentation(images),
        start_batch: state.batch,
        drop_last,
        part: (run.ranks.size() > 1).then(|| BatchPart {
            index: run.ranks.rank(),
            of: run.ranks.size(),
        }),
        ..LoaderOptions::training(training.batch_size, images, run.seed, number)
    };
    let mut loader = Loader::new(images, options.clone())?;
    let batches = state.batch + loader.remaining();
    let mut clock = Instant::now();
    let mut saved = Instant::now();
    let part = options.part;
    while let Some(mut batch) = loader.next().transpose()? {
        let position = Position {
            seed: run.seed,
            epoch: before + state.epoch,
            step: state.step,
        };
        let count = training
            .batch_size
            .min(images.len() - state.batch * training.batch_size);
        let places = part.and_then(|part| part.places(count));
        let next = match &places {
            Some(_) => take_last(&mut batch),
            None => Vec::new(),
        };
        let minibatch = match &places {
            Some(places) => Minibatch::part(&batch, &next, places.start, count),
            None => Minibatch::repeated(&batch, run.ranks.size()),
        };
        if part.is_some() && places.is_none() {
            // All ranks pass the same images: there is nothing to share.
            network.share_norms(NormSharing::Alone)?;
        }
        let mut measured = method.step(network, &minibatch, position, gradients)?;
        if part.is_some() {
            network.sum_gradients(gradients, &*run.ranks)?;
            run.ranks.sum_wide(&mut measured)?;
        }
        if part.is_some() && places.is_none() {
            network.share_norms(training.rank_norms.sharing(&run.ranks))?;
        }
        let measured = method.finish(measured, position)?;
        let not_finite = |what, value| TrainError::NotFinite {
            what,
            value,
            step: position.step,
            epoch: position.epoch + 1,
        };
        if !measured[0].is_finite() {
            return Err(not_finite("the loss", measured[0]));
        }
        let done = f64::from(state.epoch) + state.batch as f64 / batches as f64;
        let norm = network.optimise(&training.step(done), gradients)?;
        if !norm.is_finite() {
            return Err(not_finite("the gradient's norm", norm));
        }
        state.add(&measured, count);
        state.seconds += clock.elapsed().as_secs_f64();
        clock = Instant::now();
        let progress = TrainProgress {
            epoch: before + state.epoch + 1,
            epochs: leg.of * training.epochs,
            step: u64::from(before) * batches as u64 + state.step,
            steps: u64::from(leg.of * training.epochs) * batches as u64,
            loss: state.sums[0] / state.images as f64,
        };
        let mut stops = [f64::from(u8::from(observer.step(&progress).is_break()))];
        // All ranks stop together, whichever is asked to.
        run.ranks.sum_wide(&mut stops)?;
        let stop = stops[0] > 0.0;
        if stop || (saved.elapsed() >= training.checkpoint_every() && state.batch < batches) {
            state.method = method.save();
            if run.writes() {
                checkpoint::save(&run.folder.join(leg.checkpoint()), network, state)?;
            }
            saved = Instant::now();
        }
        if stop {
            return Err(TrainError::Stopped);
        }
        loader.recycle(batch);
    }
    Ok(())
}

/// Takes the last image out of a batch, and gives its pixels.
fn take_last(batch: &mut Images) -> Vec<f32> {
    let last = batch.len() - 1;
    let width = batch.values_of(0).len();
    batch.values.truncate(last * width);
    batch.indices.truncate(last);
    batch.labels.truncate(last);
    batch.pixels.split_off(last * batch.shape.len())
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
fn matches(model: &Model, data: &Dataset) -> Result<(), TrainError> {
    let (input, shape, outputs) = (model.graph.input(), data.shape(), model.graph.classes());
    let (what, wanted, fits) = match data.targets() {
        Targets::Classes { names, .. } => ("classes", names.len(), names.len() <= outputs),
        Targets::Values { names, .. } => ("values", names.len(), names.len() == outputs),
        Targets::Unknown => ("values", outputs, true),
    };
    if input != shape || !fits {
        return Err(TrainError::Mismatch {
            network: format!("{input} and has {outputs} {what}"),
            data: format!("{shape} with {wanted} {what}"),
        });
    }
    Ok(())
}

/// The model of a leg that an earlier run finished.
fn read_leg(
    file: &Path,
    start: &Model,
    ranks: &dyn Collective,
) -> Result<Option<Model>, TrainError> {
    let damaged = |reason: String| TrainError::Checkpoint {
        path: file.into(),
        reason,
    };
    let read = |file: &Path| {
        let bytes = network::file::read_bytes(file).map_err(|e| damaged(e.to_string()))?;
        // Runs of earlier versions have no sums.
        let sum = std::fs::read(sum_of(file));
        if sum.is_ok_and(|sum| sum != network::file::sha256(&bytes).as_bytes()) {
            let reason = "some of its bits have changed since it was written".into();
            return Err(damaged(reason));
        }
        Ok(bytes)
    };
    let Some(bytes) = ranks::read(ranks, file, read)? else {
        return Ok(None);
    };
    let model = Model::from_bytes(&bytes).map_err(|e| damaged(e.to_string()))?;
    let ends = |graph: &Graph| (graph.input(), graph.classes());
    if ends(&model.graph) != ends(&start.graph) {
        return Err(damaged("it is of another network".into()));
    }
    Ok(Some(model))
}

fn remove(file: &PathBuf) -> Result<(), TrainError> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(TrainError::Checkpoint {
            path: file.clone(),
            reason: format!("cannot remove it: {error}"),
        }),
        _ => Ok(()),
    }
}

/// The table of epochs.
struct Epochs {
    writer: TsvWriter,
    rows: usize,
}

impl Epochs {
    fn open(folder: &Path, measures: Measures, test: bool) -> Result<Self, TrainError> {
        let mut names = vec!["epoch", "lr"];
        names.extend(measures.columns);
        names.extend(test.then_some(measures.test));
        names.push("seconds");
        let (writer, found) = TsvWriter::open(&folder.join(EPOCHS_FILE), &names)?;
        let rows = found.table.lines().count();
        Ok(Self { writer, rows })
    }

    /// Appends the row of the epoch just done, unless a killed run already did.
    fn append(&mut self, report: &EpochReport) -> Result<(), TrainError> {
        if self.rows < report.epoch as usize {
            let numbers = report.values.iter();
            let numbers = numbers.map(|(_, v)| record::format_number(*v));
            let epoch = std::iter::once(report.epoch.to_string());
            let cells: Vec<String> = epoch.chain(numbers).collect();
            self.writer.append(&cells)?;
            self.rows += 1;
        }
        Ok(())
    }
}

/// What the epoch just done came to.
fn report(
    training: &Training,
    measures: Measures,
    (before, state): (u32, &State),
    test: Option<f64>,
) -> EpochReport {
    let epoch = before + state.epoch + 1;
    let means = state.sums.iter().map(|sum| sum / state.images as f64);
    let mut values = vec![("lr", training.rate(f64::from(state.epoch)))];
    let columns = measures.columns.iter().copied();
    values.extend(columns.zip(means).map(|(name, mean)| match name {
        NEEDS_LABELS if measures.unlabelled => (name, f64::NAN),
        _ => (name, mean),
    }));
    values.extend(test.map(|t| (measures.test, t)));
    values.push(("seconds", state.seconds));
    EpochReport { epoch, values }
}
