//! Training, once for every method: run folder, resume, checkpoints.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data::{Dataset, Split, Targets};
use exchange::Loaded;
use network::architecture::{self, Task};
use network::{Distribution, Model, ModelInfo, TaskKind};
use record::{ModelId, RanksId, RecordError, RunManifest};
use serde_json::{Map, Value, json};
use settings::{SettingError, Settings as _, Values};
use train::loss::deviations;
use train::{EPOCHS_FILE, MODEL_FILE, RankNorms, Run, Training};

use crate::choice::MethodChoice;
use crate::device::Device;
use crate::error::Error;
use crate::measurements::{DistributionChoice, counted, percent};
use crate::normalise::normalisation;
use crate::observer::{Observer, TrainingRun};
use crate::registry::Registry;
use crate::source::{
    ImageSource, ModelSource, Weights, check_shape, data_id, model_id, needs_targets, notes,
    outputs, with_targets_for,
};

/// The base of an average in a run folder: what is certified by sampling.
pub(crate) const BASE_FILE: &str = "base.safetensors";

/// The network before the first step.
#[derive(Clone, Copy)]
pub enum StartFrom<'a> {
    /// A built-in architecture with random weights.
    Architecture {
        /// Its name.
        name: &'a str,
        /// Input normalisation, as means/stds; `None`: none.
        normalise: Option<&'a str>,
    },
    /// A given model, which is then the parent of the new one.
    Model {
        /// The model.
        loaded: &'a Loaded,
        /// Where it was read from; for people.
        path: &'a Path,
    },
}

impl StartFrom<'_> {
    /// What the outputs of the network are; those of a new one follow the data.
    fn task(&self, train: &Dataset) -> TaskKind {
        match (self, train.targets()) {
            (Self::Model { loaded, .. }, _) => loaded.model.info.task,
            (_, Targets::Values { .. }) => TaskKind::Regression,
            _ => TaskKind::Classification,
        }
    }
}

/// What a run starts from, as users name it.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// A built-in architecture with random weights: its name must be said.
    Architecture(Weights),
    /// A model file or run folder.
    Model(ModelSource),
}

/// Where a run happens: what [`Registry::fit`] needs besides settings.
pub struct Workshop<'a> {
    /// The network before the first step.
    pub origin: &'a Origin,
    /// The data set; its training images are learned from, accuracy on its test
    /// images is logged.
    pub data: &'a dyn ImageSource,
    /// The run folder.
    pub folder: &'a Path,
    /// Of everything random.
    pub seed: u64,
    /// Where it runs.
    pub device: &'a Device,
}

impl Registry {
    /// Trains by the name of a method: the one place where settings, a model and
    /// data become a [`Job`]. Settings that are not among `values` have their
    /// defaults, those of the training the method's own.
    ///
    /// # Errors
    /// As [`fit`]; a name that there is not; a model or data that cannot be read.
    pub fn fit(
        &self,
        method: &str,
        values: &Values,
        workshop: &Workshop<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Fitted, Error> {
        let entry = self.method(method)?;
        let data = workshop.data;
        let arch = match workshop.origin {
            Origin::Architecture(weights) => weights.arch.as_deref(),
            Origin::Model(_) => None,
        };
        let mut all = entry.usual(data.name()?, arch).write();
        all.lay(values.clone());
        let training = Training::read(&all)?;
        training.check()?;
        let (loaded, train) = match workshop.origin {
            Origin::Architecture(weights) => (None, data.open_for(Split::Train, weights)?),
            Origin::Model(source) => {
                let (loaded, train) = source.load_with(data, Split::Train)?;
                (Some(loaded), train)
            }
        };
        let test = data.open(Split::Test, Some(train.shape()))?;
        let start = match (workshop.origin, &loaded) {
            (Origin::Model(source), Some(loaded)) => StartFrom::Model {
                loaded,
                path: &source.path,
            },
            (Origin::Architecture(weights) | Origin::Model(ModelSource { weights, .. }), _) => {
                let name = weights.arch.as_deref();
                StartFrom::Architecture {
                    name: name.ok_or_else(|| SettingError::missing("arch"))?,
                    normalise: weights.normalise.as_deref(),
                }
            }
        };
        let stored = loaded.as_ref().and_then(|loaded| loaded.model.info.sigma);
        if let Some(loaded) = &loaded
            && loaded.model.info.noise != Distribution::Gaussian
            && !all.has("noise")
        {
            // What a model was made for is what it goes on with.
            let noise = DistributionChoice::from(loaded.model.info.noise);
            all.put("noise", &noise);
        }
        let fields = (entry.fields)();
        let has_target = fields.iter().any(|field| field.name == "target");
        if start.task(&train) == TaskKind::Regression && has_target && !all.has("target") {
            // All that real values have.
            all.set_text(&fields, "target", "logits")?;
        }
        let choice = (entry.choose)(&all, stored)?;
        let job = Job {
            start,
            train: &train,
            test: Some(&test),
            training: &training,
            folder: workshop.folder,
            seed: workshop.seed,
            device: workshop.device,
        };
        fit(choice, &job, observer)
    }
}

/// What is trained, on what, how, and where it goes.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The network before the first step.
    pub start: StartFrom<'a>,
    /// Images to learn from.
    pub train: &'a Dataset,
    /// Images whose accuracy is logged; nothing is selected on it. Not measured if
    /// they are the images to learn from.
    pub test: Option<&'a Dataset>,
    /// Epochs, batches, learning rate, ...
    pub training: &'a Training,
    /// The run folder.
    pub folder: &'a Path,
    /// Of everything random.
    pub seed: u64,
    /// Where it runs.
    pub device: &'a Device,
}

