//! ImageNet's own tables: which validation image is of which synset, and what synsets
//! are called. Read from the official development kit, or from the files that Kaggle and
//! Caffe give out instead.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::DataError;
use crate::folder::Folder;
use crate::matlab::{self, Cell};
use crate::source::Files as _;

/// No honest table is larger.
const MAX_TABLE: u64 = 64 << 20;
const TRUTH: &str = "ILSVRC2012_validation_ground_truth.txt";
const META: &str = "meta.mat";
const SOLUTION: &str = "LOC_val_solution.csv";
const WORDS: [&str; 2] = ["LOC_synset_mapping.txt", "synset_words.txt"];
/// The official archive has its tables here.
const KIT: &str = "ILSVRC2012_devkit_t12";

/// The synset of every validation image.
#[derive(Debug)]
pub(crate) struct Devkit {
    table: PathBuf,
    /// By the image's name without its ending.
    synsets: Truth,
    classes: Vec<String>,
}

#[derive(Debug)]
enum Truth {
    /// Synset of image 1, 2, 3, ...
    Numbered(Vec<String>),
    Named(BTreeMap<String, String>),
}

/// Whether a folder is that of the development kit.
pub(crate) fn is_kit(folder: &std::ffi::OsStr) -> bool {
    folder == KIT
}

/// A table in a folder or where the archives put it.
fn table(folder: &Path, name: &str) -> Option<PathBuf> {
    let places = [
        folder.to_path_buf(),
        folder.join("data"),
        folder.join(KIT).join("data"),
        folder.join("..").join(KIT).join("data"),
    ];
    let mut places = places.into_iter().map(|place| place.join(name));
    places.find(|path| path.is_file())
}

fn read(path: &Path) -> Result<Vec<u8>, DataError> {
    let size = std::fs::metadata(path).map_err(DataError::io("read", path))?;
    if size.len() > MAX_TABLE {
        let what = format!("expected a table of at most {MAX_TABLE} bytes");
        return Err(DataError::format(path, what));
    }
    std::fs::read(path).map_err(DataError::io("read", path))
}

fn text(path: &Path) -> Result<String, DataError> {
    String::from_utf8(read(path)?).map_err(|_| DataError::format(path, "it is not text (UTF-8)"))
}

/// What a synset is called, by its id; and its id by ImageNet's own number.
#[derive(Default)]
struct Synsets {
    words: BTreeMap<String, String>,
    numbers: BTreeMap<u32, String>,
}

fn meta(path: &Path) -> Result<Synsets, DataError> {
    let structures = matlab::structures(&read(path)?);
    let structures = structures.map_err(|what| DataError::format(path, what))?;
    let mut synsets = Synsets::default();
    for fields in structures {
        let find = |wanted: &str| {
            let field = fields.iter().find(|(name, _)| name == wanted);
            field.map(|(_, cell)| cell)
        };
        if let (Some(Cell::Number(number)), Some(Cell::Text(id)), Some(Cell::Text(words))) =
            (find("ILSVRC2012_ID"), find("WNID"), find("words"))
        {
            synsets.words.insert(id.clone(), words.clone());
            synsets.numbers.insert(*number as u32, id.clone());
        }
    }
    match synsets.numbers.is_empty() {
        true => Err(DataError::format(path, "it lists no synsets")),
        false => Ok(synsets),
    }
}

/// Lines such as `n01440764 tench, Tinca tinca`.
fn mapping(path: &Path) -> Result<BTreeMap<String, String>, DataError> {
    let text = text(path)?;
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    Ok(lines
        .map(|(id, words)| (id.to_owned(), words.trim().to_owned()))
        .collect())
}

/// What classes that are synsets are called, one text each; none if no table beside the
/// images says so for all of them.
pub(crate) fn words(folder: &Path, classes: &[String]) -> Result<Vec<String>, DataError> {
    let tables = WORDS.iter().filter_map(|name| table(folder, name));
    let known = match (tables.into_iter().next(), table(folder, META)) {
        (Some(path), _) => mapping(&path)?,
        (None, Some(path)) => meta(&path)?.words,
        (None, None) => return Ok(Vec::new()),
    };
    let words: Option<Vec<String>> = classes.iter().map(|id| known.get(id).cloned()).collect();
    Ok(words.unwrap_or_default())
}

impl Devkit {
    /// The tables in or beside a folder, if there are any.
    pub fn find(folder: &Path) -> Result<Option<Self>, DataError> {
        if let Some(path) = table(folder, TRUTH) {
            let Some(meta_path) = table(folder, META) else {
                return Err(DataError::Missing {
                    dataset: "ImageNet's development kit".into(),
                    path: path.with_file_name(META),
                });
            };
            let synsets = meta(&meta_path)?;
            let mut order = Vec::new();
            for (line, number) in text(&path)?.lines().enumerate() {
                let id = number.trim().parse().ok();
                let id = id.and_then(|number: u32| synsets.numbers.get(&number));
                let id = id.ok_or_else(|| {
                    let what = format!("line {}: {number:?} is no synset of {META}", line + 1);
                    DataError::format(&path, what)
                })?;
                order.push(id.clone());
            }
            // Internal nodes of the tree have numbers beyond those of the classes.
            let mut classes = order.clone();
            classes.sort_unstable();
            classes.dedup();
            return Ok(Some(Self {
                table: path,
                synsets: Truth::Numbered(order),
                classes,
            }));
        }
        let Some(path) = table(folder, SOLUTION) else {
            return Ok(None);
        };
        let mut named = BTreeMap::new();
        for line in text(&path)?.lines().skip(1) {
            // ILSVRC2012_val_00048981,n03995372 85 1 499 272
            let id = line.split_once(',').and_then(|(image, boxes)| {
                let id = boxes.split_whitespace().next()?;
                Some((image.to_owned(), id.to_owned()))
            });
            let Some((image, id)) = id else {
                let what = format!("{line:?} names no image and synset");
                return Err(DataError::format(&path, what));
            };
            named.insert(image, id);
        }
        let mut classes: Vec<String> = named.values().cloned().collect();
        classes.sort_unstable();
        classes.dedup();
        Ok(Some(Self {
            table: path,
            synsets: Truth::Named(named),
            classes,
        }))
    }

    /// All synsets with images, sorted: their places are the outputs of torchvision's
    /// networks.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The label of every image of a folder, among `names`.
    pub fn labels(&self, folder: &Folder, names: &[String]) -> Result<Vec<u32>, DataError> {
        let place: BTreeMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
        let label = |index: usize| {
            let path = folder.place(index);
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let synset = match &self.synsets {
                Truth::Named(named) => named.get(&*stem),
                Truth::Numbered(order) => {
                    let number = stem.rsplit('_').next().and_then(|n| n.parse().ok());
                    number.and_then(|n: usize| order.get(n.checked_sub(1)?))
                }
            };
            let label = synset.and_then(|id| place.get(id.as_str()));
            label.copied().ok_or_else(|| {
                let what = match synset {
                    Some(id) => format!("{} is of {id}, which is no class", path.display()),
                    None => format!("it does not say of which class {} is", path.display()),
                };
                DataError::format(&self.table, what)
            })
        };
        (0..folder.len()).map(label).collect()
    }
}
