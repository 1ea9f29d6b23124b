//! The rows of each kind of log, and how they become cells.

mod accuracy;
mod attack;
mod calibration;
mod cells;
mod certify;
mod clever;
mod fidelity;
mod interval;
mod lbound;

pub use accuracy::AccuracyRow;
pub use attack::AttackRow;
pub use calibration::CalibrationRow;
pub use cells::{CellError, Cells, Line};
pub use certify::CertifyRow;
pub use clever::CleverRow;
pub use fidelity::{FidelityLevel, FidelityRow, LevelDistance};
pub use interval::{IntervalRow, OutputInterval};
pub use lbound::LboundRow;

use crate::LogKind;

/// One line of a log: the result for one image.
///
/// A measurement of your own gets a log of its own by implementing this trait;
/// [`Log`](crate::Log) then writes and resumes it, [`Tsv::rows`](crate::Tsv::rows)
/// reads it and [`merge`](crate::merge) joins its shards. Columns that a file has
/// beyond those that the row asks for are ignored when it is read.
///
/// ```
/// use heatsmooth_record::{CellError, Cells, Line, LogKind, Row};
///
/// /// A certified radius in the largest change of a pixel.
/// struct LinfRow { idx: u64, predict: Option<u32>, linf_radius: f64 }
///
/// impl Row for LinfRow {
///     const KIND: LogKind = LogKind::own("linf-certify");
///     const COLUMNS: &[&str] = &["idx", "predict", "linf_radius"];
///     const REQUIRED: usize = 3;
///
///     fn idx(&self) -> u64 {
///         self.idx
///     }
///
///     fn read(cells: &Cells<'_>) -> Result<Self, CellError> {
///         Ok(Self {
///             idx: cells.integer("idx")?,
///             predict: cells.class("predict")?,
///             linf_radius: cells.at_least_zero("linf_radius")?,
///         })
///     }
///
///     fn write(&self, line: &mut Line<'_>) {
///         line.integer("idx", self.idx);
///         line.class("predict", self.predict);
///         line.number("linf_radius", self.linf_radius);
///     }
/// }
/// ```
pub trait Row: Sized {
    /// The kind of log, as its manifest names it.
    const KIND: LogKind;
    /// The columns, in the order in which they are written. A row type whose
    /// columns depend on the run also has a function that gives them, such as
    /// [`AttackRow::columns`].
    const COLUMNS: &'static [&'static str];
    /// How many of [`COLUMNS`](Self::COLUMNS), from the first, a file must have
    /// to be read.
    const REQUIRED: usize;

    /// The image: its position in the data set.
    fn idx(&self) -> u64;
    /// Reads a line; the error says which cell is wrong and how.
    fn read(cells: &Cells<'_>) -> Result<Self, CellError>;
    /// Writes a cell for each column that the row has.
    fn write(&self, line: &mut Line<'_>);
}

/// The first column that a log of `R` needs and `columns` do not have, in words.
pub(crate) fn missing<R: Row>(columns: &[String]) -> Option<String> {
    let required = &R::COLUMNS[..R::REQUIRED];
    let missing = required
        .iter()
        .find(|name| columns.iter().all(|column| column != **name))?;
    let kind = R::KIND.to_string();
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    };
    let found: String = columns.join(" ").chars().take(200).collect();
    Some(format!(
        "{article} {kind} log needs the column `{missing}`, the header is `{found}`"
    ))
}
