//! Certified radii.

use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::time::Duration;

use certify::{
    Certify, CertifyOutcome, CertifyParams, Decision, Evidence, Pilot, Prior, Select, Sides,
    Smoothing, StopRule, TopKRule, certify_all,
};
use network::Images;
use record::{CertifyRow, Guarantee, SmoothingId};
use serde_json::{Value, json};
use settings::{SettingError, Values};

use super::{agrees, fixed, percent};
use crate::error::Error;
use crate::measure::{Figures, Measurement};
use crate::subject::Subject;

/// Radii in units of sigma, read in the norm, at which a summary gives certified accuracy.
pub(super) const STEPS: [f64; 6] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0];

/// Certified radii of the smoothed classifier (Cohen et al.).
#[derive(Clone, Debug)]
pub struct Certified {
    params: CertifyParams,
    plan: Certify,
    /// What its pilot, if it has one, chooses from: made for the first row that is read
    /// again.
    pilot: OnceLock<Option<Pilot>>,
}

impl Certified {
    /// With this noise.
    ///
    /// # Errors
    /// Settings that contradict each other.
    pub fn new(smoothing: Smoothing, params: CertifyParams, seed: u64) -> Result<Self, Error> {
        let plan = params.plan(smoothing, seed)?;
        let pilot = OnceLock::new();
        Ok(Self {
            params,
            plan,
            pilot,
        })
    }

    /// Whether its log has a column `prior`.
    fn expects(&self) -> bool {
        self.plan.prior != Prior::Flat || self.plan.pilot.is_some()
    }

    /// Its noise level as a radius, read in the norm.
    pub(super) fn scale(&self) -> f64 {
        self.plan.smoothing.scale()
    }
}

/// Refuses what was said and has no effect beside the rest of it.
///
/// # Errors
/// By name.
pub(crate) fn check_said(values: &Values, params: &CertifyParams) -> Result<(), SettingError> {
    let follows_label = params.top_k > 1 && params.rule == TopKRule::Sound;
    let reasons = [
        (
            "rule",
            params.top_k == 1,
            "it is about top-k certificates with k above 1",
        ),
        (
            "select",
            follows_label,
            "by the sound rule the class is the label's",
        ),
        (
            "n0",
            follows_label,
            "by the sound rule the class is the label's",
        ),
        (
            "n0",
            params.select == Select::Clean && params.prior != Prior::Pilot && !params.pilot,
            "the clean image chooses the class",
        ),
    ];
    let idle = reasons
        .into_iter()
        .find(|(name, idle, _)| *idle && values.has(name));
    match idle {
        None => Ok(()),
        Some((name, _, reason)) => Err(SettingError::Ineffective {
            name: name.into(),
            reason: reason.into(),
        }),
    }
}

impl Measurement for Certified {
    type Row = CertifyRow;
    type Figures = CertifiedFigures;

    fn procedure(&self) -> String {
        match (self.plan.evidence, self.plan.anytime, self.plan.pilot) {
            (Evidence::MeanSoftmax, ..) => "mean-softmax".into(),
            (Evidence::Votes, Some(_), _) => "anytime".into(),
            (Evidence::Votes, None, Some(_)) => "pilot".into(),
            (Evidence::Votes, None, None) => "cohen".into(),
        }
    }

    fn sigma(&self) -> Option<f64> {
        Some(self.plan.smoothing.sigma())
    }

    fn smoothing(&self) -> Option<SmoothingId> {
        Some(self.plan.smoothing.id())
    }

    fn seed(&self) -> u64 {
        self.plan.seed
    }

    fn guarantee(&self) -> Guarantee {
        self.plan.guarantee()
    }

    fn settings(&self) -> Value {
        let p = &self.params;
        let mut settings = json!({
            "n0": p.n0, "n": p.n, "select": p.select, "top_k": p.top_k,
            "rule": p.rule, "radius": p.radius, "tolerance": p.tolerance,
        });
        // Logs of earlier versions have one side.
        if self.plan.sides == Sides::Both {
            settings["sides"] = json!(self.plan.sides);
        }
        // And expect nothing.
        if self.plan.prior != Prior::Flat {
            settings["prior"] = json!(self.plan.prior);
        }
        if self.plan.pilot.is_some() {
            settings["pilot"] = json!(true);
        }
        settings
    }

    fn columns(&self) -> Vec<String> {
        let both_sides = self.plan.sides == Sides::Both;
        let columns = CertifyRow::columns(both_sides, self.expects());
        columns.into_iter().map(str::to_owned).collect()
    }

    fn check(&self, subject: &Subject) -> Result<(), Error> {
        Ok(self.plan.check(&*subject.network)?)
    }

