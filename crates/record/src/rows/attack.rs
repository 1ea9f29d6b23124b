//! Attack logs.

use std::time::Duration;

use super::{CellError, Cells, Line, Row};
use crate::LogKind;

/// The outcome of one attack on one image.
///
/// An image that the model already gets wrong has `clean_predict != label`,
/// success, and distance 0. A failed attack has `success` false and no distance:
/// `l2` and `linf` are then NaN (empty on disk), whatever the attack tried last.
#[derive(Clone, Debug, PartialEq)]
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
    /// Whether the label is in the clean image's top k. Where it is not
    /// recorded, `clean_predict == label` says it.
    pub clean_correct: Option<bool>,
    /// L2 norm of the last iterate, also of a failed attack: the figure that the
    /// paper's convention averages; NaN: not recorded.
    pub last_l2: f64,
    /// The class that a targeted attack wants to see predicted. Where it is the
    /// label, the image was left out: no success, no failure.
    pub target: Option<u32>,
}

/// Image 0, attacked in vain.
impl Default for AttackRow {
    fn default() -> Self {
        Self {
            idx: 0,
            label: 0,
            clean_predict: None,
            adv_predict: None,
            success: false,
            l2: f64::NAN,
            linf: f64::NAN,
            steps: 0,
            time: None,
            clean_correct: None,
            last_l2: f64::NAN,
            target: None,
        }
    }
}

impl AttackRow {
    /// The columns of a log: `target` stands only in those of targeted attacks.
    pub fn columns(targeted: bool) -> Vec<&'static str> {
        let target = targeted.then_some("target");
        Self::COLUMNS.iter().copied().chain(target).collect()
    }

    /// Whether the model gets the unattacked image right.
    pub fn clean_right(&self) -> bool {
        self.clean_correct
            .unwrap_or(self.clean_predict == Some(self.label))
    }
}

impl Row for AttackRow {
    const KIND: LogKind = LogKind::Attack;
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
        "clean_correct",
        "last_l2",
    ];
    const REQUIRED: usize = 8;

    fn idx(&self) -> u64 {
        self.idx
    }

    fn read(cells: &Cells<'_>) -> Result<Self, CellError> {
        let success = cells.flag("success")?;
        let distance = |column| {
            if success {
                cells.at_least_zero(column)
            } else {
                cells.number(column)
            }
        };
        Ok(Self {
            idx: cells.integer("idx")?,
            label: cells.integer("label")?,
            clean_predict: cells.class("clean_predict")?,
            adv_predict: cells.class("adv_predict")?,
            success,
            l2: distance("l2")?,
            linf: distance("linf")?,
            steps: cells.integer("steps")?,
            time: cells.duration_or_none("time")?,
            clean_correct: cells.flag_or_none("clean_correct")?,
            last_l2: cells.number("last_l2")?,
            target: cells.integer_or_none("target")?,
        })
    }

    fn write(&self, line: &mut Line<'_>) {
        line.integer("idx", self.idx);
        line.integer("label", self.label);
        line.class("clean_predict", self.clean_predict);
        line.class("adv_predict", self.adv_predict);
        line.flag("success", self.success);
        line.number("l2", self.l2);
        line.number("linf", self.linf);
        line.integer("steps", self.steps);
        line.duration_or_none("time", self.time);
        line.flag_or_none("clean_correct", self.clean_correct);
        line.number("last_l2", self.last_l2);
        line.integer_or_none("target", self.target);
    }
}
