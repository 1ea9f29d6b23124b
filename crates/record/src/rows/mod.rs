//! The rows of each kind of log, and how they become cells.

mod attack;
mod certify;
mod fidelity;
mod lbound;

use std::fmt::Display;
use std::time::Duration;

pub use attack::AttackRow;
pub use certify::CertifyRow;
pub use fidelity::FidelityRow;
pub use lbound::LboundRow;

use crate::number::parse_number;
use crate::{Kind, format_duration, format_number, parse_duration};

/// One line of a log: the result for one image.
///
/// Columns that a file has beyond [`COLUMNS`](Self::COLUMNS) are numbers and
/// are kept as [`extra`](Self::extra), in the file's order.
pub trait Row: Sized {
    /// The kind of log.
    const KIND: Kind;
    /// The columns, in the order in which they are written.
    const COLUMNS: &'static [&'static str];
    /// How many of them, from the first, a file must have to be read.
    const REQUIRED: usize;

    /// The image: its position in the data set.
    fn idx(&self) -> u64;
    /// Values of the file's further columns.
    fn extra(&self) -> &[f64];
    /// Reads a line; the error says which cell is wrong and how.
    fn read(cells: &Cells<'_>) -> Result<Self, String>;
    /// Writes a cell for each of [`COLUMNS`](Self::COLUMNS).
    fn write(&self, line: &mut Line);
}

/// The cells of a line, addressed by position in [`Row::COLUMNS`].
pub struct Cells<'a> {
    cells: &'a [&'a str],
    known: &'a [Option<usize>],
    extra: &'a [usize],
}

impl<'a> Cells<'a> {
    pub(crate) fn new(
        cells: &'a [&'a str],
        known: &'a [Option<usize>],
        extra: &'a [usize],
    ) -> Self {
        Self {
            cells,
            known,
            extra,
        }
    }

    /// The text of a column; empty if the file does not have it.
    fn text(&self, column: usize) -> &'a str {
        self.known
            .get(column)
            .copied()
            .flatten()
            .map_or("", |at| self.cells[at])
    }

    fn integer<T: std::str::FromStr>(&self, column: usize, name: &str) -> Result<T, String> {
        let text = self.text(column);
        text.parse()
            .map_err(|_| format!("{name}: expected a whole number, found `{text}`"))
    }

    /// An integer, or `None` where the cell is empty.
    fn integer_or_none(&self, column: usize, name: &str) -> Result<Option<u64>, String> {
        if self.text(column).is_empty() {
            Ok(None)
        } else {
            self.integer(column, name).map(Some)
        }
    }

    /// A class, -1 standing for none.
    fn class(&self, column: usize, name: &str) -> Result<Option<u32>, String> {
        match self.integer::<i64>(column, name)? {
            -1 => Ok(None),
            class => u32::try_from(class)
                .map(Some)
                .map_err(|_| format!("{name}: expected a class or -1, found `{class}`")),
        }
    }

    /// A number; NaN (an empty cell) only where that is allowed by the caller.
    fn number(&self, column: usize, name: &str) -> Result<f64, String> {
        parse_number(self.text(column)).map_err(|why| format!("{name}: {why}"))
    }

    fn finite(&self, column: usize, name: &str) -> Result<f64, String> {
        let value = self.number(column, name)?;
        if value.is_finite() {
            return Ok(value);
        }
        Err(format!(
            "{name}: expected a finite number, found `{}`",
            self.text(column)
        ))
    }

    fn at_least_zero(&self, column: usize, name: &str) -> Result<f64, String> {
        let value = self.finite(column, name)?;
        if value >= 0.0 {
            Ok(value)
        } else {
            Err(format!("{name}: {value} is below zero"))
        }
    }

    fn flag(&self, column: usize, name: &str) -> Result<bool, String> {
        match self.text(column) {
            "0" => Ok(false),
            "1" => Ok(true),
            other => Err(format!("{name}: expected 0 or 1, found `{other}`")),
        }
    }

    fn duration_or_none(&self, column: usize, name: &str) -> Result<Option<Duration>, String> {
        match self.text(column) {
            "" => Ok(None),
            text => parse_duration(text)
                .map(Some)
                .ok_or_else(|| format!("{name}: expected h:mm:ss.ffffff, found `{text}`")),
        }
    }

    /// Values of the columns that the row type does not name.
    fn extra(&self) -> Result<Vec<f64>, String> {
        self.extra
            .iter()
            .map(|&at| parse_number(self.cells[at]))
            .collect()
    }
}

/// Collects the cells of a line.
#[derive(Debug, Default)]
pub struct Line {
    cells: Vec<String>,
}

impl Line {
    fn put(&mut self, value: impl Display) {
        self.cells.push(value.to_string());
    }

    fn number(&mut self, value: f64) {
        self.cells.push(format_number(value));
    }

    fn class(&mut self, class: Option<u32>) {
        self.put(class.map_or(-1, i64::from));
    }

    fn integer(&mut self, value: Option<u64>) {
        self.cells
            .push(value.map_or(String::new(), |value| value.to_string()));
    }

    fn flag(&mut self, value: bool) {
        self.put(u8::from(value));
    }

    fn duration(&mut self, value: Option<Duration>) {
        self.cells
            .push(value.map_or(String::new(), format_duration));
    }

    pub(crate) fn into_cells(self) -> Vec<String> {
        self.cells
    }
}
