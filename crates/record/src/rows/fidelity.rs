//! Fidelity logs.

use super::{CellError, Cells, Line, Row};
use crate::{LogKind, format_number};

/// How far v(x) is from the Gaussian average of f at x, for one image.
///
/// Distances are between logits, those whose names start with `p_` between
/// probabilities, with `votes_` between v's probabilities and f's vote shares. What has no sigma in its column's name is at the log's own.
#[derive(Clone, Debug, PartialEq)]
pub struct FidelityRow {
    /// The image.
    pub idx: u64,
    /// Its class; `None` for real values.
    pub label: Option<u32>,
    /// ||v(x) - average of f at x||.
    pub v_distance: f64,
    /// ||f(x) - average of f at x||: what no smoothing at all scores.
    pub f_distance: f64,
    /// Monte-Carlo error of the average: its expected distance from the exact
    /// one; NaN: not recorded.
    pub standard_error: f64,
    /// Whether v(x) and the average choose the same class; `None` for real values.
    pub agree: Option<bool>,
    /// The same distance for averages at other sigmas, from which the sigma that
    /// fits v best is found; in the order of the log's columns.
    pub levels: Vec<FidelityLevel>,
    /// Whether f(x) and the average choose the same class.
    pub f_agree: Option<bool>,
    /// `f_distance` of probabilities; NaN: not recorded.
    pub p_f_distance: f64,
    /// `agree` where the average is one of probabilities.
    pub p_agree: Option<bool>,
    /// `f_agree` where the average is one of probabilities.
    pub p_f_agree: Option<bool>,
    /// `f_distance` of votes; NaN: not recorded.
    pub votes_f_distance: f64,
    /// `agree` where the average is one of votes: v names the class of the
    /// smoothed classifier.
    pub votes_agree: Option<bool>,
    /// `f_agree` where the average is one of votes.
    pub votes_f_agree: Option<bool>,
}

/// How far v(x) is from the average of f at one sigma.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FidelityLevel {
    /// The sigma of the average.
    pub sigma: f64,
    /// Between logits.
    pub logits: LevelDistance,
    /// Between probabilities.
    pub probabilities: LevelDistance,
    /// Between v's probabilities and f's vote shares.
    pub votes: LevelDistance,
}

/// One distance at one sigma; NaN: not recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelDistance {
    /// ||v(x) - average of f at x||.
    pub v_distance: f64,
    /// Monte-Carlo error of the average.
    pub standard_error: f64,
    /// Distance of the average from the one at the level before.
    pub step: f64,
}

/// Image 0, where v is the average; nothing else is recorded.
impl Default for FidelityRow {
    fn default() -> Self {
        Self {
            idx: 0,
            label: Some(0),
            v_distance: 0.0,
            f_distance: 0.0,
            standard_error: f64::NAN,
            agree: Some(false),
            levels: Vec::new(),
            f_agree: None,
            p_f_distance: f64::NAN,
            p_agree: None,
            p_f_agree: None,
            votes_f_distance: f64::NAN,
            votes_agree: None,
            votes_f_agree: None,
        }
    }
}

impl FidelityRow {
    /// The columns of a log whose rows have these levels, in this order.
    pub fn columns(sigmas: &[f64]) -> Vec<String> {
        let (_, end) = Self::COLUMNS.split_at(Self::REQUIRED);
        Self::columns_in(&SPACES, sigmas, end)
    }

    /// The same for real values: they have neither probabilities nor classes.
    pub fn value_columns(sigmas: &[f64]) -> Vec<String> {
        Self::columns_in(&SPACES[..1], sigmas, &[])
    }

    fn columns_in(spaces: &[&str], sigmas: &[f64], end: &[&str]) -> Vec<String> {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut columns: Vec<String> = own(&Self::COLUMNS[..Self::REQUIRED]);
        for &sigma in sigmas {
            let at = format_number(sigma);
            columns.extend(spaces.iter().flat_map(|space| level_columns(space, &at)));
        }
        columns.extend::<Vec<String>>(own(end));
        columns
    }
}

