//! Intervals of real values: certified, or reached by an attack.

use std::time::Duration;

use super::{CellError, Cells, Line, Row};
use crate::LogKind;

/// The intervals of one image's outputs, for perturbations up to the log's eps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IntervalRow {
    /// The image.
    pub idx: u64,
    /// One an output.
    pub outputs: Vec<OutputInterval>,
    /// Noisy copies evaluated; `None` for an attack.
    pub samples: Option<u64>,
    /// Wall-clock time spent on it.
    pub time: Option<Duration>,
}

/// The interval of one output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutputInterval {
    /// The value that the data set has; NaN: not known.
    pub target: f64,
    /// One clean pass, v(x).
    pub value: f64,
    /// The smoothed output at x, as the samples estimate it; NaN for an attack.
    pub centre: f64,
    /// The lowest that it can become (certified), or was made (attack).
    pub lower: f64,
    /// The highest.
    pub upper: f64,
}

impl OutputInterval {
    /// From its lower to its upper end.
    pub fn width(&self) -> f64 {
        self.upper - self.lower
    }
}

/// Names of an output's columns, before `@` and its number.
const OWN: [&str; 5] = ["target", "value", "centre", "lower", "upper"];

impl IntervalRow {
    /// The columns of a log of so many outputs.
    pub fn columns(outputs: usize) -> Vec<String> {
        let own = (0..outputs).flat_map(|output| OWN.map(|name| format!("{name}@{output}")));
        let (start, end) = Self::COLUMNS.split_at(Self::REQUIRED);
        let plain = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (start, end): (Vec<String>, Vec<String>) = (plain(start), plain(end));
        start.into_iter().chain(own).chain(end).collect()
    }
}

impl Row for IntervalRow {
    const KIND: LogKind = LogKind::Interval;
    const COLUMNS: &'static [&'static str] = &["idx", "outputs", "samples", "time"];
    const REQUIRED: usize = 2;

    fn idx(&self) -> u64 {
        self.idx
    }

    fn read(cells: &Cells<'_>) -> Result<Self, CellError> {
        let count: usize = cells.integer("outputs")?;
        let columns = cells.columns().len();
        if count == 0 || count > columns {
            let reason = format!("{count} outputs do not fit {columns} columns");
            return Err(CellError::new("outputs", reason));
        }
        let output = |output: usize| {
            let [target, value, centre, lower, upper] = OWN.map(|name| format!("{name}@{output}"));
            let found = OutputInterval {
                target: cells.number(&target)?,
                value: cells.finite(&value)?,
                centre: cells.number(&centre)?,
                lower: cells.finite(&lower)?,
                upper: cells.finite(&upper)?,
            };
            match found.lower <= found.upper {
                true => Ok(found),
                false => Err(CellError::new(&lower, "it is above the upper end")),
            }
        };
        Ok(Self {
            idx: cells.integer("idx")?,
            outputs: (0..count).map(output).collect::<Result<_, _>>()?,
            samples: cells.integer_or_none("samples")?,
            time: cells.duration_or_none("time")?,
        })
    }

    fn write(&self, line: &mut Line<'_>) {
        line.integer("idx", self.idx);
        line.integer("outputs", self.outputs.len() as u64);
        for (output, own) in self.outputs.iter().enumerate() {
            let values = [own.target, own.value, own.centre, own.lower, own.upper];
            for (name, value) in OWN.iter().zip(values) {
                line.number(&format!("{name}@{output}"), value);
            }
        }
        line.integer_or_none("samples", self.samples);
        line.duration_or_none("time", self.time);
    }
}
