//! Folders of PNG and JPEG files: in class folders (ImageNet and one's own), or
//! without labels.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::dataset::{About, folder_augment};
use crate::{DataError, Dataset, Split, Targets, View, files};

/// Folders inside of class folders are searched this deep.
const MAX_DEPTH: usize = 8;

/// Where the images are; they are decoded when they are read.
#[derive(Debug)]
pub(crate) struct Folder {
    pub root: PathBuf,
    /// Below `root`: the class folder, then what is below it.
    pub files: Vec<Box<Path>>,
    pub view: View,
    /// Files that are not named as PNG or JPEG.
    pub ignored: usize,
}

impl Folder {
    /// How many images there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// The file behind a valid index.
    pub fn path(&self, index: usize) -> PathBuf {
        self.root.join(&self.files[index])
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
    view: View,
) -> Result<Dataset, DataError> {
    view.check()?;
    let only_splits = !sub_folders(folder)?.is_empty()
        && sub_folders(folder)?
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
        files: Vec::new(),
        view,
        ignored: 0,
    };
    let about = |found: &Folder| {
        Ok::<_, DataError>(About {
            name: name.into(),
            split,
            shape: view.shape(),
            hash: found.hash()?,
            augment: folder_augment(&view),
            whole,
        })
    };
    if classes.is_empty() {
        found.walk(Path::new(""), 0)?;
        found.files.sort_unstable();
        if found.files.is_empty() {
            return Err(DataError::EmptyFolder { path: found.root });
        }
        return Ok(Dataset::in_folder(about(&found)?, Targets::Unknown, found));
    }
    let mut labels = Vec::new();
    for (label, class) in classes.iter().enumerate() {
        let first = found.files.len();
        if present.contains(class) {
            found.walk(Path::new(class), MAX_DEPTH)?;
        }
        found.files[first..].sort_unstable();
        labels.resize(found.files.len(), label as u32);
    }
    if labels.is_empty() {
        return Err(DataError::EmptyFolder { path: found.root });
    }
    let names = classes.iter().map(|class| {
        let name = class.to_str().map(str::to_owned);
        name.ok_or_else(|| DataError::ClassName {
            path: class_root.join(class),
        })
    });
    let names = names.collect::<Result<Vec<String>, _>>()?;
    let targets = Targets::Classes { names, labels };
    Ok(Dataset::in_folder(about(&found)?, targets, found))
}

impl Folder {
    /// The SHA-256 of what `sha256sum` prints for all images: every byte of every
    /// file counts.
    pub fn hash(&self) -> Result<String, DataError> {
        let lines = self.files.par_iter().map(|file| {
            let sha256 = files::sha256(&self.root.join(file))?;
            let mut line = format!("{sha256}  ").into_bytes();
            let name = file.as_os_str().as_encoded_bytes();
            // The same folder has the same hash on Windows.
            line.extend(name.iter().map(|&byte| match byte {
                b'\\' if cfg!(windows) => b'/',
                _ => byte,
            }));
            line.push(b'\n');
            Ok(line)
        });
        let lines = lines.collect::<Result<Vec<_>, DataError>>()?;
        let mut hasher = Sha256::new();
        lines.iter().for_each(|line| hasher.update(line));
        Ok(files::hex(hasher.finalize()))
    }

    /// Collects the images below `relative`. Hidden files are passed over;
    /// links to folders are not followed, so that a cycle cannot trap us, and
    /// what is neither file nor link (a pipe would block us) is not an image.
    fn walk(&mut self, relative: &Path, depth: usize) -> Result<(), DataError> {
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
                    self.walk(&path, depth - 1)?;
                }
            } else if is_image(&path) && (kind.is_file() || links_to_file(&entry.path())) {
                self.files.push(path.into_boxed_path());
            } else {
                self.ignored += 1;
            }
        }
        Ok(())
    }
}

/// The names of the folders (and links to folders) in a folder, sorted.
fn sub_folders(folder: &Path) -> Result<Vec<OsString>, DataError> {
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

fn is_hidden(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

fn is_image(path: &Path) -> bool {
    path.extension().is_some_and(|ending| {
        ["png", "jpg", "jpeg"]
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    })
}
