//! Where the images of a split come from, behind one trait: memory, arrays on disk,
//! packed images, and files of one image each, wherever those lie.

use std::borrow::Cow;
use std::fmt::Debug;
use std::path::PathBuf;

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::decode::{self, Pixels};
use crate::resize::CropBox;
use crate::screen::Finding;
use crate::{DataError, Shape, View, files};

/// The images of a split, by index.
pub(crate) trait Source: Debug + Send + Sync {
    /// How many images there are.
    fn len(&self) -> usize;

    /// An image as it is stored; `index` is valid.
    fn pixels(&self, index: usize) -> Result<Pixels<'_>, DataError>;

    /// The same of at least the part that is wanted of an image of this width and height,
    /// where parts are cheaper.
    fn part(
        &self,
        index: usize,
        wanted: &mut dyn FnMut([usize; 2]) -> CropBox,
    ) -> Result<Pixels<'_>, DataError> {
        let pixels = self.pixels(index)?;
        wanted([pixels.width, pixels.height]);
        Ok(pixels)
    }

    /// The values of an image that is not of 8 bits; `index` is valid.
    fn values(&self, _index: usize) -> Option<&[f32]> {
        None
    }

    /// How images of any size become those of the data set; none where all have its
    /// size already.
    fn view(&self) -> Option<&View> {
        None
    }

    /// Whether reading an image takes so long that it is done ahead and in parallel.
    fn is_slow(&self) -> bool {
        true
    }

    /// Whether all pixels are bytes.
    fn is_bytes(&self) -> bool {
        true
    }

    /// The images as files, where they are.
    fn as_files(&self) -> Option<&Encoded> {
        None
    }

    /// What is done to the images, in sentences that a user should hear.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Every image's bytes, row by row, channels last.
#[derive(Debug)]
pub(crate) struct Memory {
    pub shape: Shape,
    pub bytes: Vec<u8>,
}

impl Source for Memory {
    fn len(&self) -> usize {
        self.bytes.len() / self.shape.len()
    }

    fn pixels(&self, index: usize) -> Result<Pixels<'_>, DataError> {
        let len = self.shape.len();
        let bytes = &self.bytes[index * len..][..len];
        Ok(Pixels::of(self.shape, Cow::Borrowed(bytes)))
    }

    fn is_slow(&self) -> bool {
        false
    }
}

/// Every image's values, which lie on no grid.
#[derive(Debug)]
pub(crate) struct RealValues {
    pub shape: Shape,
    pub values: Vec<f32>,
}

impl Source for RealValues {
    fn len(&self) -> usize {
        self.values.len() / self.shape.len()
    }

    /// Never asked for: the values are.
    fn pixels(&self, _index: usize) -> Result<Pixels<'_>, DataError> {
        let bytes = vec![0; self.shape.len()];
        Ok(Pixels::of(self.shape, Cow::Owned(bytes)))
    }

    fn values(&self, index: usize) -> Option<&[f32]> {
        let len = self.shape.len();
        Some(&self.values[index * len..][..len])
    }

    fn is_slow(&self) -> bool {
        false
    }

    fn is_bytes(&self) -> bool {
        false
    }
}

/// PNG and JPEG files: in folders, in tar shards, in Parquet tables.
pub(crate) trait Files: Debug + Send + Sync {
    /// How many there are.
    fn len(&self) -> usize;

    /// The content of a file; `index` is valid.
    fn bytes(&self, index: usize) -> Result<Vec<u8>, DataError>;

    /// Where a file is, for people.
    fn place(&self, index: usize) -> PathBuf;

    /// What a file is called: its class, then its name.
    fn name(&self, index: usize) -> Cow<'_, [u8]>;

    /// The file itself, where it is one.
    fn path(&self, _index: usize) -> Option<PathBuf> {
        None
    }

    /// SHA-256 of a file's content.
    fn sha256(&self, index: usize) -> Result<String, DataError> {
        Ok(files::hex(Sha256::digest(self.bytes(index)?)))
    }

    /// Files whose sizes and times tell whether anything has changed, or none if nobody
    /// can tell.
    fn stamps(&self) -> Box<dyn Iterator<Item = PathBuf> + '_>;

    /// Files beside them that are passed over.
    fn ignored(&self) -> usize {
        0
    }

    /// What a user should hear.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Files that are decoded when they are read.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub files: Box<dyn Files>,
    pub view: View,
    /// The files that are used, if not all are.
    pub kept: Option<Vec<u32>>,
    /// Those that are not, or are not what they seem.
    pub findings: Vec<Finding>,
}

impl Encoded {
    pub fn new(files: Box<dyn Files>, view: View) -> Self {
        Self {
            files,
            view,
            kept: None,
            findings: Vec::new(),
        }
    }

    /// The number of an image among all files.
    pub fn file(&self, index: usize) -> usize {
        match &self.kept {
            Some(kept) => kept[index] as usize,
            None => index,
        }
    }

    /// Where an image is, for people.
    pub fn place(&self, index: usize) -> PathBuf {
        self.files.place(self.file(index))
    }

    /// The SHA-256 of what `sha256sum` would print for all images: every byte of every
    /// file counts. A few thousand lines are in memory at a time.
    pub fn hash(&self) -> Result<String, DataError> {
        let mut hasher = Sha256::new();
        let all: Vec<usize> = (0..self.len()).step_by(BLOCK).collect();
        for begin in all {
            let block = begin..(begin + BLOCK).min(self.len());
            let lines = block.into_par_iter().map(|index| {
                let file = self.file(index);
                let mut line = format!("{}  ", self.files.sha256(file)?).into_bytes();
                line.extend_from_slice(&self.files.name(file));
                line.push(b'\n');
                Ok(line)
            });
            for line in lines.collect::<Result<Vec<_>, DataError>>()? {
                hasher.update(&line);
            }
        }
        Ok(files::hex(hasher.finalize()))
    }
}

/// Images that are hashed or looked at together.
pub(crate) const BLOCK: usize = 4096;

impl Source for Encoded {
    fn len(&self) -> usize {
        self.kept.as_ref().map_or(self.files.len(), Vec::len)
    }

    fn pixels(&self, index: usize) -> Result<Pixels<'_>, DataError> {
        self.part(index, &mut |[width, height]| [0, 0, width, height])
    }

    fn part(
        &self,
        index: usize,
        wanted: &mut dyn FnMut([usize; 2]) -> CropBox,
    ) -> Result<Pixels<'_>, DataError> {
        let file = self.file(index);
        let bytes = self.files.bytes(file)?;
        let pixels = decode::decode_part(&bytes, self.view.channels, wanted);
        pixels.map_err(|error| decode::undecodable(self.files.place(file))(error))
    }

    fn view(&self) -> Option<&View> {
        Some(&self.view)
    }

    fn as_files(&self) -> Option<&Encoded> {
        Some(self)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![self.view.in_words()];
        let ignored = self.files.ignored();
        if ignored > 0 {
            notes.push(format!(
                "{ignored} files that are not PNG or JPEG are left out"
            ));
        }
        notes.extend(crate::screen::summary(&self.findings));
        notes.extend(self.files.notes());
        notes
    }
}

impl<'a> Pixels<'a> {
    /// An image of this shape.
    pub(crate) fn of(shape: Shape, bytes: Cow<'a, [u8]>) -> Self {
        Self {
            bytes,
            width: shape.width,
            height: shape.height,
            channels: shape.channels,
            held: [0, 0, shape.width, shape.height],
        }
    }
}
