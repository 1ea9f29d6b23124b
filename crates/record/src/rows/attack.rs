//! Attack logs.

use std::time::Duration;

use super::{Cells, Line, Row};
use crate::Kind;

/// The outcome of one attack on one image.
///
/// An image that the model already gets wrong has `clean_predict != label`,
/// success, and distance 0. A failed attack has `success` false and no distance:
/// `l2` and `linf` are then NaN (empty on disk), whatever the attack tried last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttackRow {
    /// The image.
    pub idx: u64,
    /// Its class.
    pub label: u32,
    /// The model's class for the image; `None` (-1 on disk): no majority.
    pub clean_predict: Option<u32>,
    /// The model's class for the attacked image.
    pub adv_predict: Option<u32>,
    /// Whether the attack succeeded, as re-checked by the caller.
    pub success: bool,
    /// L2 norm of the perturbation; NaN where it failed.
    pub l2: f64,
    /// Largest change of a pixel; NaN where it failed.
    pub linf: f64,
    /// Steps used.
    pub steps: u64,
    /// Wall-clock time spent on it.
    pub time: Option<Duration>,
    /// Values of the further columns.
    pub extra: Vec<f64>,
}

impl AttackRow {
    /// 1 if the label is in the clean image's top k (top-k attacks), else 0.
    /// Where the column is missing, `clean_predict == label` says it.
    pub const CLEAN_CORRECT: &str = "clean_correct";
    /// L2 norm of the last iterate, also of a failed attack: the figure that the
    /// paper's convention averages.
    pub const LAST_L2: &str = "last_l2";
    /// The class that a targeted attack wants to see predicted. Where it is the
    /// label, the image was left out: no success, no failure.
    pub const TARGET: &str = "target";
}

impl Row for AttackRow {
    const KIND: Kind = Kind::Attack;
    const COLUMNS: &'static [&'static str] = &[
        "idx",
        "label",
        "clean_predict",
        "adv_predict",
        "success",
        "l2",
        "linf",
        "steps",
        "time",
    ];
    const REQUIRED: usize = 8;

    fn idx(&self) -> u64 {
        self.idx
    }

    fn extra(&self) -> &[f64] {
        &self.extra
    }

    fn read(cells: &Cells<'_>) -> Result<Self, String> {
        let success = cells.flag(4, "success")?;
        let distance = |column, name| {
            if success {
                cells.at_least_zero(column, name)
            } else {
                cells.number(column, name)
            }
        };
        Ok(Self {
            idx: cells.integer(0, "idx")?,
            label: cells.integer(1, "label")?,
            clean_predict: cells.class(2, "clean_predict")?,
            adv_predict: cells.class(3, "adv_predict")?,
            success,
            l2: distance(5, "l2")?,
            linf: distance(6, "linf")?,
            steps: cells.integer(7, "steps")?,
            time: cells.duration_or_none(8, "time")?,
            extra: cells.extra()?,
        })
    }

    fn write(&self, line: &mut Line) {
        line.put(self.idx);
        line.put(self.label);
        line.class(self.clean_predict);
        line.class(self.adv_predict);
        line.flag(self.success);
        line.number(self.l2);
        line.number(self.linf);
        line.put(self.steps);
        line.duration(self.time);
    }
}
