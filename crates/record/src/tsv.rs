//! Reading tab-separated tables: ours and other people's.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::number::parse_number;
use crate::rows::{Cells, Row, missing};
use crate::{RecordError, parse_duration};

/// A last line without its newline: a run was killed while writing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Its line number, from 1.
    pub line: u64,
    /// Its length in bytes.
    pub bytes: usize,
}

/// A table in memory: its columns and the whole lines below them.
#[derive(Clone, Debug)]
pub struct Tsv {
    path: PathBuf,
    columns: Vec<String>,
    text: String,
    /// Where the rows start and end in `text`.
    body: std::ops::Range<usize>,
    torn: Option<Torn>,
}

impl Tsv {
    /// Reads a whole file. A torn last line is left out and told by
    /// [`torn`](Self::torn); text that is not UTF-8 is refused with its line.
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        let bytes = fs::read(path).map_err(RecordError::io(path, "read"))?;
        Self::from_bytes(path, bytes)
    }

    pub(crate) fn from_bytes(path: &Path, mut bytes: Vec<u8>) -> Result<Self, RecordError> {
        let whole = bytes
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |last| last + 1);
        let tail = bytes.len() - whole;
        // The torn tail may end inside a character: it is dropped unread.
        bytes.truncate(whole);
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let line = error.as_bytes()[..valid]
                .iter()
                .filter(|&&byte| byte == b'\n')
                .count();
            line_error(path, line as u64 + 1, "not text (invalid UTF-8)")
        })?;
        let Some(end) = text.find('\n') else {
            return Err(line_error(path, 1, "expected a header line, found none"));
        };
        let columns: Vec<String> = text[..end]
            .trim_end_matches('\r')
            .split('\t')
            .map(str::to_owned)
            .collect();
        if let Some((column, _)) = columns
            .iter()
            .enumerate()
            .find(|(at, name)| columns[..*at].contains(name))
        {
            let reason = format!("column `{}` stands twice in the header", columns[column]);
            return Err(line_error(path, 1, reason));
        }
        let torn = (tail > 0).then(|| Torn {
            line: text.bytes().filter(|&byte| byte == b'\n').count() as u64 + 1,
            bytes: tail,
        });
        Ok(Self {
            path: path.into(),
            columns,
            body: end + 1..text.len(),
            text,
            torn,
        })
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The last line, if it is torn; it is not among the rows.
    pub fn torn(&self) -> Option<Torn> {
        self.torn
    }

    /// The rows as text, with their line numbers.
    pub fn lines(&self) -> impl Iterator<Item = (u64, &str)> {
        (2..).zip(self.text[self.body.clone()].lines())
    }

    /// The rows as values. The first line that does not read is refused with
    /// file, line and reason; so is an image that stands twice.
    pub fn rows<R: Row>(&self) -> Result<Vec<R>, RecordError> {
        if let Some(reason) = missing::<R>(&self.columns) {
            return Err(line_error(&self.path, 1, reason));
        }
        let mut cells = Vec::with_capacity(self.columns.len());
        let mut rows: Vec<R> = Vec::new();
        let mut seen = Seen::default();
        for (line, text) in self.lines() {
            self.split(line, text, &mut cells)?;
            let row = R::read(&Cells::new(&self.columns, &cells))
                .map_err(|error| line_error(&self.path, line, error.to_string()))?;
            if !seen.insert(row.idx()) {
                let reason = format!("image {} stands here a second time", row.idx());
                return Err(line_error(&self.path, line, reason));
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// All columns as numbers, column by column (`epochs.tsv`). Durations
    /// become seconds, empty cells NaN.
    pub fn numbers(&self) -> Result<Vec<Vec<f64>>, RecordError> {
        let mut out = vec![Vec::new(); self.columns.len()];
        let mut cells = Vec::with_capacity(self.columns.len());
        for (line, text) in self.lines() {
            self.split(line, text, &mut cells)?;
            for ((column, cell), name) in out.iter_mut().zip(&cells).zip(&self.columns) {
                let value = match parse_duration(cell) {
                    Some(duration) if cell.contains(':') => duration.as_secs_f64(),
                    _ => parse_number(cell)
                        .map_err(|why| line_error(&self.path, line, format!("{name}: {why}")))?,
                };
                column.push(value);
            }
        }
        Ok(out)
    }

    fn split<'a>(
        &self,
        line: u64,
        text: &'a str,
        cells: &mut Vec<&'a str>,
    ) -> Result<(), RecordError> {
        cells.clear();
        cells.extend(text.split('\t'));
        if cells.len() == self.columns.len() {
            return Ok(());
        }
        let reason = format!(
            "expected {} cells, found {}",
            self.columns.len(),
            cells.len()
        );
        Err(line_error(&self.path, line, reason))
    }
}

pub(crate) fn line_error(path: &Path, line: u64, reason: impl Into<String>) -> RecordError {
    RecordError::Line {
        path: path.into(),
        line,
        reason: reason.into(),
    }
}

/// The images seen so far; a set only once they stop ascending.
#[derive(Default)]
struct Seen {
    ascending: Vec<u64>,
    set: Option<HashSet<u64>>,
}

impl Seen {
    fn insert(&mut self, idx: u64) -> bool {
        if let Some(set) = &mut self.set {
            return set.insert(idx);
        }
        if self.ascending.last().is_none_or(|&last| last < idx) {
            self.ascending.push(idx);
            return true;
        }
        let set = self
            .set
            .insert(std::mem::take(&mut self.ascending).into_iter().collect());
        set.insert(idx)
    }
}
