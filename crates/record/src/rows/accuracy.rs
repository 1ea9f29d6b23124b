//! Rows of `eval`.

use std::time::Duration;

use super::{CellError, Cells, Line, Row};
use crate::LogKind;

/// What a model says about one image, clean and with one draw of noise.
#[derive(Clone, Debug, PartialEq)]
pub struct AccuracyRow {
    /// The image.
    pub idx: u64,
    /// Its class.
    pub label: u32,
    /// The class with the largest logit.
    pub predict: u32,
    /// Classes that stand before the label; 0: it is right.
    pub rank: u64,
    /// The same class of a noisy copy, if there was noise.
    pub noisy_predict: Option<u32>,
    /// The same rank of it.
    pub noisy_rank: Option<u64>,
    /// The one-pass radius of the predicted class; NaN: the model has none.
    pub one_pass: f64,
    /// Wall-clock time spent on it.
    pub time: Option<Duration>,
}

impl Row for AccuracyRow {
    const KIND: LogKind = LogKind::Accuracy;
    const COLUMNS: &'static [&'static str] = &[
        "idx",
        "label",
        "predict",
        "rank",
        "noisy_predict",
        "noisy_rank",
        "one_pass",
        "time",
    ];
    const REQUIRED: usize = 4;

    fn idx(&self) -> u64 {
        self.idx
    }

    fn read(cells: &Cells<'_>) -> Result<Self, CellError> {
        Ok(Self {
            idx: cells.integer("idx")?,
            label: cells.integer("label")?,
            predict: cells.integer("predict")?,
            rank: cells.integer("rank")?,
            noisy_predict: cells.integer_or_none("noisy_predict")?,
            noisy_rank: cells.integer_or_none("noisy_rank")?,
            one_pass: cells.number("one_pass")?,
            time: cells.duration_or_none("time")?,
        })
    }

    fn write(&self, line: &mut Line<'_>) {
        line.integer("idx", self.idx);
        line.integer("label", self.label);
        line.integer("predict", self.predict);
        line.integer("rank", self.rank);
        line.integer_or_none("noisy_predict", self.noisy_predict);
        line.integer_or_none("noisy_rank", self.noisy_rank);
        line.number("one_pass", self.one_pass);
        line.duration_or_none("time", self.time);
    }
}
