//! Intervals of real values: certified, and reached by an attack.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use attack::{Pgd, PgdParams, Reach, reach};
use certify::{CertifyParams, IntervalOutcome, IntervalParams, IntervalPlan, interval_all};
use network::Images;
use record::{Guarantee, IntervalRow, OutputInterval, SmoothedValue, SmoothingId};
use serde_json::{Value, json};
use settings::{Field, SettingError, Settings as _, Values};

use super::{AttackOptions, NoiseLevels, NoiseOptions, TimeBudget, percent};
use crate::error::Error;
use crate::measure::{Figures, Measured, Measurement, measure};
use crate::observer::Observer;
use crate::registry::MeasureContext;
use crate::subject::Subject;

/// How far the smoothed outputs can move under perturbations up to eps: by order
/// statistics of the median (Chiang et al. 2020), or of the mean of values cut off.
#[derive(Clone, Debug)]
pub struct Intervals {
    plan: IntervalPlan,
    names: Vec<String>,
    targets: KnownValues,
}

/// How far an attack within eps moves the outputs.
#[derive(Clone, Debug)]
pub struct Reached {
    pgd: Pgd,
    settings: Value,
    batch_size: usize,
    seed: u64,
    names: Vec<String>,
    targets: KnownValues,
}

/// The values that a data set has for its images.
type KnownValues = std::sync::Arc<[f32]>;

fn known_values(subject: &Subject) -> KnownValues {
    subject.dataset.values().into()
}

/// The target of an output; NaN where the data have none.
fn target(targets: &KnownValues, index: u32, output: usize, outputs: usize) -> f64 {
    let at = index as usize * outputs + output;
    targets.get(at).map_or(f64::NAN, |&value| value.into())
}

impl Intervals {
    /// Of a subject's model.
    pub fn new(plan: IntervalPlan, subject: &Subject) -> Self {
        Self {
            plan,
            names: subject.output_names(),
            targets: known_values(subject),
        }
    }

    /// With what was said.
    pub(crate) fn measure(
        values: &Values,
        context: &MeasureContext<'_>,
        subject: &Subject,
        log: &std::path::Path,
        observer: &mut dyn Observer,
    ) -> Result<Measured, Error> {
        refuse(values, &CertifyParams::fields(), &["n", "alpha"])?;
        refuse(values, &NoiseOptions::fields(), &["noise"])?;
        refuse(values, &TimeBudget::fields(), &[])?;
        let sigma = match NoiseLevels::of(values, subject)?[..] {
            [sigma] => sigma,
            _ => {
                let expected = "one number: intervals of real values have one noise level";
                let got = values
                    .get("sigma")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                return Err(SettingError::value("sigma", got, expected).into());
            }
        };
        let smoothing = subject.smoothing(NoiseOptions::read(values)?.noise, sigma)?;
        let params = CertifyParams::read(values)?;
        let plan = IntervalParams::read(values)?;
        let plan = plan.plan(smoothing, (params.n, params.alpha), context.seed)?;
        measure(&Self::new(plan, subject), subject, log, observer)
    }
}

impl Reached {
    /// On a subject's model.
    ///
    /// # Errors
    /// A value out of its range.
    pub fn new(
        params: &PgdParams,
        batch_size: usize,
        subject: &Subject,
        seed: u64,
    ) -> Result<Self, Error> {
        if batch_size == 0 {
            return Err(SettingError::value("batch-size", 0, "at least 1").into());
        }
        let pgd = Pgd::new(params.clone(), seed)?;
        let names = subject.output_names();
        let (steps, eps, step_size) = (params.steps, params.eps, pgd.step_size());
        Ok(Self {
            pgd,
            settings: json!({
                "steps": steps, "eps": eps, "step_size": step_size, "outputs": names,
            }),
            batch_size,
            seed,
            names,
            targets: known_values(subject),
        })
    }

    /// With what was said.
    pub(crate) fn measure(
        values: &Values,
        context: &MeasureContext<'_>,
        subject: &Subject,
        log: &std::path::Path,
        observer: &mut dyn Observer,
    ) -> Result<Measured, Error> {
        refuse(values, &AttackOptions::fields(), &["batch-size"])?;
        let options = AttackOptions::read(values)?;
        let params = PgdParams::read(values)?;
        let reached = Self::new(&params, options.batch_size, subject, context.seed)?;
        measure(&reached, subject, log, observer)
    }
}

