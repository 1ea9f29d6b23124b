//! Training curves from run folders.

use std::path::{Path, PathBuf};

use record::{MethodInfo, RecordError, RunManifest, Tsv};
use serde_json::Value;

use super::{Context, Item, Section, slug};
use crate::figure::{Axis, Figure, Series, nice_step};
use crate::names::{method_name, tell_apart};
use crate::{ReportError, ReportWarning};

/// What is worth a figure, by words in the column's name.
const DRAWN: [&str; 8] = [
    "loss",
    "rmse",
    "acc",
    "fit",
    "penalty",
    "gradient",
    "error",
    "objective",
];

/// A training run.
pub struct RunRecord {
    /// Where its manifest was read from.
    pub path: PathBuf,
    /// Its manifest.
    pub manifest: RunManifest,
    columns: Vec<String>,
    values: Vec<Vec<f64>>,
}

/// Reads `run.json` and the `epochs.tsv` beside it; `None` before the first epoch.
pub fn load(
    path: &Path,
    warnings: &mut Vec<ReportWarning>,
) -> Result<Option<RunRecord>, ReportError> {
    let manifest = RunManifest::read(path)?;
    let epochs = path.with_file_name("epochs.tsv");
    if !epochs.try_exists().map_err(|source| RecordError::Io {
        path: epochs.clone(),
        action: "read",
        source,
    })? {
        return Ok(None);
    }
    let table = Tsv::read(&epochs)?;
    if let Some(torn) = table.torn() {
        warnings.push(ReportWarning::Torn {
            path: epochs,
            line: torn.line,
        });
    }
    let (columns, values) = (table.columns().to_vec(), table.numbers()?);
    let started = values.first().is_some_and(|column| !column.is_empty());
    Ok(started.then(|| RunRecord {
        path: path.into(),
        manifest,
        columns,
        values,
    }))
}

/// One figure for each column worth it, a line for each run.
pub fn section(context: &mut Context<'_>, runs: &[RunRecord]) -> Option<Section> {
    let mut order: Vec<&RunRecord> = runs.iter().collect();
    let methods = &context.options.methods;
    order.sort_by_key(|run| (method_name(methods, &run.manifest.method).0, &run.path));
    let names = names(methods, &order);
    let mut columns: Vec<&str> = Vec::new();
    for column in order.iter().flat_map(|run| &run.columns) {
        let drawn = DRAWN
            .iter()
            .any(|word| column.to_lowercase().contains(word));
        if drawn && !columns.contains(&column.as_str()) {
            columns.push(column);
        }
    }
    let mut items = Vec::new();
    for column in columns {
        let mut series = Vec::new();
        for (run, name) in order.iter().zip(&names) {
            let Some(at) = run.columns.iter().position(|found| found == column) else {
                continue;
            };
            // Epochs may count from 0 in each timestep: the row is what ascends.
            let rows = run.values[at].iter().enumerate();
            let points: Vec<(f64, f64)> = rows
                .filter(|(_, value)| value.is_finite())
                .map(|(row, &value)| (row as f64 + 1.0, value))
                .collect();
            if !points.is_empty() {
                let model = run
                    .manifest
                    .model
                    .as_ref()
                    .map(|model| model.key().to_owned());
                let key = model.unwrap_or_else(|| run.path.display().to_string());
                series.push(Series {
                    name: name.clone(),
                    style: context.styles.add(&key),
                    points,
                });
            }
        }
        if !series.is_empty() {
            items.push(Item::Figure(figure(column, series)));
        }
    }
    (!items.is_empty()).then(|| Section {
        id: "training".into(),
        title: "Training".into(),
        intro: "Losses of different methods are different functions: compare their course, not \
                their height. HeatSmoothing never uses labels; accuracy is logged, nothing is \
                selected on it."
            .into(),
        items,
    })
}

fn names(methods: &[MethodInfo], runs: &[&RunRecord]) -> Vec<String> {
    let base = runs.iter().map(|run| {
        let manifest = &run.manifest;
        manifest
            .label
            .clone()
            .unwrap_or_else(|| method_name(methods, &manifest.method).1.to_owned())
    });
    let details: Vec<Vec<(String, String)>> = runs
        .iter()
        .map(|run| {
            let manifest = &run.manifest;
            let mut out = vec![("data".to_owned(), manifest.data.name.clone())];
            out.extend(
                manifest
                    .sigma
                    .map(|sigma| ("σ".to_owned(), sigma.to_string())),
            );
            if let Value::Object(settings) = &manifest.configuration {
                let plain = settings
                    .iter()
                    .filter(|(_, value)| !value.is_object() && !value.is_array());
                out.extend(plain.map(|(key, value)| (key.clone(), value.to_string())));
            }
            out.push(("seed".into(), manifest.seed.to_string()));
            out.push(("path".into(), run.path.display().to_string()));
            out
        })
        .collect();
    tell_apart(base.collect(), &details)
}

fn figure(column: &str, mut series: Vec<Series>) -> Figure {
    let words = column.replace('_', " ");
    let values = |series: &[Series]| -> Vec<f64> {
        series
            .iter()
            .flat_map(|series| series.points.iter().map(|point| point.1))
            .collect()
    };
    let found = values(&series);
    let (low, high) = found
        .iter()
        .fold((f64::MAX, f64::MIN), |(l, h), &v| (l.min(v), h.max(v)));
    let share = column.to_lowercase().contains("acc") && low >= 0.0 && high <= 100.0;
    let y = if share {
        if high <= 1.0 {
            series
                .iter_mut()
                .flat_map(|series| &mut series.points)
                .for_each(|point| point.1 *= 100.0);
        }
        Axis::percent(&words)
    } else if low > 0.0 && high > 30.0 * low {
        Axis::logarithmic(&words, low, high)
    } else {
        let low = low.min(0.0);
        let step = nice_step((high - low) / 6.5);
        Axis::linear(
            &words,
            "",
            (low / step).floor() * step,
            (high / step).ceil() * step,
        )
    };
    let last = series
        .iter()
        .filter_map(|series| series.points.last())
        .map(|point| point.0);
    Figure {
        id: format!("training-{}", slug(column)),
        title: format!("Training: {words}"),
        caption: "Against the epochs of the run; all timesteps of HeatSmoothing in a row.".into(),
        guarantee: "empirical".into(),
        x: Axis::linear("epoch", "", 1.0, last.fold(1.0, f64::max)),
        y,
        series,
    }
}
