//! A data set: images by index, labels, classes, and a hash of its content.

use std::borrow::Cow;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::augment::{self, Augment, Shift};
use crate::classes::Relabelled;
use crate::decode::{self, Pixels, View};
use crate::folder::Folder;
use crate::{DataError, Images, Shape, Targets};

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
    source: Source,
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

#[derive(Debug)]
enum Source {
    /// Every image's bytes, row by row, channels last.
    Memory(Vec<u8>),
    /// Every image's values, which lie on no grid.
    Values(Vec<f32>),
    Folder(Folder),
}

impl Dataset {
    /// A data set held in memory, whose byte `white` means 1.0.
    pub(crate) fn in_memory(about: About, targets: Targets, pixels: Vec<u8>, white: u8) -> Self {
        Self::new(about, targets, Source::Memory(pixels), white)
    }

    /// A data set whose images are decoded when they are read.
    pub(crate) fn in_folder(about: About, targets: Targets, folder: Folder) -> Self {
        Self::new(about, targets, Source::Folder(folder), u8::MAX)
    }

    /// A data set of any values between 0 and 1, held in memory.
    pub(crate) fn of_values(about: About, targets: Targets, values: Vec<f32>) -> Self {
        Self::new(about, targets, Source::Values(values), u8::MAX)
    }

    fn new(about: About, targets: Targets, source: Source, white: u8) -> Self {
        let values = std::array::from_fn(|byte| byte as f32 / f32::from(white));
        Self {
            len: match &source {
                Source::Memory(pixels) => pixels.len() / about.shape.len(),
                Source::Values(pixels) => pixels.len() / about.shape.len(),
                Source::Folder(folder) => folder.len(),
            },
            inner: Arc::new(Inner {
                about,
                targets,
                source,
                white,
                values,
            }),
            relabelled: None,
        }
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
        match self.inner.source {
            Source::Values(_) => None,
            Source::Memory(_) | Source::Folder(_) => Some(self.inner.white.into()),
        }
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
        let mut notes = Vec::new();
        if let Source::Folder(folder) = &self.inner.source {
            notes.push(folder.view.in_words());
            if folder.ignored > 0 {
                let ignored = folder.ignored;
                notes.push(format!(
                    "{ignored} files that are not PNG or JPEG are left out"
                ));
            }
        }
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
        match &self.inner.source {
            Source::Memory(_) | Source::Values(_) => 0,
            Source::Folder(folder) => folder.ignored,
        }
    }

    /// The image file behind an index, for data sets that are folders.
    pub fn path(&self, index: usize) -> Option<PathBuf> {
        match &self.inner.source {
            Source::Memory(_) | Source::Values(_) => None,
            Source::Folder(folder) => (index < self.len()).then(|| folder.path(index)),
        }
    }

    /// True when reading an image means decoding a file.
    pub(crate) fn decodes(&self) -> bool {
        matches!(self.inner.source, Source::Folder(_))
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
                let pixels = self.whole_image(index)?;
                let size = [pixels.width, pixels.height];
                let part = augment::resized_crop_box(size, scale, ratio, &mut stream);
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
        let len = self.shape().len();
        match &self.inner.source {
            Source::Values(values) => Some(&values[index * len..][..len]),
            Source::Memory(_) | Source::Folder(_) => None,
        }
    }

    fn convert(&self, bytes: &[u8], out: &mut [f32]) {
        for (out, &byte) in out.iter_mut().zip(bytes) {
            *out = self.inner.values[usize::from(byte)];
        }
    }

    /// The bytes of the view for evaluation; `index` is valid.
    fn evaluation_bytes(&self, index: usize) -> Result<Cow<'_, [u8]>, DataError> {
        let pixels = self.whole_image(index)?;
        match &self.inner.source {
            Source::Memory(_) | Source::Values(_) => Ok(pixels.bytes),
            Source::Folder(folder) => Ok(Cow::Owned(decode::evaluation_view(pixels, &folder.view))),
        }
    }

    /// An image as it is stored; `index` is valid.
    fn whole_image(&self, index: usize) -> Result<Pixels<'_>, DataError> {
        match &self.inner.source {
            Source::Memory(bytes) => {
                let (shape, len) = (self.shape(), self.shape().len());
                Ok(Pixels {
                    bytes: bytes[index * len..][..len].into(),
                    width: shape.width,
                    height: shape.height,
                    channels: shape.channels,
                })
            }
            // Read by [`Dataset::values`].
            Source::Values(_) => Ok(Pixels {
                bytes: Cow::Borrowed(&[]),
                width: 0,
                height: 0,
                channels: self.shape().channels,
            }),
            Source::Folder(folder) => decode::decode(&folder.path(index), folder.view.channels),
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
