//! Certificates at one or several noise levels, within some time.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use record::CertifyRow;
use serde_json::{Value, json};
use settings::{SettingError, Values, settings};

use super::certify::STEPS;
use super::{Certified, fixed, percent};
use crate::error::Error;
use crate::measure::{Figures, Measured, Measurement, measure_within};
use crate::observer::Observer;
use crate::subject::Subject;

settings! {
    /// The noise of one or several smoothed classifiers.
    pub struct NoiseLevels {
        /// Noise level, in units of pixels scaled to [0, 1] [default: the one stored in
        /// the model, if any]. Several, as 0.12,0.25, give a log each and the envelope
        /// over them.
        sigma: Option<String> = None,
    }
}

impl NoiseLevels {
    /// The levels said, or the one that the subject's model stores.
    ///
    /// # Errors
    /// What is no list of numbers; a level that is said twice; none where the model
    /// stores none.
    pub fn of(values: &Values, subject: &Subject) -> Result<Vec<f64>, Error> {
        let text = match values.get("sigma") {
            None => return Ok(vec![subject.sigma(None)?]),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let expected =
            "one number, or several different ones with commas between them, such as 0.12,0.25";
        let refused = || SettingError::value("sigma", &text, expected);
        let levels = text.split(',').map(|level| level.trim().parse::<f64>());
        let levels: Vec<f64> = levels.collect::<Result<_, _>>().map_err(|_| refused())?;
        let twice = |at: usize| levels[..at].contains(&levels[at]);
        if (0..levels.len()).any(twice) || levels.iter().any(|level| !level.is_finite()) {
            return Err(refused().into());
        }
        Ok(levels)
    }
}

settings! {
    /// How long a run may take.
    pub struct TimeBudget {
        /// End after this time, as 90s, 10m or 2h: the image at hand is the last one,
        /// and running the same again goes on. No row depends on it.
        time_budget: Option<String> = None,
    }
}

impl TimeBudget {
    /// As a duration.
    ///
    /// # Errors
    /// What is no such time.
    pub fn limit(&self) -> Result<Option<Duration>, SettingError> {
        let Some(text) = &self.time_budget else {
            return Ok(None);
        };
        let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
            Some(number) => (number, &text[number.len()..]),
            None => (text.as_str(), "s"),
        };
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            _ => 1.0,
        };
        let time = number.parse::<f64>().ok();
        let time = time.filter(|time| *time > 0.0);
        let time = time.and_then(|time| Duration::try_from_secs_f64(time * seconds).ok());
        let expected = "a time above 0, such as 90s, 10m or 2h";
        time.map(Some)
            .ok_or_else(|| SettingError::value("time-budget", text, expected))
    }
}

/// Certifies a subject by each plan, one noise level each, within some time in all.
/// With several plans each has a log of its own, named after its level, and the
/// summary has their [`Envelope`].
///
/// # Errors
/// As [`measure`](crate::measure).
pub fn certify_levels(
    plans: &[Certified],
    subject: &Subject,
    log: &Path,
    time: Option<Duration>,
    observer: &mut dyn Observer,
) -> Result<Measured, Error> {
    if let [plan] = plans {
        return Ok(measure_within(plan, subject, log, time, observer)?.0);
    }
    let clock = Instant::now();
    let (mut each, mut curves) = (Vec::new(), Vec::new());
    for plan in plans {
        let sigma = plan.sigma().unwrap_or_default();
        let log = log_of(log, sigma);
        let left = time.map(|time| time.saturating_sub(clock.elapsed()));
        let (measured, rows) = measure_within(plan, subject, &log, left, observer)?;
        curves.push(LevelRows {
            sigma,
            scale: plan.scale(),
            rows,
        });
        each.push(measured);
    }
    let guarantee = plans.first().map(Measurement::guarantee);
    let guarantee = guarantee.ok_or_else(|| SettingError::missing("sigma"))?;
    Ok(Measured {
        log: log.into(),
        images: each.iter().map(|one| one.images).min().unwrap_or(0),
        guarantee,
        sigma: None,
        summary: Box::new(LevelFigures {
            envelope: Envelope::new(&curves),
            each,
        }),
    })
}

/// `F.tsv` of a level: `F-sigma-0.25.tsv`.
fn log_of(log: &Path, sigma: f64) -> PathBuf {
    let stem = log.file_stem().unwrap_or_default().to_string_lossy();
    let extension = log.extension().unwrap_or_default().to_string_lossy();
    log.with_file_name(format!("{stem}-sigma-{sigma}.{extension}"))
}

