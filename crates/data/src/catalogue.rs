//! The data sets by name: what there is, where it is, open and verify.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::idx::Family;
use crate::{DataError, Dataset, Split, View, cifar10, csv, digits, folder, idx, npz};

/// The environment variable that names the folder of data sets.
pub const ROOT_VARIABLE: &str = "HEATSMOOTH_DATA";

/// A data set that is known by name.
pub(crate) struct Known {
    pub name: &'static str,
    about: &'static str,
    pub kind: Kind,
}

pub(crate) enum Kind {
    Digits,
    Cifar10,
    Idx(&'static Family),
    ImageNet,
}

pub(crate) const KNOWN: [Known; 5] = [
    Known {
        name: "digits",
        about: "handwritten digits, 8 x 8 grey, 1437 train, 360 test",
        kind: Kind::Digits,
    },
    Known {
        name: cifar10::NAME,
        about: "CIFAR-10, 32 x 32 RGB, 50000 train, 10000 test",
        kind: Kind::Cifar10,
    },
    Known {
        name: idx::FASHION_MNIST.name,
        about: "Fashion-MNIST, 28 x 28 grey, 60000 train, 10000 test",
        kind: Kind::Idx(&idx::FASHION_MNIST),
    },
    Known {
        name: idx::MNIST.name,
        about: "MNIST, 28 x 28 grey, 60000 train, 10000 test",
        kind: Kind::Idx(&idx::MNIST),
    },
    Known {
        name: "imagenet",
        about: "ImageNet (ILSVRC 2012), folders train and val of class folders",
        kind: Kind::ImageNet,
    },
];

pub(crate) fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// The names of all data sets.
pub(crate) fn names() -> Vec<&'static str> {
    KNOWN.iter().map(|known| known.name).collect()
}

/// Whether `fetch` can bring a data set.
pub(crate) fn fetchable(name: &str) -> bool {
    find(name).is_some_and(|known| matches!(known.kind, Kind::Cifar10 | Kind::Idx(_)))
}

/// How a data set is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The folder of data sets; [`default_root`] when not given.
    pub root: Option<PathBuf>,
    /// Size and channels of the images of a folder.
    pub view: View,
}

/// Whether a data set of this name is looked for in the folder of data sets: one
/// that is known by name, and not embedded.
pub fn uses_root(name_or_folder: &str) -> bool {
    find(name_or_folder).is_some_and(|known| !matches!(known.kind, Kind::Digits))
}

/// The folder in which data sets are kept: `HEATSMOOTH_DATA` if it is set, else
/// `heatsmooth` in the platform's data directory.
pub fn default_root() -> Result<PathBuf, DataError> {
    match std::env::var_os(ROOT_VARIABLE) {
        Some(root) if !root.is_empty() => Ok(root.into()),
        _ => dirs::data_dir()
            .map(|folder| folder.join("heatsmooth"))
            .ok_or(DataError::NoDataDirectory),
    }
}

/// The given root, or the default one.
pub(crate) fn root_or_default(root: Option<&Path>) -> Result<PathBuf, DataError> {
    root.map_or_else(default_root, |root| Ok(root.to_path_buf()))
}

/// Opens a split of a data set: a name (`digits`, `cifar10`, `fashion-mnist`,
/// `mnist`, `imagenet`), or the path of a folder of class folders of images
/// (perhaps inside of `train` and `test` or `val`), of images without labels, of IDX
/// files or of `train.csv` and `test.csv` (or `.npz`), or of a CSV file of paths and
/// values or an `.npz` file. Names win over paths: write `./digits` for a folder
/// called so.
///
/// The files of `cifar10`, `mnist` and `fashion-mnist` are refused unless they
/// are the published ones.
pub fn open(
    name_or_folder: &str,
    split: Split,
    options: &OpenOptions,
) -> Result<Dataset, DataError> {
    let Some(known) = find(name_or_folder) else {
        return open_path(name_or_folder, split, options.view);
    };
    if let Kind::Digits = known.kind {
        return digits::open(split);
    }
    let folder = root_or_default(options.root.as_deref())?.join(known.name);
    if !folder.is_dir() {
        return Err(DataError::Missing {
            dataset: known.name.into(),
            path: folder,
        });
    }
    match known.kind {
        Kind::Digits => digits::open(split),
        Kind::Cifar10 => cifar10::open(&folder, split, &cifar10::OFFICIAL),
        Kind::Idx(family) => idx::open(&folder, split, family),
        Kind::ImageNet => folder::open(known.name, &folder, split, options.view),
    }
}

