//! The data sets by name: what there is, where it is, open and verify.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::idx::Family;
use crate::published::{self, Published};
use crate::screen::{BrokenImages, Finding, OddImages, examine_all};
use crate::{DataError, Dataset, Split, View};
use crate::{arrays, cifar10, csv, digits, folder, idx, npz, pack, shards, table};

/// The environment variable that names the folder of data sets.
pub const ROOT_VARIABLE: &str = "HEATSMOOTH_DATA";

/// A data set that is known by name.
pub(crate) struct Known {
    pub name: &'static str,
    about: &'static str,
    pub kind: Kind,
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Digits,
    Cifar10,
    Idx(&'static Family),
    Published(&'static Published),
    ImageNet,
}

/// Those that are no family of files.
const OWN: [Known; 5] = [
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

/// All data sets.
fn known() -> impl Iterator<Item = Known> {
    let one = |set: &'static Published| Known {
        name: set.name,
        about: set.about,
        kind: Kind::Published(set),
    };
    let few = [
        &published::CIFAR100,
        &published::SVHN,
        &published::TINY_IMAGENET,
    ];
    let sets = few.into_iter().chain(&published::MED_MNIST).map(one);
    OWN.into_iter().chain(sets)
}

pub(crate) fn find(name: &str) -> Option<Known> {
    known().find(|known| known.name == name)
}

/// The names of all data sets; those of a family as one.
pub(crate) fn names() -> Vec<&'static str> {
    let family = |known: &Known| known.name.split_once('/').is_some();
    let alone = known().filter(|known| !family(known));
    let mut names: Vec<&str> = alone.map(|known| known.name).collect();
    names.push("medmnist/NAME");
    names
}

/// The names of a family's data sets.
pub(crate) fn family(name: &str) -> Vec<&'static str> {
    let names = known().filter_map(|known| known.name.split_once('/'));
    let own = names.filter(|(family, _)| *family == name);
    own.map(|(_, member)| member).collect()
}

/// Whether `fetch` can bring a data set.
pub(crate) fn fetchable(name: &str) -> bool {
    let can = |kind| matches!(kind, Kind::Cifar10 | Kind::Idx(_) | Kind::Published(_));
    find(name).is_some_and(|known| can(known.kind))
}

/// The size of a data set's images, where they are files and nobody asks for another.
pub fn usual_view(name: &str) -> Option<View> {
    match find(name)?.kind {
        Kind::Published(set) => set.view(),
        _ => None,
    }
}

/// How a data set is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The folder of data sets; [`default_root`] when not given.
    pub root: Option<PathBuf>,
    /// Size and channels of images that are files.
    pub view: View,
    /// What becomes of image files that cannot be decoded.
    pub broken: BrokenImages,
    /// What becomes of image files that are not what they seem.
    pub odd: OddImages,
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

/// Opens a split of a data set: a name (`digits`, `cifar10`, `cifar100`, `svhn`,
/// `fashion-mnist`, `mnist`, `medmnist/NAME`, `tiny-imagenet`, `imagenet`), or the path of a folder of class folders of images
/// (perhaps inside of `train` and `test` or `val`), of images without labels, of tar
/// shards, of Parquet tables, of packed images, of `.npy` arrays, of IDX files or of
/// `train.csv` and `test.csv` (or `.npz`), or of one such file. Names win over paths:
/// write `./digits` for a folder called so.
///
/// The files of all named data sets but `imagenet` are refused unless they are the
/// published ones.
pub fn open(
    name_or_folder: &str,
    split: Split,
    options: &OpenOptions,
) -> Result<Dataset, DataError> {
    let dataset = open_any(name_or_folder, split, options)?;
    let choices = [
        (
            "what becomes of broken images",
            options.broken != BrokenImages::Refuse,
        ),
        (
            "what becomes of odd images",
            options.odd != OddImages::Convert,
        ),
    ];
    match choices.iter().find(|(_, chosen)| *chosen) {
        Some((name, _)) if dataset.source().as_files().is_none() => Err(DataError::Setting {
            name,
            expected: "left open for images that are not files of their own",
            got: "a choice".into(),
        }),
        _ => Ok(dataset),
    }
}

