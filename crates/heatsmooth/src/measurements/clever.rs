//! CLEVER: distances to other classes, estimated.

use std::ops::ControlFlow;
use std::time::Duration;

use attack::Aim;
use certify::{Clever, CleverOutcome, CleverParams, clever_all};
use network::Images;
use record::{CleverRow, Guarantee, Norm};
use serde_json::{Value, json};
use settings::{SettingError, settings};

use super::attack::aim;
use super::{NormChoice, agrees, fixed, percent};
use crate::error::Error;
use crate::measure::{Figures, Measurement};
use crate::subject::Subject;

settings! {
    /// Which distance is estimated.
    pub struct CleverOptions {
        /// The norm of perturbations: l2 or linf.
        norm: NormChoice = NormChoice::L2,
        /// The distance to a class: its number or name, next (the one after the
        /// label) or random [default: to the nearest].
        target: Option<String> = None,
    }
}

/// The distance at which the model may leave its class, estimated from gradients
/// around each image (Weng et al.).
pub struct Estimated {
    plan: Clever,
    target: Option<String>,
    aim: Option<Aim>,
}

impl Estimated {
    /// For a subject.
    ///
    /// # Errors
    /// Settings out of their range; a target that the data do not have.
    pub fn new(
        params: &CleverParams,
        options: CleverOptions,
        subject: &Subject,
        seed: u64,
    ) -> Result<Self, Error> {
        let aim = aim(options.target.as_deref(), &subject.dataset, seed)?;
        let usual = CleverParams::default().runner_ups;
        if aim.is_some() && params.runner_ups != usual {
            return Err(SettingError::Ineffective {
                name: "runner-ups".into(),
                reason: "the target is the one class that is looked at".into(),
            }
            .into());
        }
        Ok(Self {
            plan: params.plan(options.norm.norm(), seed)?,
            target: options.target,
            aim,
        })
    }
}

impl Measurement for Estimated {
    type Row = CleverRow;
    type Figures = EstimateFigures;

    fn procedure(&self) -> String {
        match self.aim {
            Some(_) => "clever-targeted".into(),
            None => "clever".into(),
        }
    }

    fn sigma(&self) -> Option<f64> {
        None
    }

    fn seed(&self) -> u64 {
        self.plan.seed
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::Estimate
    }

    fn settings(&self) -> Value {
        let plan = &self.plan;
        let mut settings = json!({
            "norm": plan.norm, "radius": plan.radius, "batches": plan.batches,
            "samples_per_batch": plan.samples,
        });
        match &self.target {
            Some(target) => settings["target"] = json!(target),
            None => settings["runner_ups"] = json!(plan.runner_ups),
        }
        settings
    }

    fn check(&self, _: &Subject) -> Result<(), Error> {
        Ok(())
    }

    fn check_row(&self, _: &Subject, row: &CleverRow) -> Result<(), String> {
        if row.correct != (row.predict == row.label) {
            return Err("`correct` contradicts label and class".into());
        }
        if row.slope.is_nan() {
            return agrees("score", row.score, 0.0, "no slope");
        }
        let expected = row.margin / row.slope;
        let expected = if expected.is_nan() {
            self.plan.radius
        } else {
            expected
        };
        agrees(
            "score",
            row.score,
            expected.min(self.plan.radius),
            "margin and slope",
        )
    }

    fn run(
        &self,
        subject: &Subject,
        images: &mut dyn Iterator<Item = Images>,
        write: &mut dyn FnMut(CleverRow) -> ControlFlow<()>,
        _: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let classes = subject.network.classes();
        let target = |index, label| {
            let aim = self.aim.as_ref()?;
            Some(aim.target(index, label, classes) as usize)
        };
        let mut observer = |outcome: CleverOutcome| write(row(&outcome));
        let network = &*subject.network;
        Ok(clever_all(
            network,
            images,
            &self.plan,
            &target,
            &mut observer,
        )?)
    }

    fn summary(&self, rows: &[CleverRow]) -> EstimateFigures {
        EstimateFigures::new(self.plan.norm, self.plan.radius, rows)
    }
}

fn row(outcome: &CleverOutcome) -> CleverRow {
    let part = |of: fn(&certify::statistics::ReverseWeibull) -> f64| {
        outcome.fit.as_ref().map_or(f64::NAN, of)
    };
    CleverRow {
        idx: outcome.index.into(),
        label: outcome.label as u32,
        predict: outcome.predict as u32,
        correct: outcome.predict == outcome.label,
        target: outcome.target as u32,
        score: outcome.score,
        margin: outcome.margin,
        slope: part(|fit| fit.location),
        shape: part(|fit| fit.shape),
        scale: part(|fit| fit.scale),
        ks: outcome.distance,
        time: Duration::try_from_secs_f64(outcome.seconds).ok(),
    }
}

/// What estimates come to, on images that the model gets right.
#[derive(Clone, Debug, PartialEq)]
pub struct EstimateFigures {
    /// The norm.
    pub norm: Norm,
    /// Images that the model gets right.
    pub right: usize,
    /// Of their scores.
    pub median: Option<f64>,
    /// Of their scores.
    pub mean: Option<f64>,
    /// The share of them whose score is the radius of the ball: the distance is at
    /// least that, if the estimate is right.
    pub at_radius: Option<f64>,
}

impl EstimateFigures {
    /// Of these rows.
    pub fn new(norm: Norm, radius: f64, rows: &[CleverRow]) -> Self {
        let right = rows.iter().filter(|row| row.correct);
        let mut scores: Vec<f64> = right.map(|row| row.score).collect();
        scores.sort_unstable_by(f64::total_cmp);
        let n = scores.len();
        let known = |value: f64| (n > 0).then_some(value);
        let middle = |n: usize| 0.5 * (scores[(n - 1) / 2] + scores[n / 2]);
        Self {
            norm,
            right: n,
            median: (n > 0).then(|| middle(n)),
            mean: known(scores.iter().sum::<f64>() / n as f64),
            at_radius: known(scores.iter().filter(|s| **s >= radius).count() as f64 / n as f64),
        }
    }
}

impl Figures for EstimateFigures {
    fn to_json(&self) -> Value {
        json!({
            "norm": self.norm, "right": self.right, "median": self.median, "mean": self.mean,
            "at_radius": self.at_radius,
        })
    }

    fn to_text(&self) -> String {
        let number = |value: Option<f64>| value.map_or("-".into(), |value| fixed(value, 4));
        format!(
            "  CLEVER score ({}, an estimate) of the {} images the model gets right: median {}, \
             mean {}; {} at the radius of the ball\n",
            self.norm,
            self.right,
            number(self.median),
            number(self.mean),
            self.at_radius.map_or("-".into(), percent),
        )
    }
}
