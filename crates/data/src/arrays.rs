//! Images in an `.npy` file, read from the disk when they are asked for; their labels or
//! values in another.

use std::borrow::Cow;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use crate::at::ReadAt;
use crate::dataset::About;
use crate::decode::Pixels;
use crate::npy::{self, Array};
use crate::source::Source;
use crate::{Augment, DataError, Dataset, Shape, Split, Targets, files, npz};

/// An array of images on disk.
#[derive(Debug)]
struct ImageArray {
    file: ReadAt,
    shape: Shape,
    begin: u64,
    len: usize,
}

impl Source for ImageArray {
    fn len(&self) -> usize {
        self.len
    }

    fn pixels(&self, index: usize) -> Result<Pixels<'_>, DataError> {
        let size = self.shape.len() as u64;
        let bytes = self.file.bytes(self.begin + index as u64 * size, size)?;
        Ok(Pixels::of(self.shape, Cow::Owned(bytes)))
    }
}

/// The arrays of a split.
pub(crate) struct Found {
    images: PathBuf,
    labels: Option<PathBuf>,
    values: Option<PathBuf>,
    whole: bool,
}

/// The arrays of a split in a folder, if it has any: `train_images.npy` and so on, or
/// `images.npy` for both splits.
pub(crate) fn find(folder: &Path, split: Split) -> Option<Found> {
    let prefixes: &[&str] = match split {
        Split::Train => &["train_", ""],
        Split::Test => &["test_", "val_", ""],
    };
    prefixes.iter().find_map(|prefix| {
        let file = |name: &str| {
            let path = folder.join(format!("{prefix}{name}.npy"));
            path.is_file().then_some(path)
        };
        Some(Found {
            images: file("images")?,
            labels: file("labels"),
            values: file("values"),
            whole: prefix.is_empty(),
        })
    })
}

/// One file of images without labels.
pub(crate) fn alone(path: &Path) -> Found {
    Found {
        images: path.to_path_buf(),
        labels: None,
        values: None,
        whole: true,
    }
}

/// Opens arrays. Images are not varied in training.
pub(crate) fn open(name: &str, found: &Found, split: Split) -> Result<Dataset, DataError> {
    let wrong = |path: &Path, what: String| DataError::Npz {
        path: path.to_path_buf(),
        what,
    };
    let file = ReadAt::open(&found.images)?;
    let mut stream = stream(&found.images)?;
    let head = npy::head(&mut stream, file.len).map_err(|what| wrong(&found.images, what))?;
    if head.total > file.len - head.begin.min(file.len) {
        let what = format!("its shape {:?} is more than it holds", head.shape);
        return Err(wrong(&found.images, what));
    }
    let shape = match (head.code.as_str(), &head.shape[..]) {
        ("u1", &[_, height, width]) => Some(Shape::new(height, width, 1)),
        ("u1", &[_, height, width, channels]) => Some(Shape::new(height, width, channels)),
        _ => None,
    };
    let shape = shape.filter(|_| head.total > 0).ok_or_else(|| {
        let what = format!(
            "images are of kind {} and shape {:?}",
            head.code, head.shape
        );
        wrong(&found.images, what)
    })?;
    let images = ImageArray {
        len: head.shape[0],
        begin: head.begin,
        shape,
        file,
    };
    let mut parts = vec![("images", files::sha256(&found.images)?)];
    let targets = match (&found.labels, &found.values) {
        (Some(_), Some(values)) => {
            return Err(wrong(values, "there are labels beside it, too".into()));
        }
        (Some(path), None) => {
            parts.push(("labels", files::sha256(path)?));
            let labels = array(path)?;
            let labels = npz::whole(labels).map_err(|what| wrong(path, what))?;
            let mut most = labels.iter().copied().max().unwrap_or(0);
            // The classes are those of all parts.
            let folder = path.parent().unwrap_or(Path::new("."));
            for other in [Split::Train, Split::Test] {
                if let Some(other) = find(folder, other).and_then(|found| found.labels) {
                    let labels = npz::whole(array(&other)?).map_err(|what| wrong(&other, what))?;
                    most = most.max(labels.into_iter().max().unwrap_or(0));
                }
            }
            npz::classed(labels, images.len, most.saturating_add(1))
                .map_err(|what| wrong(path, what))?
        }
        (None, Some(path)) => {
            parts.push(("values", files::sha256(path)?));
            npz::real(array(path)?, images.len).map_err(|what| wrong(path, what))?
        }
        (None, None) => Targets::Unknown,
    };
    let about = About {
        name: name.into(),
        split,
        shape,
        hash: files::split_hash(parts.iter().map(|(name, hash)| (*name, hash.as_str()))),
        augment: Augment::None,
        whole: found.whole,
    };
    Ok(Dataset::new(about, targets, Box::new(images), u8::MAX))
}

fn stream(path: &Path) -> Result<BufReader<File>, DataError> {
    let file = File::open(path).map_err(DataError::io("open", path))?;
    Ok(BufReader::new(file))
}

fn array(path: &Path) -> Result<Array, DataError> {
    let size = std::fs::metadata(path).map_err(DataError::io("read", path))?;
    npy::read(&mut stream(path)?, size.len()).map_err(|what| DataError::Npz {
        path: path.to_path_buf(),
        what,
    })
}
