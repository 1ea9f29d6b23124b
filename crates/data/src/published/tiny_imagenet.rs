//! Tiny ImageNet, read from its archive: class folders for training, and a table of the
//! validation images' classes, which serve as test images since those of `test` are secret.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use flate2::read::DeflateDecoder;
use zip::{CompressionMethod, ZipArchive};

use crate::at::ReadAt;
use crate::catalogue::OpenOptions;
use crate::dataset::Opened;
use crate::source::Files;
use crate::{DataError, Dataset, Split, Targets, decode};

const TRUTH: &str = "val/val_annotations.txt";
const WORDS: &str = "words.txt";
/// No honest table is larger.
const MAX_TABLE: u64 = 64 << 20;

/// Images in a ZIP archive.
#[derive(Debug)]
struct Zipped {
    archive: ReadAt,
    images: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    at: u64,
    stored: u64,
    size: u64,
    deflated: bool,
    /// Its class, then its file.
    name: Box<str>,
}

/// A path in the archive without the folder that holds everything.
fn below(name: &str) -> Option<&str> {
    name.split_once('/').map(|(_, rest)| rest)
}

pub(super) fn open(path: &Path, split: Split, options: &OpenOptions) -> Result<Dataset, DataError> {
    options.view.check()?;
    let wrong = |what: String| DataError::format(path, what);
    let file = File::open(path).map_err(DataError::io("open", path))?;
    let mut zip = ZipArchive::new(BufReader::new(file)).map_err(|e| wrong(e.to_string()))?;
    let (mut train, mut val, mut classes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut truth, mut words) = (String::new(), String::new());
    for number in 0..zip.len() {
        let mut entry = zip.by_index(number).map_err(|e| wrong(e.to_string()))?;
        let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
        let name = below(&name).unwrap_or_default();
        if [TRUTH, WORDS].contains(&name) {
            let table = if name == TRUTH {
                &mut truth
            } else {
                &mut words
            };
            let read = entry.by_ref().take(MAX_TABLE).read_to_string(table);
            read.map_err(DataError::io("read", path.join(name)))?;
            continue;
        }
        if !crate::folder::is_image(Path::new(name)) {
            continue;
        }
        let mut parts = name.split('/');
        let (part, class) = (parts.next(), parts.next().unwrap_or_default());
        let last = name.rsplit('/').next().unwrap_or_default();
        let into = match part {
            Some("train") => {
                classes.push(class.to_owned());
                &mut train
            }
            Some("val") => &mut val,
            _ => continue,
        };
        let method = entry.compression();
        let deflated = method == CompressionMethod::Deflated;
        if !deflated && method != CompressionMethod::Stored {
            return Err(wrong(format!("{name} is packed in an unknown way")));
        }
        decode::check_file_size(&path.join(name), entry.size())?;
        into.push(Member {
            at: entry.data_start().unwrap_or(u64::MAX),
            stored: entry.compressed_size(),
            size: entry.size(),
            deflated,
            name: format!("{class}/{last}").into(),
        });
    }
    classes.sort_unstable();
    classes.dedup();
    if split == Split::Test {
        name_by_class(&mut val, &truth).map_err(wrong)?;
        train = val;
    }
    train.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let label = |member: &Member| {
        let class = member.name.split('/').next().unwrap_or_default();
        classes
            .binary_search_by(|known| known.as_str().cmp(class))
            .map(|label| label as u32)
            .map_err(|_| wrong(format!("{} is of no class of train", member.name)))
    };
    let labels = train.iter().map(label).collect::<Result<Vec<_>, _>>()?;
    let words = words_of(&classes, &words);
    let opened = Opened {
        name: "tiny-imagenet",
        split,
        whole: false,
        targets: Targets::Classes {
            names: classes,
            labels,
        },
        files: Box::new(Zipped {
            archive: ReadAt::open(path)?,
            images: train,
        }),
    };
    Ok(opened.finish(options)?.also_called(words))
}

/// Puts validation images into the classes that the table says: lines of a file's name, its
/// class and a box, with tabs between.
fn name_by_class(images: &mut [Member], truth: &str) -> Result<(), String> {
    let pair = |line: &'_ str| {
        let mut columns = line.split('\t');
        Some((columns.next()?.to_owned(), columns.next()?.to_owned()))
    };
    let table: BTreeMap<String, String> = truth.lines().filter_map(pair).collect();
    for image in images {
        let file = image.name.rsplit('/').next().unwrap_or_default();
        let class = table.get(file);
        let class = class.ok_or_else(|| format!("{TRUTH} does not say what {file} is"))?;
        image.name = format!("{class}/{file}").into();
    }
    Ok(())
}

/// What the classes are called, where a table says so for all of them.
fn words_of(classes: &[String], table: &str) -> Vec<String> {
    let table: BTreeMap<&str, &str> = table
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    let words = classes.iter().map(|class| table.get(class.as_str()));
    let words: Option<Vec<String>> = words.map(|word| word.map(|word| (*word).into())).collect();
    words.unwrap_or_default()
}

impl Files for Zipped {
    fn len(&self) -> usize {
        self.images.len()
    }

    fn bytes(&self, index: usize) -> Result<Vec<u8>, DataError> {
        let member = &self.images[index];
        let stored = self.archive.bytes(member.at, member.stored)?;
        if !member.deflated {
            return Ok(stored);
        }
        let mut bytes = Vec::with_capacity(member.size as usize);
        DeflateDecoder::new(&stored[..])
            .take(member.size)
            .read_to_end(&mut bytes)
            .map_err(DataError::io("unpack", self.place(index)))?;
        Ok(bytes)
    }

    fn place(&self, index: usize) -> PathBuf {
        self.archive.path.join(&*self.images[index].name)
    }

    fn name(&self, index: usize) -> Cow<'_, [u8]> {
        self.images[index].name.as_bytes().into()
    }

    fn stamps(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        Box::new(std::iter::once(self.archive.path.clone()))
    }
}
