//! Certification logs: Cohen's columns first, then ours.

use std::time::Duration;

use super::{CellError, Cells, Line, Row};
use crate::LogKind;

/// The certificate of one image.
///
/// Cohen's and Salman's published logs have the first six columns and read as
/// they are (their radii are rounded to three digits; nothing can bring the
/// rest back).
#[derive(Clone, Debug, PartialEq)]
pub struct CertifyRow {
    /// The image.
    pub idx: u64,
    /// Its class.
    pub label: u32,
    /// The certified class; `None` (-1 on disk): abstained.
    pub predict: Option<u32>,
    /// The certified radius, 0 where abstained.
    pub radius: f64,
    /// Whether the certified class is the label (top-k: the label is covered).
    pub correct: bool,
    /// Wall-clock time spent on it.
    pub time: Option<Duration>,
    /// How many of the samples voted for the class.
    pub n_a: Option<u64>,
    /// How many samples were counted.
    pub n: Option<u64>,
    /// Lower confidence bound on the class's probability under noise; NaN: not recorded.
    pub p_lower: f64,
    /// The same bound for the label's class; NaN: not recorded.
    pub p_correct_l_bound: f64,
    /// Radius of the certificate of Lecuyer et al. (PixelDP) from the same
    /// counts; NaN: not recorded.
    pub lecuyer: f64,
    /// Radius of the certificate of Li et al. (Renyi) from the same counts; NaN:
    /// not recorded.
    pub li: f64,
    /// Noise samples spent in all, those that chose the class included.
    pub samples: Option<u64>,
    /// Time that classifying the image took, without certification.
    pub classify_time: Option<Duration>,
    /// Whether argmax v(x) on the clean image is the label.
    pub clean_correct: Option<bool>,
    /// Upper bound on every other class, where these are bounded; NaN: not
    /// recorded.
    pub p_upper: f64,
    /// What the prior of an anytime certificate was centred on, or by what a pilot chose
    /// the number of samples: v's own probability of the class, or its share of a pilot's
    /// votes; NaN: nothing was expected.
    pub prior: f64,
}

/// Image 0, abstained on; nothing else is recorded.
impl Default for CertifyRow {
    fn default() -> Self {
        Self {
            idx: 0,
            label: 0,
            predict: None,
            radius: 0.0,
            correct: false,
            time: None,
            n_a: None,
            n: None,
            p_lower: f64::NAN,
            p_correct_l_bound: f64::NAN,
            lecuyer: f64::NAN,
            li: f64::NAN,
            samples: None,
            classify_time: None,
            clean_correct: None,
            p_upper: f64::NAN,
            prior: f64::NAN,
        }
    }
}

impl CertifyRow {
    /// The columns of a log: `p_upper` stands only in those that bound the other
    /// classes, too, and `prior` only in those that expect something.
    pub fn columns(both_sides: bool, prior: bool) -> Vec<&'static str> {
        let more = [both_sides.then_some("p_upper"), prior.then_some("prior")];
        let more = more.into_iter().flatten();
        Self::COLUMNS.iter().copied().chain(more).collect()
    }
}

impl Row for CertifyRow {
    const KIND: LogKind = LogKind::Certify;
    const COLUMNS: &'static [&'static str] = &[
        "idx",
        "label",
        "predict",
        "radius",
        "correct",
        "time",
        "n_a",
        "n",
        "p_lower",
        "p_correct_l_bound",
        "lecuyer",
        "li",
        "samples",
        "classify_time",
        "clean_correct",
    ];
    const REQUIRED: usize = 6;

    fn idx(&self) -> u64 {
        self.idx
    }

    fn read(cells: &Cells<'_>) -> Result<Self, CellError> {
        let row = Self {
            idx: cells.integer("idx")?,
            label: cells.integer("label")?,
            predict: cells.class("predict")?,
            radius: cells.at_least_zero("radius")?,
            correct: cells.flag("correct")?,
            time: cells.duration_or_none("time")?,
            n_a: cells.integer_or_none("n_a")?,
            n: cells.integer_or_none("n")?,
            p_lower: cells.number("p_lower")?,
            p_correct_l_bound: cells.number("p_correct_l_bound")?,
            lecuyer: cells.number("lecuyer")?,
            li: cells.number("li")?,
            samples: cells.integer_or_none("samples")?,
            classify_time: cells.seconds_or_none("classify_time")?,
            clean_correct: cells.flag_or_none("clean_correct")?,
            p_upper: cells.number("p_upper")?,
            prior: cells.number("prior")?,
        };
        // What contradicts itself was changed by hand, or by a damaged disk.
        let wrong = |column, reason: &str| Err(CellError::new(column, reason));
        if row.predict.is_none() && (row.radius > 0.0 || row.correct) {
            return wrong("predict", "abstained, but right or with a radius");
        }
        if row.n_a.zip(row.n).is_some_and(|(hits, n)| hits > n) {
            return wrong("n_a", "more hits than samples");
        }
        if !row.p_lower.is_nan() && !(0.0..=1.0).contains(&row.p_lower) {
            return wrong("p_lower", "not between 0 and 1");
        }
        Ok(row)
    }

    fn write(&self, line: &mut Line<'_>) {
        line.integer("idx", self.idx);
        line.integer("label", self.label);
        line.class("predict", self.predict);
        line.number("radius", self.radius);
        line.flag("correct", self.correct);
        line.duration_or_none("time", self.time);
        line.integer_or_none("n_a", self.n_a);
        line.integer_or_none("n", self.n);
        line.number("p_lower", self.p_lower);
        line.number("p_correct_l_bound", self.p_correct_l_bound);
        line.number("lecuyer", self.lecuyer);
        line.number("li", self.li);
        line.integer_or_none("samples", self.samples);
        line.seconds_or_none("classify_time", self.classify_time);
        line.flag_or_none("clean_correct", self.clean_correct);
        line.number("p_upper", self.p_upper);
        line.number("prior", self.prior);
    }
}
