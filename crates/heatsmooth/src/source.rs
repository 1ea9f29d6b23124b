//! Models and data sets, as users name them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use data::{BrokenImages, Dataset, OddImages, OpenOptions, Split, Targets, View};
use exchange::{FileKind, LoadOptions, Loaded};
use network::architecture::Task;
use network::{Model, Shape, TaskKind};
use record::{DataId, ModelId, RunManifest};
use settings::{SettingError, Settings as _, choices, settings};
use train::MODEL_FILE;

use crate::error::Error;
use crate::fit::check_finished;
use crate::normalise::normalisation;

choices! {
    /// What a network's outputs are, where its file does not say.
    pub enum TaskChoice {
        /// Logits, one a class.
        Classification = "classification",
        /// Real values.
        Regression = "regression",
    }
}

settings! {
    /// What a file of weights does not say about its network.
    pub struct Weights {
        /// Architecture of a file that holds weights only.
        arch: Option<String> = None,
        /// Input normalisation that the weights expect: imagenet, cifar10, cifar100,
        /// mnist, fashion-mnist or half, or means and stds for each channel, as
        /// 0.49,0.48,0.45/0.25,0.24,0.26.
        normalise: Option<String> = None,
        /// Shape of one image, as 32x32x3 [default: from the data set; 224x224x3 for
        /// a folder of images].
        input: Option<String> = None,
        /// Number of classes, or of real values [default: from the data set].
        classes: Option<usize> = None,
        /// What the outputs are, also those of an ONNX file: classification (classes)
        /// or regression (real values) [default: regression where the data set has
        /// real values].
        task: Option<TaskChoice> = None,
    }
}

settings! {
    /// A data set.
    pub struct DataSource {
        /// The data set: a name, a folder of class folders of images, of images without
        /// labels, of tar shards, of Parquet tables or of packed images, or a CSV file (a
        /// path and real values a line), .npz or .npy file.
        data: Option<String> = None,
        /// The folder of data sets [default: $HEATSMOOTH_DATA, or the platform's].
        root: Option<PathBuf> = None,
        /// Image files that cannot be decoded: refuse (an error when one is read) or skip
        /// (all are decoded once beforehand).
        broken: BrokenImages = BrokenImages::Refuse,
        /// Image files in CMYK or 16 bits, or of another format or class than their names
        /// say: convert (to 8 bits of RGB), skip or refuse.
        odd: OddImages = OddImages::Convert,
    }
}

settings! {
    /// Which part of a data set.
    pub struct SplitChoice {
        /// Which part of the data set, train or test [default: test; all images of a
        /// folder without such parts].
        split: Option<Split> = None,
    }
}

impl SplitChoice {
    /// The part that is opened where nothing is said.
    pub fn or_test(&self) -> Split {
        self.split.unwrap_or(Split::Test)
    }
}

impl Weights {
    /// The options that have an effect on a file of this kind.
    fn counting(&self, kind: FileKind) -> Self {
        match kind {
            FileKind::Weights => self.clone(),
            // A size that the file does not leave open is compared with the file's.
            FileKind::Onnx => Self {
                input: self.input.clone(),
                task: self.task,
                ..Self::default()
            },
            FileKind::Own => Self::default(),
        }
    }

    /// The options that have an effect on each of several files; a file of no known
    /// kind gets them all, and is refused when it is loaded.
    ///
    /// # Errors
    /// An option that has no effect on any of them; a file that cannot be read.
    pub fn shared_by<const N: usize>(&self, files: [&Path; N]) -> Result<[Self; N], Error> {
        let mut shared = [const { None }; N];
        for (one, path) in shared.iter_mut().zip(files) {
            let file = ModelSource::new(path).file();
            let kind = FileKind::of(&file).map_err(|error| Error::from(error).at(file))?;
            *one = Some(kind.map_or_else(|| self.clone(), |kind| self.counting(kind)));
        }
        let shared = shared.map(Option::unwrap_or_default);
        let given = self.write();
        let counts = |name: &str| shared.iter().any(|one| one.write().has(name));
        match given.iter().find(|(name, _)| !counts(name)) {
            None => Ok(shared),
            Some((name, _)) => Err(SettingError::Ineffective {
                name: name.into(),
                reason: "the model file says everything about its network itself".into(),
            }
            .into()),
        }
    }
}

