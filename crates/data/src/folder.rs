//! Folders of PNG and JPEG files: in class folders (ImageNet and one's own), or
//! without labels.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::catalogue::OpenOptions;
use crate::dataset::Opened;
use crate::devkit::{self, Devkit};
use crate::source::Files;
use crate::{DataError, Dataset, Split, Targets, decode, files};

/// Folders inside of class folders are searched this deep.
const MAX_DEPTH: usize = 8;

/// Paths, one after the other in one piece of text: millions of them would each take
/// more than their letters otherwise.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    text: String,
    ends: Vec<u64>,
    /// Those that are not text.
    odd: BTreeMap<usize, Box<Path>>,
}

impl Paths {
    pub fn push(&mut self, path: &Path) {
        match path.to_str() {
            Some(text) => self.text.push_str(text),
            None => drop(self.odd.insert(self.ends.len(), path.into())),
        }
        self.ends.push(self.text.len() as u64);
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn get(&self, index: usize) -> &Path {
        if let Some(path) = self.odd.get(&index) {
            return path;
        }
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Path::new(&self.text[begin as usize..self.ends[index] as usize])
    }
}

/// Image files below a folder.
#[derive(Debug)]
pub(crate) struct Folder {
    pub root: PathBuf,
    /// Below `root`: the class folder, then what is below it.
    pub paths: Paths,
    /// Files that are not named as PNG or JPEG.
    pub ignored: usize,
}

impl Files for Folder {
    fn len(&self) -> usize {
        self.paths.len()
    }

    fn bytes(&self, index: usize) -> Result<Vec<u8>, DataError> {
        decode::read_file(&self.place(index))
    }

    fn place(&self, index: usize) -> PathBuf {
        self.root.join(self.paths.get(index))
    }

    fn name(&self, index: usize) -> Cow<'_, [u8]> {
        let name = self.paths.get(index).as_os_str().as_encoded_bytes();
        // The same folder has the same hash on Windows.
        match cfg!(windows) {
            true => name
                .iter()
                .map(|&b| if b == b'\\' { b'/' } else { b })
                .collect(),
            false => name.into(),
        }
    }

    fn path(&self, index: usize) -> Option<PathBuf> {
        Some(self.place(index))
    }

    fn sha256(&self, index: usize) -> Result<String, DataError> {
        files::sha256(&self.place(index))
    }

    fn stamps(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        Box::new((0..self.len()).map(|index| self.place(index)))
    }

    fn ignored(&self) -> usize {
        self.ignored
    }
}

/// Opens a folder. With a folder `train`, `test` or `val` that itself holds
/// folders, those are the splits, and the class folders of `train` number the
/// classes; without, both splits are the class folders right here. Images that stand
/// in no folder have no labels; so have those right in `train` and `test` where
/// there is no other folder.
pub(crate) fn open(
    name: &str,
    folder: &Path,
    split: Split,
    options: &OpenOptions,
) -> Result<Dataset, DataError> {
    options.view.check()?;
    let mut inside = sub_folders(folder)?;
    inside.retain(|name| !devkit::is_kit(name));
    let only_splits = !inside.is_empty()
        && inside
            .iter()
            .all(|name| ["train", "test", "val"].iter().any(|split| name == split));
    let is_split = |name: &str| {
        let path = folder.join(name);
        let is = path.is_dir() && (only_splits || !sub_folders(&path)?.is_empty());
        Ok::<_, DataError>(is.then_some(path))
    };
    let train = is_split("train")?;
    let test = match is_split("test")? {
        Some(path) => Some(path),
        None => is_split("val")?,
    };
    let missing = |path: &str| DataError::Missing {
        dataset: name.into(),
        path: folder.join(path),
    };
    let root = match (split, &train, &test) {
        (_, None, None) => folder.to_path_buf(),
        (Split::Train, Some(path), _) | (Split::Test, _, Some(path)) => path.clone(),
        (Split::Train, None, _) => return Err(missing("train")),
        (Split::Test, _, None) => return Err(missing("test")),
    };
    let whole = train.is_none() && test.is_none();
    let class_root = train.unwrap_or_else(|| root.clone());
    let classes = sub_folders(&class_root)?;
    let present = sub_folders(&root)?;
    if let Some(unknown) = present.iter().find(|class| !classes.contains(class)) {
        return Err(DataError::UnknownClass {
            path: root,
            train: class_root,
            class: unknown.to_string_lossy().into_owned(),
        });
    }

    let mut found = Folder {
        root,
        paths: Paths::default(),
        ignored: 0,
    };
    let opened = |found: Folder, targets| Opened {
        name,
        split,
        whole,
        targets,
        files: Box::new(found),
    };
    if present.is_empty()
        && split == Split::Test
        && let Some(devkit) = Devkit::find(folder)?
    {
        let names = match text_names(&classes, &class_root)? {
            trained if trained.is_empty() => devkit.classes().to_vec(),
            trained => trained,
        };
        found.collect(Path::new(""), 0)?;
        let labels = devkit.labels(&found, &names)?;
        if labels.is_empty() {
            return Err(DataError::EmptyFolder { path: found.root });
        }
        let targets = Targets::Classes { names, labels };
        return opened(found, targets).finish_beside(folder, options);
    }
    if classes.is_empty() {
        found.collect(Path::new(""), 0)?;
        if found.len() == 0 {
            return Err(DataError::EmptyFolder { path: found.root });
        }
        return opened(found, Targets::Unknown).finish(options);
    }
    let mut labels = Vec::new();
    for (label, class) in classes.iter().enumerate() {
        if present.contains(class) {
            found.collect(Path::new(class), MAX_DEPTH)?;
        }
        labels.resize(found.len(), label as u32);
    }
    if labels.is_empty() {
        return Err(DataError::EmptyFolder { path: found.root });
    }
    let names = text_names(&classes, &class_root)?;
    let targets = Targets::Classes { names, labels };
    opened(found, targets).finish_beside(folder, options)
}

