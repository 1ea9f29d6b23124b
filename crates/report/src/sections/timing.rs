//! Seconds and noise samples per image.

use record::LogKind;

use super::{Context, Item, Section, certified};
use crate::load::{LoadedLog, LoadedRows};
use crate::statistics::mean;
use crate::table::{Best, Cell, Column, Format, Table};

/// The paper's timing table, measured.
pub fn section(context: &mut Context<'_>) -> Option<Section> {
    let mut items = Vec::new();
    for group in context.groups(LogKind::Certify, true) {
        let rows: Vec<Vec<Cell>> = group
            .logs
            .iter()
            .zip(&group.names)
            .map(|(log, name)| {
                let versions = &log.manifest.versions;
                let machine = match log.published {
                    true => String::new(),
                    false => format!("{}, {} threads", versions.isa, versions.threads),
                };
                vec![
                    Cell::Text(name.clone()),
                    Cell::number(classify_seconds(log, context.logs)),
                    Cell::number(certify_seconds(log)),
                    Cell::number(samples(log).and_then(|samples| mean(&samples))),
                    Cell::Text(machine),
                ]
            })
            .collect();
        if rows
            .iter()
            .all(|row| row[1..4].iter().all(|cell| *cell == Cell::Missing))
        {
            continue;
        }
        items.push(Item::Table(Table {
            id: format!("timing-{}", group.slug),
            title: format!("Time per image: {}", group.title),
            caption: "Mean wall-clock seconds to classify an image (one pass of a deterministic \
                      model, all noise samples of a stochastic one) and to certify it, and the \
                      noise samples that certification spent."
                .into(),
            guarantee: "empirical".into(),
            columns: vec![
                Column::text("model"),
                Column::new("classify (s)", Format::Short, Best::Low),
                Column::new("certify (s)", Format::Short, Best::Low),
                Column::new("samples", Format::Fixed(0), Best::Low),
                Column::text("machine"),
            ],
            rows,
        }));
    }
    (!items.is_empty()).then(|| Section {
        id: "timing".into(),
        title: "Time".into(),
        intro: "As measured while the logs were written; only comparable on one machine.".into(),
        items,
    })
}

fn certify_seconds(log: &LoadedLog) -> Option<f64> {
    let seconds = certified::rows(log).iter().filter_map(|row| row.time);
    mean(&seconds.map(|time| time.as_secs_f64()).collect::<Vec<_>>())
}

/// From the certification log itself, or from the L-bound log of the same model.
fn classify_seconds(log: &LoadedLog, all: &[LoadedLog]) -> Option<f64> {
    let times = certified::rows(log)
        .iter()
        .filter_map(|row| row.classify_time);
    let seconds: Vec<f64> = times.map(|time| time.as_secs_f64()).collect();
    if !seconds.is_empty() {
        return mean(&seconds);
    }
    let same = |other: &&LoadedLog| {
        other.manifest.model.key() == log.manifest.model.key() && other.data() == log.data()
    };
    all.iter().filter(same).find_map(|other| match &other.rows {
        LoadedRows::Lbound(rows) => {
            let seconds = rows
                .iter()
                .filter_map(|row| row.time)
                .map(|time| time.as_secs_f64());
            mean(&seconds.collect::<Vec<_>>())
        }
        _ => None,
    })
}

/// Noise samples spent on each image, where the log says.
pub fn samples(log: &LoadedLog) -> Option<Vec<f64>> {
    let rows = certified::rows(log);
    // Without that column, the samples that were counted are all that is known.
    let recorded = rows.iter().any(|row| row.samples.is_some());
    let samples = rows
        .iter()
        .map(|row| if recorded { row.samples } else { row.n });
    samples
        .map(|samples| samples.map(|samples| samples as f64))
        .collect::<Option<Vec<f64>>>()
        .filter(|samples| !samples.is_empty())
}
