//! Reading pieces of large files, from any thread.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::DataError;

/// A file that is read at places; nothing of it stays in memory.
#[derive(Debug)]
pub(crate) struct ReadAt {
    file: File,
    pub path: PathBuf,
    pub len: u64,
}

impl ReadAt {
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let file = File::open(path).map_err(DataError::io("open", path))?;
        let about = file.metadata().map_err(DataError::io("read", path))?;
        Ok(Self {
            file,
            path: path.to_path_buf(),
            len: about.len(),
        })
    }

    /// So many bytes from a place on; a claim beyond the file's end is refused before
    /// anything is allocated.
    pub fn bytes(&self, at: u64, count: u64) -> Result<Vec<u8>, DataError> {
        if at.checked_add(count).is_none_or(|end| end > self.len) {
            let what = format!("expected {count} bytes at {at}, it has {} in all", self.len);
            return Err(DataError::format(&self.path, what));
        }
        let mut bytes = vec![0; count as usize];
        self.exact(&mut bytes, at)
            .map_err(DataError::io("read", &self.path))?;
        Ok(bytes)
    }

    #[cfg(unix)]
    fn exact(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, bytes, at)
    }

    #[cfg(windows)]
    fn exact(&self, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(&self.file, bytes, at)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => {
                    bytes = &mut bytes[read..];
                    at += read as u64;
                }
            }
        }
        Ok(())
    }
}
