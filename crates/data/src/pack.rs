//! Packed images: decoded and resized once, so that later epochs read pixels at the
//! speed of memory.
//!
//! A pack is a folder: `pack-SPLIT.json` says what it is, `SPLIT-00000.pack` and so on
//! hold a few thousand images each. Every image is stored in the smaller of two sizes:
//! its own, or the one that [`View`] resizes whole images to. The view for evaluation is
//! therefore the same to the byte as from the original files; random parts of images are
//! cut from the smaller ones. Parts appear in one piece, so packing can be stopped and
//! run again at any moment.

mod part;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use self::part::{PartWriter, Tail};
use crate::at::ReadAt;
use crate::catalogue::{self, OpenOptions};
use crate::dataset::{About, folder_augment};
use crate::decode::{self, Pixels};
use crate::fetch::Observer;
use crate::screen::{BrokenImages, Fault, Finding, OddImages};
use crate::source::Source;
use crate::{DataError, Dataset, Split, Targets, View, files};

/// Images in a part.
const PART: usize = 2048;
/// Images that are decoded at a time.
const BLOCK: usize = 64;
const FORMAT: &str = "heatsmooth-pack";
const VERSION: u32 = 1;

/// What is packed, and how.
#[derive(Clone, Debug, Default)]
pub struct PackOptions {
    /// The folder of data sets; [`crate::default_root`] when not given.
    pub root: Option<PathBuf>,
    /// What the packed images are for.
    pub view: View,
    /// What becomes of image files that cannot be decoded.
    pub broken: BrokenImages,
    /// What becomes of image files that are not what they seem.
    pub odd: OddImages,
    /// Only this split; both (or the whole) if not given.
    pub split: Option<Split>,
}

/// A split that was packed.
#[derive(Clone, Debug)]
pub struct Packed {
    /// Which one: `train`, `test`, or `all`.
    pub split: &'static str,
    /// How many images it has.
    pub len: usize,
    /// Bytes on disk.
    pub bytes: u64,
    /// [`Dataset::hash`] of the pack.
    pub hash: String,
    /// Images that were left out.
    pub left_out: Vec<Finding>,
}

/// What stands beside the parts.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: String,
    version: u32,
    /// The data set that was packed, and its hash.
    source: String,
    source_sha256: String,
    view: View,
    classes: Vec<String>,
    words: Vec<String>,
    labelled: bool,
    parts: u32,
    images: u64,
    left_out: Vec<Finding>,
}

impl Manifest {
    fn path(folder: &Path, split: &str) -> PathBuf {
        folder.join(format!("pack-{split}.json"))
    }

    fn read(path: &Path) -> Result<Self, DataError> {
        let text = std::fs::read(path).map_err(DataError::io("read", path))?;
        let manifest: Self = serde_json::from_slice(&text)
            .map_err(|error| DataError::format(path, error.to_string()))?;
        match (manifest.format.as_str(), manifest.version) {
            (FORMAT, VERSION) => Ok(manifest),
            (format, version) => Err(DataError::format(
                path,
                format!("expected {FORMAT} {VERSION}, got {format} {version}"),
            )),
        }
    }

    /// Identifies the content: pixels follow from the source and the view.
    fn hash(&self) -> String {
        let left_out: Vec<usize> = self.left_out.iter().map(|finding| finding.index).collect();
        files::hex(Sha256::digest(
            key(&self.source_sha256, &self.view) + &format!("{left_out:?}"),
        ))
    }
}

/// What parts must have in common.
fn key(source: &str, view: &View) -> String {
    let View {
        height,
        width,
        channels,
        short_side,
    } = view;
    format!("{source} {height}x{width}x{channels} short side {short_side}")
}

/// Whether a folder holds packed images.
pub(crate) fn is_packed(folder: &Path) -> bool {
    let mut splits = ["all", "train", "test"].iter();
    splits.any(|split| Manifest::path(folder, split).is_file())
}

/// What the images of a pack are for; none if the folder is no pack, or is not readable
/// as one.
pub fn packed_view(folder: impl AsRef<Path>) -> Option<View> {
    let mut splits = ["all", "train", "test"].iter();
    splits.find_map(|split| {
        let manifest = Manifest::read(&Manifest::path(folder.as_ref(), split)).ok()?;
        Some(manifest.view)
    })
}