    fn check_row(&self, subject: &Subject, row: &CertifyRow) -> Result<(), String> {
        let (Some(hits), Some(n)) = (row.n_a, row.n) else {
            return Err("its counts are missing".into());
        };
        let (Ok(hits), Ok(samples)) = (u32::try_from(hits), u32::try_from(n)) else {
            return Err("its counts are too large".into());
        };
        if self.expects() && !(0.0..=1.0).contains(&row.prior) {
            return Err("its prior is not between 0 and 1".into());
        }
        let pixels = subject.network.input().len();
        let most = match self.pilot.get_or_init(|| self.plan.sizes(pixels)) {
            Some(pilot) => {
                let votes = (row.prior * f64::from(self.plan.n0)).round();
                pilot.samples(votes as u32)
            }
            None => self.plan.n,
        };
        let stops_early = self.plan.anytime.is_some();
        if hits > samples || samples > most || (samples < most && !stops_early) {
            return Err(format!("{hits} hits among {n} samples cannot be"));
        }
        if (self.plan.evidence, self.plan.sides) != (Evidence::Votes, Sides::One) {
            // Bounded by more than this count.
            let radius = match row.predict {
                Some(_) => {
                    let smoothing = &self.plan.smoothing;
                    smoothing.radius_between(row.p_lower, row.p_upper)
                }
                None => 0.0,
            };
            return agrees("radius", row.radius, radius, "its bounds");
        }
        let (p_lower, radius) = self.plan.proves(hits, samples, pixels, row.prior);
        let decides = matches!(self.plan.anytime, Some(StopRule::Radius(_)));
        let expected = match row.predict {
            // Undecided within n samples.
            None if decides || p_lower <= 0.5 => 0.0,
            _ => radius,
        };
        agrees("p_lower", row.p_lower, p_lower, &format!("{hits} of {n}"))?;
        agrees("radius", row.radius, expected, &format!("{hits} of {n}"))?;
        let right = row.predict == Some(row.label);
        if self.plan.top_k == 1 && row.correct != right {
            return Err("`correct` contradicts label and class".into());
        }
        Ok(())
    }

    fn run(
        &self,
        subject: &Subject,
        images: &mut dyn Iterator<Item = Images>,
        write: &mut dyn FnMut(CertifyRow) -> ControlFlow<()>,
        _: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let network = &*subject.network;
        let both_sides = self.plan.sides == Sides::Both;
        let mut observer = |outcome: CertifyOutcome| write(row(&outcome, both_sides));
        Ok(certify_all(
            network,
            images,
            &self.plan,
            network.batch(),
            &mut observer,
        )?)
    }

    fn summary(&self, rows: &[CertifyRow]) -> CertifiedFigures {
        CertifiedFigures::new(self.plan.smoothing.scale(), rows)
    }
}

fn row(outcome: &CertifyOutcome, both_sides: bool) -> CertifyRow {
    let c = &outcome.certificate;
    // Whether "radius >= R" holds was not decided within n samples: abstain.
    let decided = c.decision != Some(Decision::Undecided);
    CertifyRow {
        idx: outcome.index.into(),
        label: outcome.label as u32,
        predict: c.predict.filter(|_| decided).map(|p| p as u32),
        radius: if decided { c.radius } else { 0.0 },
        correct: outcome.correct && decided,
        time: Duration::try_from_secs_f64(outcome.seconds).ok(),
        n_a: Some(c.n_a.into()),
        n: Some(c.n.into()),
        p_lower: c.p_lower,
        p_correct_l_bound: c.p_correct_lower,
        lecuyer: c.lecuyer,
        li: c.li,
        samples: Some(outcome.samples),
        classify_time: Duration::try_from_secs_f64(outcome.classify_seconds).ok(),
        clean_correct: Some(outcome.clean == outcome.label),
        p_upper: if both_sides { c.p_upper } else { f64::NAN },
        prior: c.expected.unwrap_or(f64::NAN),
    }
}

/// What certificates come to.
#[derive(Clone, Debug, PartialEq)]
pub struct CertifiedFigures {
    /// Radii, and the share of all images that are right and certified there.
    pub accuracy: Vec<(f64, f64)>,
    /// Average certified radius: the mean of radius * correct.
    pub acr: f64,
    /// Share of all images without a certificate.
    pub abstained: f64,
    /// Noisy passes an image, on average.
    pub samples: f64,
}

impl CertifiedFigures {
    /// Of these rows, at multiples of a scale.
    pub fn new(scale: f64, rows: &[CertifyRow]) -> Self {
        let mean = |value: &dyn Fn(&CertifyRow) -> f64| {
            rows.iter().map(value).sum::<f64>() / rows.len().max(1) as f64
        };
        let share = |is: &dyn Fn(&CertifyRow) -> bool| mean(&|row| f64::from(u8::from(is(row))));
        let radii = STEPS.iter().map(|step| step * scale);
        Self {
            accuracy: radii
                .map(|radius| (radius, share(&|row| row.correct && row.radius >= radius)))
                .collect(),
            acr: mean(&|row| if row.correct { row.radius } else { 0.0 }),
            abstained: share(&|row| row.predict.is_none()),
            samples: mean(&|row| row.samples.map_or(f64::NAN, |samples| samples as f64)),
        }
    }
}

impl Figures for CertifiedFigures {
    fn to_json(&self) -> Value {
        let accuracy = self.accuracy.iter();
        let accuracy: Vec<_> = accuracy
            .map(|(radius, share)| json!({"radius": radius, "certified_accuracy": share}))
            .collect();
        json!({
            "certified_accuracy": accuracy, "acr": self.acr, "abstained": self.abstained,
            "samples_per_image": self.samples,
        })
    }

    fn to_text(&self) -> String {
        let accuracy = self.accuracy.iter();
        let accuracy: Vec<String> = accuracy
            .map(|(radius, share)| format!("{} at r = {}", percent(*share), fixed(*radius, 3)))
            .collect();
        format!(
            "  certified accuracy (of all images): {}\n  average certified radius {}, \
             abstained {}, {} noisy passes an image\n",
            accuracy.join(", "),
            fixed(self.acr, 4),
            percent(self.abstained),
            fixed(self.samples, 0)
        )
    }
}
