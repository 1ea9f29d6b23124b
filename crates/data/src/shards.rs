//! Tar shards: in the naming of webdataset (`KEY.jpg` and `KEY.cls`, a number), or with
//! class folders in the archives (`CLASS/IMAGE.jpg`).
//!
//! Archives are gone through once, from header to header; images are then read at their
//! places.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use tar::Archive;

use crate::at::ReadAt;
use crate::catalogue::OpenOptions;
use crate::dataset::Opened;
use crate::folder::is_image;
use crate::source::Files;
use crate::{DataError, Dataset, Split, Targets, decode};

/// A label of more bytes is none.
const MAX_LABEL: u64 = 1 << 16;
/// More classes than this are no classes.
const MAX_CLASSES: u32 = 1 << 20;

/// An image in an archive.
#[derive(Debug)]
struct Member {
    shard: u32,
    /// `u32::MAX` if none is known.
    label: u32,
    at: u64,
    size: u32,
    /// Where its name ends in the text of all names.
    name_end: u64,
}

/// The images of several archives, in the order of the archives.
#[derive(Debug, Default)]
struct Shards {
    archives: Vec<ReadAt>,
    members: Vec<Member>,
    names: String,
    classes: Vec<String>,
    ignored: usize,
}

/// The archives of a split in a folder, if it has any: in `train`, `test` or `val` below
/// it, or called so (`imagenet-train-0000.tar`). Without such names, all of them are both
/// splits.
pub(crate) struct Found {
    pub train: Vec<PathBuf>,
    pub test: Vec<PathBuf>,
    pub whole: bool,
}

/// Files of a split by their ending.
pub(crate) fn find(folder: &Path, ending: &str) -> Result<Option<Found>, DataError> {
    let in_folder = |folder: &Path| {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(DataError::io("read", folder))? {
            let path = entry.map_err(DataError::io("read", folder))?.path();
            let hidden = path.file_name().is_some_and(crate::folder::is_hidden);
            if path.extension().is_some_and(|e| e == ending) && path.is_file() && !hidden {
                found.push(path);
            }
        }
        found.sort_unstable();
        Ok::<_, DataError>(found)
    };
    let below = |names: &[&str]| {
        for name in names {
            let path = folder.join(name);
            if path.is_dir() {
                let found = in_folder(&path)?;
                if !found.is_empty() {
                    return Ok(found);
                }
            }
        }
        Ok::<_, DataError>(Vec::new())
    };
    let (train, test) = (below(&["train"])?, below(&["test", "val", "validation"])?);
    if !train.is_empty() || !test.is_empty() {
        return Ok(Some(Found {
            train,
            test,
            whole: false,
        }));
    }
    let mut here = in_folder(folder)?;
    if here.is_empty() && folder.join("data").is_dir() {
        here = in_folder(&folder.join("data"))?;
    }
    if here.is_empty() {
        return Ok(None);
    }
    let called = |names: &[&str]| {
        let is = |path: &&PathBuf| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let mut words = stem.split(|c: char| !c.is_ascii_alphanumeric());
            words.any(|word| names.contains(&word))
        };
        here.iter().filter(is).cloned().collect::<Vec<_>>()
    };
    let (train, mut test) = (called(&["train"]), called(&["test"]));
    let validation = called(&["val", "validation"]);
    // A test set whose labels nobody gives away is of no use here.
    if test.is_empty() || (ending == "parquet" && !crate::table::has_labels(&test[0])?) {
        test = if validation.is_empty() {
            test
        } else {
            validation
        };
    }
    Ok(Some(match train.is_empty() && test.is_empty() {
        true => Found {
            train: here.clone(),
            test: here,
            whole: true,
        },
        false => Found {
            train,
            test,
            whole: false,
        },
    }))
}

impl Found {
    /// The files of a split.
    pub fn of(&self, split: Split, name: &str, folder: &Path) -> Result<&[PathBuf], DataError> {
        let chosen = match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        };
        match chosen.is_empty() {
            true => Err(DataError::Missing {
                dataset: name.into(),
                path: folder.join(split.to_string()),
            }),
            false => Ok(chosen),
        }
    }
}