/// Packs a data set of image files into a folder. Run again, it goes on where it stopped.
///
/// # Errors
/// Data that are no image files or cannot be read; another pack in the folder; a full
/// disk.
pub fn pack(
    name: &str,
    out: &Path,
    options: &PackOptions,
    observer: &dyn Observer,
) -> Result<Vec<Packed>, DataError> {
    let first = pack_split(
        name,
        options.split.unwrap_or(Split::Test),
        out,
        options,
        observer,
    )?;
    match (options.split, first.split) {
        (Some(_), _) | (None, "all") => Ok(vec![first]),
        (None, _) => Ok(vec![
            pack_split(name, Split::Train, out, options, observer)?,
            first,
        ]),
    }
}

fn pack_split(
    name: &str,
    split: Split,
    out: &Path,
    options: &PackOptions,
    observer: &dyn Observer,
) -> Result<Packed, DataError> {
    let open = OpenOptions {
        root: options.root.clone(),
        view: options.view,
        broken: BrokenImages::Refuse,
        odd: options.odd,
    };
    let dataset = catalogue::open(name, split, &open)?;
    let has_files = dataset.source().as_files().is_some();
    if !has_files || matches!(dataset.targets(), Targets::Values { .. }) {
        return Err(DataError::Setting {
            name: "the data set to pack",
            expected: "image files, with classes or without",
            got: dataset.name().into(),
        });
    }
    std::fs::create_dir_all(out).map_err(DataError::io("create", out))?;
    let split = dataset.split_name();
    let path = Manifest::path(out, split);
    let key = key(dataset.hash(), &options.view);
    if path.is_file() {
        let there = Manifest::read(&path)?;
        if self::key(&there.source_sha256, &there.view) != key {
            let what = format!(
                "it is a pack of {} already, or for another size",
                there.source
            );
            return Err(DataError::format(&path, what));
        }
    }
    observer.begin(&format!("{name} {split}"), Some(dataset.len() as u64));
    let parts = dataset.len().div_ceil(PART);
    let (mut left_out, mut images, mut bytes) = (Vec::new(), 0, 0);
    for number in 0..parts {
        let file = part::path(out, split, number);
        let range = number * PART..((number + 1) * PART).min(dataset.len());
        let count = range.len() as u64;
        let done = Tail::read(&file).ok().filter(|(tail, _)| tail.key == key);
        let tail = match done {
            Some((tail, _)) => tail,
            None => write_part(&dataset, range, &file, &key, options)?,
        };
        if options.broken == BrokenImages::Refuse && !tail.left_out.is_empty() {
            return Err(DataError::BadImages {
                findings: tail.left_out,
            });
        }
        images += tail.images.len() as u64;
        bytes += std::fs::metadata(&file).map_or(0, |about| about.len());
        left_out.extend(tail.left_out);
        observer.advance(count);
    }
    if images == 0 {
        return Err(DataError::EmptyFolder { path: name.into() });
    }
    let (classes, labelled) = match dataset.targets() {
        Targets::Classes { names, .. } => (names.clone(), true),
        _ => (Vec::new(), false),
    };
    let manifest = Manifest {
        format: FORMAT.into(),
        version: VERSION,
        source: dataset.name().into(),
        source_sha256: dataset.hash().into(),
        view: options.view,
        classes,
        words: dataset.class_words().to_vec(),
        labelled,
        parts: parts as u32,
        images,
        left_out,
    };
    let text = serde_json::to_vec_pretty(&manifest)
        .map_err(|error| DataError::format(&path, error.to_string()))?;
    part::write_whole(&path, |file| std::io::Write::write_all(file, &text))?;
    Ok(Packed {
        split,
        len: images as usize,
        bytes,
        hash: manifest.hash(),
        left_out: manifest.left_out,
    })
}

