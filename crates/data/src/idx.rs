//! IDX files, plain or compressed with gzip: MNIST and its family.
//!
//! An IDX file is a magic number (two zero bytes, the type: 8 for unsigned
//! bytes, the number of dimensions), the dimensions as 32-bit big-endian
//! numbers, and the data. Its size is checked against its dimensions before
//! anything is allocated.

use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;
use sha2::{Digest, Sha256};

use crate::dataset::About;
use crate::{Augment, DataError, Dataset, Shape, Split, Targets, files};

/// More uncompressed bytes are refused.
const MAX_BYTES: u64 = 1 << 31;
/// No gzip file expands by more.
const MAX_RATIO: u64 = 1032;
const CLASSES: usize = 10;

/// A published checksum of one file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pin {
    /// Of the uncompressed content.
    Content(&'static str),
    /// Of the compressed file; no checksum of its content is published.
    Gzip(&'static str),
}

/// The files of a split.
const NAMES: [[&str; 2]; 2] = [
    ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"],
    ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"],
];

/// A data set of the MNIST family.
pub(crate) struct Family {
    pub name: &'static str,
    pub classes: [&'static str; CLASSES],
    /// Whether mirror images are of the same class.
    pub flip: bool,
    /// Of images and labels, first for training, then for testing.
    pub pins: [[Pin; 2]; 2],
    /// Where the compressed files are published.
    pub mirrors: &'static [&'static str],
}

const DIGITS: [&str; CLASSES] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// Y. LeCun, C. Cortes and C. Burges, *The MNIST database*, 1998.
pub(crate) const MNIST: Family = Family {
    name: "mnist",
    classes: DIGITS,
    flip: false,
    pins: [
        [
            Pin::Content("ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
            Pin::Content("65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
        ],
        [
            Pin::Content("0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
            Pin::Content("ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
        ],
    ],
    mirrors: &[
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
    ],
};

/// H. Xiao, K. Rasul and R. Vollgraf, *Fashion-MNIST*, 2017.
pub(crate) const FASHION_MNIST: Family = Family {
    name: "fashion-mnist",
    classes: [
        "t-shirt/top",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle boot",
    ],
    flip: true,
    pins: [
        [
            Pin::Gzip("08dc20ab1689590a0bcd66e874647b6ee8464e2d501b5a3f1f78831db19a3fdc"),
            Pin::Gzip("b0197879cbda89f3dc7b894f9fd52b858e68ea4182b6947c9d8c2b67e5f18dcc"),
        ],
        [
            Pin::Gzip("78dcbbfb5a27efaf1b6c1d616caca68560be8766c5bffcb2791df9273a534229"),
            Pin::Gzip("42bd18137a62d5998cdeae52bf3a0676ac6b706f5cf8439b47bb5b151ae3dccf"),
        ],
    ],
    mirrors: &[
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    ],
};

/// The names of a family's four files, uncompressed.
pub(crate) fn file_names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().flatten().copied()
}

/// Whether a folder holds IDX files under the usual names.
pub(crate) fn is_idx_folder(folder: &Path) -> bool {
    file_names().any(|name| locate(folder, name).is_file())
}

/// The plain file if it is there, else the compressed one.
pub(crate) fn locate(folder: &Path, name: &str) -> PathBuf {
    let plain = folder.join(name);
    if plain.is_file() {
        plain
    } else {
        folder.join(format!("{name}.gz"))
    }
}

/// Reads a split of a published data set, refusing files that are not the
/// published ones.
pub(crate) fn open(folder: &Path, split: Split, family: &Family) -> Result<Dataset, DataError> {
    for (name, pin) in NAMES[split as usize]
        .iter()
        .zip(family.pins[split as usize])
    {
        check_pin(family.name, &locate(folder, name), pin)?;
    }
    read_split(folder, split, family.name, &family.classes, family.flip)
}

/// Reads a split of IDX files of digits, or whatever has ten classes.
pub(crate) fn open_folder(folder: &Path, split: Split, name: &str) -> Result<Dataset, DataError> {
    read_split(folder, split, name, &DIGITS, false)
}

/// Refuses a file whose checksum is not the pinned one.
pub(crate) fn check_pin(dataset: &str, path: &Path, pin: Pin) -> Result<(), DataError> {
    match pin {
        Pin::Content(expected) => {
            let (mut stream, _) = content(dataset, path)?;
            let mut hasher = Sha256::new();
            let mut buffer = vec![0; 1 << 18];
            loop {
                let read = stream.read(&mut buffer);
                match read.map_err(DataError::io("decompress", path))? {
                    0 => break,
                    read => hasher.update(&buffer[..read]),
                }
            }
            files::check_sha256(path, expected, &files::hex(hasher.finalize()))
        }
        Pin::Gzip(expected) => {
            drop(files::open(dataset, path)?);
            if path.extension().is_none_or(|ending| ending != "gz") {
                let what = "no checksum is published for the uncompressed file: expected the .gz";
                return Err(DataError::format(path, what));
            }
            files::check_sha256(path, expected, &files::sha256(path)?)
        }
    }
}

fn read_split(
    folder: &Path,
    split: Split,
    name: &str,
    classes: &[&str],
    flip: bool,
) -> Result<Dataset, DataError> {
    let [image_name, label_name] = NAMES[split as usize];
    let image_path = locate(folder, image_name);
    let label_path = locate(folder, label_name);
    let images = read(name, &image_path, 3)?;
    let labels = read(name, &label_path, 1)?;
    let (count, height, width) = (images.sizes[0], images.sizes[1], images.sizes[2]);
    if count == 0 || height == 0 || width == 0 {
        let what = format!("expected images, got {count} of {height} x {width} pixels");
        return Err(DataError::format(image_path, what));
    }
    if labels.sizes[0] != count {
        let what = format!("expected {count} labels, got {}", labels.sizes[0]);
        return Err(DataError::format(label_path, what));
    }
    let wrong = |&label: &u8| usize::from(label) >= classes.len();
    if let Some(index) = labels.bytes.iter().position(wrong) {
        return Err(DataError::Label {
            path: label_path,
            index,
            got: labels.bytes[index].into(),
            classes: classes.len(),
        });
    }
    let about = About {
        name: name.into(),
        split,
        shape: Shape::new(height, width, 1),
        hash: files::split_hash([
            (image_name, images.sha256.as_str()),
            (label_name, labels.sha256.as_str()),
        ]),
        augment: Augment::CropFlip {
            padding: 2.min(height.min(width) - 1),
            flip,
        },
        whole: false,
    };
    let labels = labels.bytes.into_iter().map(u32::from).collect();
    let targets = Targets::classes(classes.iter().copied(), labels);
    Ok(Dataset::in_memory(about, targets, images.bytes, u8::MAX))
}

struct Idx {
    sizes: Vec<usize>,
    bytes: Vec<u8>,
    /// Of the whole uncompressed file.
    sha256: String,
}

/// The uncompressed content of a file, and the most bytes it can have.
fn content(dataset: &str, path: &Path) -> Result<(Box<dyn Read>, u64), DataError> {
    let failed = |source| DataError::io("read", path)(source);
    let mut file = files::open(dataset, path)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut magic = [0; 2];
    let compressed = file.read(&mut magic).map_err(failed)? == 2 && magic == [0x1f, 0x8b];
    file.rewind().map_err(failed)?;
    let file = BufReader::new(file);
    Ok(if compressed {
        let most = length.saturating_mul(MAX_RATIO);
        (Box::new(GzDecoder::new(file).take(MAX_BYTES)), most)
    } else {
        (Box::new(file), length)
    })
}

/// Reads a file of unsigned bytes in `dimensions` dimensions.
fn read(dataset: &str, path: &Path, dimensions: usize) -> Result<Idx, DataError> {
    let (mut stream, most) = content(dataset, path)?;
    let mut header = Vec::new();
    let header_bytes = 4 + 4 * dimensions as u64;
    stream
        .by_ref()
        .take(header_bytes)
        .read_to_end(&mut header)
        .map_err(DataError::io("read", path))?;
    let size_error = |expected, got| DataError::Size {
        path: path.to_path_buf(),
        expected,
        got,
    };
    if header.len() as u64 != header_bytes {
        return Err(size_error(header_bytes, header.len() as u64));
    }
    let words: Vec<u32> = header
        .chunks_exact(4)
        .map(|word| {
            word.iter()
                .fold(0, |value, &byte| value << 8 | u32::from(byte))
        })
        .collect();
    let expected = 0x0800 + dimensions as u32;
    if words[0] != expected {
        let got = words[0];
        let what =
            format!("expected an IDX file with magic number {expected:#010x}, got {got:#010x}");
        return Err(DataError::format(path, what));
    }
    let count = words[1..]
        .iter()
        .try_fold(1u64, |count, &size| count.checked_mul(size.into()))
        .and_then(|count| count.checked_add(header_bytes))
        .filter(|&total| total <= MAX_BYTES);
    let Some(total) = count else {
        let what = format!(
            "expected at most {MAX_BYTES} bytes, got dimensions {:?}",
            &words[1..]
        );
        return Err(DataError::format(path, what));
    };
    if total > most {
        return Err(size_error(total, most));
    }
    let mut bytes = Vec::new();
    stream
        .take(total - header_bytes + 1)
        .read_to_end(&mut bytes)
        .map_err(DataError::io("read", path))?;
    let got = header_bytes + bytes.len() as u64;
    if got != total {
        return Err(size_error(total, got));
    }
    let mut hasher = Sha256::new();
    hasher.update(&header);
    hasher.update(&bytes);
    Ok(Idx {
        sizes: words[1..].iter().map(|&size| size as usize).collect(),
        bytes,
        sha256: files::hex(hasher.finalize()),
    })
}
