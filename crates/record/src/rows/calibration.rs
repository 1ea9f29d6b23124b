//! Calibration logs.

use std::time::Duration;

use super::{CellError, Cells, Line, Row};
use crate::LogKind;

/// What one pass of v says about an image, beside what the samples of g, the
/// smoothed reference, prove about it.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrationRow {
    /// The image.
    pub idx: u64,
    /// Its class.
    pub label: u32,
    /// The class of v.
    pub predict: u32,
    /// Its probability.
    pub p: f64,
    /// The one-pass radius of v, before calibration; 0 for a probability of at
    /// most 1/2.
    pub one_pass: f64,
    /// The certified class of g; `None`: abstained.
    pub g_predict: Option<u32>,
    /// The certified radius of g, 0 where it abstained.
    pub g_radius: f64,
    /// How many of g's samples voted for its class.
    pub n_a: Option<u64>,
    /// How many samples were counted.
    pub n: Option<u64>,
    /// Lower confidence bound on the class's probability under noise; NaN: not
    /// recorded.
    pub p_lower: f64,
    /// Wall-clock time spent on it.
    pub time: Option<Duration>,
}

impl CalibrationRow {
    /// Whether g has a certificate for the class of v.
    pub fn same_class(&self) -> bool {
        self.g_predict == Some(self.predict)
    }

    /// Whether a promise of `radius` for the class of v is more than g's
    /// certificate has. No promise (0) never is.
    pub fn misses(&self, radius: f64) -> bool {
        radius > 0.0 && (!self.same_class() || radius > self.g_radius)
    }
}

/// Image 0, on which g abstained; nothing else is recorded.
impl Default for CalibrationRow {
    fn default() -> Self {
        Self {
            idx: 0,
            label: 0,
            predict: 0,
            p: 0.0,
            one_pass: 0.0,
            g_predict: None,
            g_radius: 0.0,
            n_a: None,
            n: None,
            p_lower: f64::NAN,
            time: None,
        }
    }
}

impl Row for CalibrationRow {
    const KIND: LogKind = LogKind::Calibrate;
    const COLUMNS: &'static [&'static str] = &[
        "idx",
        "label",
        "predict",
        "p",
        "one_pass",
        "g_predict",
        "g_radius",
        "n_a",
        "n",
        "p_lower",
        "time",
    ];
    const REQUIRED: usize = 7;

    fn idx(&self) -> u64 {
        self.idx
    }

    fn read(cells: &Cells<'_>) -> Result<Self, CellError> {
        Ok(Self {
            idx: cells.integer("idx")?,
            label: cells.integer("label")?,
            predict: cells.integer("predict")?,
            p: cells.at_least_zero("p")?,
            one_pass: cells.at_least_zero("one_pass")?,
            g_predict: cells.class("g_predict")?,
            g_radius: cells.at_least_zero("g_radius")?,
            n_a: cells.integer_or_none("n_a")?,
            n: cells.integer_or_none("n")?,
            p_lower: cells.number("p_lower")?,
            time: cells.duration_or_none("time")?,
        })
    }

    fn write(&self, line: &mut Line<'_>) {
        line.integer("idx", self.idx);
        line.integer("label", self.label);
        line.integer("predict", self.predict);
        line.number("p", self.p);
        line.number("one_pass", self.one_pass);
        line.class("g_predict", self.g_predict);
        line.number("g_radius", self.g_radius);
        line.integer_or_none("n_a", self.n_a);
        line.integer_or_none("n", self.n);
        line.number("p_lower", self.p_lower);
        line.duration_or_none("time", self.time);
    }
}
