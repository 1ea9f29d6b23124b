//! Arrays of images with values or labels, as `numpy.savez` writes them.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use sha2::{Digest, Sha256};
use zip::ZipArchive;

use crate::dataset::About;
use crate::npy::{self, Array, Numbers};
use crate::{Augment, DataError, Dataset, Shape, Split, Targets, files};

/// Compressed arrays grow by no more than this.
const MAX_RATIO: u64 = 1032;

/// Images with what is known about them.
#[derive(Debug)]
pub(crate) struct Arrays {
    pub shape: Shape,
    pub pixels: Vec<u8>,
    pub targets: Targets,
    /// Both splits are the same images.
    pub whole: bool,
}

/// Opens a file: `images` with `values`, `labels` or neither, or the same of each split
/// with its name in front (`train_images`, ...). Images are not varied in training.
pub(crate) fn open(
    name: &str,
    file: &Path,
    split: Split,
    whole: bool,
) -> Result<Dataset, DataError> {
    let stream = File::open(file).map_err(DataError::io("open", file))?;
    let found = read(BufReader::new(stream), split).map_err(|what| DataError::Npz {
        path: file.to_path_buf(),
        what,
    })?;
    let mut hasher = Sha256::new();
    hasher.update(format!("{}", found.shape));
    hasher.update(&found.pixels);
    match &found.targets {
        Targets::Classes { labels, .. } => labels
            .iter()
            .for_each(|label| hasher.update(label.to_le_bytes())),
        Targets::Values { values, .. } => values
            .iter()
            .for_each(|value| hasher.update(value.to_le_bytes())),
        Targets::Unknown => {}
    }
    let about = About {
        name: name.into(),
        split,
        shape: found.shape,
        hash: files::hex(hasher.finalize()),
        augment: Augment::None,
        whole: whole && found.whole,
    };
    Ok(Dataset::in_memory(
        about,
        found.targets,
        found.pixels,
        u8::MAX,
    ))
}

/// Opens a file whose classes have these names.
pub(crate) fn open_named(
    name: &str,
    file: &Path,
    split: Split,
    classes: &[&str],
) -> Result<Dataset, DataError> {
    let dataset = open(name, file, split, false)?;
    match dataset.classes().len() {
        count if count <= classes.len() && !dataset.labels().is_empty() => {
            Ok(dataset.renamed(classes))
        }
        count => Err(DataError::Npz {
            path: file.to_path_buf(),
            what: format!("expected {} classes, got {count}", classes.len()),
        }),
    }
}

/// Reads the arrays of a split.
pub(crate) fn read(stream: impl Read + Seek, split: Split) -> Result<Arrays, String> {
    let mut archive = ZipArchive::new(stream).map_err(|error| error.to_string())?;
    let names: Vec<String> = archive
        .file_names()
        .filter_map(|name| Some(name.ok()?.strip_suffix(".npy")?.to_owned()))
        .collect();
    let has = |name: &str| names.iter().any(|known| known == name);
    let prefixes: &[&str] = match split {
        Split::Train => &["train_", ""],
        Split::Test => &["test_", "val_", ""],
    };
    let prefix = prefixes
        .iter()
        .find(|prefix| has(&format!("{prefix}images")));
    let prefix = prefix.ok_or_else(|| format!("it has no images among {}", names.join(", ")))?;
    let (values, labels) = (format!("{prefix}values"), format!("{prefix}labels"));
    if has(&values) && has(&labels) {
        return Err(format!("it has both {values} and {labels}"));
    }
    let (shape, pixels) = images(array(&mut archive, &format!("{prefix}images"))?)?;
    let count = pixels.len() / shape.len();
    let targets = match (has(&values), has(&labels)) {
        (true, _) => real(array(&mut archive, &values)?, count),
        (_, true) => {
            // The classes are those of all parts.
            let mut classes = 0;
            for name in names.iter().filter(|name| name.ends_with("labels")) {
                let all = whole(array(&mut archive, name)?)?;
                let most = all.iter().copied().max().unwrap_or(0);
                classes = most.saturating_add(1).max(classes);
            }
            classed(whole(array(&mut archive, &labels)?)?, count, classes)
        }
        _ => Ok(Targets::Unknown),
    };
    Ok(Arrays {
        shape,
        pixels,
        targets: targets?,
        whole: prefix.is_empty(),
    })
}

