//! Crash-safe appending of rows.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::{RecordError, Torn, Tsv, atomic};

/// Rows are handed to the operating system one by one and forced onto the disk
/// at most this often, and at the end.
const SYNC_EVERY: Duration = Duration::from_millis(200);

/// Appends rows to a tab-separated file.
///
/// Each row is one `write` before [`append`](Self::append) returns, so killing
/// the process loses at most the row being written (its torn line is cut off on
/// reopening). Against power cuts the file is also synced, at most every 200 ms
/// and by [`finish`](Self::finish). The file is locked: a second writer is
/// refused. Without a lock, too, a row is only written where this writer's last one
/// ended: of two writers, the one that was overtaken is refused.
#[derive(Debug)]
pub struct TsvWriter {
    path: PathBuf,
    file: File,
    columns: usize,
    /// Bytes of whole lines.
    length: u64,
    synced: Instant,
    dirty: bool,
}

/// What [`TsvWriter::open`] found on disk.
#[derive(Debug)]
pub struct Reopened {
    /// The rows already there; none in a new file.
    pub table: Tsv,
    /// The torn last line that was cut off, if there was one.
    pub cut: Option<Torn>,
}

impl TsvWriter {
    /// Creates the file (and its folder) with its header, or reopens it at its
    /// end. A file with other columns is refused.
    pub fn open<S: AsRef<str>>(
        path: &Path,
        columns: &[S],
    ) -> Result<(Self, Reopened), RecordError> {
        Self::open_with(path, columns, true)
    }

    /// The same without a lock, for a file that one process alone should write, on a
    /// shared folder.
    pub fn open_unlocked<S: AsRef<str>>(
        path: &Path,
        columns: &[S],
    ) -> Result<(Self, Reopened), RecordError> {
        Self::open_with(path, columns, false)
    }

    fn open_with<S: AsRef<str>>(
        path: &Path,
        columns: &[S],
        lock: bool,
    ) -> Result<(Self, Reopened), RecordError> {
        let names: Vec<&str> = columns.iter().map(AsRef::as_ref).collect();
        let header = join(path, &names)?;
        let folder = atomic::folder_of(path);
        std::fs::create_dir_all(folder).map_err(RecordError::io(folder, "create the folder"))?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(RecordError::io(path, "open"))?;
        // A file system without locks is no reason not to work.
        if lock && matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(RecordError::Locked { path: path.into() });
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .map_err(RecordError::io(path, "read"))?;
        if bytes.windows(2).any(|pair| pair == b"\r\n") {
            return Err(RecordError::LineEnds { path: path.into() });
        }
        // Killed while writing the header: nothing is lost by starting again.
        if !bytes.contains(&b'\n') && header.as_bytes().starts_with(&bytes) {
            if let Err(error) = write_header(&mut file, &header) {
                // A file without a header says nothing: none is better.
                let _ = std::fs::remove_file(path);
                return Err(RecordError::io(path, "write")(error));
            }
            atomic::sync_folder(folder)?;
            bytes = header.into_bytes();
        } else if !bytes.starts_with(header.as_bytes()) {
            let show = |text: &str| text.trim_end().replace('\t', " ");
            let found = bytes
                .split(|&byte| byte == b'\n')
                .next()
                .unwrap_or_default();
            let found = String::from_utf8_lossy(&found[..found.len().min(400)]);
            let (found, wanted) = (show(&found), show(&header));
            return Err(RecordError::Header {
                path: path.into(),
                found,
                wanted,
            });
        }
        let length = bytes.len();
        let table = Tsv::from_bytes(path, bytes)?;
        let cut = table.torn();
        let whole = (length - cut.map_or(0, |torn| torn.bytes)) as u64;
        if cut.is_some() {
            file.set_len(whole)
                .map_err(RecordError::io(path, "cut off the torn last line"))?;
        }
        file.seek(SeekFrom::End(0))
            .map_err(RecordError::io(path, "open"))?;
        let writer = Self {
            path: path.into(),
            file,
            columns: names.len(),
            length: whole,
            synced: Instant::now(),
            dirty: false,
        };
        Ok((writer, Reopened { table, cut }))
    }

    /// Appends one row, a cell for each column.
    pub fn append<S: AsRef<str>>(&mut self, cells: &[S]) -> Result<(), RecordError> {
        if cells.len() != self.columns {
            let reason = format!("expected {} cells, got {}", self.columns, cells.len());
            return Err(RecordError::Row {
                path: self.path.clone(),
                reason,
            });
        }
        let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
        let line = join(&self.path, &cells)?;
        let on_disk = self.file.metadata();
        let on_disk = on_disk.map_err(RecordError::io(&self.path, "read"))?;
        if on_disk.len() != self.length {
            return Err(RecordError::Locked {
                path: self.path.clone(),
            });
        }
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            // The disk is full: the part of the row that was written is cut off.
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(RecordError::io(&self.path, "write")(error));
        }
        self.length += line.len() as u64;
        self.dirty = true;
        if self.synced.elapsed() >= SYNC_EVERY {
            self.sync()?;
        }
        Ok(())
    }

    /// Forces every row onto the disk now.
    pub fn sync(&mut self) -> Result<(), RecordError> {
        if self.dirty {
            self.file
                .sync_data()
                .map_err(RecordError::io(&self.path, "sync"))?;
            self.dirty = false;
        }
        self.synced = Instant::now();
        Ok(())
    }

    /// The last [`sync`](Self::sync), its error seen. Dropping syncs too, but
    /// cannot say if that failed.
    pub fn finish(mut self) -> Result<(), RecordError> {
        self.sync()
    }

    /// Where it writes.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TsvWriter {
    fn drop(&mut self) {
        let _ = self.sync();
    }
}

fn write_header(file: &mut File, header: &str) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(header.as_bytes())?;
    file.sync_all()
}

fn join(path: &Path, cells: &[&str]) -> Result<String, RecordError> {
    if let Some(cell) = cells.iter().find(|cell| cell.contains(['\t', '\n', '\r'])) {
        let reason = format!("a tab or line break in the cell {cell:?}");
        return Err(RecordError::Row {
            path: path.into(),
            reason,
        });
    }
    let mut line = cells.join("\t");
    line.push('\n');
    Ok(line)
}