fn open_any(name: &str, split: Split, options: &OpenOptions) -> Result<Dataset, DataError> {
    let Some(known) = find(name) else {
        return open_path(name, Path::new(name), split, options);
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
        Kind::Published(set) => set.open(&folder, split, options),
        Kind::ImageNet => open_path(known.name, &folder, split, options),
    }
}

/// Opens what somebody brings along.
fn open_path(
    name: &str,
    path: &Path,
    split: Split,
    options: &OpenOptions,
) -> Result<Dataset, DataError> {
    let view = options.view;
    let ending = |ending: &str| path.extension().is_some_and(|found| found == ending);
    if path.is_file() {
        let one = shards::Found {
            train: vec![path.to_path_buf()],
            test: vec![path.to_path_buf()],
            whole: true,
        };
        let folder = path.parent().unwrap_or(Path::new("."));
        return if ending("csv") {
            csv::open(name, path, split, view, true)
        } else if ending("npz") {
            npz::open(name, path, split, true)
        } else if ending("npy") {
            arrays::open(name, &arrays::alone(path), split)
        } else if ending("tar") {
            shards::open(name, folder, &one, split, options)
        } else if ending("parquet") {
            table::open(name, folder, &one, split, options)
        } else {
            Err(DataError::UnknownDataset { name: name.into() })
        };
    }
    if !path.is_dir() {
        return Err(DataError::UnknownDataset { name: name.into() });
    }
    if pack::is_packed(path) {
        return pack::open(name, path, split, &view);
    }
    if idx::is_idx_folder(path) {
        return idx::open_folder(path, split, name);
    }
    if let Some(file) = part(path, split, "csv", name)? {
        return csv::open(name, &file, split, view, false);
    }
    if let Some(file) = part(path, split, "npz", name)? {
        return npz::open(name, &file, split, false);
    }
    if let Some(found) = arrays::find(path, split) {
        return arrays::open(name, &found, split);
    }
    if let Some(found) = shards::find(path, "parquet")? {
        return table::open(name, path, &found, split, options);
    }
    // Archives beside the folders that they were unpacked to are left alone.
    if !folder::has_class_folders(path)?
        && let Some(found) = shards::find(path, "tar")?
    {
        return shards::open(name, path, &found, split, options);
    }
    folder::open(name, path, split, options)
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
    let entry = |known: Known| {
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
            Kind::Published(set) => {
                let names = set.files.iter().map(|file| file.name);
                let missing = names.filter(|name| !folder.join(name).is_file());
                missing.map(String::from).collect()
            }
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
    Ok(known().map(entry).collect())
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
    /// Images that can be used but are not what they seem.
    pub odd: Vec<Finding>,
}

/// Reads both splits of a data set (a name or a folder; a folder without split
/// folders has one) in full and checks all that can be checked: published
/// checksums, or, for image files, that every one decodes. Bad ones are counted and named
/// in the error.
pub fn verify(name_or_folder: &str, root: Option<&Path>) -> Result<Vec<VerifiedSplit>, DataError> {
    let options = OpenOptions {
        root: root.map(Path::to_path_buf),
        ..OpenOptions::default()
    };
    let verify_split = |split| {
        let dataset = open(name_or_folder, split, &options)?;
        let mut odd = Vec::new();
        if let Some(files) = dataset.source().as_files() {
            let (broken, others): (Vec<_>, _) = examine_all(files, true)?
                .into_iter()
                .partition(|finding| finding.fault.is_broken());
            if !broken.is_empty() {
                return Err(DataError::BadImages { findings: broken });
            }
            odd = others;
        } else if dataset.decodes() {
            (0..dataset.len()).into_par_iter().try_for_each_init(
                || vec![0.0; dataset.shape().len()],
                |image, index| dataset.read(index, image),
            )?;
        }
        Ok(VerifiedSplit {
            split: dataset.split_name(),
            len: dataset.len(),
            hash: dataset.hash().into(),
            odd,
        })
    };
    let test: VerifiedSplit = verify_split(Split::Test)?;
    match test.split {
        "all" => Ok(vec![test]),
        _ => Ok(vec![verify_split(Split::Train)?, test]),
    }
}
