//! L-bound logs.

use std::time::Duration;

use super::{CellError, Cells, Line, Row};
use crate::LogKind;

/// The L-bound of one image: `sigma * sqrt(pi/2) * (p_y - max_{i != y} p_i)`.
#[derive(Clone, Debug, PartialEq)]
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
    /// The probit bound `sigma/2 * (Phi^-1(p_y) - Phi^-1(max_{i != y} p_i))`; NaN: not
    /// recorded.
    pub probit: f64,
    /// The one-pass radius of the model's class, `sigma * Phi^-1(p)`; NaN: not
    /// recorded, or not from one pass.
    pub one_pass: f64,
}

/// Image 0 at radius 0; nothing else is recorded.
impl Default for LboundRow {
    fn default() -> Self {
        Self {
            idx: 0,
            label: 0,
            predict: 0,
            correct: false,
            radius: 0.0,
            p_label: f64::NAN,
            p_other: f64::NAN,
            time: None,
            probit: f64::NAN,
            one_pass: f64::NAN,
        }
    }
}

impl Row for LboundRow {
    const KIND: LogKind = LogKind::Lbound;
    const COLUMNS: &'static [&'static str] = &[
        "idx", "label", "predict", "correct", "radius", "p_label", "p_other", "time", "probit",
        "one_pass",
    ];
    const REQUIRED: usize = 5;

    fn idx(&self) -> u64 {
        self.idx
    }

    fn read(cells: &Cells<'_>) -> Result<Self, CellError> {
        Ok(Self {
            idx: cells.integer("idx")?,
            label: cells.integer("label")?,
            predict: cells.integer("predict")?,
            correct: cells.flag("correct")?,
            radius: cells.finite("radius")?,
            p_label: cells.number("p_label")?,
            p_other: cells.number("p_other")?,
            time: cells.duration_or_none("time")?,
            probit: cells.number("probit")?,
            one_pass: cells.number("one_pass")?,
        })
    }

    fn write(&self, line: &mut Line<'_>) {
        line.integer("idx", self.idx);
        line.integer("label", self.label);
        line.integer("predict", self.predict);
        line.flag("correct", self.correct);
        line.number("radius", self.radius);
        line.number("p_label", self.p_label);
        line.number("p_other", self.p_other);
        line.duration_or_none("time", self.time);
        line.number("probit", self.probit);
        line.number("one_pass", self.one_pass);
    }
}