/// A log at one noise level.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelRows {
    /// The level.
    pub sigma: f64,
    /// The same as a radius, read in the norm of the certificates.
    pub scale: f64,
    /// The rows.
    pub rows: Vec<CertifyRow>,
}

/// At each radius the noise level that certifies most images there: one classifier for
/// each radius, chosen on these images.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// Radius, the level, and its certified accuracy over the images that all levels
    /// have.
    pub best: Vec<(f64, f64, f64)>,
}

impl Envelope {
    /// Of logs at several levels.
    pub fn new(logs: &[LevelRows]) -> Self {
        let images = logs.iter().map(|log| log.rows.len()).min().unwrap_or(0);
        let share = |rows: &[CertifyRow], radius: f64| {
            let rows = &rows[..images];
            let right = rows
                .iter()
                .filter(|row| row.correct && row.radius >= radius);
            right.count() as f64 / images.max(1) as f64
        };
        let steps = |log: &LevelRows| STEPS.map(|step| step * log.scale);
        let mut radii: Vec<f64> = logs.iter().flat_map(steps).collect();
        radii.sort_by(f64::total_cmp);
        radii.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
        let best = radii.into_iter().filter_map(|radius| {
            let levels = logs.iter().map(|log| (log.sigma, share(&log.rows, radius)));
            // Of equals the first.
            let best = levels.reduce(|best, next| if next.1 > best.1 { next } else { best })?;
            (best.1 > 0.0).then_some((radius, best.0, best.1))
        });
        Self {
            best: best.collect(),
        }
    }

    /// What it is, and what it is not.
    pub const MEANING: &str = "at each radius the sigma that certifies most images there: one \
                               classifier for each radius, chosen on these images, not one \
                               classifier for all of them; the largest radius of each image over \
                               the sigmas would be no classifier's certificate";
}

/// Of several levels.
struct LevelFigures {
    each: Vec<Measured>,
    envelope: Envelope,
}

impl Figures for LevelFigures {
    fn to_json(&self) -> Value {
        let each: Vec<Value> = self.each.iter().map(Measured::to_json).collect();
        let best = self.envelope.best.iter();
        let best: Vec<Value> = best
            .map(|(radius, sigma, share)| {
                json!({"radius": radius, "sigma": sigma, "certified_accuracy": share})
            })
            .collect();
        json!({"levels": each, "envelope": best, "envelope_means": Envelope::MEANING})
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        for one in &self.each {
            let sigma = one.sigma.unwrap_or_default();
            let log = one.log.display();
            text += &format!(
                "  sigma {sigma}: {log}\n  {}\n",
                one.summary.to_text().trim()
            );
        }
        text += &format!("  envelope ({}):\n", Envelope::MEANING);
        for (radius, sigma, share) in &self.envelope.best {
            text += &format!(
                "    {} at r = {} (sigma {sigma})\n",
                percent(*share),
                fixed(*radius, 3)
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("90", 90.0), ("90s", 90.0), ("1.5m", 90.0), ("2h", 7200.0)] {
            let budget = TimeBudget {
                time_budget: Some(text.into()),
            };
            let limit = budget.limit().unwrap();
            assert_eq!(limit, Some(Duration::from_secs_f64(seconds)));
        }
        for text in ["", "s", "0", "-1m", "1d", "infh"] {
            let budget = TimeBudget {
                time_budget: Some(text.into()),
            };
            assert!(budget.limit().is_err(), "{text}");
        }
    }

    #[test]
    fn the_envelope_is_one_level_at_each_radius() {
        let row = |radius: f64| CertifyRow {
            correct: true,
            radius,
            ..CertifyRow::default()
        };
        // The small level has more images, the large one larger radii.
        let small = vec![row(0.2), row(0.2), row(0.1)];
        let large = vec![row(0.45), CertifyRow::default(), CertifyRow::default()];
        let found = Envelope::new(
            &[(0.1, small), (0.2, large)].map(|(sigma, rows)| LevelRows {
                sigma,
                scale: sigma,
                rows,
            }),
        );
        let at = |radius: f64| {
            let mut found = found.best.iter();
            found.find(|best| (best.0 - radius).abs() < 1e-9).copied()
        };
        assert_eq!(at(0.0), Some((0.0, 0.1, 1.0)));
        assert_eq!(at(0.4).map(|best| best.1), Some(0.2));
        let share = at(0.2).map(|best| (best.1, best.2));
        assert_eq!(share, Some((0.1, 2.0 / 3.0)));
        assert_eq!(at(0.6), None);
    }
}
