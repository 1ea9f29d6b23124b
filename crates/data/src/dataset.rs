//! A data set: images by index, labels, classes, and a hash of its content.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::augment::{self, Augment, Shift};
use crate::catalogue::OpenOptions;
use crate::classes::Relabelled;
use crate::decode::{self, View};
use crate::screen::{Finding, screen};
use crate::source::{Encoded, Files, Memory, RealValues, Source};
use crate::{DataError, Images, Shape, Targets, remembered};

/// The part of a data set that is trained on, or the part that is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// For training.
    Train,
    /// For evaluation.
    Test,
}

impl std::fmt::Display for Split {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Train => "train",
            Self::Test => "test",
        })
    }
}

impl FromStr for Split {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        match text {
            "train" => Ok(Self::Train),
            "test" => Ok(Self::Test),
            _ => Err(DataError::UnknownSplit { got: text.into() }),
        }
    }
}

impl settings::Setting for Split {
    const KIND: settings::FieldKind = settings::FieldKind::Choice(&["train", "test"]);
}

/// One split of a data set. Cloning is cheap: clones share the images.
#[derive(Clone, Debug)]
pub struct Dataset {
    inner: Arc<Inner>,
    len: usize,
    /// Targets in the order of somebody else's names, if they were asked for.
    pub(crate) relabelled: Option<Arc<Relabelled>>,
}

#[derive(Debug)]
struct Inner {
    about: About,
    targets: Targets,
    words: Vec<String>,
    source: Box<dyn Source>,
    /// The byte that means 1.0.
    white: u8,
    /// The pixel value in [0, 1] of each byte.
    values: [f32; 256],
}

/// What is known about a data set besides its images.
#[derive(Debug)]
pub(crate) struct About {
    pub name: String,
    pub split: Split,
    pub shape: Shape,
    pub hash: String,
    pub augment: Augment,
    /// Train and test are the same images.
    pub whole: bool,
}

/// Image files that were found, before anybody looked into them.
pub(crate) struct Opened<'a> {
    pub name: &'a str,
    pub split: Split,
    pub whole: bool,
    pub targets: Targets,
    pub files: Box<dyn Files>,
}

impl Opened<'_> {
    /// The same as [`Opened::finish`], with classes also called what tables in the data
    /// set's folder say.
    pub fn finish_beside(self, folder: &Path, options: &OpenOptions) -> Result<Dataset, DataError> {
        let words = match &self.targets {
            Targets::Classes { names, .. } => crate::devkit::words(folder, names)?,
            _ => Vec::new(),
        };
        Ok(self.finish(options)?.also_called(words))
    }

    /// Looks into the files, as far as the options want it, and hashes them.
    pub fn finish(self, options: &OpenOptions) -> Result<Dataset, DataError> {
        let view = options.view;
        let encoded = Encoded::new(self.files, view);
        let encoded = screen(encoded, options.broken, options.odd)?;
        let targets = match (&encoded.kept, self.targets) {
            (Some(kept), Targets::Classes { names, labels }) => Targets::Classes {
                names,
                labels: kept.iter().map(|&file| labels[file as usize]).collect(),
            },
            (_, targets) => targets,
        };
        if encoded.len() == 0 {
            return Err(DataError::EmptyFolder {
                path: self.name.into(),
            });
        }
        let about = About {
            name: self.name.into(),
            split: self.split,
            shape: view.shape(),
            hash: remembered::hash(&encoded)?,
            augment: folder_augment(&view),
            whole: self.whole,
        };
        Ok(Dataset::new(about, targets, Box::new(encoded), u8::MAX))
    }
}

impl Dataset {
    /// A data set held in memory, whose byte `white` means 1.0.
    pub(crate) fn in_memory(about: About, targets: Targets, pixels: Vec<u8>, white: u8) -> Self {
        let source = Memory {
            shape: about.shape,
            bytes: pixels,
        };
        Self::new(about, targets, Box::new(source), white)
    }

    /// A data set of any values between 0 and 1, held in memory.
    pub(crate) fn of_values(about: About, targets: Targets, values: Vec<f32>) -> Self {
        let source = RealValues {
            shape: about.shape,
            values,
        };
        Self::new(about, targets, Box::new(source), u8::MAX)
    }

    /// A data set from anywhere, whose byte `white` means 1.0.
    pub(crate) fn new(about: About, targets: Targets, source: Box<dyn Source>, white: u8) -> Self {
        let values = std::array::from_fn(|byte| byte as f32 / f32::from(white));
        Self {
            len: source.len(),
            inner: Arc::new(Inner {
                about,
                targets,
                words: Vec::new(),
                source,
                white,
                values,
            }),
            relabelled: None,
        }
    }