/// A finished run.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The model.
    pub model: Model,
    /// Its file.
    pub file: PathBuf,
    /// SHA-256 of the file.
    pub sha256: String,
    /// How it was made.
    pub method: String,
    /// An earlier run had finished it.
    pub already: bool,
    /// Accuracy on the test images after the last epoch, if it was measured here.
    pub test_accuracy: Option<f64>,
    /// Root mean squared error of real values on them, likewise.
    pub test_rmse: Option<f64>,
}

impl Fitted {
    /// Everything but the model as JSON.
    pub fn to_json(&self) -> Value {
        let mut all = json!({
            "model": self.file.display().to_string(), "method": self.method,
            "sha256": self.sha256,
        });
        match self.test_rmse {
            Some(rmse) => all["test_rmse"] = json!(rmse),
            None if !self.already => all["test_accuracy"] = json!(self.test_accuracy),
            None => {}
        }
        all
    }
}

impl fmt::Display for Fitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.method)?;
        if self.already {
            return writeln!(f, ", already made");
        }
        writeln!(f)?;
        if let Some(accuracy) = self.test_accuracy {
            let accuracy = percent(accuracy);
            writeln!(f, "  clean test accuracy {accuracy} (guarantee: empirical)")?;
        }
        if let Some(rmse) = self.test_rmse {
            writeln!(
                f,
                "  root mean squared error on clean test images {rmse:.6} (guarantee: empirical)"
            )?;
        }
        Ok(())
    }
}

/// Trains a model in its run folder. Run again, it goes on where it stopped, and
/// ends with the same bytes; a finished run is only read.
///
/// # Errors
/// A folder that holds another run; settings, models or data that make no sense;
/// a disk or device that fails; a run that diverges or is stopped.
pub fn fit(
    mut choice: MethodChoice,
    job: &Job<'_>,
    observer: &mut dyn Observer,
) -> Result<Fitted, Error> {
    job.training.check()?;
    job.training.images(job.train)?;
    let (train, test) = labelled(&choice, job, observer)?;
    let job = &Job {
        train: &train,
        test: test.as_ref(),
        ..*job
    };
    let (model, manifest) = begin(&choice, job)?;
    let file = job.folder.join(MODEL_FILE);
    let manifest_file = job.folder.join(RunManifest::FILE);
    let ranks = job.device.ranks();
    let mut finished = Vec::new();
    if job.device.writes() {
        finished = claim(&manifest, &manifest_file, &file)?.unwrap_or_default();
    }
    ranks.broadcast(&mut finished)?;
    if !finished.is_empty() {
        return Ok(Fitted {
            model: Model::from_bytes(&finished)?,
            file,
            sha256: network::file::sha256(&finished),
            method: choice.name,
            already: true,
            test_accuracy: None,
            test_rmse: None,
        });
    }
    warn_of_few_steps(&choice, job, observer)?;
    let run = Run {
        folder: job.folder,
        train: job.train,
        test: job.test,
        training: job.training,
        seed: job.seed,
        load: &|model| job.device.load(model),
        ranks: Arc::clone(ranks),
    };
    let mut told = TrainingRun::new(observer);
    let trained = train::train(&model, &mut *choice.method, &run, &mut told);
    let last = told.finish();
    let trained = trained.map_err(|error| match error {
        train::TrainError::Stopped => Error::Stopped,
        other => {
            // What another process is writing is not ours to remove.
            let locked = matches!(other, train::TrainError::Record(RecordError::Locked { .. }));
            if job.device.writes() && !locked {
                clean_up(job.folder);
            }
            other.into()
        }
    })?;
    let bytes = trained.to_bytes();
    let sha256 = network::file::sha256(&bytes);
    let manifest = RunManifest {
        model: Some(ModelId {
            sha256: sha256.clone(),
            identity: Some(trained.identity()),
            path: Some(MODEL_FILE.into()),
        }),
        ..manifest
    };
    if job.device.writes() {
        record::atomic::write(&file, &bytes)?;
        manifest.write(&manifest_file)?;
        train::tidy(job.folder, &*choice.method)?;
    }
    // Who reads the file next finds it.
    ranks.barrier()?;
    let measured = |wanted: &str| {
        let mut values = last.iter().flat_map(|report| &report.values);
        let found = values.find(|(name, _)| *name == wanted);
        found.map(|(_, value)| *value)
    };
    Ok(Fitted {
        model: trained,
        file,
        sha256,
        method: choice.name,
        already: false,
        test_accuracy: measured("test_accuracy"),
        test_rmse: measured("test_rmse"),
    })
}

