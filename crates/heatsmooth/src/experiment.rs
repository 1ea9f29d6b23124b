//! Experiments: models made and measured, then compared in a report. Every stage
//! resumes by itself, so an experiment can be stopped and run again at any
//! moment.

mod import;
mod price;
mod read;

pub use price::{PriceList, StagePrice};

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use data::{Dataset, Split};
use network::Shape;
use settings::{SettingError, Settings as _, Values};
use train::{MODEL_FILE, Training};

use crate::device::Device;
use crate::error::Error;
use crate::fit::{Fitted, Origin, Workshop};
use crate::measure::Measured;
use crate::observer::{Observer, StageProgress};
use crate::registry::{MeasureContext, Registry};
use crate::source::{DataSource, ImageSource as _, ModelSource, SplitChoice, Weights};
use crate::subject::{ImageChoice, Subject};

/// Models that are made and measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Title of the report.
    pub title: String,
    /// The data set.
    pub data: DataSource,
    /// Noise level of everything.
    pub sigma: f64,
    /// Measure on so many test images where a stage does not say which; `None`: on all.
    pub images: Option<u64>,
    /// Every so many-th image from the first one on, where a stage does not say which.
    pub skip: u64,
    /// Shape of the networks' inputs, where the images have none of their own.
    pub input: Option<Shape>,
    /// Published figures to show beside, by their names.
    pub beside: Vec<String>,
    /// What is done, in order.
    pub stages: Vec<Stage>,
}

/// One step of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// A model is made.
    Fit(FitStage),
    /// A model that somebody else made is taken.
    Import(ImportStage),
    /// A model is measured.
    Measure(MeasureStage),
}

/// A model that is made.
#[derive(Clone, Debug, PartialEq)]
pub struct FitStage {
    /// Name of its run folder.
    pub name: String,
    /// The method, by its name in the registry.
    pub method: String,
    /// The network before the first step.
    pub start: StageStart,
    /// Settings of the method.
    pub values: Values,
    /// Epochs, batches, learning rate, ...
    pub training: Training,
    /// Left out, with all that is measured of it, unless its weights are given.
    pub optional: bool,
}

/// A model that somebody else made.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportStage {
    /// Name of its folder.
    pub name: String,
    /// The method that it was made by, by its name in the registry.
    pub method: String,
    /// Its weights, and what they do not say about their network.
    pub source: ModelSource,
}

/// The network before the first step of a [`FitStage`].
#[derive(Clone, Debug, PartialEq)]
pub enum StageStart {
    /// A built-in architecture with random weights, and its input normalisation.
    Architecture(String, Option<String>),
    /// The model of an earlier stage.
    From(String),
}

/// A model that is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasureStage {
    /// The stage that makes the model.
    pub model: String,
    /// The measurement or attack, by its name in the registry.
    pub what: String,
    /// Name of the log, without its ending.
    pub log: String,
    /// The stage that makes the model compared with.
    pub reference: Option<String>,
    /// Settings of the measurement.
    pub values: Values,
    /// Which images; all where it says nothing.
    pub images: ImageChoice,
}

/// Where an experiment runs.
pub struct Laboratory<'a> {
    /// Where everything goes.
    pub out: &'a Path,
    /// What methods, attacks and measurements there are.
    pub registry: &'a Registry,
    /// Where networks run.
    pub device: &'a Device,
    /// Of everything random.
    pub seed: u64,
}

/// What a stage came to.
pub enum StageResult {
    /// A model.
    Fitted(Box<Fitted>),
    /// The file of a model that was given.
    Imported(PathBuf),
    /// A log.
    Measured(Measured),
}

impl Stage {
    /// What the stage is called: `heat: certify`.
    pub fn name(&self) -> String {
        match self {
            Self::Fit(stage) => format!("{}: {}", stage.name, stage.method),
            Self::Import(stage) => format!("{}: given weights", stage.name),
            Self::Measure(stage) => format!("{}: {}", stage.model, stage.what),
        }
    }
}

