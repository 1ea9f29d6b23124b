//! Fidelity logs.

use super::{Cells, Line, Row};
use crate::{Kind, format_number};

/// How far v(x) is from the Gaussian average of f at x, for one image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FidelityRow {
    /// The image.
    pub idx: u64,
    /// Its class.
    pub label: u32,
    /// ||v(x) - average of f at x||, at the log's sigma.
    pub v_distance: f64,
    /// ||f(x) - average of f at x||: what no smoothing at all scores.
    pub f_distance: f64,
    /// Monte-Carlo error of the average: its expected distance from the exact
    /// one; NaN: not recorded.
    pub standard_error: f64,
    /// Whether v(x) and the average choose the same class.
    pub agree: bool,
    /// Values of the further columns.
    pub extra: Vec<f64>,
}

impl FidelityRow {
    /// Name of the further column that holds ||v(x) - average of f at `sigma`||,
    /// from which the report finds the sigma that fits best.
    pub fn column_at(sigma: f64) -> String {
        format!("v_distance@{}", format_number(sigma))
    }

    /// The sigma of a column named by [`column_at`](Self::column_at).
    pub fn sigma_of(column: &str) -> Option<f64> {
        column
            .strip_prefix("v_distance@")?
            .parse()
            .ok()
            .filter(|sigma: &f64| sigma.is_finite())
    }
}

impl Row for FidelityRow {
    const KIND: Kind = Kind::Fidelity;
    const COLUMNS: &'static [&'static str] = &[
        "idx",
        "label",
        "v_distance",
        "f_distance",
        "standard_error",
        "agree",
    ];
    const REQUIRED: usize = 6;

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
            v_distance: cells.at_least_zero(2, "v_distance")?,
            f_distance: cells.at_least_zero(3, "f_distance")?,
            standard_error: cells.number(4, "standard_error")?,
            agree: cells.flag(5, "agree")?,
            extra: cells.extra()?,
        })
    }

    fn write(&self, line: &mut Line) {
        line.put(self.idx);
        line.put(self.label);
        line.number(self.v_distance);
        line.number(self.f_distance);
        line.number(self.standard_error);
        line.flag(self.agree);
    }
}
