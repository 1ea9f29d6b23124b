//! The modes of certification beside the plain one, shown on one model.

use std::path::Path;

use anyhow::Result;
use certify::{Predict, Prediction, predict_all};
use record::{CertifyRow, Table};
use serde_json::{Value, json};

use crate::commands::certify as command;
use crate::config;
use crate::measure::SubjectConfig;
use crate::output::percent;
use crate::pipeline::Pipeline;

/// The radius that is asked about, and the most noisy passes that an image gets to
/// decide it: what certification at a fixed n would spend on every image.
const RADIUS: f64 = 0.25;
const MOST: u32 = 100_000;
/// How closely the radius is wanted where none is asked about, in parts of sigma,
/// and the most noisy passes for that.
const CLOSELY: f64 = 0.1;
const MOST_TO_MEASURE: u32 = 10_000;
/// Noisy passes of PREDICT and of top-k.
const PASSES: u32 = 1000;
/// How many classes count as right in top-k.
const TOP_K: u32 = 2;

/// Runs all modes on HeatSmoothing's model; their summary as text and as JSON.
pub fn run(pipeline: &Pipeline<'_>) -> Result<(String, Value)> {
    let (sigma, common) = (pipeline.recipe.sigma, &pipeline.silent());
    let tolerance = CLOSELY * sigma;
    let certify = |name: &str, more: Value| -> Result<Rows> {
        let log = pipeline.out.join(format!("certify-{name}.tsv"));
        let mut options = json!({
            "model": pipeline.model("heat"), "data": pipeline.recipe.data, "sigma": sigma,
            "select": "clean", "out": log,
        });
        config::extend(&mut options, more);
        command::step(options, common)?;
        Rows::read(&log)
    };
    let measured = json!({"anytime": true, "tolerance": tolerance, "n": MOST_TO_MEASURE});
    let measured = certify("anytime", measured)?;
    let decided = json!({"anytime": true, "radius": RADIUS, "n": MOST});
    let decided = certify("anytime-radius", decided)?;
    let top = |rule: &str| {
        let options = json!({"top-k": TOP_K, "rule": rule, "n": PASSES});
        certify(&format!("top-{TOP_K}-{rule}"), options)
    };
    let (paper, sound) = (top("paper")?, top("sound")?);
    let votes = predict(pipeline)?;

    let fewer = |rows: &Rows, most: u32| f64::from(most) / rows.passes();
    let text = format!(
        "Certification of HeatSmoothing in other modes (sound for the smoothed classifier, with probability 1-alpha):\n\
         \x20 --anytime --radius {RADIUS}: {:.0} noisy passes an image instead of {MOST}, {:.0} times fewer; {} certified\n\
         \x20 --anytime --tolerance {tolerance}: {:.0} noisy passes an image instead of {MOST_TO_MEASURE}, {:.1} times fewer; average certified radius {:.3}\n\
         \x20 --top-k {TOP_K}, {PASSES} passes: {} certified at {RADIUS} that the label stays in the top {TOP_K} (--rule sound), \
         {} that the top class stays in the set (--rule paper)\n\
         \x20 PREDICT, {PASSES} passes: {} right, {} wrong, {} abstained\n",
        decided.passes(),
        fewer(&decided, MOST),
        percent(decided.certified(RADIUS)),
        measured.passes(),
        fewer(&measured, MOST_TO_MEASURE),
        measured.average_radius(),
        percent(sound.certified(RADIUS)),
        percent(paper.certified(RADIUS)),
        percent(votes[0]),
        percent(votes[1]),
        percent(votes[2]),
    );
    let numbers = |rows: &Rows, most: u32| {
        json!({
            "passes_per_image": rows.passes(), "most_passes": most,
            "times_fewer": fewer(rows, most), "certified": rows.certified(RADIUS),
        })
    };
    let value = json!({
        "radius": RADIUS,
        "anytime_radius": numbers(&decided, MOST),
        "anytime": numbers(&measured, MOST_TO_MEASURE),
        "top_k": {
            "k": TOP_K, "passes_per_image": PASSES,
            "certified_sound": sound.certified(RADIUS), "certified_paper": paper.certified(RADIUS),
        },
        "predict": {
            "passes_per_image": PASSES, "right": votes[0], "wrong": votes[1], "abstained": votes[2],
        },
    });
    Ok((text, value))
}

/// A certification log as it is on disk, so that a demo that continues tells the
/// same as one that was not stopped.
struct Rows {
    rows: Vec<CertifyRow>,
    /// Which further column holds the noisy passes.
    samples: Option<usize>,
}

impl Rows {
    fn read(log: &Path) -> Result<Self> {
        let table = Table::read(log)?;
        let columns = table.extra_columns::<CertifyRow>();
        Ok(Self {
            rows: table.rows()?,
            samples: columns.iter().position(|name| name == CertifyRow::SAMPLES),
        })
    }

    fn mean(&self, value: impl Fn(&CertifyRow) -> f64) -> f64 {
        self.rows.iter().map(value).sum::<f64>() / self.rows.len().max(1) as f64
    }

    fn share(&self, is: impl Fn(&CertifyRow) -> bool) -> f64 {
        self.mean(|row| f64::from(u8::from(is(row))))
    }

    fn passes(&self) -> f64 {
        self.mean(|row| self.samples.map_or(f64::NAN, |column| row.extra[column]))
    }

    fn certified(&self, radius: f64) -> f64 {
        self.share(|row| row.correct && row.radius >= radius)
    }

    fn average_radius(&self) -> f64 {
        self.mean(|row| if row.correct { row.radius } else { 0.0 })
    }
}

/// PREDICT on every image: the shares right, wrong, abstained.
fn predict(pipeline: &Pipeline<'_>) -> Result<[f64; 3]> {
    let options = json!({
        "model": pipeline.model("heat"), "data": pipeline.recipe.data, "split": "test", "skip": 1,
        // Nothing is written there: a subject always has a log.
        "out": pipeline.out.join("predict.tsv"),
    });
    let subject: SubjectConfig = config::resolve(json!({}), None, options)?;
    let subject = subject.open(pipeline.common)?;
    let plan = Predict {
        n: PASSES,
        seed: pipeline.common.seed,
        ..Predict::new(pipeline.recipe.sigma)
    };
    let mut counts = [0u32; 3];
    let mut observer = |vote: Prediction| {
        counts[match vote.predict {
            Some(class) if class == vote.label => 0,
            Some(_) => 1,
            None => 2,
        }] += 1;
        std::ops::ControlFlow::Continue(())
    };
    let mut images = subject.images(0);
    predict_all(&subject.network, &mut images, &plan, 1024, &mut observer)?;
    images.result()?;
    let all = counts.iter().sum::<u32>().max(1);
    Ok(counts.map(|count| f64::from(count) / f64::from(all)))
}
