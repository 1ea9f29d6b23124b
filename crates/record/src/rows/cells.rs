//! The cells of one line, read and written by the names of their columns.

use std::cell::Cell;
use std::str::FromStr;
use std::time::Duration;

use crate::number::parse_number;
use crate::{format_duration, format_number, parse_duration};

/// A cell that does not hold what its column should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{column}: {reason}")]
pub struct CellError {
    /// The column.
    pub column: String,
    /// What was expected and what stands there.
    pub reason: String,
}

impl CellError {
    /// An error in a column.
    pub fn new(column: &str, reason: impl Into<String>) -> Self {
        Self {
            column: column.into(),
            reason: reason.into(),
        }
    }
}

/// The cells of a line that is read.
///
/// A column that the file does not have reads as an empty cell: `None` or NaN
/// where the method allows that, an error where it does not.
#[derive(Debug)]
pub struct Cells<'a> {
    columns: &'a [String],
    cells: &'a [&'a str],
    /// Where the next column is looked for first: rows ask in the file's order.
    next: Cell<usize>,
}

impl<'a> Cells<'a> {
    pub(crate) fn new(columns: &'a [String], cells: &'a [&'a str]) -> Self {
        Self {
            columns,
            cells,
            next: Cell::new(0),
        }
    }

    /// Names of the file's columns, for rows whose columns depend on the run.
    pub fn columns(&self) -> &'a [String] {
        self.columns
    }

    /// The text of a cell; empty if the file does not have the column.
    pub fn text(&self, column: &str) -> &'a str {
        match position(self.columns, column, self.next.get()) {
            Some(at) => {
                self.next.set(at + 1);
                self.cells[at]
            }
            None => "",
        }
    }

    /// A whole number.
    pub fn integer<T: FromStr>(&self, column: &str) -> Result<T, CellError> {
        integer(column, self.text(column))
    }

    /// A whole number, or `None` where the cell is empty.
    pub fn integer_or_none<T: FromStr>(&self, column: &str) -> Result<Option<T>, CellError> {
        match self.text(column) {
            "" => Ok(None),
            text => integer(column, text).map(Some),
        }
    }

    /// A class, -1 standing for none.
    pub fn class(&self, column: &str) -> Result<Option<u32>, CellError> {
        match self.integer::<i64>(column)? {
            -1 => Ok(None),
            class => u32::try_from(class).map(Some).map_err(|_| {
                CellError::new(column, format!("expected a class or -1, found `{class}`"))
            }),
        }
    }

    /// A number; NaN where the cell is empty.
    pub fn number(&self, column: &str) -> Result<f64, CellError> {
        parse_number(self.text(column)).map_err(|reason| CellError::new(column, reason))
    }

    /// A number that is neither missing nor infinite.
    pub fn finite(&self, column: &str) -> Result<f64, CellError> {
        let value = self.number(column)?;
        if value.is_finite() {
            return Ok(value);
        }
        let text = self.text(column);
        let reason = format!("expected a finite number, found `{text}`");
        Err(CellError::new(column, reason))
    }

    /// A finite number that is not negative.
    pub fn at_least_zero(&self, column: &str) -> Result<f64, CellError> {
        let value = self.finite(column)?;
        if value >= 0.0 {
            Ok(value)
        } else {
            Err(CellError::new(column, format!("{value} is below zero")))
        }
    }

    /// Yes (1) or no (0).
    pub fn flag(&self, column: &str) -> Result<bool, CellError> {
        flag(column, self.text(column))
    }

    /// Yes (1) or no (0), or `None` where the cell is empty.
    pub fn flag_or_none(&self, column: &str) -> Result<Option<bool>, CellError> {
        match self.text(column) {
            "" => Ok(None),
            text => flag(column, text).map(Some),
        }
    }

    /// A duration as `h:mm:ss.ffffff`, or `None` where the cell is empty.
    pub fn duration_or_none(&self, column: &str) -> Result<Option<Duration>, CellError> {
        match self.text(column) {
            "" => Ok(None),
            text => parse_duration(text).map(Some).ok_or_else(|| {
                CellError::new(column, format!("expected h:mm:ss.ffffff, found `{text}`"))
            }),
        }
    }

    /// A duration as a plain number of seconds, or `None` where the cell is empty.
    pub fn seconds_or_none(&self, column: &str) -> Result<Option<Duration>, CellError> {
        let seconds = self.number(column)?;
        if seconds.is_nan() {
            return Ok(None);
        }
        Duration::try_from_secs_f64(seconds).map(Some).map_err(|_| {
            let reason = format!("expected seconds, found `{}`", self.text(column));
            CellError::new(column, reason)
        })
    }
}

