//! The Lipschitz bound.

use std::ops::ControlFlow;
use std::time::Duration;

use certify::{
    Bound, Centre, LBound, LBoundParams, LBoundSummary, Smoothing, lbound_all, lbound_radius,
};
use network::{Calibration, Images};
use record::{Guarantee, LboundRow, SmoothingId};
use serde_json::{Value, json};

use super::{agrees, fixed};
use crate::error::Error;
use crate::measure::{Figures, Measurement};
use crate::one_pass::{OnePassFigures, calibration_at};
use crate::subject::Subject;

/// The L-bound sigma * sqrt(pi/2) * (p_y - max p_i) of each image.
#[derive(Clone, Debug)]
pub struct Bounded {
    plan: LBound,
    calibration: Option<Calibration>,
}

impl Bounded {
    /// For an average over this noise.
    pub fn new(smoothing: Smoothing, params: &LBoundParams, seed: u64) -> Self {
        Self {
            plan: params.plan(smoothing, seed),
            calibration: None,
        }
    }

    /// With the calibration of the subject's model, if it has one at this noise
    /// level, so that the summary shows calibrated radii too.
    #[must_use]
    pub fn calibrated(mut self, subject: &Subject) -> Self {
        let info = &subject.loaded.model.info;
        self.calibration = calibration_at(info, self.plan.smoothing.sigma()).cloned();
        self
    }
}

impl Measurement for Bounded {
    type Row = LboundRow;
    type Figures = BoundFigures;

    fn procedure(&self) -> String {
        "lbound".into()
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
        Guarantee::ApproximateIfAverage
    }

    fn settings(&self) -> Value {
        json!({"samples": self.plan.samples, "top_k": self.plan.top_k})
    }

    fn check(&self, subject: &Subject) -> Result<(), Error> {
        Ok(self.plan.check(&*subject.network)?)
    }

    fn check_row(&self, _: &Subject, row: &LboundRow) -> Result<(), String> {
        let expected = lbound_radius(self.plan.smoothing.sigma(), row.p_label, row.p_other);
        agrees("radius", row.radius, expected, "its probabilities")
    }

    fn run(
        &self,
        subject: &Subject,
        images: &mut dyn Iterator<Item = Images>,
        write: &mut dyn FnMut(LboundRow) -> ControlFlow<()>,
        _: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let network = &*subject.network;
        let mut observer = |bound: Bound| {
            write(LboundRow {
                idx: bound.index.into(),
                label: bound.label as u32,
                predict: bound.predict as u32,
                correct: bound.correct,
                radius: bound.radius,
                p_label: bound.p_label,
                p_other: bound.p_other,
                time: Duration::try_from_secs_f64(bound.seconds).ok(),
                probit: bound.probit,
                one_pass: bound.one_pass.unwrap_or(f64::NAN),
            })
        };
        let batch = network.batch();
        Ok(lbound_all(
            network,
            images,
            &self.plan,
            batch,
            &mut observer,
        )?)
    }

    fn summary(&self, rows: &[LboundRow]) -> BoundFigures {
        let found = rows.iter().filter(|row| row.one_pass.is_finite());
        let found: Vec<(f64, bool)> = found
            .map(|row| (row.one_pass, row.predict == row.label))
            .collect();
        let (sigma, calibration) = (self.plan.smoothing.sigma(), self.calibration.clone());
        BoundFigures {
            paper: LBoundSummary::of(rows.iter().map(|row| row.radius)),
            // A log of an earlier version may have none.
            probit: rows
                .iter()
                .all(|row| !row.probit.is_nan())
                .then(|| LBoundSummary::of(rows.iter().map(|row| row.probit))),
            one_pass: (!found.is_empty()).then(|| OnePassFigures::new(sigma, calibration, &found)),
        }
    }
}

/// What L-bounds come to.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundFigures {
    /// Of the paper's bound.
    pub paper: LBoundSummary,
    /// Of the probit bound, where every row has one.
    pub probit: Option<LBoundSummary>,
    /// The one-pass radii of a deterministic v.
    pub one_pass: Option<OnePassFigures>,
}

impl Figures for BoundFigures {
    fn to_json(&self) -> Value {
        let numbers = |c: Option<Centre>| c.map(|c| json!({"median": c.median, "mean": c.mean}));
        json!({
            "positive_images": self.paper.positive_images,
            "positive": numbers(self.paper.positive), "all": numbers(self.paper.all),
            "probit": self.probit.map(|probit| json!({
                "positive": numbers(probit.positive), "all": numbers(probit.all),
            })),
            "one_pass": self.one_pass.as_ref().map(OnePassFigures::to_json),
        })
    }

    fn to_text(&self) -> String {
        let centre = |c: Option<Centre>| match c {
            Some(c) => format!("median {}, mean {}", fixed(c.median, 4), fixed(c.mean, 4)),
            None => "none".into(),
        };
        let paper = &self.paper;
        let mut text = format!(
            "  over the {} radii above 0 (the paper's figure): {}\n  over all images, wrong ones as 0: {}\n",
            paper.positive_images,
            centre(paper.positive),
            centre(paper.all),
        );
        if let Some(probit) = &self.probit {
            text += &format!(
                "  the probit bound, over the same: {}; over all images: {}\n",
                centre(probit.positive),
                centre(probit.all),
            );
        }
        if let Some(one_pass) = &self.one_pass {
            text += &one_pass.to_text();
        }
        text
    }
}
