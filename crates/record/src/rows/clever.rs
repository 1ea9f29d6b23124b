//! CLEVER logs.

use std::time::Duration;

use super::{CellError, Cells, Line, Row};
use crate::LogKind;

/// The estimated distance of one image from another class. No bound: a class may
/// change nearer.
#[derive(Clone, Debug, PartialEq)]
pub struct CleverRow {
    /// The image.
    pub idx: u64,
    /// Its class.
    pub label: u32,
    /// The model's class, from which the distance is estimated.
    pub predict: u32,
    /// Whether it is the label.
    pub correct: bool,
    /// The target, or the class that seems nearest.
    pub target: u32,
    /// The estimated distance, at most the radius of the ball; 0 where the target is
    /// predicted.
    pub score: f64,
    /// The difference of both classes' logits.
    pub margin: f64,
    /// The estimated largest slope of that difference; NaN: not needed.
    pub slope: f64,
    /// Shape of the reverse Weibull distribution fitted to the largest slopes seen;
    /// infinite where they say nothing about an end, and the largest is taken.
    pub shape: f64,
    /// Its scale.
    pub scale: f64,
    /// Its Kolmogorov-Smirnov distance from these slopes; NaN: nothing was fitted.
    pub ks: f64,
    /// Wall-clock time spent on it.
    pub time: Option<Duration>,
}

impl Row for CleverRow {
    const KIND: LogKind = LogKind::Clever;
    const COLUMNS: &'static [&'static str] = &[
        "idx", "label", "predict", "correct", "target", "score", "margin", "slope", "shape",
        "scale", "ks", "time",
    ];
    const REQUIRED: usize = 6;

    fn idx(&self) -> u64 {
        self.idx
    }

    fn read(cells: &Cells<'_>) -> Result<Self, CellError> {
        Ok(Self {
            idx: cells.integer("idx")?,
            label: cells.integer("label")?,
            predict: cells.integer("predict")?,
            correct: cells.flag("correct")?,
            target: cells.integer("target")?,
            score: cells.at_least_zero("score")?,
            margin: cells.number("margin")?,
            slope: cells.number("slope")?,
            shape: cells.number("shape")?,
            scale: cells.number("scale")?,
            ks: cells.number("ks")?,
            time: cells.duration_or_none("time")?,
        })
    }

    fn write(&self, line: &mut Line<'_>) {
        line.integer("idx", self.idx);
        line.integer("label", self.label);
        line.integer("predict", self.predict);
        line.flag("correct", self.correct);
        line.integer("target", self.target);
        line.number("score", self.score);
        line.number("margin", self.margin);
        line.number("slope", self.slope);
        line.number("shape", self.shape);
        line.number("scale", self.scale);
        line.number("ks", self.ks);
        line.duration_or_none("time", self.time);
    }
}
