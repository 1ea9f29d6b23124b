//! A part of a pack: pixels, then a table of where each image is.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::at::ReadAt;
use crate::decode::Pixels;
use crate::screen::Finding;
use crate::{DataError, Shape};

/// The last bytes of a part.
const END: &[u8; 8] = b"hs-pack1";
/// No honest table is longer.
const MAX_TABLE: u64 = 256 << 20;

/// Where an image is in its part, and what it is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Image {
    at: u64,
    height: u32,
    width: u32,
    pub label: u32,
    /// Of its pixels.
    crc: u32,
}

/// The table at the end of a part.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Tail {
    pub key: String,
    pub images: Vec<Image>,
    pub left_out: Vec<Finding>,
}

pub(super) fn path(folder: &Path, split: &str, number: usize) -> PathBuf {
    folder.join(format!("{split}-{number:05}.pack"))
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

impl Image {
    fn size(&self, channels: usize) -> Option<u64> {
        let pixels = u64::from(self.height).checked_mul(self.width.into())?;
        pixels.checked_mul(channels as u64).filter(|&size| size > 0)
    }

    /// Refuses an image that is not in its part.
    pub fn check(&self, path: &Path, end: u64, channels: usize) -> Result<(), DataError> {
        let size = self.size(channels);
        match size.and_then(|size| self.at.checked_add(size)) {
            Some(last) if last <= end => Ok(()),
            _ => Err(DataError::format(path, "its table makes no sense")),
        }
    }

    /// Its pixels, if they are still what they were.
    pub fn read(&self, part: &ReadAt, channels: usize) -> Result<Pixels<'static>, DataError> {
        let bytes = part.bytes(self.at, self.size(channels).unwrap_or(0))?;
        if crc(&bytes) != self.crc {
            let what = format!("the image at {} was damaged after it was packed", self.at);
            return Err(DataError::format(&part.path, what));
        }
        let shape = Shape::new(self.height as usize, self.width as usize, channels);
        Ok(Pixels::of(shape, bytes.into()))
    }
}

impl Tail {
    /// The table of a part, and where its pixels end.
    pub fn read(path: &Path) -> Result<(Self, u64), DataError> {
        let wrong = || DataError::format(path, "it is not a whole part of a pack");
        let file = ReadAt::open(path)?;
        let last = file.len.checked_sub(16).ok_or_else(wrong)?;
        let last_bytes = file.bytes(last, 16)?;
        let (length, end) = last_bytes.split_at(8);
        let length = length
            .try_into()
            .map(u64::from_le_bytes)
            .map_err(|_| wrong())?;
        let begin = last
            .checked_sub(length)
            .filter(|_| length <= MAX_TABLE && end == END);
        let begin = begin.ok_or_else(wrong)?;
        let tail = serde_json::from_slice(&file.bytes(begin, length)?);
        Ok((tail.map_err(|_| wrong())?, begin))
    }
}

/// Writes a part that appears when it is whole.
pub(super) struct PartWriter {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
    at: u64,
    pub tail: Tail,
}

fn temporary(path: &Path) -> Result<NamedTempFile, DataError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // Readable to whom the umask says, unlike most temporary files: others train on it, too.
    let file = tempfile::Builder::new()
        .prefix(".pack-")
        .make_in(folder, |path| File::create_new(path));
    file.map_err(DataError::io("create a file in", folder))
}

/// Moves a whole file into place, safely on disk.
fn settle(file: NamedTempFile, path: &Path) -> Result<(), DataError> {
    let synced = file.as_file().sync_all();
    synced.map_err(DataError::io("write", path))?;
    let file = file.persist(path);
    let _: File = file.map_err(|error| DataError::io("write", path)(error.error))?;
    Ok(())
}

/// Writes a small file in one piece.
pub(super) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut NamedTempFile) -> std::io::Result<()>,
) -> Result<(), DataError> {
    let mut file = temporary(path)?;
    write(&mut file).map_err(DataError::io("write", path))?;
    settle(file, path)
}

impl PartWriter {
    pub fn new(path: &Path, key: &str) -> Result<Self, DataError> {
        Ok(Self {
            path: path.to_path_buf(),
            file: BufWriter::with_capacity(1 << 20, temporary(path)?),
            at: 0,
            tail: Tail {
                key: key.into(),
                images: Vec::new(),
                left_out: Vec::new(),
            },
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        let written = self.file.write_all(bytes);
        written.map_err(DataError::io("write", &self.path))
    }

    pub fn push(&mut self, pixels: &Pixels<'_>, label: u32) -> Result<(), DataError> {
        self.write(&pixels.bytes)?;
        self.tail.images.push(Image {
            at: self.at,
            height: pixels.height as u32,
            width: pixels.width as u32,
            label,
            crc: crc(&pixels.bytes),
        });
        self.at += pixels.bytes.len() as u64;
        Ok(())
    }

    pub fn finish(mut self) -> Result<Tail, DataError> {
        let path = self.path.clone();
        let text = serde_json::to_vec(&self.tail)
            .map_err(|error| DataError::format(&path, error.to_string()))?;
        self.write(&text)?;
        self.write(&(text.len() as u64).to_le_bytes())?;
        self.write(END)?;
        let file = self.file.into_inner();
        let file = file.map_err(|error| DataError::io("write", &path)(error.into_error()))?;
        settle(file, &path)?;
        Ok(self.tail)
    }
}