/// How the columns of logits, probabilities and votes begin.
const SPACES: [&str; 3] = ["", "p_", "votes_"];

/// The three columns of a level: `space` is `p_` for probabilities.
fn level_columns(space: &str, at: &str) -> [String; 3] {
    ["v_distance", "standard_error", "step"].map(|name| format!("{space}{name}@{at}"))
}

impl LevelDistance {
    fn read(cells: &Cells<'_>, space: &str, at: &str) -> Result<Self, CellError> {
        let [v_distance, standard_error, step] = level_columns(space, at);
        Ok(Self {
            v_distance: cells.number(&v_distance)?,
            standard_error: cells.number(&standard_error)?,
            step: cells.number(&step)?,
        })
    }

    fn write(&self, line: &mut Line<'_>, space: &str, at: &str) {
        let values = [self.v_distance, self.standard_error, self.step];
        for (column, value) in level_columns(space, at).iter().zip(values) {
            line.number(column, value);
        }
    }
}

/// The levels that a file has columns for.
fn read_levels(cells: &Cells<'_>) -> Result<Vec<FidelityLevel>, CellError> {
    let mut levels = Vec::new();
    for column in cells.columns() {
        if let Some(at) = column.strip_prefix("v_distance@")
            && let Ok(sigma) = at.parse::<f64>()
            && sigma.is_finite()
        {
            levels.push(FidelityLevel {
                sigma,
                logits: LevelDistance::read(cells, "", at)?,
                probabilities: LevelDistance::read(cells, "p_", at)?,
                votes: LevelDistance::read(cells, "votes_", at)?,
            });
        }
    }
    Ok(levels)
}

impl Row for FidelityRow {
    const KIND: LogKind = LogKind::Fidelity;
    const COLUMNS: &'static [&'static str] = &[
        "idx",
        "label",
        "v_distance",
        "f_distance",
        "standard_error",
        "agree",
        "f_agree",
        "p_f_distance",
        "p_agree",
        "p_f_agree",
        "votes_f_distance",
        "votes_agree",
        "votes_f_agree",
    ];
    const REQUIRED: usize = 6;

    fn idx(&self) -> u64 {
        self.idx
    }

    fn read(cells: &Cells<'_>) -> Result<Self, CellError> {
        Ok(Self {
            idx: cells.integer("idx")?,
            label: cells.integer_or_none("label")?,
            v_distance: cells.at_least_zero("v_distance")?,
            f_distance: cells.at_least_zero("f_distance")?,
            standard_error: cells.number("standard_error")?,
            agree: cells.flag_or_none("agree")?,
            levels: read_levels(cells)?,
            f_agree: cells.flag_or_none("f_agree")?,
            p_f_distance: cells.number("p_f_distance")?,
            p_agree: cells.flag_or_none("p_agree")?,
            p_f_agree: cells.flag_or_none("p_f_agree")?,
            votes_f_distance: cells.number("votes_f_distance")?,
            votes_agree: cells.flag_or_none("votes_agree")?,
            votes_f_agree: cells.flag_or_none("votes_f_agree")?,
        })
    }

    fn write(&self, line: &mut Line<'_>) {
        line.integer("idx", self.idx);
        line.integer_or_none("label", self.label);
        line.number("v_distance", self.v_distance);
        line.number("f_distance", self.f_distance);
        line.number("standard_error", self.standard_error);
        line.flag_or_none("agree", self.agree);
        for level in &self.levels {
            let at = format_number(level.sigma);
            level.logits.write(line, "", &at);
            level.probabilities.write(line, "p_", &at);
            level.votes.write(line, "votes_", &at);
        }
        line.flag_or_none("f_agree", self.f_agree);
        line.number("p_f_distance", self.p_f_distance);
        line.flag_or_none("p_agree", self.p_agree);
        line.flag_or_none("p_f_agree", self.p_f_agree);
        line.number("votes_f_distance", self.votes_f_distance);
        line.flag_or_none("votes_agree", self.votes_agree);
        line.flag_or_none("votes_f_agree", self.votes_f_agree);
    }
}