    /// Other names of the classes, one each, or none at all.
    pub(crate) fn also_called(mut self, words: Vec<String>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.words = words;
        }
        self
    }

    /// The same labels under other names. Only for a data set that nobody shares yet.
    pub(crate) fn renamed(mut self, classes: &[&str]) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner)
            && let Targets::Classes { names, .. } = &mut inner.targets
        {
            *names = classes.iter().map(ToString::to_string).collect();
        }
        self
    }

    /// What else the classes are called, such as `tench, Tinca tinca` for the synset
    /// `n01440764`: one text a class, or none at all.
    pub fn class_words(&self) -> &[String] {
        &self.inner.words
    }

    /// Image files that were left out or are not what they should be, as far as anybody
    /// has looked.
    pub fn findings(&self) -> &[Finding] {
        let files = self.inner.source.as_files();
        files.map_or(&[], |files| &files.findings)
    }

    pub(crate) fn source(&self) -> &dyn Source {
        &*self.inner.source
    }

    /// The same images as this part of a data set, or, without one, as all there are:
    /// train and test are then the same images. Only for a data set that nobody shares
    /// yet; a shared one stays what it is.
    pub fn as_part(mut self, split: Option<Split>) -> Self {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.about.whole = split.is_none();
            inner.about.split = split.unwrap_or(Split::Test);
        }
        self
    }

    /// The first `len` images (all, if there are fewer). Name, hash and the
    /// index of each image stay as they are.
    pub fn first(&self, len: usize) -> Self {
        Self {
            len: len.min(self.len),
            ..self.clone()
        }
    }

    /// The name, or the folder's path, under which it was opened.
    pub fn name(&self) -> &str {
        &self.inner.about.name
    }

    /// Which split this is.
    pub fn split(&self) -> Split {
        self.inner.about.split
    }

    /// The number of images.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there are no images; an opened data set always has some.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Shape of every image.
    pub fn shape(&self) -> Shape {
        self.inner.about.shape
    }

    /// Steps from 0 to 1, where every pixel is a multiple of one over it: 255 for
    /// images of 8 bits. None for values that lie on no such grid.
    pub fn levels(&self) -> Option<u32> {
        let bytes = self.inner.source.is_bytes();
        bytes.then(|| self.inner.white.into())
    }

    /// What is known about the images (of the whole split, also where these are
    /// only its first ones).
    pub fn targets(&self) -> &Targets {
        match &self.relabelled {
            Some(relabelled) => &relabelled.targets,
            None => &self.inner.targets,
        }
    }

    /// The names of the classes; label k means the k-th. None where the targets are
    /// no classes.
    pub fn classes(&self) -> &[String] {
        match self.targets() {
            Targets::Classes { names, .. } => names,
            _ => &[],
        }
    }

    /// The label of every image; none where the targets are no classes.
    pub fn labels(&self) -> &[u32] {
        match self.targets() {
            Targets::Classes { labels, .. } => &labels[..self.len],
            _ => &[],
        }
    }

    /// The names of the real values that each image has; none where the targets
    /// are no such values.
    pub fn value_names(&self) -> &[String] {
        match self.targets() {
            Targets::Values { names, .. } => names,
            _ => &[],
        }
    }

    /// The real values of every image, image by image.
    pub fn values(&self) -> &[f32] {
        match self.targets() {
            Targets::Values { names, values } => &values[..self.len * names.len()],
            _ => &[],
        }
    }

    /// Writes the targets of some images.
    pub(crate) fn put_targets(&self, images: &mut Images) {
        let (labels, values) = (self.labels(), self.values());
        let width = self.value_names().len();
        images.labels.clear();
        images.values.clear();
        for &index in &images.indices {
            let index = index as usize;
            images.labels.push(labels.get(index).copied().unwrap_or(0));
            let own = &values[index * width..][..width];
            images.values.extend_from_slice(own);
        }
    }

    /// Whether train and test are the same images: a folder or file that has no
    /// such parts, or a caller's own images that are one whole.
    pub fn is_whole(&self) -> bool {
        self.inner.about.whole
    }

    /// Which split this is, for people and records: `train`, `test`, or `all` of a
    /// folder or file that has no such parts.
    pub fn split_name(&self) -> &'static str {
        match self.split() {
            _ if self.is_whole() => "all",
            Split::Train => "train",
            Split::Test => "test",
        }
    }

    /// What is done to the images and labels, in sentences that a user should
    /// hear.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.inner.source.notes();
        notes.extend(self.relabelled.iter().map(|to| to.note.clone()));
        notes
    }

    /// A SHA-256 (64 hex digits) that identifies the content of this split: of the
    /// lines `CHECKSUM  NAME` that `sha256sum` prints for the split's files. Data
    /// sets of fixed files: their uncompressed files, in the order of reading.
    /// Folders: every image, in order of index, named `CLASS/.../IMAGE`. A folder
    /// without split folders has the same hash for both splits, since both are the
    /// same images. With a CSV file or arrays of values: those count, too.
    pub fn hash(&self) -> &str {
        &self.inner.about.hash
    }

    /// The augmentation that is usual for this data set.
    pub fn default_augment(&self) -> Augment {
        self.inner.about.augment
    }

    /// How many files of a folder were passed over for not being named as
    /// PNG or JPEG; 0 for other data sets.
    pub fn ignored_files(&self) -> usize {
        let files = self.inner.source.as_files();
        files.map_or(0, |files| files.files.ignored())
    }

    /// The image file behind an index, for data sets that are folders.
    pub fn path(&self, index: usize) -> Option<PathBuf> {
        let files = self.inner.source.as_files().filter(|_| index < self.len)?;
        files.files.path(files.file(index))
    }

    /// Where an image is, for people: its file, or its place in a shard; none for images
    /// that are no files.
    pub fn place(&self, index: usize) -> Option<PathBuf> {
        let files = self.inner.source.as_files().filter(|_| index < self.len)?;
        Some(files.place(index))
    }

    /// Whether images are resized to what a network wants, so that any input size will
    /// do.
    pub fn resizes(&self) -> bool {
        self.inner.source.view().is_some()
    }

    /// True when reading an image is work: a file to decode, a disk to wait for.
    pub(crate) fn decodes(&self) -> bool {
        self.inner.source.is_slow()
    }

    /// Some images in the view for evaluation, in the order of their indices
    /// here.
    pub fn images(&self, indices: impl IntoIterator<Item = u32>) -> Result<Images, DataError> {
        let mut images = Images::new(self.shape());
        let mut pixels = vec![0.0; self.shape().len()];
        for index in indices {
            self.read(index as usize, &mut pixels)?;
            images.push(index, 0, &pixels);
        }
        self.put_targets(&mut images);
        Ok(images)
    }

    /// Writes an image to `out`: as many values in [0, 1] as its shape has, row
    /// by row, channels last. Always the same: the view for evaluation.
    pub fn read(&self, index: usize, out: &mut [f32]) -> Result<(), DataError> {
        self.check(index, out)?;
        match self.own_values(index) {
            Some(values) => out.copy_from_slice(values),
            None => self.convert(&self.evaluation_bytes(index)?, out),
        }
        Ok(())
    }

    /// Like [`Dataset::read`], varied by `augment`: a pure function of
    /// (seed, epoch, index).
    pub fn read_augmented(
        &self,
        index: usize,
        augment: &Augment,
        seed: u64,
        epoch: u64,
        out: &mut [f32],
    ) -> Result<(), DataError> {
        self.check(index, out)?;
        let shape = self.shape();
        augment.check(shape)?;
        let mut stream = augment::stream(seed, epoch, index);
        match *augment {
            Augment::None => self.read(index, out)?,
            Augment::CropFlip { padding, flip } => {
                let shift = Shift::draw(padding, flip, &mut stream);
                if let Some(values) = self.own_values(index) {
                    shift.apply(shape, values, out, |value| value);
                    return Ok(());
                }
                let bytes = self.evaluation_bytes(index)?;
                let values = &self.inner.values;
                shift.apply(shape, &bytes, out, |byte| values[usize::from(byte)]);
            }
            Augment::ResizedCrop { .. } if self.own_values(index).is_some() => {
                return Err(DataError::Setting {
                    name: "augmentation",
                    expected: "none or a shift and flip, for images that are not of 8 bits",
                    got: "resized crops".into(),
                });
            }
            Augment::ResizedCrop { scale, ratio, flip } => {
                let mut part = [0; 4];
                let pixels = self.inner.source.part(index, &mut |size| {
                    part = augment::resized_crop_box(size, scale, ratio, &mut stream);
                    part
                })?;
                let bytes = decode::resized_crop(&pixels, part, [shape.height, shape.width]);
                self.convert(&bytes, out);
                if flip && stream.coin() {
                    augment::mirror(shape, out);
                }
            }
        }
        Ok(())
    }

    /// The values of an image that is not of 8 bits; `index` is valid.
    fn own_values(&self, index: usize) -> Option<&[f32]> {
        self.inner.source.values(index)
    }

    fn convert(&self, bytes: &[u8], out: &mut [f32]) {
        for (out, &byte) in out.iter_mut().zip(bytes) {
            *out = self.inner.values[usize::from(byte)];
        }
    }

    /// The bytes of the view for evaluation; `index` is valid.
    fn evaluation_bytes(&self, index: usize) -> Result<Cow<'_, [u8]>, DataError> {
        let source = &self.inner.source;
        match source.view() {
            None => Ok(source.pixels(index)?.bytes),
            Some(view) => {
                let pixels = source.part(index, &mut |size| view.needs(size))?;
                Ok(Cow::Owned(decode::evaluation_view(pixels, view)))
            }
        }
    }

    fn check(&self, index: usize, out: &[f32]) -> Result<(), DataError> {
        let (len, expected) = (self.len(), self.shape().len());
        if index >= len {
            return Err(DataError::Index { index, len });
        }
        if out.len() != expected {
            let got = out.len();
            return Err(DataError::Buffer { expected, got });
        }
        Ok(())
    }
}

/// The usual augmentation of image folders: ImageNet's for large inputs, a
/// shift by an eighth and a flip for small ones.
pub(crate) fn folder_augment(view: &View) -> Augment {
    match view.height.min(view.width) {
        128.. => Augment::IMAGENET,
        side => Augment::CropFlip {
            padding: side / 8,
            flip: true,
        },
    }
}