/// Refuses what was said of these fields, except for some: real values do not have it.
fn refuse(values: &Values, fields: &[Field], except: &[&str]) -> Result<(), SettingError> {
    let said = fields.iter().map(|field| &*field.name);
    let mut said = said.filter(|name| values.has(name) && !except.contains(name));
    match said.next() {
        None => Ok(()),
        Some(name) => Err(SettingError::Ineffective {
            name: name.into(),
            reason: "the model predicts real values".into(),
        }),
    }
}

/// Refuses intervals of a classifier.
pub(crate) fn refuse_intervals(values: &Values) -> Result<(), SettingError> {
    let fields = IntervalParams::fields();
    match fields.iter().find(|field| values.has(&field.name)) {
        None => Ok(()),
        Some(field) => Err(SettingError::Ineffective {
            name: field.name.clone(),
            reason: "it is about real values, and the model's outputs are classes".into(),
        }),
    }
}

impl Measurement for Intervals {
    type Row = IntervalRow;
    type Figures = IntervalFigures;

    fn procedure(&self) -> String {
        match self.plan.of {
            SmoothedValue::Median => "median".into(),
            SmoothedValue::Mean { .. } => "mean".into(),
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
        json!({"n": self.plan.n, "eps": self.plan.eps, "outputs": self.names})
    }

    fn columns(&self) -> Vec<String> {
        IntervalRow::columns(self.names.len())
    }

    fn check(&self, subject: &Subject) -> Result<(), Error> {
        Ok(self.plan.check(&*subject.network)?)
    }

    fn check_row(&self, _: &Subject, row: &IntervalRow) -> Result<(), String> {
        check_outputs(row, self.names.len())?;
        if row.samples != Some(self.plan.n.into()) {
            return Err(format!("its samples are not {}", self.plan.n));
        }
        let outside = |own: &&OutputInterval| !(own.lower..=own.upper).contains(&own.centre);
        match row.outputs.iter().find(outside) {
            Some(own) => Err(format!(
                "its centre, {}, is not in the interval",
                own.centre
            )),
            None => Ok(()),
        }
    }

    fn run(
        &self,
        subject: &Subject,
        images: &mut dyn Iterator<Item = Images>,
        write: &mut dyn FnMut(IntervalRow) -> ControlFlow<()>,
        _: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let network = &*subject.network;
        let outputs = self.names.len();
        let mut observer = |outcome: IntervalOutcome| {
            let own = outcome.outputs.iter().enumerate();
            let own = own.map(|(output, found)| OutputInterval {
                target: target(&self.targets, outcome.index, output, outputs),
                value: found.value,
                centre: found.centre,
                lower: found.lower,
                upper: found.upper,
            });
            write(IntervalRow {
                idx: outcome.index.into(),
                outputs: own.collect(),
                samples: Some(self.plan.n.into()),
                time: Duration::try_from_secs_f64(outcome.seconds).ok(),
            })
        };
        let batch = network.batch();
        Ok(interval_all(
            network,
            images,
            &self.plan,
            batch,
            &mut observer,
        )?)
    }

    fn summary(&self, rows: &[IntervalRow]) -> IntervalFigures {
        IntervalFigures::new(self.plan.eps, &self.names, rows)
    }
}

impl Measurement for Reached {
    type Row = IntervalRow;
    type Figures = IntervalFigures;

    fn procedure(&self) -> String {
        "pgd".into()
    }

    fn sigma(&self) -> Option<f64> {
        None
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::Empirical
    }

    fn settings(&self) -> Value {
        self.settings.clone()
    }

    fn columns(&self) -> Vec<String> {
        IntervalRow::columns(self.names.len())
    }

    fn check(&self, _: &Subject) -> Result<(), Error> {
        Ok(())
    }

    fn check_row(&self, _: &Subject, row: &IntervalRow) -> Result<(), String> {
        check_outputs(row, self.names.len())?;
        let outside = |own: &&OutputInterval| !(own.lower..=own.upper).contains(&own.value);
        match row.outputs.iter().find(outside) {
            Some(own) => Err(format!("v(x), {}, is not in the interval", own.value)),
            None => Ok(()),
        }
    }

