//! The Lipschitz bound.

use std::ops::ControlFlow;
use std::time::Duration;

use certify::{
    Bound, Centre, LBound, LBoundParams, LBoundSummary, Smoothing, lbound_all, lbound_radius,
};
use network::Images;
use record::{Guarantee, LboundRow, SmoothingId};
use serde_json::{Value, json};

use super::{agrees, fixed};
use crate::error::Error;
use crate::measure::{Figures, Measurement};
use crate::subject::Subject;

/// The L-bound sigma * sqrt(pi/2) * (p_y - max p_i) of each image.
#[derive(Clone, Debug)]
pub struct Bounded {
    plan: LBound,
}

impl Bounded {
    /// For an average over this noise.
    pub fn new(smoothing: Smoothing, params: &LBoundParams, seed: u64) -> Self {
        Self {
            plan: params.plan(smoothing, seed),
        }
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
        BoundFigures(LBoundSummary::of(rows.iter().map(|row| row.radius)))
    }
}

/// What L-bounds come to.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundFigures(pub LBoundSummary);

impl Figures for BoundFigures {
    fn to_json(&self) -> Value {
        let numbers = |c: Option<Centre>| c.map(|c| json!({"median": c.median, "mean": c.mean}));
        json!({
            "positive_images": self.0.positive_images, "positive": numbers(self.0.positive),
            "all": numbers(self.0.all),
        })
    }

    fn to_text(&self) -> String {
        let centre = |c: Option<Centre>| match c {
            Some(c) => format!("median {}, mean {}", fixed(c.median, 4), fixed(c.mean, 4)),
            None => "none".into(),
        };
        format!(
            "  over the {} radii above 0 (the paper's figure): {}\n  over all images, wrong ones as 0: {}\n",
            self.0.positive_images,
            centre(self.0.positive),
            centre(self.0.all),
        )
    }
}
