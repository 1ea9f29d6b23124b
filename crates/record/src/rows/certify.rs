//! Certification logs: Cohen's columns first, then ours.

use std::time::Duration;

use super::{Cells, Line, Row};
use crate::Kind;

/// The certificate of one image.
///
/// Cohen's and Salman's published logs have the first six columns and read as
/// they are (their radii are rounded to three digits; nothing can bring the
/// rest back).
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// Values of the further columns.
    pub extra: Vec<f64>,
}

impl CertifyRow {
    /// Radius of the certificate of Lecuyer et al. (PixelDP) from the same counts.
    pub const LECUYER: &str = "lecuyer";
    /// Radius of the certificate of Li et al. (Renyi) from the same counts.
    pub const LI: &str = "li";
    /// Noise samples spent in all, selection included.
    pub const SAMPLES: &str = "samples";
    /// Seconds that classifying the image took, without certification.
    pub const CLASSIFY_TIME: &str = "classify_time";
    /// 1 if argmax v(x) on the clean image is the label, else 0.
    pub const CLEAN_CORRECT: &str = "clean_correct";
}

impl Row for CertifyRow {
    const KIND: Kind = Kind::Certify;
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
            predict: cells.class(2, "predict")?,
            radius: cells.at_least_zero(3, "radius")?,
            correct: cells.flag(4, "correct")?,
            time: cells.duration_or_none(5, "time")?,
            n_a: cells.integer_or_none(6, "n_a")?,
            n: cells.integer_or_none(7, "n")?,
            p_lower: cells.number(8, "p_lower")?,
            p_correct_l_bound: cells.number(9, "p_correct_l_bound")?,
            extra: cells.extra()?,
        })
    }

    fn write(&self, line: &mut Line) {
        line.put(self.idx);
        line.put(self.label);
        line.class(self.predict);
        line.number(self.radius);
        line.flag(self.correct);
        line.duration(self.time);
        line.integer(self.n_a);
        line.integer(self.n);
        line.number(self.p_lower);
        line.number(self.p_correct_l_bound);
    }
}