/// Packs some images into a part.
fn write_part(
    dataset: &Dataset,
    range: std::ops::Range<usize>,
    path: &Path,
    key: &str,
    options: &PackOptions,
) -> Result<Tail, DataError> {
    let mut writer = PartWriter::new(path, key)?;
    let indices: Vec<usize> = range.collect();
    for block in indices.chunks(BLOCK) {
        let packed: Vec<_> = block
            .par_iter()
            .map(|&index| (index, small(dataset, index, &options.view)))
            .collect();
        for (index, pixels) in packed {
            match pixels {
                Ok(pixels) => {
                    let label = dataset.labels().get(index).copied().unwrap_or(0);
                    writer.push(&pixels, label)?;
                }
                Err(DataError::Image { path, source }) if options.broken == BrokenImages::Skip => {
                    writer.tail.left_out.push(Finding {
                        index,
                        place: path,
                        fault: Fault::Broken(source.to_string()),
                    });
                }
                Err(error) => return Err(error),
            }
        }
    }
    writer.finish()
}

/// An image in the smaller of its own size and the one that whole images are resized to.
fn small(dataset: &Dataset, index: usize, view: &View) -> Result<Pixels<'static>, DataError> {
    let pixels = dataset.source().pixels(index)?;
    let pixels = Pixels {
        bytes: Cow::Owned(pixels.bytes.into_owned()),
        ..pixels
    };
    let [width, height] = view.full_size(pixels.width, pixels.height);
    match width.saturating_mul(height) < pixels.width * pixels.height {
        true => Ok(decode::full_view(pixels, view)),
        false => Ok(pixels),
    }
}

/// Opens a split of a pack.
pub(crate) fn open(
    name: &str,
    folder: &Path,
    split: Split,
    view: &View,
) -> Result<Dataset, DataError> {
    view.check()?;
    let whole = Manifest::path(folder, "all").is_file();
    let split_name = if whole { "all" } else { &split.to_string() };
    let path = Manifest::path(folder, split_name);
    if !path.is_file() {
        return Err(DataError::Missing {
            dataset: name.into(),
            path,
        });
    }
    let manifest = Manifest::read(&path)?;
    if manifest.view != *view {
        let got = format!("those of {} ({})", view.shape(), view.in_words());
        return Err(DataError::Setting {
            name: "the images of a pack",
            expected: "used for the input size that they were packed for",
            got,
        });
    }
    let key = key(&manifest.source_sha256, &manifest.view);
    let mut pack = Pack {
        parts: Vec::new(),
        images: Vec::new(),
        view: manifest.view,
        notes: manifest.view.in_words(),
    };
    let mut labels = Vec::new();
    for number in 0..manifest.parts as usize {
        let file = part::path(folder, split_name, number);
        let (tail, end) = Tail::read(&file)?;
        if tail.key != key {
            return Err(DataError::format(&file, "it is a part of another pack"));
        }
        for image in &tail.images {
            image.check(&file, end, manifest.view.channels)?;
            let label = image.label as usize;
            if manifest.labelled && label >= manifest.classes.len() {
                return Err(DataError::Label {
                    path: file,
                    index: labels.len(),
                    got: label as u64,
                    classes: manifest.classes.len(),
                });
            }
            labels.push(image.label);
            pack.images.push((number as u32, *image));
        }
        pack.parts.push(ReadAt::open(&file)?);
    }
    if pack.images.len() as u64 != manifest.images || labels.is_empty() {
        let what = format!("expected {} images, got {}", manifest.images, labels.len());
        return Err(DataError::format(&path, what));
    }
    let about = About {
        name: name.into(),
        split,
        shape: view.shape(),
        hash: manifest.hash(),
        augment: folder_augment(view),
        whole,
    };
    let targets = match manifest.labelled {
        true => Targets::Classes {
            names: manifest.classes,
            labels,
        },
        false => Targets::Unknown,
    };
    let dataset = Dataset::new(about, targets, Box::new(pack), u8::MAX);
    Ok(dataset.also_called(manifest.words))
}

/// Packed images on disk.
#[derive(Debug)]
struct Pack {
    parts: Vec<ReadAt>,
    images: Vec<(u32, part::Image)>,
    view: View,
    notes: String,
}

impl Source for Pack {
    fn len(&self) -> usize {
        self.images.len()
    }

    fn pixels(&self, index: usize) -> Result<Pixels<'_>, DataError> {
        let (part, image) = &self.images[index];
        let channels = self.view.channels;
        image.read(&self.parts[*part as usize], channels)
    }

    fn view(&self) -> Option<&View> {
        Some(&self.view)
    }

    fn notes(&self) -> Vec<String> {
        vec![format!("packed: {}", self.notes)]
    }
}
