//! One-pass radii over many images: what they come to, before and after
//! calibration.

use std::ops::ControlFlow;

use certify::{Bound, LBound, Smoothing, lbound_all};
use network::{Calibration, ModelInfo};
use record::Guarantee;
use serde_json::{Value, json};

use crate::error::Error;
use crate::measurements::percent;
use crate::observer::Observer;
use crate::predict::{LBOUND_GUARANTEE, calibrated_guarantee};
use crate::subject::Subject;

/// Radii in units of sigma at which shares are given.
const STEPS: [f64; 5] = [0.0, 0.5, 1.0, 1.5, 2.0];

/// Shares of all images at one radius.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OnePassShare {
    /// The radius.
    pub radius: f64,
    /// Right, with a one-pass radius of at least this.
    pub one_pass: f64,
    /// Right, with a calibrated radius of at least this; `None` without a
    /// calibration at this noise level.
    pub calibrated: Option<f64>,
}

/// What one-pass radii come to.
#[derive(Clone, Debug, PartialEq)]
pub struct OnePassFigures {
    /// The noise level.
    pub sigma: f64,
    /// At a few radii.
    pub shares: Vec<OnePassShare>,
    /// What may be promised, if that is known at this noise level.
    pub calibration: Option<Calibration>,
}

impl OnePassFigures {
    /// From each image's one-pass radius and whether its class is right.
    pub fn new(sigma: f64, calibration: Option<Calibration>, images: &[(f64, bool)]) -> Self {
        let share = |radius: f64, promised: &dyn Fn(f64) -> f64| {
            let reached = images.iter().filter(|(one_pass, right)| {
                let found = promised(*one_pass);
                *right && found > 0.0 && found >= radius
            });
            reached.count() as f64 / images.len().max(1) as f64
        };
        let at = |step: &f64| OnePassShare {
            radius: step * sigma,
            one_pass: share(step * sigma, &|one_pass| one_pass),
            calibrated: calibration
                .as_ref()
                .map(|c| share(step * sigma, &|one_pass| c.radius(one_pass))),
        };
        Self {
            sigma,
            shares: STEPS.iter().map(at).collect(),
            calibration,
        }
    }

    /// Names and values.
    pub fn to_json(&self) -> Value {
        let shares = self.shares.iter().map(|share| {
            json!({
                "radius": share.radius, "one_pass": share.one_pass,
                "calibrated": share.calibrated,
            })
        });
        let calibrated = self.calibration.as_ref().map(calibrated_guarantee);
        json!({
            "sigma": self.sigma, "right_with_radius": shares.collect::<Vec<_>>(),
            "calibration": self.calibration,
            "guarantee": LBOUND_GUARANTEE.to_string(),
            "calibrated_guarantee": calibrated.map(|words| words.to_string()),
        })
    }

    /// A line, or two with a calibration, each with its guarantee.
    pub fn to_text(&self) -> String {
        let line = |name: &str, value: &dyn Fn(&OnePassShare) -> f64, words: Guarantee| {
            let shares = self.shares.iter();
            let shares = shares.map(|s| format!("{} at r = {:.3}", percent(value(s)), s.radius));
            let shares: Vec<String> = shares.collect();
            format!("  {name}: {}\n    ({words})\n", shares.join(", "))
        };
        let name = "right with one-pass radius >= r";
        let mut text = line(name, &|share| share.one_pass, LBOUND_GUARANTEE);
        if let Some(calibration) = &self.calibration {
            let value = |share: &OnePassShare| share.calibrated.unwrap_or(f64::NAN);
            let words = calibrated_guarantee(calibration);
            text += &line("right with calibrated radius >= r", &value, words);
        }
        text
    }
}

/// The calibration of a model, if it has one at this noise level.
pub fn calibration_at(info: &ModelInfo, sigma: f64) -> Option<&Calibration> {
    let calibration = info.calibration.as_ref();
    calibration.filter(|calibration| (calibration.sigma - sigma).abs() <= 1e-9)
}

/// One pass of every image of a subject.
///
/// # Errors
/// A noise level that makes no sense; an image that cannot be read; a device that
/// fails.
pub fn one_pass(
    subject: &Subject,
    sigma: f64,
    observer: &mut dyn Observer,
) -> Result<OnePassFigures, Error> {
    let network = &*subject.network;
    let mut found = Vec::new();
    let mut images = subject.images(0);
    observer.begin("images", subject.selection.len(), 0);
    let mut answered = |bound: Bound| {
        found.push((bound.one_pass.unwrap_or(0.0), bound.correct));
        let _ = observer.progress(found.len() as u64, &|| "one pass".into());
        ControlFlow::Continue(())
    };
    let plan = LBound::new(Smoothing::gaussian(sigma)?);
    let done = lbound_all(network, &mut images, &plan, network.batch(), &mut answered);
    observer.end();
    done?;
    images.result()?;
    let calibration = calibration_at(&subject.loaded.model.info, sigma).cloned();
    Ok(OnePassFigures::new(sigma, calibration, &found))
}