/// Opens what somebody brings along.
fn open_path(name: &str, split: Split, view: View) -> Result<Dataset, DataError> {
    let path = Path::new(name);
    let ending = |ending: &str| path.extension().is_some_and(|found| found == ending);
    if path.is_file() && ending("csv") {
        csv::open(name, path, split, view, true)
    } else if path.is_file() && ending("npz") {
        npz::open(name, path, split, true)
    } else if !path.is_dir() {
        Err(DataError::UnknownDataset { name: name.into() })
    } else if idx::is_idx_folder(path) {
        idx::open_folder(path, split, name)
    } else if let Some(file) = part(path, split, "csv", name)? {
        csv::open(name, &file, split, view, false)
    } else if let Some(file) = part(path, split, "npz", name)? {
        npz::open(name, &file, split, false)
    } else {
        folder::open(name, path, split, view)
    }
}

/// The file of a split in a folder of `train.csv` and `test.csv` (or `val.csv`), if it
/// is one.
fn part(
    folder: &Path,
    split: Split,
    ending: &str,
    dataset: &str,
) -> Result<Option<PathBuf>, DataError> {
    let file = |name: &str| Some(folder.join(format!("{name}.{ending}"))).filter(|f| f.is_file());
    let (train, test) = (file("train"), file("test").or_else(|| file("val")));
    match (split, &train, &test) {
        (_, None, None) => Ok(None),
        (Split::Train, Some(file), _) | (Split::Test, _, Some(file)) => Ok(Some(file.clone())),
        _ => Err(DataError::Missing {
            dataset: dataset.into(),
            path: folder.join(format!("{split}.{ending}")),
        }),
    }
}

/// Whether a data set can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Part of the program.
    Embedded,
    /// All of its files are there (not checked; see [`verify`]).
    Present,
    /// These files or folders are not there.
    Absent(Vec<String>),
}

/// A line of the catalogue.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name to open it by.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Whether it is there.
    pub state: State,
    /// The folder it belongs in, unless it is embedded.
    pub path: Option<PathBuf>,
    /// Whether it can be fetched.
    pub fetchable: bool,
}

/// All data sets, with their state below `root` (the default root if `None`).
pub fn list(root: Option<&Path>) -> Result<Vec<Entry>, DataError> {
    let root = root_or_default(root)?;
    let entry = |known: &Known| {
        let folder = root.join(known.name);
        let missing: Vec<String> = match known.kind {
            Kind::Digits => Vec::new(),
            Kind::Cifar10 => cifar10::FILES
                .iter()
                .filter(|name| !folder.join(name).is_file())
                .map(ToString::to_string)
                .collect(),
            Kind::Idx(_) => idx::file_names()
                .filter(|name| !idx::locate(&folder, name).is_file())
                .map(|name| format!("{name}.gz"))
                .collect(),
            Kind::ImageNet => ["train", "val"]
                .into_iter()
                .filter(|name| !folder.join(name).is_dir())
                .map(String::from)
                .collect(),
        };
        let embedded = matches!(known.kind, Kind::Digits);
        Entry {
            name: known.name,
            about: known.about,
            state: match (embedded, missing.is_empty()) {
                (true, _) => State::Embedded,
                (false, true) => State::Present,
                (false, false) => State::Absent(missing),
            },
            path: (!embedded).then_some(folder),
            fetchable: fetchable(known.name),
        }
    };
    Ok(KNOWN.iter().map(entry).collect())
}

/// A split that was checked.
#[derive(Clone, Debug)]
pub struct VerifiedSplit {
    /// Which one: `train`, `test`, or `all` of a folder without split folders.
    pub split: &'static str,
    /// How many images it has.
    pub len: usize,
    /// [`Dataset::hash`].
    pub hash: String,
}

/// Reads both splits of a data set (a name or a folder; a folder without split
/// folders has one) in full and checks all that can be checked: published
/// checksums, or, for image folders, that every image decodes. The first bad file
/// is the error.
pub fn verify(name_or_folder: &str, root: Option<&Path>) -> Result<Vec<VerifiedSplit>, DataError> {
    let options = OpenOptions {
        root: root.map(Path::to_path_buf),
        view: View::default(),
    };
    let verify_split = |split| {
        let dataset = open(name_or_folder, split, &options)?;
        if dataset.decodes() {
            (0..dataset.len()).into_par_iter().try_for_each_init(
                || vec![0.0; dataset.shape().len()],
                |image, index| dataset.read(index, image),
            )?;
        }
        Ok(VerifiedSplit {
            split: dataset.split_name(),
            len: dataset.len(),
            hash: dataset.hash().into(),
        })
    };
    let test: VerifiedSplit = verify_split(Split::Test)?;
    match test.split {
        "all" => Ok(vec![test]),
        _ => Ok(vec![verify_split(Split::Train)?, test]),
    }
}