impl Laboratory<'_> {
    /// The finished model's file of a stage.
    pub fn model(&self, stage: &str) -> PathBuf {
        self.out.join(stage).join(MODEL_FILE)
    }

    /// The log of that name.
    pub fn log(&self, name: &str) -> PathBuf {
        self.out.join(format!("{name}.tsv"))
    }
}

impl Experiment {
    /// Runs all stages, each from where an earlier run left it.
    ///
    /// # Errors
    /// Whatever a stage refuses; what hours of training would only find out at
    /// their end is refused at once.
    pub fn run(
        &self,
        laboratory: &Laboratory<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<StageResult>, Error> {
        self.check()?;
        let images = self.train_images()?;
        let work: Vec<f64> = self
            .stages
            .iter()
            .map(|stage| self.work(stage, laboratory.registry, images))
            .collect();
        let mut done = (0.0, Duration::ZERO);
        let mut results = Vec::new();
        for (number, stage) in self.stages.iter().enumerate() {
            observer.stage(Some(&StageProgress {
                name: format!("[{}/{}] {}", number + 1, self.stages.len(), stage.name()),
                here: work[number],
                after: work[number + 1..].iter().sum(),
                done,
            }));
            let clock = Instant::now();
            let mut counted = Counted::new(observer);
            let result = self.stage(stage, laboratory, &mut counted);
            let before = counted.before;
            observer.stage(None);
            results.push(result?);
            // What an earlier run had done says nothing about the speed.
            let elapsed = clock.elapsed();
            if elapsed > Duration::from_secs(1) {
                done = (done.0 + work[number] * (1.0 - before), done.1 + elapsed);
            }
        }
        Ok(results)
    }

    /// Writes the report about everything in the folder.
    ///
    /// # Errors
    /// Records that do not read, or a disk that is full.
    pub fn report(
        &self,
        laboratory: &Laboratory<'_>,
    ) -> Result<(report::Report, report::Written), Error> {
        let options = report::Options {
            title: self.title.clone(),
            methods: laboratory.registry.method_infos(),
            beside: self.beside.clone(),
            ..report::Options::default()
        };
        let report = report::build(&[laboratory.out.to_path_buf()], &options)?;
        let written = report.write(&laboratory.out.join("report"))?;
        Ok((report, written))
    }

    /// Refuses before hours of training what the measurements after it would
    /// refuse.
    fn check(&self) -> Result<(), Error> {
        let data = self.data.open(Split::Test, self.input)?;
        self.chosen(&data).map(|_| ())
    }

    /// Which test images, where a stage does not say so.
    fn chosen(&self, data: &Dataset) -> Result<ImageChoice, Error> {
        let (len, skip) = (data.len() as u64, self.skip);
        if skip == 0 || skip > len {
            let expected = format!("1 to {len}, the test images of {}", data.name());
            return Err(SettingError::value("skip", skip, expected).into());
        }
        let most = len.div_ceil(skip);
        match self.images {
            Some(images) if images == 0 || images > most => {
                let every = match skip {
                    1 => String::new(),
                    _ => format!(" at every {skip}th"),
                };
                let name = data.name();
                let expected = format!("1 to {most}, the test images of {name}{every}");
                Err(SettingError::value("images", images, expected).into())
            }
            images => Ok(ImageChoice {
                images: images.map(|images| format!("0..{}", ((images - 1) * skip + 1).min(len))),
                skip,
                ..ImageChoice::default()
            }),
        }
    }

    /// How many images are trained on.
    fn train_images(&self) -> Result<u64, Error> {
        let trains = self
            .stages
            .iter()
            .any(|stage| matches!(stage, Stage::Fit(_)));
        match trains {
            true => Ok(self.data.open(Split::Train, self.input)?.len() as u64),
            false => Ok(0),
        }
    }

    fn stage(
        &self,
        stage: &Stage,
        laboratory: &Laboratory<'_>,
        observer: &mut dyn Observer,
    ) -> Result<StageResult, Error> {
        match stage {
            Stage::Fit(stage) => {
                let fitted = self.make(stage, laboratory, observer)?;
                Ok(StageResult::Fitted(Box::new(fitted)))
            }
            Stage::Import(stage) => {
                let path = self.import(stage, laboratory, observer)?;
                Ok(StageResult::Imported(path))
            }
            Stage::Measure(stage) => {
                let measured = self.measure(stage, laboratory, observer)?;
                Ok(StageResult::Measured(measured))
            }
        }
    }

    fn make(
        &self,
        stage: &FitStage,
        laboratory: &Laboratory<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Fitted, Error> {
        let origin = match &stage.start {
            StageStart::From(name) => Origin::Model(ModelSource::new(laboratory.model(name))),
            StageStart::Architecture(name, normalise) => Origin::Architecture(Weights {
                arch: Some(name.clone()),
                normalise: normalise.clone(),
                input: self.input.map(|input| input.to_string()),
                ..Weights::default()
            }),
        };
        let workshop = Workshop {
            origin: &origin,
            data: &self.data,
            folder: &laboratory.out.join(&stage.name),
            seed: laboratory.seed,
            device: laboratory.device,
        };
        let mut values = stage.training.write();
        values.lay(stage.values.clone());
        let registry = laboratory.registry;
        registry.fit(&stage.method, &values, &workshop, observer)
    }

    fn measure(
        &self,
        stage: &MeasureStage,
        laboratory: &Laboratory<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Measured, Error> {
        let own = stage.images != ImageChoice::default();
        let images = match own {
            true => stage.images.clone(),
            false => self.chosen(&self.data.open(Split::Test, self.input)?)?,
        };
        let model = ModelSource::new(laboratory.model(&stage.model));
        let (split, device) = (SplitChoice::default(), laboratory.device);
        let subject = Subject::open(&model, &self.data, &split, &images, device)?;
        let mut values = stage.values.clone();
        if values.has("save-images") {
            let gallery = format!("gallery-{}-{}", stage.what, stage.model);
            values.put("save", &Some(laboratory.out.join(gallery)));
        }
        let reference = stage.reference.as_ref();
        let reference = reference.map(|name| ModelSource::new(laboratory.model(name)));
        let context = MeasureContext {
            seed: laboratory.seed,
            reference: reference.as_ref(),
        };
        let log = laboratory.log(&stage.log);
        let registry = laboratory.registry;
        registry.measure(&stage.what, &values, &context, &subject, &log, observer)
    }

    /// About how much work a stage is, in forward passes of one image.
    fn work(&self, stage: &Stage, registry: &Registry, train_images: u64) -> f64 {
        match stage {
            Stage::Fit(stage) => {
                let pass = registry
                    .method(&stage.method)
                    .map_or(5.0, |e| (e.cost)(&stage.values));
                pass * f64::from(stage.training.epochs) * train_images as f64
            }
            Stage::Import(_) => 0.0,
            Stage::Measure(stage) => {
                let images = self.images.unwrap_or(1000) as f64;
                images * registry.cost_of(&stage.what, &stage.values)
            }
        }
    }
}

/// Passes everything on, and remembers which share an earlier run had done.
struct Counted<'a> {
    observer: &'a mut dyn Observer,
    before: f64,
}

impl<'a> Counted<'a> {
    fn new(observer: &'a mut dyn Observer) -> Self {
        let before = 0.0;
        Self { observer, before }
    }
}

impl Observer for Counted<'_> {
    fn begin(&mut self, what: &str, total: u64, done: u64) {
        self.before = done as f64 / total.max(1) as f64;
        self.observer.begin(what, total, done);
    }

    fn progress(&mut self, done: u64, note: &dyn Fn() -> String) -> std::ops::ControlFlow<()> {
        self.observer.progress(done, note)
    }

    fn end(&mut self) {
        self.observer.end();
    }

    fn epoch(&mut self, text: &str) {
        self.observer.epoch(text);
    }

    fn note(&mut self, text: &str) {
        self.observer.note(text);
    }

    fn warning(&mut self, text: &str) {
        self.observer.warning(text);
    }
}