    fn run(
        &self,
        subject: &Subject,
        images: &mut dyn Iterator<Item = Images>,
        write: &mut dyn FnMut(IntervalRow) -> ControlFlow<()>,
        _: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let outputs = self.names.len();
        loop {
            let mut chunk = Images::new(subject.dataset.shape());
            for image in images.take(self.batch_size) {
                chunk.push(image.indices[0], image.labels[0], &image.pixels);
            }
            if chunk.is_empty() {
                return Ok(());
            }
            let clock = Instant::now();
            let found: Vec<Reach> = reach(&self.pgd, &*subject.network, &chunk)?;
            let each = clock.elapsed().as_secs_f64() / found.len() as f64;
            for reach in found {
                let own = (0..outputs).map(|output| OutputInterval {
                    target: target(&self.targets, reach.index, output, outputs),
                    value: reach.clean[output],
                    centre: f64::NAN,
                    lower: reach.low[output],
                    upper: reach.high[output],
                });
                let row = IntervalRow {
                    idx: reach.index.into(),
                    outputs: own.collect(),
                    samples: None,
                    time: Duration::try_from_secs_f64(each).ok(),
                };
                if write(row).is_break() {
                    return Ok(());
                }
            }
        }
    }

    fn summary(&self, rows: &[IntervalRow]) -> IntervalFigures {
        IntervalFigures::new(self.pgd.eps(), &self.names, rows)
    }
}

fn check_outputs(row: &IntervalRow, outputs: usize) -> Result<(), String> {
    match row.outputs.len() == outputs {
        true => Ok(()),
        false => Err(format!(
            "it has {} outputs, not {outputs}",
            row.outputs.len()
        )),
    }
}

/// What intervals come to, output by output.
#[derive(Clone, Debug, PartialEq)]
pub struct IntervalFigures {
    /// The largest norm of a perturbation.
    pub eps: f64,
    /// One an output.
    pub outputs: Vec<OutputFigures>,
}

/// What the intervals of one output come to.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputFigures {
    /// What it is called.
    pub name: String,
    /// Mean over the images of the interval's width.
    pub mean_width: f64,
    /// Median over the images of it.
    pub median_width: f64,
    /// Mean over the images of the largest distance of an end from the smoothed output
    /// (certified) or from v(x) (attack).
    pub mean_change: f64,
    /// Share of the images whose target is in the interval; `None` without targets.
    pub covered: Option<f64>,
}

impl IntervalFigures {
    /// Of these rows.
    pub fn new(eps: f64, names: &[String], rows: &[IntervalRow]) -> Self {
        let output = |(output, name): (usize, &String)| {
            let own: Vec<&OutputInterval> = rows
                .iter()
                .filter_map(|row| row.outputs.get(output))
                .collect();
            let mean = |value: &dyn Fn(&OutputInterval) -> f64| {
                own.iter().map(|own| value(own)).sum::<f64>() / own.len().max(1) as f64
            };
            let mut widths: Vec<f64> = own.iter().map(|own| own.width()).collect();
            widths.sort_unstable_by(f64::total_cmp);
            let middle = widths.len() / 2;
            let change = |own: &OutputInterval| {
                let from = if own.centre.is_nan() {
                    own.value
                } else {
                    own.centre
                };
                (from - own.lower).max(own.upper - from)
            };
            let known = !own.is_empty() && own.iter().all(|own| own.target.is_finite());
            let inside = |own: &OutputInterval| {
                f64::from(u8::from((own.lower..=own.upper).contains(&own.target)))
            };
            OutputFigures {
                name: name.clone(),
                mean_width: mean(&OutputInterval::width),
                median_width: match widths.len() {
                    0 => f64::NAN,
                    len if len % 2 == 1 => widths[middle],
                    _ => 0.5 * (widths[middle - 1] + widths[middle]),
                },
                mean_change: mean(&change),
                covered: known.then(|| mean(&inside)),
            }
        };
        Self {
            eps,
            outputs: names.iter().enumerate().map(output).collect(),
        }
    }
}

impl Figures for IntervalFigures {
    fn to_json(&self) -> Value {
        let outputs = self.outputs.iter().map(|own| {
            json!({
                "name": own.name, "mean_width": own.mean_width,
                "median_width": own.median_width, "mean_change": own.mean_change,
                "target_inside": own.covered,
            })
        });
        json!({"eps": self.eps, "outputs": outputs.collect::<Vec<_>>()})
    }

    fn to_text(&self) -> String {
        let line = |own: &OutputFigures| {
            let covered = match own.covered {
                Some(share) => {
                    format!("; the target is inside on {} of the images", percent(share))
                }
                None => String::new(),
            };
            format!(
                "  {}: intervals of width {:.5} (mean), {:.5} (median) for perturbations up to \
                 {}; largest change {:.5} (mean){covered}\n",
                own.name, own.mean_width, own.median_width, self.eps, own.mean_change
            )
        };
        self.outputs.iter().map(line).collect()
    }
}
