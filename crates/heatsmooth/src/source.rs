//! Models and data sets, as users name them.

use std::path::{Path, PathBuf};

use data::{Dataset, OpenOptions, Split, View};
use exchange::{LoadOptions, Loaded};
use network::architecture::Task;
use network::{Model, Shape};
use record::{DataId, ModelId};
use settings::{SettingError, settings};
use train::MODEL_FILE;

use crate::error::Error;

settings! {
    /// What a file of weights does not say about its network.
    pub struct Weights {
        /// Architecture of a file that holds weights only.
        arch: Option<String> = None,
        /// Input normalisation that the weights expect: means and stds for each
        /// channel, as 0.49,0.48,0.45/0.25,0.24,0.26.
        normalise: Option<String> = None,
        /// Shape of one image, as 32x32x3 [default: from the data set].
        input: Option<String> = None,
        /// Number of classes [default: from the data set].
        classes: Option<usize> = None,
    }
}

settings! {
    /// A data set.
    pub struct DataSource {
        /// The data set: a name, or a folder of class folders of images.
        data: Option<String> = None,
        /// The folder of data sets [default: $HEATSMOOTH_DATA, or the platform's].
        root: Option<PathBuf> = None,
    }
}

settings! {
    /// Which part of a data set.
    pub struct SplitChoice {
        /// Which part of the data set, train or test.
        split: Split = Split::Test,
    }
}

/// The file of a model, and what it may not say itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSource {
    /// A model file, or a run folder.
    pub path: PathBuf,
    /// See [`Weights`].
    pub weights: Weights,
}

impl ModelSource {
    /// A file that says everything itself.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            weights: Weights::default(),
        }
    }

    /// The file itself: of a run folder, its finished model.
    pub fn file(&self) -> PathBuf {
        if self.path.is_dir() {
            self.path.join(MODEL_FILE)
        } else {
            self.path.clone()
        }
    }

    /// Reads the model; a data set, if there is one, says what the file does not.
    ///
    /// # Errors
    /// A file that cannot be read as a model.
    pub fn load(&self, dataset: Option<&Dataset>) -> Result<Loaded, Error> {
        let Weights {
            arch,
            normalise,
            classes,
            ..
        } = &self.weights;
        let input = self.input()?.or(dataset.map(Dataset::shape));
        let classes = classes.or(dataset.map(|data| data.classes().len()));
        let architecture = match (arch, input, classes) {
            (None, ..) => None,
            (Some(arch), Some(input), Some(classes)) => {
                let mut task = Task::new(input, classes);
                if let Some(text) = normalise {
                    let (mean, std) = normalisation(text, input.channels)?;
                    task = task.normalised(&mean, &std);
                }
                Some((arch.clone(), task))
            }
            (Some(_), ..) => {
                return Err(Error::refused(
                    "an architecture alone does not say for which images",
                    "give the input shape, such as 32x32x3, and the number of classes, or \
                     whatever the weights are for",
                ));
            }
        };
        let options = LoadOptions {
            architecture,
            input,
            ..LoadOptions::default()
        };
        let file = self.file();
        exchange::load(&file, &options).map_err(|error| Error::from(error).at(file))
    }

    /// The input shape, if one is given.
    fn input(&self) -> Result<Option<Shape>, Error> {
        self.weights.input.as_deref().map(parse_shape).transpose()
    }

    /// Reads the model and opens the data set that fits it, images of a folder in
    /// the size that the network wants.
    ///
    /// # Errors
    /// A model or data set that cannot be read, or that do not fit each other.
    pub fn load_with(&self, data: &DataSource, split: Split) -> Result<(Loaded, Dataset), Error> {
        let (loaded, dataset) = if self.weights.arch.is_some() {
            let dataset = data.open(split, self.input()?)?;
            (self.load(Some(&dataset))?, dataset)
        } else {
            let loaded = self.load(None)?;
            let dataset = data.open(split, Some(loaded.model.graph.input()))?;
            (loaded, dataset)
        };
        check_fit(&loaded.model, &dataset)?;
        Ok((loaded, dataset))
    }
}

impl DataSource {
    /// A data set by name, or a folder.
    pub fn named(name: &str) -> Self {
        Self {
            data: Some(name.into()),
            root: None,
        }
    }

    /// Opens one split, images of a folder in the size that a network wants.
    ///
    /// # Errors
    /// A data set that is not there or damaged.
    pub fn open(&self, split: Split, input: Option<Shape>) -> Result<Dataset, Error> {
        let name = self.name()?;
        let view = input.map_or_else(View::default, View::for_shape);
        let root = self.root.clone();
        Ok(data::open(name, split, &OpenOptions { root, view })?)
    }

    /// The name, which must be given.
    ///
    /// # Errors
    /// If it is not.
    pub fn name(&self) -> Result<&str, Error> {
        let name = self.data.as_deref();
        name.ok_or_else(|| SettingError::missing("data").into())
    }
}

/// How a data set is named in records.
pub(crate) fn data_id(dataset: &Dataset) -> DataId {
    DataId {
        name: dataset.name().into(),
        split: dataset.split().to_string(),
        sha256: dataset.hash().into(),
    }
}

/// How a model is named in records.
pub(crate) fn model_id(loaded: &Loaded, path: &Path) -> ModelId {
    ModelId {
        sha256: loaded.sha256.clone(),
        path: Some(path.display().to_string()),
    }
}

fn parse_shape(text: &str) -> Result<Shape, Error> {
    let parts: Option<Vec<usize>> = text.split('x').map(|v| v.parse().ok()).collect();
    match parts.as_deref() {
        Some(&[h, w, c]) if h > 0 && w > 0 && c > 0 => Ok(Shape::new(h, w, c)),
        _ => {
            let expected = "height, width and channels, such as 32x32x3";
            Err(SettingError::value("input", text, expected).into())
        }
    }
}

/// `m1,m2,.../s1,s2,...`, one value for each channel.
pub(crate) fn normalisation(text: &str, channels: usize) -> Result<(Vec<f32>, Vec<f32>), Error> {
    let wrong = || {
        let expected = format!(
            "{channels} means, a slash, and {channels} positive stds, such as 0.5/0.25 for one channel"
        );
        SettingError::value("normalise", text, expected)
    };
    let list = |text: &str| -> Option<Vec<f32>> {
        let values: Option<Vec<f32>> = text.split(',').map(|v| v.trim().parse().ok()).collect();
        values.filter(|v| v.len() == channels && v.iter().all(|x| x.is_finite()))
    };
    let (mean, std) = text.split_once('/').ok_or_else(wrong)?;
    match (list(mean), list(std)) {
        (Some(mean), Some(std)) if std.iter().all(|&s| s > 0.0) => Ok((mean, std)),
        _ => Err(wrong().into()),
    }
}

/// Refuses a data set that does not fit a network.
pub(crate) fn check_fit(model: &Model, dataset: &Dataset) -> Result<(), Error> {
    let (input, shape) = (model.graph.input(), dataset.shape());
    let (outputs, classes) = (model.graph.classes(), dataset.classes().len());
    if input == shape && outputs >= classes {
        return Ok(());
    }
    Err(Error::refused(
        format!(
            "the model takes {input} and has {outputs} classes, {} has {shape} and {classes} classes",
            dataset.name()
        ),
        "use the data set the model was made for; inspecting the model tells",
    ))
}
