//! How close v is to the average of f over noise.

use std::collections::{BTreeMap, BTreeSet};

use record::{FidelityLevel, FidelityRow, LevelDistance, LogKind};

use super::{Context, Group, Item, Section};
use crate::figure::{Axis, Figure, Series};
use crate::load::{LoadedLog, LoadedRows};
use crate::statistics::mean;
use crate::table::{Best, Cell, Column, Format, Table};

const POINTS: usize = 200;

/// Fidelity, one section for all groups.
pub fn section(context: &mut Context<'_>) -> Option<Section> {
    let mut items = Vec::new();
    let mut noises = BTreeSet::new();
    for group in context.groups(LogKind::Fidelity, true) {
        noises.extend(noise(&group));
        items.push(Item::Table(table(&group)));
        items.push(Item::Figure(distances(context, &group)));
        items.extend(by_sigma(context, &group).map(Item::Figure));
    }
    (!items.is_empty()).then(|| Section {
        id: "fidelity".into(),
        title: "Fidelity".into(),
        intro: format!(
            "How close v(x) is to the Monte-Carlo {} average of f at x, beside the same distance for \
                f itself. Closeness is not robustness: the average of an undefended f may itself be a \
                poor classifier. And heat smoothing is not averaging: its penalty acts where the \
                data are, while the noise points away from them.",
            words(noises)
        ),
        items,
    })
}