/// Opens a folder of archives, or one archive.
pub(crate) fn open(
    name: &str,
    folder: &Path,
    found: &Found,
    split: Split,
    options: &OpenOptions,
) -> Result<Dataset, DataError> {
    options.view.check()?;
    let mut shards = Shards::default();
    let chosen = found.of(split, name, folder)?;
    shards.read(chosen)?;
    if shards.members.is_empty() {
        return Err(DataError::EmptyFolder {
            path: folder.to_path_buf(),
        });
    }
    // Classes are numbered over both splits, by those of train.
    let mut other = Shards::default();
    if split == Split::Test && !found.whole && !found.train.is_empty() {
        other.read(&found.train)?;
    }
    let mut labels: Vec<u32> = shards.members.iter().map(|member| member.label).collect();
    let unlabelled = labels.iter().filter(|&&label| label == u32::MAX).count();
    let targets = if unlabelled == labels.len() {
        Targets::Unknown
    } else if let Some(first) = labels.iter().position(|&label| label == u32::MAX) {
        let what = format!("{unlabelled} images have no label and others do");
        return Err(DataError::format(shards.place(first), what));
    } else if !shards.classes.is_empty() {
        let mut names = match other.classes.is_empty() {
            true => shards.classes.clone(),
            false => other.classes.clone(),
        };
        names.sort_unstable();
        for label in &mut labels {
            let class = &shards.classes[*label as usize];
            let Ok(place) = names.binary_search(class) else {
                return Err(DataError::UnknownClass {
                    path: folder.join(split.to_string()),
                    train: folder.join("train"),
                    class: class.clone(),
                });
            };
            *label = place as u32;
        }
        Targets::Classes { names, labels }
    } else {
        let all = labels.iter().copied();
        let count = all.chain(other.members.iter().map(|m| m.label)).max();
        let count = count.map_or(0, |most| most as usize + 1);
        let names = class_names(folder, count, &[&shards, &other])?;
        Targets::Classes { names, labels }
    };
    let opened = Opened {
        name,
        split,
        whole: found.whole,
        targets,
        files: Box::new(shards),
    };
    opened.finish_beside(folder, options)
}

/// Names of numbered classes: of a file `classes.txt` beside the archives, one a line; by
/// the synsets in the names of images, if every class with images has one; else numbers.
fn class_names(folder: &Path, count: usize, shards: &[&Shards]) -> Result<Vec<String>, DataError> {
    let list = folder.join("classes.txt");
    if list.is_file() {
        let text = std::fs::read_to_string(&list).map_err(DataError::io("read", &list))?;
        let names: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
        if names.len() < count {
            let what = format!(
                "it names {} classes, labels go up to {}",
                names.len(),
                count - 1
            );
            return Err(DataError::format(&list, what));
        }
        return Ok(names);
    }
    let mut synsets: BTreeMap<u32, &str> = BTreeMap::new();
    for shards in shards {
        for (index, member) in shards.members.iter().enumerate() {
            let file = shards
                .member_name(index)
                .rsplit('/')
                .next()
                .unwrap_or_default();
            let Some(id) = crate::screen::synset(file) else {
                return Ok(numbered(count));
            };
            if *synsets.entry(member.label).or_insert(id) != id {
                return Ok(numbered(count));
            }
        }
    }
    match synsets.len() == count {
        true => Ok(synsets.into_values().map(str::to_owned).collect()),
        false => Ok(numbered(count)),
    }
}

pub(crate) fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|class| class.to_string()).collect()
}

impl Shards {
    fn member_name(&self, index: usize) -> &str {
        let before = index.checked_sub(1).map(|before| &self.members[before]);
        let begin = before.map_or(0, |member| member.name_end);
        &self.names[begin as usize..self.members[index].name_end as usize]
    }

    /// Goes through archives. Class folders count where no label stands beside any image.
    fn read(&mut self, paths: &[PathBuf]) -> Result<(), DataError> {
        for path in paths {
            self.read_one(path)?;
        }
        if self.members.iter().any(|member| member.label != u32::MAX) {
            return Ok(());
        }
        let mut classes: BTreeMap<String, u32> = BTreeMap::new();
        for index in 0..self.members.len() {
            let Some((folders, _)) = self.member_name(index).rsplit_once('/') else {
                continue;
            };
            let class = folders.rsplit('/').next().unwrap_or(folders).to_owned();
            let next = classes.len() as u32;
            let label = *classes.entry(class).or_insert(next);
            self.members[index].label = label;
        }
        self.classes = vec![String::new(); classes.len()];
        for (name, place) in classes {
            self.classes[place as usize] = name;
        }
        Ok(())
    }