/// Makes the folder this run's; the bytes of its model, if an earlier one finished it.
fn claim(
    manifest: &RunManifest,
    manifest_file: &Path,
    file: &Path,
) -> Result<Option<Vec<u8>>, Error> {
    let found = manifest.claim(manifest_file)?;
    let done = found.and_then(|found| found.model);
    let Some(done) = done.filter(|_| file.exists()) else {
        return Ok(None);
    };
    let bytes = network::file::read_bytes(file)?;
    check_finished(file, &network::file::sha256(&bytes), &done)?;
    Ok(Some(bytes))
}

/// Refuses a finished model whose file is not the one that its run wrote.
pub(crate) fn check_finished(file: &Path, sha256: &str, done: &ModelId) -> Result<(), Error> {
    if sha256 == done.sha256 {
        return Ok(());
    }
    let message = "it is not the model that its run wrote: one of its bytes has changed";
    let hint = "copy it again from where it came, or remove the run folder to train again";
    Err(Error::refused(message, hint).at(file))
}

/// Fewer steps than this are hardly a training.
const FEW_STEPS: u64 = 100;

fn warn_of_few_steps(
    choice: &MethodChoice,
    job: &Job<'_>,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let (images, training) = (job.training.images(job.train)?.len(), job.training);
    let batches = images.div_ceil(training.batch_size) as u64;
    let steps = u64::from(choice.method.legs()) * u64::from(training.epochs) * batches;
    if steps < FEW_STEPS {
        observer.warning(&format!(
            "{} make only {}; take more epochs, or smaller batches",
            counted(images, "image"),
            counted(steps as usize, "step")
        ));
    }
    Ok(())
}

/// Takes away what a run wrote before its first checkpoint: it is nothing to go on
/// from.
fn clean_up(folder: &Path) {
    let epochs = folder.join(EPOCHS_FILE);
    let rows = std::fs::read_to_string(&epochs).map_or(0, |text| text.lines().skip(1).count());
    let mut files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_model = |name: &Path| {
        name.extension().is_some_and(|e| e == "safetensors") && name != Path::new(BASE_FILE)
    };
    if rows > 0 || files.any(|file| is_model(Path::new(&file.file_name()))) {
        return;
    }
    for file in [epochs, folder.join(RunManifest::FILE)] {
        let _ = std::fs::remove_file(file);
    }
    // Unless somebody else keeps files there.
    let _ = std::fs::remove_dir(folder);
}

/// The images, with targets as the network has its outputs. A method that looks at
/// no targets takes images of any classes, or without any; then neither accuracy nor
/// error is measured.
fn labelled(
    choice: &MethodChoice,
    job: &Job<'_>,
    observer: &mut dyn Observer,
) -> Result<(Dataset, Option<Dataset>), Error> {
    let (mut train, mut test) = (job.train.clone(), job.test.cloned());
    if let StartFrom::Model { loaded, path } = &job.start {
        let model = &loaded.model;
        check_shape(model, &train)?;
        let both = with_targets_for(model, &train).and_then(|train| {
            let test = test.as_ref().map(|test| with_targets_for(model, test));
            Ok((train, test.transpose()?))
        });
        (train, test) = match both {
            Err(error) if choice.labels => return Err(error),
            Err(_) => (train.without_targets(), None),
            Ok(both) => both,
        };
        for note in notes(loaded, path, &train) {
            observer.note(&note);
        }
    } else {
        for note in train.notes() {
            observer.note(&format!("{}: {note}", train.name()));
        }
    }
    if choice.labels {
        needs_targets(&train, job.start.task(&train), &choice.name)?;
    }
    test = test.filter(|test| !matches!(test.targets(), Targets::Unknown));
    if test.as_ref().is_some_and(Dataset::is_whole) {
        let name = train.name();
        let advice = match train.path(0) {
            Some(_) if Path::new(name).is_file() => {
                "name a folder of the files train.csv and test.csv instead".into()
            }
            Some(_) => {
                format!("put images to test on into {name}/test and the others into {name}/train")
            }
            None if train.resizes() => "call the files of the parts train and test".into(),
            None => "give images to test on as a part of their own".into(),
        };
        observer.warning(&format!(
            "{name} has no parts train and test: all images are trained on, and no test accuracy \
             is measured; {advice}"
        ));
        test = None;
    }
    Ok((train, test))
}