/// What the averages of a group are over.
fn noise(group: &Group<'_>) -> BTreeSet<&'static str> {
    let noises = group.logs.iter().map(|log| log.smoothing().noise.word());
    noises.collect()
}

/// `Gaussian`, `Gaussian or uniform`, ...
fn words(noises: BTreeSet<&str>) -> String {
    let words: Vec<&str> = noises.into_iter().collect();
    words.join(" or ")
}

fn rows(log: &LoadedLog) -> &[FidelityRow] {
    match &log.rows {
        LoadedRows::Fidelity(rows) => rows,
        _ => &[],
    }
}

fn mean_of(log: &LoadedLog, value: impl Fn(&FidelityRow) -> f64) -> Option<f64> {
    mean(
        &rows(log)
            .iter()
            .map(value)
            .filter(|value| value.is_finite())
            .collect::<Vec<_>>(),
    )
}

/// (sigma, mean distance of v from the average at that sigma), ascending; the
/// log's own sigma among them.
fn curve(log: &LoadedLog) -> Vec<(f64, f64)> {
    // LoadedRows of one log have the same levels.
    let levels = rows(log).first().map_or(&[][..], |row| &row.levels);
    let mut points: Vec<(f64, f64)> = levels
        .iter()
        .enumerate()
        .filter_map(|(at, level)| {
            let distance = |row: &FidelityRow| {
                let level = row.levels.get(at);
                level.map_or(f64::NAN, |level| level.logits.v_distance)
            };
            Some((level.sigma, mean_of(log, distance)?))
        })
        .collect();
    if let Some(sigma) = log.manifest.sigma
        && !points.iter().any(|point| point.0 == sigma)
    {
        points.extend(mean_of(log, |row| row.v_distance).map(|distance| (sigma, distance)));
    }
    points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn best_sigma(log: &LoadedLog) -> Option<f64> {
    let curve = curve(log);
    let best = curve.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    (curve.len() > 1).then_some(best.0)
}

/// How much of the gap between f and its average v closes, in one space, at the
/// log's own sigma.
fn gap_closed(
    log: &LoadedLog,
    of: impl Fn(&FidelityLevel) -> LevelDistance,
    f_distance: impl Fn(&FidelityRow) -> f64,
) -> Option<f64> {
    let (mut v, mut f) = (0.0, 0.0);
    for row in rows(log) {
        let own = |level: &&FidelityLevel| Some(level.sigma) == log.manifest.sigma;
        let at = of(row.levels.iter().find(own)?);
        let error = at.standard_error * at.standard_error;
        v += at.v_distance * at.v_distance - error;
        f += f_distance(row).powi(2) - error;
    }
    let closed = 1.0 - (v.max(0.0) / f).sqrt();
    closed.is_finite().then_some(closed)
}

/// Whether a log is about real values, which have no classes.
fn of_values(log: &LoadedLog) -> bool {
    rows(log).iter().all(|row| row.agree.is_none())
}

fn table(group: &Group<'_>) -> Table {
    let share = |flag: Option<bool>| flag.map_or(f64::NAN, |is| f64::from(u8::from(is)));
    let row = |(log, name): (&&LoadedLog, &String)| {
        let v = mean_of(log, |row| row.v_distance);
        let f = mean_of(log, |row| row.f_distance);
        vec![
            Cell::Text(name.clone()),
            Cell::number(v),
            Cell::number(f),
            Cell::number(v.zip(f).map(|(v, f)| v / f)),
            Cell::number(gap_closed(
                log,
                |level| level.probabilities,
                |row| row.p_f_distance,
            )),
            Cell::number(gap_closed(
                log,
                |level| level.votes,
                |row| row.votes_f_distance,
            )),
            Cell::number(mean_of(log, |row| row.standard_error)),
            Cell::number(mean_of(log, |row| share(row.agree))),
            Cell::number(mean_of(log, |row| share(row.votes_agree))),
            Cell::number(best_sigma(log)),
            Cell::Number(log.len() as f64),
        ]
    };
    if group.logs.iter().all(|log| of_values(log)) {
        return value_table(group);
    }
    Table {
        id: format!("fidelity-{}", group.slug),
        title: format!("Distance to the {} average of f: {}", words(noise(group)), group.title),
        caption: "Mean over images of the L2 distance of logits to the average of f under noise: of \
                  v, of f itself, and their ratio (1: no better than no smoothing); how much (%) of \
                  the gap between f and its average v closes in probabilities and in votes (100: v \
                  is the average; root mean squares, Monte-Carlo error subtracted); the Monte-Carlo \
                  error of the average of logits; how often (%) v chooses the class of the average \
                  of logits, and that of the smoothed classifier (most votes); and the σ, of those \
                  tried, whose average v is closest to."
            .into(),
        guarantee: group.guarantee(),
        columns: vec![
            Column::text("model"),
            Column::new("v", Format::Short, Best::Low),
            Column::new("f", Format::Short, Best::None),
            Column::new("ratio", Format::Fixed(3), Best::Low),
            Column::new("gap closed, probabilities", Format::Percent, Best::High),
            Column::new("gap closed, votes", Format::Percent, Best::High),
            Column::new("MC error", Format::Short, Best::None),
            Column::new("agreement", Format::Percent, Best::High),
            Column::new("same class as g", Format::Percent, Best::High),
            Column::new("best σ", Format::Plain, Best::None),
            Column::new("images", Format::Fixed(0), Best::None),
        ],
        rows: group.logs.iter().zip(&group.names).map(row).collect(),
    }
}

/// The same for real values: nothing about classes.
fn value_table(group: &Group<'_>) -> Table {
    let row = |(log, name): (&&LoadedLog, &String)| {
        vec![
            Cell::Text(name.clone()),
            Cell::number(mean_of(log, |row| row.v_distance)),
            Cell::number(mean_of(log, |row| row.f_distance)),
            Cell::number(gap_closed(log, |level| level.logits, |row| row.f_distance)),
            Cell::number(mean_of(log, |row| row.standard_error)),
            Cell::number(best_sigma(log)),
            Cell::Number(log.len() as f64),
        ]
    };
    Table {
        id: format!("fidelity-{}", group.slug),
        title: format!("Distance to the Gaussian average of f: {}", group.title),
        caption:
            "Mean over images of the distance of the outputs to the average of f under noise: \
                  of v and of f itself; how much (%) of the gap between f and its average v closes \
                  (100: v is the average; root mean squares, Monte-Carlo error subtracted); the \
                  Monte-Carlo error of the average; and the σ, of those tried, whose average v is \
                  closest to."
                .into(),
        guarantee: group.guarantee(),
        columns: vec![
            Column::text("model"),
            Column::new("v", Format::Short, Best::Low),
            Column::new("f", Format::Short, Best::None),
            Column::new("gap closed", Format::Percent, Best::High),
            Column::new("MC error", Format::Short, Best::None),
            Column::new("best σ", Format::Plain, Best::None),
            Column::new("images", Format::Fixed(0), Best::None),
        ],
        rows: group.logs.iter().zip(&group.names).map(row).collect(),
    }
}

fn distances(context: &Context<'_>, group: &Group<'_>) -> Figure {
    let sorted = |log: &LoadedLog, value: fn(&FidelityRow) -> f64| {
        let mut values: Vec<f64> = rows(log).iter().map(value).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let mut lines: Vec<(String, usize, Vec<f64>)> = Vec::new();
    let mut references: BTreeMap<String, &LoadedLog> = BTreeMap::new();
    for (log, name) in group.logs.iter().zip(&group.names) {
        lines.push((
            name.clone(),
            context.styles.of(log),
            sorted(log, |row| row.v_distance),
        ));
        let reference = log
            .manifest
            .reference
            .as_ref()
            .map(|model| model.key().to_owned());
        references
            .entry(reference.unwrap_or_default())
            .or_insert(log);
    }
    let several = references.len() > 1;
    for (at, (hash, log)) in references.into_iter().enumerate() {
        let name = match several {
            true => format!("f itself ({})", hash.chars().take(8).collect::<String>()),
            false => "f itself".to_owned(),
        };
        lines.push((name, 3 + 7 * at, sorted(log, |row| row.f_distance)));
    }
    let farthest = lines
        .iter()
        .filter_map(|line| line.2.last())
        .copied()
        .fold(0.0, f64::max);
    let x = Axis::from_zero("L2 distance of logits", farthest);
    let high = x.high;
    let series = lines.into_iter().map(|(name, style, values)| {
        let point = |at: usize| {
            let distance = high * at as f64 / POINTS as f64;
            let within = values.partition_point(|&value| value <= distance);
            (distance, 100.0 * within as f64 / values.len() as f64)
        };
        Series {
            name,
            style,
            points: (0..=POINTS).map(point).collect(),
        }
    });
    Figure {
        id: format!("fidelity-{}", group.slug),
        title: format!(
            "Distance to the {} average of f: {}",
            words(noise(group)),
            group.title
        ),
        caption: "Share of images whose logits lie within the distance of the average; higher is \
                  closer."
            .into(),
        guarantee: group.guarantee(),
        x,
        y: Axis::percent("images"),
        series: series.collect(),
    }
}

fn by_sigma(context: &Context<'_>, group: &Group<'_>) -> Option<Figure> {
    let series: Vec<Series> = group
        .logs
        .iter()
        .zip(&group.names)
        .map(|(log, name)| Series {
            name: name.clone(),
            style: context.styles.of(log),
            points: curve(log),
        })
        .filter(|series| series.points.len() > 1)
        .collect();
    let points = || series.iter().flat_map(|series| &series.points);
    let low = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let high = points().map(|point| point.0).fold(0.0, f64::max);
    let top = points().map(|point| point.1).fold(0.0, f64::max);
    (!series.is_empty()).then(|| Figure {
        id: format!("fidelity-sigma-{}", group.slug),
        title: format!("Which average v is closest to: {}", group.title),
        caption:
            "Mean distance of v to the average of f, against the σ of that average; the lowest \
                  point is the σ that fits v best."
                .into(),
        guarantee: group.guarantee(),
        x: Axis::linear("σ of the average", "", low, high),
        y: Axis::from_zero("mean L2 distance of logits", top),
        series: series.clone(),
    })
}