    fn read_one(&mut self, path: &Path) -> Result<(), DataError> {
        let failed = |source| DataError::io("read", path)(source);
        let shard = self.archives.len() as u32;
        let archive = ReadAt::open(path)?;
        let file = std::fs::File::open(path).map_err(failed)?;
        let mut tar = Archive::new(std::io::BufReader::with_capacity(1 << 13, file));
        // Images of this key that wait for their label, and the label that waits.
        let mut waiting: (String, Vec<usize>, Option<u32>) = Default::default();
        for entry in tar.entries_with_seek().map_err(failed)? {
            let mut entry = entry.map_err(failed)?;
            if !entry.header().entry_type().is_file() {
                continue;
            }
            let name = entry.path().map_err(failed)?.to_string_lossy().into_owned();
            let name = name.trim_start_matches("./").to_owned();
            let file = name.rsplit('/').next().unwrap_or_default();
            if file.starts_with('.') {
                continue;
            }
            // A key goes up to the first dot of the file's name.
            let dot = name.len() - file.len() + file.find('.').unwrap_or(file.len());
            let (key, ending) = name.split_at(dot);
            if waiting.0 != key {
                waiting = (key.to_owned(), Vec::new(), None);
            }
            let ending = ending.trim_start_matches('.').to_ascii_lowercase();
            if matches!(ending.as_str(), "cls" | "json") {
                if let Some(label) = label(&mut entry, &path.join(&name), &ending)? {
                    waiting.2 = Some(label);
                    waiting
                        .1
                        .iter()
                        .for_each(|&m| self.members[m].label = label);
                }
                continue;
            }
            if ending == "tar" {
                let what = "it is an archive of archives: unpack it once, then give the folder";
                return Err(DataError::format(path, what));
            }
            if !is_image(Path::new(&name)) {
                self.ignored += 1;
                continue;
            }
            let size = entry.size();
            decode::check_file_size(&path.join(&name), size)?;
            let at = entry.raw_file_position();
            if at.checked_add(size).is_none_or(|end| end > archive.len) {
                let what = format!("it ends in the middle of {name}");
                return Err(DataError::format(path, what));
            }
            self.names.push_str(&name);
            waiting.1.push(self.members.len());
            self.members.push(Member {
                shard,
                label: waiting.2.unwrap_or(u32::MAX),
                at,
                size: size as u32,
                name_end: self.names.len() as u64,
            });
        }
        self.archives.push(archive);
        Ok(())
    }
}

/// The label in a file `KEY.cls` (a number) or `KEY.json` (`label` or `cls`, if it has
/// one).
fn label(entry: &mut dyn Read, place: &Path, ending: &str) -> Result<Option<u32>, DataError> {
    let mut text = String::new();
    entry
        .take(MAX_LABEL)
        .read_to_string(&mut text)
        .map_err(DataError::io("read", place))?;
    let number = match ending {
        "cls" => match text.trim().parse::<u32>() {
            Ok(number) => Some(u64::from(number)),
            Err(_) => {
                let what = format!("expected the number of a class, got {:?}", text.trim());
                return Err(DataError::format(place, what));
            }
        },
        _ => {
            let about: Result<serde_json::Value, _> = serde_json::from_str(&text);
            let about = about.unwrap_or_default();
            let label = about.get("label").or_else(|| about.get("cls"));
            label.and_then(serde_json::Value::as_u64)
        }
    };
    match number {
        Some(number) if number >= u64::from(MAX_CLASSES) => {
            let what = format!("expected the number of a class, got {number}");
            Err(DataError::format(place, what))
        }
        number => Ok(number.map(|number| number as u32)),
    }
}

impl Files for Shards {
    fn len(&self) -> usize {
        self.members.len()
    }

    fn bytes(&self, index: usize) -> Result<Vec<u8>, DataError> {
        let member = &self.members[index];
        self.archives[member.shard as usize].bytes(member.at, member.size.into())
    }

    fn place(&self, index: usize) -> PathBuf {
        let archive = &self.archives[self.members[index].shard as usize];
        archive.path.join(self.member_name(index))
    }

    fn name(&self, index: usize) -> Cow<'_, [u8]> {
        self.member_name(index).as_bytes().into()
    }

    fn stamps(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        Box::new(self.archives.iter().map(|archive| archive.path.clone()))
    }

    fn ignored(&self) -> usize {
        self.ignored
    }
}