fn integer<T: FromStr>(column: &str, text: &str) -> Result<T, CellError> {
    text.parse()
        .map_err(|_| CellError::new(column, format!("expected a whole number, found `{text}`")))
}

fn flag(column: &str, text: &str) -> Result<bool, CellError> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        other => {
            let reason = format!("expected 0 or 1, found `{other}`");
            Err(CellError::new(column, reason))
        }
    }
}

/// The cells of a line that is written, in whatever order a row names them.
///
/// Every column of the log wants exactly one cell, which may be empty. A value
/// for a column that the log does not have is an error of the append, since it
/// would be lost; an empty cell for such a column is left out.
#[derive(Debug)]
pub struct Line<'a> {
    columns: &'a [String],
    cells: Vec<Option<String>>,
    next: usize,
    lost: Option<String>,
}

impl<'a> Line<'a> {
    pub(crate) fn new(columns: &'a [String]) -> Self {
        Self {
            columns,
            cells: vec![None; columns.len()],
            next: 0,
            lost: None,
        }
    }

    /// A cell of text, without tabs and line breaks.
    pub fn text(&mut self, column: &str, text: impl Into<String>) {
        let text = text.into();
        match position(self.columns, column, self.next) {
            Some(at) => {
                self.next = at + 1;
                self.cells[at] = Some(text);
            }
            None if text.is_empty() => {}
            None => self.lost = Some(format!("the log has no column `{column}` for {text}")),
        }
    }

    /// A whole number.
    pub fn integer(&mut self, column: &str, value: impl Into<u64>) {
        self.text(column, value.into().to_string());
    }

    /// A whole number, or an empty cell.
    pub fn integer_or_none(&mut self, column: &str, value: Option<impl Into<u64>>) {
        let text = value.map_or(String::new(), |value| value.into().to_string());
        self.text(column, text);
    }

    /// A class, -1 standing for none.
    pub fn class(&mut self, column: &str, class: Option<u32>) {
        self.text(column, class.map_or(-1, i64::from).to_string());
    }

    /// A number in full precision; NaN leaves the cell empty.
    pub fn number(&mut self, column: &str, value: f64) {
        self.text(column, format_number(value));
    }

    /// Yes (1) or no (0).
    pub fn flag(&mut self, column: &str, value: bool) {
        self.integer(column, value);
    }

    /// Yes (1) or no (0), or an empty cell.
    pub fn flag_or_none(&mut self, column: &str, value: Option<bool>) {
        self.integer_or_none(column, value);
    }

    /// A duration as `h:mm:ss.ffffff`, or an empty cell.
    pub fn duration_or_none(&mut self, column: &str, value: Option<Duration>) {
        self.text(column, value.map_or(String::new(), format_duration));
    }

    /// A duration as a plain number of seconds, or an empty cell.
    pub fn seconds_or_none(&mut self, column: &str, value: Option<Duration>) {
        self.number(column, value.map_or(f64::NAN, |time| time.as_secs_f64()));
    }

    /// One cell for each column, or what is missing or too much.
    pub(crate) fn into_cells(self) -> Result<Vec<String>, String> {
        if let Some(lost) = self.lost {
            return Err(lost);
        }
        let cells = self.cells.into_iter().zip(self.columns);
        cells
            .map(|(cell, column)| cell.ok_or_else(|| format!("it has no cell for `{column}`")))
            .collect()
    }
}

/// Where a column stands; `guess` is tried first.
fn position(columns: &[String], column: &str, guess: usize) -> Option<usize> {
    if columns.get(guess).is_some_and(|name| name == column) {
        return Some(guess);
    }
    columns.iter().position(|name| name == column)
}