/// Whether a folder holds class folders, perhaps in `train`, `test` or `val`.
pub(crate) fn has_class_folders(folder: &Path) -> Result<bool, DataError> {
    for name in sub_folders(folder)? {
        let is_split = ["train", "test", "val"].iter().any(|split| name == *split);
        if devkit::is_kit(&name) || (is_split && sub_folders(&folder.join(&name))?.is_empty()) {
            continue;
        }
        return Ok(true);
    }
    Ok(false)
}

/// Names of class folders, which must be text.
fn text_names(classes: &[OsString], root: &Path) -> Result<Vec<String>, DataError> {
    let names = classes.iter().map(|class| {
        let name = class.to_str().map(str::to_owned);
        name.ok_or_else(|| DataError::ClassName {
            path: root.join(class),
        })
    });
    names.collect()
}

impl Folder {
    /// Appends the images below `relative` in order.
    fn collect(&mut self, relative: &Path, depth: usize) -> Result<(), DataError> {
        let mut found = Vec::new();
        self.walk(relative, depth, &mut found)?;
        found.sort_unstable();
        found.iter().for_each(|path| self.paths.push(path));
        Ok(())
    }

    /// Finds the images below `relative`. Hidden files are passed over;
    /// links to folders are not followed, so that a cycle cannot trap us, and
    /// what is neither file nor link (a pipe would block us) is not an image.
    fn walk(
        &mut self,
        relative: &Path,
        depth: usize,
        found: &mut Vec<PathBuf>,
    ) -> Result<(), DataError> {
        let folder = self.root.join(relative);
        for entry in fs::read_dir(&folder).map_err(DataError::io("read", &folder))? {
            let entry = entry.map_err(DataError::io("read", &folder))?;
            let kind = entry.file_type().map_err(DataError::io("read", &folder))?;
            let name = entry.file_name();
            let path = relative.join(&name);
            if is_hidden(&name) {
                continue;
            } else if kind.is_dir() {
                if depth > 0 {
                    self.walk(&path, depth - 1, found)?;
                }
            } else if is_image(&path) && (kind.is_file() || links_to_file(&entry.path())) {
                found.push(path);
            } else {
                self.ignored += 1;
            }
        }
        Ok(())
    }
}

/// The names of the folders (and links to folders) in a folder, sorted.
pub(crate) fn sub_folders(folder: &Path) -> Result<Vec<OsString>, DataError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(DataError::io("read", folder))? {
        let entry = entry.map_err(DataError::io("read", folder))?;
        let name = entry.file_name();
        if !is_hidden(&name) && entry.path().is_dir() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Whether a link leads to a file; a broken one is an image that is missing, and
/// is named when it is read.
fn links_to_file(path: &Path) -> bool {
    path.is_symlink() && fs::metadata(path).map_or(true, |about| about.is_file())
}

pub(crate) fn is_hidden(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

pub(crate) fn is_image(path: &Path) -> bool {
    path.extension().is_some_and(|ending| {
        ["png", "jpg", "jpeg"]
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    })
}
