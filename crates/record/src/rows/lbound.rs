//! L-bound logs.

use std::time::Duration;

use super::{Cells, Line, Row};
use crate::Kind;

/// The L-bound of one image: `sigma * sqrt(pi/2) * (p_y - max_{i != y} p_i)`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LboundRow {
    /// The image.
    pub idx: u64,
    /// Its class y.
    pub label: u32,
    /// The model's class.
    pub predict: u32,
    /// Whether the class is the label (top-k: the label is among the k).
    pub correct: bool,
    /// The bound for the true class; below zero where another class is ahead.
    pub radius: f64,
    /// Probability of the true class; NaN: not recorded.
    pub p_label: f64,
    /// Largest probability of another class (top-k: p_(k+1)); NaN: not recorded.
    pub p_other: f64,
    /// Wall-clock time of classifying the image: one pass for a deterministic v,
    /// all noise samples for a stochastic model.
    pub time: Option<Duration>,
    /// Values of the further columns.
    pub extra: Vec<f64>,
}

impl Row for LboundRow {
    const KIND: Kind = Kind::Lbound;
    const COLUMNS: &'static [&'static str] = &[
        "idx", "label", "predict", "correct", "radius", "p_label", "p_other", "time",
    ];
    const REQUIRED: usize = 5;

    fn idx(&self) -> u64 {
        self.idx
    }

    fn extra(&self) -> &[f64] {
        &self.extra
    }

    fn read(cells: &Cells<'_>) -> Result<Self, String> {
        Ok(Self {
            idx: cells.integer(0, "idx")?,
            label: cells.integer(1, "label")?,
            predict: cells.integer(2, "predict")?,
            correct: cells.flag(3, "correct")?,
            radius: cells.finite(4, "radius")?,
            p_label: cells.number(5, "p_label")?,
            p_other: cells.number(6, "p_other")?,
            time: cells.duration_or_none(7, "time")?,
            extra: cells.extra()?,
        })
    }

    fn write(&self, line: &mut Line) {
        line.put(self.idx);
        line.put(self.label);
        line.put(self.predict);
        line.flag(self.correct);
        line.number(self.radius);
        line.number(self.p_label);
        line.number(self.p_other);
        line.duration(self.time);
    }
}