/// The network before the first step, with what its file will say about it, and
/// the manifest of the run.
fn begin(choice: &MethodChoice, job: &Job<'_>) -> Result<(Model, RunManifest), Error> {
    // How often checkpoints are written and what it is called decide nothing.
    let mut deciding = job.training.write();
    deciding.remove("checkpoint-seconds");
    deciding.remove("label");
    if job.training.rank_norms == RankNorms::Synchronised {
        // Then ranks are no part of what is computed.
        deciding.remove("rank-norms");
    }
    let mut training: Map<String, Value> = Map::new();
    let values = deciding.iter();
    training.extend(values.map(|(name, value)| (name.to_owned(), value.clone())));
    training.insert(
        "augment".into(),
        json!(job.training.augmentation(job.train)),
    );
    let mut settings = json!({"method": choice.settings, "training": training});
    let names = match job.train.targets() {
        Targets::Classes { names, .. } | Targets::Values { names, .. } => names.clone(),
        Targets::Unknown => Vec::new(),
    };
    let mut info = ModelInfo {
        task: job.start.task(job.train),
        classes: names,
        method: Some(choice.name.clone()),
        label: job.training.label.clone(),
        sigma: choice.sigma,
        noise: choice.noise,
        hyper_parameters: settings.as_object().cloned().unwrap_or_default(),
        data: Some(job.train.name().into()),
        data_sha256: Some(job.train.hash().into()),
        version: Some(env!("CARGO_PKG_VERSION").into()),
        ..ModelInfo::default()
    };
    let (model, parent) = match &job.start {
        StartFrom::Architecture { name, normalise } => {
            let input = job.train.shape();
            let mut task = Task::new(input, outputs(job.train).unwrap_or_default());
            if info.task == TaskKind::Regression {
                let learned = job.training.images(job.train)?;
                let spreads = deviations(task.classes, learned.values());
                let (mean, std): (Vec<f32>, Vec<f32>) = spreads
                    .into_iter()
                    .map(|(mean, std)| (mean as f32, std as f32))
                    .unzip();
                task = task.predicting(&mean, &std);
            }
            if let Some(text) = normalise {
                let (mean, std) = normalisation(text, input.channels)?;
                task = task.normalised(&mean, &std);
            }
            settings["normalise"] = json!(normalise);
            if job.train.resizes() {
                // Files of any size become images of this one.
                settings["input"] = json!(input.to_string());
            }
            info.architecture = Some((*name).to_owned());
            let graph = architecture::build(name, &task)?;
            (Model::initialised(graph, job.seed, info), None)
        }
        StartFrom::Model { loaded, path } => {
            info.architecture = loaded.model.info.architecture.clone();
            if !loaded.model.info.classes.is_empty() {
                info.classes = loaded.model.info.classes.clone();
            }
            info.parent_sha256 = Some(loaded.sha256.clone());
            let model = Model {
                info,
                ..loaded.model.clone()
            };
            (model, Some(model_id(loaded, path)))
        }
    };
    settings["arch"] = json!(model.info.architecture);
    if model.info.task == TaskKind::Regression {
        settings["task"] = json!(model.info.task);
    }
    let manifest = RunManifest {
        format: RunManifest::FORMAT.into(),
        version: RunManifest::VERSION,
        command: if choice.labels { "train" } else { "smooth" }.into(),
        method: choice.name.clone(),
        label: job.training.label.clone(),
        sigma: choice.sigma,
        configuration: settings,
        seed: job.seed,
        data: data_id(job.train),
        parent,
        model: None,
        versions: job.device.versions(),
        ranks: (job.device.ranks().size() > 1).then(|| RanksId {
            count: job.device.ranks().size(),
            norms: job.training.rank_norms.to_string(),
        }),
        started: None,
        finished: None,
    };
    Ok((model, manifest))
}
