//! One-pass radii of v beside the certified radii of g, the smoothed reference.

use std::ops::ControlFlow;
use std::time::Duration;

use certify::{
    Calibrate, CalibrateParams, CalibrationOutcome, CertifyError, Smoothing, calibrate_all,
};
use network::{Calibration, CalibrationOrigin, Executor, Images, ModelInfo};
use record::{CalibrationRow, Guarantee, ModelId, Selection, SmoothingId};
use serde_json::{Value, json};

use super::{agrees, check_gaussian, percent};
use crate::error::Error;
use crate::measure::{Figures, Measurement};
use crate::one_pass::OnePassFigures;
use crate::source::{ModelSource, model_id};
use crate::subject::Subject;

/// What one pass of v says about each image, beside what samples of the reference
/// prove; the rows choose the calibration.
pub struct Calibrated {
    plan: Calibrate,
    reference: ModelId,
    reference_info: ModelInfo,
    f: Box<dyn Executor>,
}

impl Calibrated {
    /// Against the smoothed classifier of `reference` under this noise.
    ///
    /// # Errors
    /// A reference that cannot be read.
    pub fn new(
        smoothing: Smoothing,
        params: &CalibrateParams,
        reference: &ModelSource,
        subject: &Subject,
        seed: u64,
    ) -> Result<Self, Error> {
        check_gaussian(&subject.loaded.model.info, "calibration")?;
        let loaded = reference.load(Some(&subject.dataset))?;
        Ok(Self {
            plan: params.plan(smoothing, seed)?,
            reference: model_id(&loaded, &reference.path),
            f: subject.device.load(&loaded.model)?,
            reference_info: loaded.model.info,
        })
    }

    fn choose(&self, rows: &[CalibrationRow]) -> Result<Calibration, CertifyError> {
        self.plan.choose(rows, self.f.input().len())
    }

    /// What the rows of this subject allow to promise.
    ///
    /// # Errors
    /// Too few rows for the promise.
    pub fn calibration(
        &self,
        rows: &[CalibrationRow],
        subject: &Subject,
    ) -> Result<Calibration, Error> {
        let origin = CalibrationOrigin {
            data: subject.dataset.name().into(),
            split: subject.dataset.split().to_string(),
            data_sha256: subject.dataset.hash().into(),
            reference_sha256: self.reference.sha256.clone(),
        };
        let chosen = self.choose(rows)?;
        Ok(Calibration { origin, ..chosen })
    }
}

impl Measurement for Calibrated {
    type Row = CalibrationRow;
    type Figures = CalibrationFigures;

    fn procedure(&self) -> String {
        "calibrate".into()
    }

    fn sigma(&self) -> Option<f64> {
        Some(self.plan.certify.smoothing.sigma())
    }

    fn smoothing(&self) -> Option<SmoothingId> {
        Some(self.plan.certify.smoothing.id())
    }

    fn seed(&self) -> u64 {
        self.plan.certify.seed
    }

    fn guarantee(&self) -> Guarantee {
        self.plan.guarantee()
    }

    /// Miss rate and confidence decide no row; the guarantee has them.
    fn settings(&self) -> Value {
        let certify = &self.plan.certify;
        json!({"n0": certify.n0, "n": certify.n, "alpha": certify.alpha})
    }

    fn reference(&self) -> Option<ModelId> {
        Some(self.reference.clone())
    }

    fn check(&self, subject: &Subject) -> Result<(), Error> {
        self.plan.check(&*subject.network)?;
        let whole = Selection {
            shard: None,
            ..subject.selection
        };
        self.plan.allowed_misses(whole.len())?;
        unseen("the model", &subject.loaded.model.info, subject)?;
        unseen("its reference", &self.reference_info, subject)
    }

    fn check_row(&self, _: &Subject, row: &CalibrationRow) -> Result<(), String> {
        let count = |count: Option<u64>| count.and_then(|count| u32::try_from(count).ok());
        let counts = count(row.n_a).zip(count(row.n));
        let (hits, n) = counts.ok_or("its counts are missing")?;
        if hits > n || n != self.plan.certify.n {
            return Err(format!("{hits} hits among {n} samples cannot be"));
        }
        let (_, radius) = self
            .plan
            .certify
            .proves(hits, n, self.f.input().len(), f64::NAN);
        agrees("g_radius", row.g_radius, radius, "its counts")
    }

    fn run(
        &self,
        subject: &Subject,
        images: &mut dyn Iterator<Item = Images>,
        write: &mut dyn FnMut(CalibrationRow) -> ControlFlow<()>,
        _: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let (v, f) = (&*subject.network, &*self.f);
        let mut observer = |outcome: CalibrationOutcome| write(row(&outcome));
        Ok(calibrate_all(
            v,
            f,
            images,
            &self.plan,
            f.batch(),
            &mut observer,
        )?)
    }

    fn summary(&self, rows: &[CalibrationRow]) -> CalibrationFigures {
        let sigma = self.plan.certify.smoothing.sigma();
        CalibrationFigures::new(sigma, self.choose(rows), rows)
    }