/// The file of a model, and what it may not say itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSource {
    /// A model file, or a run folder.
    pub path: PathBuf,
    /// See [`Weights`].
    pub weights: Weights,
    /// The model itself, if it is in memory; the path is then only its name.
    pub given: Option<Arc<Loaded>>,
}

impl ModelSource {
    /// A file that says everything itself.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::with(path, Weights::default())
    }

    /// A file and what it does not say itself.
    pub fn with(path: impl Into<PathBuf>, weights: Weights) -> Self {
        Self {
            path: path.into(),
            weights,
            given: None,
        }
    }

    /// A model that is in memory, and the name by which records tell people about it.
    pub fn given(name: &str, loaded: Loaded) -> Self {
        Self {
            given: Some(Arc::new(loaded)),
            ..Self::new(name)
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
        if let Some(given) = &self.given {
            return match self.weights.write().iter().next() {
                None => Ok(Loaded::clone(given)),
                Some((name, _)) => Err(SettingError::Ineffective {
                    name: name.into(),
                    reason: "the model is given whole".into(),
                }
                .into()),
            };
        }
        let file = self.file();
        let [weights] = self.weights.shared_by([&file])?;
        let Weights {
            arch,
            normalise,
            classes,
            task,
            ..
        } = &weights;
        let input = self.input()?.or(dataset.map(Dataset::shape));
        let classes = classes.or_else(|| outputs(dataset?));
        let architecture = match (arch, input, classes) {
            (None, ..) => None,
            (Some(arch), Some(input), Some(classes)) => {
                let mut made_for = Task::new(input, classes);
                if let Some(text) = normalise {
                    let (mean, std) = normalisation(text, input.channels)?;
                    made_for = made_for.normalised(&mean, &std);
                }
                Some((arch.clone(), made_for))
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
        let loaded = exchange::load(&file, &options);
        let mut loaded = loaded.map_err(|error| Error::from(error).at(&file))?;
        match task {
            Some(TaskChoice::Classification) => {}
            Some(TaskChoice::Regression) => loaded.model.info.task = TaskKind::Regression,
            None => settle_task(&mut loaded.model, dataset),
        }
        // A run folder knows what it wrote.
        if self.path.is_dir()
            && let Ok(run) = RunManifest::read(&self.path.join(RunManifest::FILE))
            && let Some(done) = &run.model
        {
            check_finished(&file, &loaded.sha256, done)?;
        }
        Ok(loaded)
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
    pub fn load_with(
        &self,
        data: &dyn ImageSource,
        split: Split,
    ) -> Result<(Loaded, Dataset), Error> {
        let (loaded, dataset) = if self.weights.arch.is_some() {
            let dataset = data.open(split, self.input()?)?;
            (self.load(Some(&dataset))?, dataset)
        } else {
            let mut loaded = self.load(None)?;
            let dataset = data.open(split, Some(loaded.model.graph.input()))?;
            if self.weights.task.is_none() {
                settle_task(&mut loaded.model, Some(&dataset));
            }
            (loaded, dataset)
        };
        let dataset = with_targets_for(&loaded.model, &dataset)?;
        Ok((loaded, dataset))
    }
}

impl DataSource {
    /// The folder that a name or path stands for, if it is one.
    fn folder(&self, name: &str) -> PathBuf {
        match data::uses_root(name) {
            false => name.into(),
            true => {
                let root = self.root.clone().or_else(|| data::default_root().ok());
                root.unwrap_or_default().join(name)
            }
        }
    }

    /// A data set by name, or a folder.
    pub fn named(name: &str) -> Self {
        Self {
            data: Some(name.into()),
            ..Self::default()
        }
    }
}

/// Where images come from.
pub trait ImageSource {
    /// The name of the data set, which must be given.
    ///
    /// # Errors
    /// If it is not.
    fn name(&self) -> Result<&str, Error>;

    /// Opens one split, images of a folder in the size that a network wants.
    ///
    /// # Errors
    /// A data set that is not there or damaged.
    fn open(&self, split: Split, input: Option<Shape>) -> Result<Dataset, Error>;

    /// Opens one split for a new network, images of a folder in the size that is
    /// asked for.
    ///
    /// # Errors
    /// A data set that is not there or damaged, or whose images have a size of their
    /// own already.
    fn open_for(&self, split: Split, weights: &Weights) -> Result<Dataset, Error> {
        let input = weights.input.as_deref().map(parse_shape).transpose()?;
        let dataset = self.open(split, input)?;
        if input.is_some() && !dataset.resizes() {
            return Err(SettingError::Ineffective {
                name: "input".into(),
                reason: format!(
                    "the images of {} are all {}",
                    dataset.name(),
                    dataset.shape()
                ),
            }
            .into());
        }
        Ok(dataset)
    }
}

/// The caller's own images.
#[derive(Clone, Debug)]
pub struct GivenImages {
    /// To learn from.
    pub train: Option<Dataset>,
    /// To measure on.
    pub test: Option<Dataset>,
}

impl ImageSource for GivenImages {
    fn name(&self) -> Result<&str, Error> {
        let any = self.train.as_ref().or(self.test.as_ref());
        any.map(Dataset::name)
            .ok_or_else(|| SettingError::missing("data").into())
    }

    fn open(&self, split: Split, _: Option<Shape>) -> Result<Dataset, Error> {
        let [wanted, other] = match split {
            Split::Train => [&self.train, &self.test],
            Split::Test => [&self.test, &self.train],
        };
        let whole = other.as_ref().filter(|other| other.is_whole());
        wanted.as_ref().or(whole).cloned().ok_or_else(|| {
            Error::refused(
                format!("no images to {split} on are given"),
                "give both parts, or images that are not a part",
            )
        })
    }
}

impl ImageSource for DataSource {
    fn open(&self, split: Split, input: Option<Shape>) -> Result<Dataset, Error> {
        let name = self.name()?;
        if self.root.is_some() && !data::uses_root(name) {
            return Err(SettingError::Ineffective {
                name: "root".into(),
                reason: format!("{name} is not looked for in the folder of data sets"),
            }
            .into());
        }
        let view = input.map(View::for_shape);
        let view = view.or_else(|| data::packed_view(self.folder(name)));
        let view = view.or_else(|| data::usual_view(name));
        let options = OpenOptions {
            root: self.root.clone(),
            view: view.unwrap_or_default(),
            broken: self.broken,
            odd: self.odd,
        };
        Ok(data::open(name, split, &options)?)
    }

    fn name(&self) -> Result<&str, Error> {
        let name = self.data.as_deref();
        name.ok_or_else(|| SettingError::missing("data").into())
    }
}

/// How a data set is named in records.
pub(crate) fn data_id(dataset: &Dataset) -> DataId {
    DataId {
        name: dataset.name().into(),
        split: dataset.split_name().into(),
        sha256: dataset.hash().into(),
    }
}

/// How a model is named in records.
pub(crate) fn model_id(loaded: &Loaded, path: &Path) -> ModelId {
    ModelId {
        sha256: loaded.sha256.clone(),
        identity: Some(loaded.model.identity()),
        path: Some(path.display().to_string()),
    }
}

/// The shape of an image, written as `32x32x3`.
///
/// # Errors
/// Any other text.
pub fn parse_shape(text: &str) -> Result<Shape, Error> {
    let parts: Option<Vec<usize>> = text.split('x').map(|v| v.parse().ok()).collect();
    match parts.as_deref() {
        Some(&[h, w, c]) if h > 0 && w > 0 && c > 0 => Ok(Shape::new(h, w, c)),
        _ => {
            let expected = "height, width and channels, such as 32x32x3";
            Err(SettingError::value("input", text, expected).into())
        }
    }
}

/// Refuses images of another shape than the network takes.
pub(crate) fn check_shape(model: &Model, dataset: &Dataset) -> Result<(), Error> {
    let (input, shape) = (model.graph.input(), dataset.shape());
    if input == shape {
        return Ok(());
    }
    Err(Error::refused(
        format!("the model takes {input}, {} has {shape}", dataset.name()),
        "use the data set the model was made for; inspecting the model tells",
    ))
}

/// How many outputs a network for a data set has, if its targets say that.
pub(crate) fn outputs(dataset: &Dataset) -> Option<usize> {
    match dataset.targets() {
        Targets::Classes { names, .. } | Targets::Values { names, .. } => Some(names.len()),
        Targets::Unknown => None,
    }
}

/// The outputs of another program's network are what its data have.
fn settle_task(model: &mut Model, dataset: Option<&Dataset>) {
    let imported = model.info.method.as_deref() == Some("imported");
    let values = dataset.is_some_and(|data| matches!(data.targets(), Targets::Values { .. }));
    if imported && values {
        model.info.task = TaskKind::Regression;
    }
}

/// The data set with its targets as the model has its outputs: classes by name where
/// the model stores names, else by position; real values likewise. Classes are left
/// aside where the model predicts real values.
///
/// # Errors
/// Images of another shape; classes or values that the model does not have, or of
/// which nobody can say which output is theirs.
pub(crate) fn with_targets_for(model: &Model, dataset: &Dataset) -> Result<Dataset, Error> {
    check_shape(model, dataset)?;
    match (model.info.task, dataset.targets()) {
        (_, Targets::Unknown) => Ok(dataset.clone()),
        (TaskKind::Classification, Targets::Classes { .. }) => labelled_for(model, dataset),
        (TaskKind::Classification, Targets::Values { .. }) => Err(Error::refused(
            format!(
                "{} has real values, and the model's outputs are classes",
                dataset.name()
            ),
            "train a model on these data; another program's network (ONNX) takes them by itself",
        )),
        (TaskKind::Regression, Targets::Classes { .. }) => Ok(dataset.without_targets()),
        (TaskKind::Regression, Targets::Values { names, .. }) => {
            let outputs = model.graph.classes();
            if names.len() != outputs {
                return Err(Error::refused(
                    format!(
                        "the model has {outputs} outputs, {} has {} values an image",
                        dataset.name(),
                        names.len()
                    ),
                    "use the data set the model was made for: one value for each output",
                ));
            }
            match model.info.classes.len() == outputs {
                true => Ok(dataset.with_values(&model.info.classes)?),
                false => Ok(dataset.clone()),
            }
        }
    }
}

/// Refuses data without what something needs of them.
pub(crate) fn needs_targets(dataset: &Dataset, task: TaskKind, what: &str) -> Result<(), Error> {
    let (fits, needed) = match (task, dataset.targets()) {
        (TaskKind::Classification, targets) => {
            (matches!(targets, Targets::Classes { .. }), "a class")
        }
        (TaskKind::Regression, targets) => {
            (matches!(targets, Targets::Values { .. }), "real values")
        }
    };
    if fits {
        return Ok(());
    }
    Err(Error::refused(
        format!(
            "{what} needs {needed} for each image, and {} gives the model none",
            dataset.name()
        ),
        match task {
            TaskKind::Classification => {
                "put the images into class folders, or name a data set with labels"
            }
            TaskKind::Regression => {
                "give a CSV file with a path and real values in each line, or an .npz file with \
                 `images` and `values`"
            }
        },
    ))
}

/// The data set with its labels counted as the model counts its classes.
fn labelled_for(model: &Model, dataset: &Dataset) -> Result<Dataset, Error> {
    let (names, outputs) = (&model.info.classes, model.graph.classes());
    if names.len() == outputs {
        return Ok(dataset.with_classes(names)?);
    }
    let classes = dataset.classes().len();
    if classes == outputs {
        return Ok(dataset.clone());
    }
    Err(Error::refused(
        format!(
            "the model has {outputs} classes without names, {} has {classes}: which output is \
             which class is not known",
            dataset.name()
        ),
        "use the data set the model was made for; in a folder, empty class folders hold the \
         places of classes without images",
    ))
}

/// What a user should hear about a model's file and the images for it.
pub(crate) fn notes(loaded: &Loaded, path: &Path, dataset: &Dataset) -> Vec<String> {
    let imported = loaded.report.notes.iter();
    let mut notes: Vec<String> = imported
        .map(|note| format!("{}: {note}", path.display()))
        .collect();
    let images = dataset.notes();
    notes.extend(
        images
            .iter()
            .map(|note| format!("{}: {note}", dataset.name())),
    );
    let unnamed = loaded.model.info.classes.len() != loaded.model.graph.classes();
    let classes = dataset.classes();
    if unnamed && !images.is_empty() && !classes.is_empty() {
        let some: Vec<&str> = classes.iter().take(6).map(String::as_str).collect();
        let more = if classes.len() > some.len() {
            ", ..."
        } else {
            ""
        };
        notes.push(format!(
            "{}: the model stores no class names, so its outputs are taken for the data's classes \
             in order: {}{more}",
            dataset.name(),
            some.join(", ")
        ));
    }
    notes
}
