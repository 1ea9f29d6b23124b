//! Accuracy of a model, clean and noisy, or errors of its real values, and what one pass of it says about radii.

use std::fmt;
use std::path::{Path, PathBuf};

use network::TaskKind;
use record::Guarantee;
use serde_json::{Value, json};
use settings::{SettingError, settings};
use train::{Accuracy, ValueErrors};

use crate::accuracy::{accuracy, value_errors};
use crate::error::Error;
use crate::measure::{Measurement as _, measure_within};
use crate::measurements::{Rated, counted, percent};
use crate::observer::Observer;
use crate::one_pass::{OnePassFigures, calibration_at, one_pass};
use crate::predict::one_pass_level;
use crate::registry::Registry;
use crate::subject::Subject;

settings! {
    /// What accuracy is measured with and on.
    pub struct EvalOptions {
        /// Noise level for noisy accuracy, in units of pixels scaled to [0, 1]
        /// [default: clean accuracy only].
        sigma: Option<f64> = None,
        /// Only images A to B-1 of the data set, as A..B.
        images: Option<String> = None,
        /// Part I of N, as I/N, for array jobs that write logs; found in the environment as for
        /// certificates. none: all images.
        shard: Option<String> = None,
        /// A log to write, F.tsv, one row an image; running again resumes
        /// [default: none].
        out: Option<PathBuf> = None,
    }
}

impl EvalOptions {
    /// Refuses a part of the images whose figures nobody could put together.
    ///
    /// # Errors
    /// A shard without a log.
    pub fn check(&self) -> Result<(), SettingError> {
        match (&self.shard, &self.out) {
            (Some(_), None) => Err(SettingError::Ineffective {
                name: "shard".into(),
                reason: "only logs can be merged; say where the log goes, with out".into(),
            }),
            _ => Ok(()),
        }
    }
}

/// What a model gets right on some images.
#[derive(Clone, Debug, PartialEq)]
pub struct AccuracyFigures {
    /// Model, data set and number of images, for people.
    pub title: String,
    /// Accuracy on clean images, then, if a noise level was given, at that; none of
    /// a model of real values.
    pub accuracies: Vec<(Option<f64>, Accuracy)>,
    /// The same of a model of real values: its errors.
    pub errors: Vec<(Option<f64>, ValueErrors)>,
    /// What the model's outputs are called.
    pub names: Vec<String>,
    /// One-pass radii, of a deterministic model whose noise level is known.
    pub radii: Option<OnePassFigures>,
}

impl Registry {
    /// Clean accuracy of a subject; with a noise level also noisy accuracy, with one
    /// copy of each image; of a deterministic model also one-pass radii, at the level
    /// given or the model's own.
    ///
    /// # Errors
    /// As [`accuracy`] and [`one_pass`].
    pub fn evaluate(
        &self,
        subject: &Subject,
        sigma: Option<f64>,
        seed: u64,
        observer: &mut dyn Observer,
    ) -> Result<AccuracyFigures, Error> {
        let (mut accuracies, mut errors) = (Vec::new(), Vec::new());
        let values = subject.task() == TaskKind::Regression;
        for level in std::iter::once(None).chain(sigma.map(Some)) {
            match values {
                true => errors.push((level, value_errors(subject, level, seed, observer)?)),
                false => accuracies.push((level, accuracy(subject, level, seed, observer)?)),
            }
        }
        let radii = self.radius_level(subject, sigma);
        let radii = radii.map(|sigma| one_pass(subject, sigma, observer));
        Ok(AccuracyFigures {
            title: title(subject),
            accuracies,
            errors,
            names: subject.output_names(),
            radii: radii.transpose()?,
        })
    }

    /// The same with a log of one row an image. Run again, it goes on where it stopped;
    /// the logs of shards can be merged, and run again the merged log is summed up.
    ///
    /// # Errors
    /// As [`measure`](crate::measure); a model of real values.
    pub fn evaluate_into(
        &self,
        subject: &Subject,
        sigma: Option<f64>,
        seed: u64,
        log: &Path,
        observer: &mut dyn Observer,
    ) -> Result<AccuracyFigures, Error> {
        let info = &subject.loaded.model.info;
        let noise = sigma.map(|sigma| certify::Smoothing::with(info.noise, sigma, None));
        let one_pass = self.radius_level(subject, sigma);
        let rated = Rated {
            noise: noise.transpose()?,
            seed,
            one_pass: one_pass.map(|sigma| (sigma, calibration_at(info, sigma).cloned())),
            title: title(subject),
        };
        let (_, rows) = measure_within(&rated, subject, log, None, observer)?;
        Ok(rated.summary(&rows))
    }

    /// The noise level of one-pass radii. A stochastic model is no average by itself: one
    /// pass of it says nothing. Real values have no radius.
    fn radius_level(&self, subject: &Subject, sigma: Option<f64>) -> Option<f64> {
        let values = subject.task() == TaskKind::Regression;
        match values || self.is_stochastic(&subject.method()) {
            true => None,
            false => sigma.or(one_pass_level(&subject.loaded.model)),
        }
    }
}

fn title(subject: &Subject) -> String {
    format!(
        "{} on {} {}, {}",
        subject.path.display(),
        subject.dataset.name(),
        subject.dataset.split_name(),
        counted(subject.selection.len() as usize, "image")
    )
}

impl AccuracyFigures {
    /// Names and values, one object for each noise level.
    pub fn to_json(&self) -> Value {
        let guarantee = Guarantee::Empirical.to_string();
        let each = self.accuracies.iter().map(|(sigma, found)| {
            json!({
                "sigma": sigma, "images": found.images, "top1": found.top1(),
                "top5": found.top5(), "guarantee": guarantee,
            })
        });
        let errors = self.errors.iter().map(|(sigma, found)| {
            let outputs = self.names.iter().enumerate().map(|(output, name)| {
                json!({
                    "name": name, "rmse": found.rmse_of(output), "mae": found.mae_of(output),
                    "explained": found.explained(output),
                })
            });
            json!({
                "sigma": sigma, "images": found.images, "rmse": found.rmse(),
                "outputs": outputs.collect::<Vec<_>>(), "guarantee": guarantee,
            })
        });
        let mut all: Vec<Value> = each.chain(errors).collect();
        if let (Some(first), Some(radii)) = (all.first_mut(), &self.radii) {
            first["one_pass"] = radii.to_json();
        }
        json!(all)
    }
}

impl fmt::Display for AccuracyFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let copies = |sigma: &Option<f64>| match sigma {
            None => "clean".to_string(),
            Some(sigma) => format!("one noisy copy each, sigma {sigma}"),
        };
        for (sigma, found) in &self.errors {
            for (output, name) in self.names.iter().enumerate() {
                let (rmse, mae) = (found.rmse_of(output), found.mae_of(output));
                write!(
                    f,
                    "  {name}, {}: root mean squared error {rmse:.6}",
                    copies(sigma)
                )?;
                write!(f, ", mean absolute error {mae:.6}")?;
                if let Some(share) = found.explained(output) {
                    write!(f, ", explains {} of the variance", percent(share))?;
                }
                writeln!(f)?;
            }
        }
        for (sigma, accuracy) in &self.accuracies {
            let what = copies(sigma);
            let (top1, top5) = (percent(accuracy.top1()), percent(accuracy.top5()));
            writeln!(f, "  {what}: top-1 {top1}, top-5 {top5}")?;
        }
        writeln!(f, "guarantee: {}", Guarantee::Empirical)?;
        match &self.radii {
            Some(radii) => f.write_str(&radii.to_text()),
            None => Ok(()),
        }
    }
}