fn array(archive: &mut ZipArchive<impl Read + Seek>, name: &str) -> Result<Array, String> {
    let said = |what: String| format!("{name}: {what}");
    let entry = archive.by_name(&format!("{name}.npy"));
    let mut entry = entry.map_err(|error| said(error.to_string()))?;
    let most = entry.compressed_size().saturating_mul(MAX_RATIO);
    npy::read(&mut entry, most).map_err(said)
}

fn images(array: Array) -> Result<(Shape, Vec<u8>), String> {
    let shape = match array.shape[..] {
        [_, height, width] => Shape::new(height, width, 1),
        [_, height, width, channels] => Shape::new(height, width, channels),
        _ => return Err(format!("images have the shape {:?}", array.shape)),
    };
    match array.numbers {
        Numbers::Bytes(pixels) if !pixels.is_empty() => Ok((shape, pixels)),
        Numbers::Bytes(_) => Err(format!("there are no images in {:?}", array.shape)),
        _ => Err("images are not of kind uint8, 0 to 255".into()),
    }
}

/// Real values, as many for each image.
pub(crate) fn real(array: Array, images: usize) -> Result<Targets, String> {
    let width = match array.shape[..] {
        [count] if count == images => 1,
        [count, width] if count == images && width > 0 => width,
        _ => {
            return Err(format!(
                "values have the shape {:?}, images are {images}",
                array.shape
            ));
        }
    };
    let values: Vec<f32> = match array.numbers {
        Numbers::Real(values) => values.iter().map(|&value| value as f32).collect(),
        Numbers::Bytes(values) => values.iter().map(|&value| value.into()).collect(),
        Numbers::Whole(values) => values.iter().map(|&value| value as f32).collect(),
    };
    if let Some(place) = values.iter().position(|value| !value.is_finite()) {
        let (image, got) = (place / width, values[place]);
        return Err(format!(
            "a value of image {image} is {got}, expected a finite number"
        ));
    }
    let names = (0..width).map(|place| place.to_string()).collect();
    Ok(Targets::Values { names, values })
}

/// Whole numbers in any shape of one column.
pub(crate) fn whole(array: Array) -> Result<Vec<i64>, String> {
    let numbers = match array.numbers {
        Numbers::Bytes(labels) => labels.into_iter().map(i64::from).collect(),
        Numbers::Whole(labels) => labels,
        Numbers::Real(_) => return Err("labels are real numbers; call them values".into()),
    };
    match array.shape[..] {
        [_] | [_, 1] => Ok(numbers),
        _ => Err(format!("labels have the shape {:?}", array.shape)),
    }
}

/// More classes than this are taken for values that were called labels.
const MAX_CLASSES: i64 = 1 << 20;

pub(crate) fn classed(labels: Vec<i64>, images: usize, classes: i64) -> Result<Targets, String> {
    if labels.len() != images {
        return Err(format!(
            "there are {} labels for {images} images",
            labels.len()
        ));
    }
    match labels
        .iter()
        .find(|label| !(0..MAX_CLASSES).contains(*label))
    {
        Some(label) => Err(format!("label {label} is no class: they count from 0")),
        None if classes > MAX_CLASSES => Err(format!("label {} is no class", classes - 1)),
        None => {
            let names = (0..classes).map(|class| class.to_string());
            let labels = labels.iter().map(|&label| label as u32).collect();
            Ok(Targets::classes(names, labels))
        }
    }
}