    fn warnings(&self, rows: &[CalibrationRow]) -> Vec<String> {
        let Ok(calibration) = self.choose(rows) else {
            return Vec::new();
        };
        let promised = |row: &CalibrationRow| calibration.radius(row.one_pass) > 0.0;
        match rows.iter().any(promised) {
            true => Vec::new(),
            false => vec![
                "one pass can promise no radius to any of these images: the model is too far \
                 from the average of its reference; average it longer, or allow more misses"
                    .into(),
            ],
        }
    }
}

/// Refuses images that a model says it was trained on: there it is closer to what
/// it was made from than on inputs it will meet.
fn unseen(who: &str, info: &ModelInfo, subject: &Subject) -> Result<(), Error> {
    if info.data_sha256.as_deref() != Some(subject.dataset.hash()) {
        return Ok(());
    }
    let training = info.hyper_parameters.get("training");
    // Early files have an underscore in the name.
    let held_out = training.and_then(|training| {
        let held_out = training.get("hold-out").or(training.get("hold_out"));
        held_out?.as_u64()
    });
    let (len, held_out) = (subject.dataset.len() as u64, held_out.unwrap_or(0));
    let seen = len.saturating_sub(held_out);
    if subject.selection.indices().all(|image| image >= seen) {
        return Ok(());
    }
    let (data, split) = (subject.dataset.name(), subject.dataset.split());
    let hint = match held_out {
        0 => "calibrate on another split, or hold images out of training and calibrate on those"
            .into(),
        _ => format!("calibrate on the images that were held out, {seen}..{len}"),
    };
    Err(Error::refused(
        format!("{who} was trained on these images of {data} {split}"),
        hint,
    ))
}

fn row(outcome: &CalibrationOutcome) -> CalibrationRow {
    let certificate = &outcome.certificate;
    CalibrationRow {
        idx: outcome.index.into(),
        label: outcome.label as u32,
        predict: outcome.predict as u32,
        p: outcome.probability,
        one_pass: outcome.one_pass,
        g_predict: certificate.predict.map(|class| class as u32),
        g_radius: certificate.radius,
        n_a: Some(certificate.n_a.into()),
        n: Some(certificate.n.into()),
        p_lower: certificate.p_lower,
        time: Duration::try_from_secs_f64(outcome.seconds).ok(),
    }
}

/// What a calibration came to.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrationFigures {
    /// What may be promised, or why nothing.
    pub calibration: Result<Calibration, String>,
    /// Share of images on which g has a certificate for the class of v.
    pub same_class: f64,
    /// Share of images on which one pass says more than g has, before calibration.
    pub misses: f64,
    /// The same after calibration.
    pub calibrated_misses: f64,
    /// Certified accuracy of g, at the radii of `one_pass`.
    pub certified: Vec<f64>,
    /// What one pass says, before and after calibration.
    pub one_pass: OnePassFigures,
}

impl CalibrationFigures {
    fn new(sigma: f64, chosen: Result<Calibration, CertifyError>, rows: &[CalibrationRow]) -> Self {
        let share = |is: &dyn Fn(&CalibrationRow) -> bool| {
            rows.iter().filter(|row| is(row)).count() as f64 / rows.len().max(1) as f64
        };
        let calibration = chosen.map_err(|error| error.to_string());
        let found = calibration.as_ref().ok();
        let promised = |row: &CalibrationRow| found.map_or(0.0, |c| c.radius(row.one_pass));
        let images = rows.iter();
        let images: Vec<(f64, bool)> = images
            .map(|row| (row.one_pass, row.predict == row.label))
            .collect();
        let one_pass = OnePassFigures::new(sigma, found.cloned(), &images);
        let radii = one_pass.shares.iter().map(|share| share.radius);
        let right = |row: &CalibrationRow| row.g_predict == Some(row.label);
        Self {
            same_class: share(&CalibrationRow::same_class),
            misses: share(&|row| row.misses(row.one_pass)),
            calibrated_misses: share(&|row| row.misses(promised(row))),
            certified: radii
                .map(|radius| share(&|row| right(row) && row.g_radius >= radius))
                .collect(),
            one_pass,
            calibration,
        }
    }
}

impl Figures for CalibrationFigures {
    fn to_json(&self) -> Value {
        json!({
            "calibration": self.calibration.as_ref().ok(),
            "not_calibrated": self.calibration.as_ref().err(),
            "same_class": self.same_class, "misses": self.misses,
            "calibrated_misses": self.calibrated_misses,
            "certified_accuracy_of_g": self.certified, "one_pass": self.one_pass.to_json(),
        })
    }

    fn to_text(&self) -> String {
        let certified = self.certified.iter().zip(&self.one_pass.shares);
        let certified = certified
            .map(|(share, at)| format!("{} at r = {:.3}", percent(*share), at.radius))
            .collect::<Vec<_>>();
        let calibrated = match &self.calibration {
            Ok(calibration) => format!(
                "shrunk by {:.4} and capped at {:.4} (n = {}), on {}",
                calibration.shrink,
                calibration.cap,
                calibration.n,
                percent(self.calibrated_misses)
            ),
            Err(reason) => format!("not calibrated: {reason}"),
        };
        format!(
            "  g certifies the class of v on {} of the images\n  one pass says more than g has \
             on {} of them; {calibrated}\n  certified accuracy of g, sampled: {}\n{}",
            percent(self.same_class),
            percent(self.misses),
            certified.join(", "),
            self.one_pass.to_text(),
        )
    }
}
