//! What the demo's other modes of certification come to.

use serde_json::{Value, json};

use crate::error::Error;
use crate::experiment::{Experiment, Laboratory, StageResult};
use crate::measure::Measured;
use crate::measurements::percent;
use crate::predict::vote_shares;
use crate::source::{ModelSource, SplitChoice};
use crate::subject::{ImageChoice, Subject};
use certify::PredictParams;

/// The radius that the modes of certification are asked about: the demo's sigma, at
/// which summaries of certificates give an accuracy.
const RADIUS: f64 = 0.25;

/// The demo's other modes of certification in words and in numbers.
///
/// # Errors
/// A model or data that cannot be read; a device that fails.
pub fn certification_modes(
    demo: &Experiment,
    laboratory: &Laboratory<'_>,
    results: &[StageResult],
) -> Result<(String, Value), Error> {
    let mode = |log: &str| Mode::find(results, log);
    let (measured, decided) = (mode("certify-anytime"), mode("certify-anytime-radius"));
    let (paper, sound) = (mode("certify-top-2-paper"), mode("certify-top-2-sound"));
    let model = ModelSource::new(laboratory.model("heat"));
    let (split, all) = (SplitChoice::default(), ImageChoice::default());
    let subject = Subject::open(&model, &demo.data, &split, &all, laboratory.device)?;
    let smoothing = subject.smoothing(None, demo.sigma)?;
    let plan = PredictParams::default().plan(smoothing, laboratory.seed);
    let votes = vote_shares(&subject, &plan)?;
    let (most, most_to_measure) = (100_000, 10_000);
    let passes = plan.n;
    let text = format!(
        "Certification of HeatSmoothing in other modes (sound for the smoothed classifier, with probability 1-alpha):\n\
         \x20 anytime, radius {RADIUS}: {:.0} noisy passes an image instead of {most}, {:.0} times fewer; {} certified\n\
         \x20 anytime, tolerance {}: {:.0} noisy passes an image instead of {most_to_measure}, {:.1} times fewer; average certified radius {:.3}\n\
         \x20 top 2, 1000 passes: {} certified at {RADIUS} that the label stays in the top 2 (sound rule), \
         {} that the top class stays in the set (the paper's rule)\n\
         \x20 PREDICT, {passes} passes: {} right, {} wrong, {} abstained\n",
        decided.passes,
        decided.times_fewer(most),
        percent(decided.certified),
        0.1 * demo.sigma,
        measured.passes,
        measured.times_fewer(most_to_measure),
        measured.average_radius,
        percent(sound.certified),
        percent(paper.certified),
        percent(votes[0]),
        percent(votes[1]),
        percent(votes[2]),
    );
    let value = json!({
        "radius": RADIUS,
        "anytime_radius": decided.numbers(most),
        "anytime": measured.numbers(most_to_measure),
        "top_k": {
            "k": 2, "passes_per_image": 1000,
            "certified_sound": sound.certified, "certified_paper": paper.certified,
        },
        "predict": {
            "passes_per_image": passes, "right": votes[0], "wrong": votes[1], "abstained": votes[2],
        },
    });
    Ok((text, value))
}

/// What a certification came to.
struct Mode {
    passes: f64,
    certified: f64,
    average_radius: f64,
}

impl Mode {
    /// From the results of the experiment, by the name of the log.
    fn find(results: &[StageResult], log: &str) -> Self {
        let log = format!("{log}.tsv");
        let found = results.iter().find_map(|result| match result {
            StageResult::Measured(measured) if measured.log.ends_with(&log) => Some(measured),
            _ => None,
        });
        let figures = found.map_or(Value::Null, Measured::to_json);
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let radii = figures["certified_accuracy"]
            .as_array()
            .into_iter()
            .flatten();
        let mut at = radii.filter(|at| at["radius"].as_f64() == Some(RADIUS));
        Self {
            passes: number(&figures["samples_per_image"]),
            certified: at
                .next()
                .map_or(f64::NAN, |at| number(&at["certified_accuracy"])),
            average_radius: number(&figures["acr"]),
        }
    }

    fn times_fewer(&self, most: u32) -> f64 {
        f64::from(most) / self.passes
    }

    fn numbers(&self, most: u32) -> Value {
        json!({
            "passes_per_image": self.passes, "most_passes": most,
            "times_fewer": self.times_fewer(most), "certified": self.certified,
        })
    }
}
