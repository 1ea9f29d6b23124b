//! Noise samples spent: what anytime certification saves.

use record::LogKind;

use super::certified::rows;
use super::timing::samples;
use super::{Context, Group, Item, Section};
use crate::figure::{Axis, Figure, Series};
use crate::statistics::mean;
use crate::table::{Best, Cell, Column, Format, Table};

const POINTS: usize = 200;

/// For each group a table of what anytime certification saves, and a figure if
/// images differ in what they cost.
pub fn section(context: &mut Context<'_>) -> Option<Section> {
    let mut items = Vec::new();
    for group in context.groups(LogKind::Certify, true) {
        items.extend(savings(&group).map(Item::Table));
        let spent: Vec<Option<Vec<f64>>> = group
            .logs
            .iter()
            .map(|log| {
                samples(log).map(|mut samples| {
                    samples.sort_unstable_by(f64::total_cmp);
                    samples
                })
            })
            .collect();
        let known = || spent.iter().flatten();
        let least = known()
            .map(|samples| samples[0])
            .fold(f64::INFINITY, f64::min)
            .max(1.0);
        let most = known()
            .map(|samples| samples[samples.len() - 1])
            .fold(0.0, f64::max);
        let varies = known().any(|samples| samples[0] < samples[samples.len() - 1]);
        if !varies || most <= least {
            continue;
        }
        let x = Axis::logarithmic("noise samples", least, most);
        let mut series = Vec::new();
        for ((log, name), spent) in group.logs.iter().zip(&group.names).zip(&spent) {
            let Some(spent) = spent else { continue };
            let point = |at: usize| {
                let samples = least * (most / least).powf(at as f64 / POINTS as f64);
                // The last point is the most itself, not what rounding makes of it.
                let samples = if at == POINTS { most } else { samples.round() };
                let done = spent.partition_point(|&found| found <= samples);
                (samples, 100.0 * done as f64 / spent.len() as f64)
            };
            let mut points: Vec<(f64, f64)> = (0..=POINTS).map(point).collect();
            points.dedup_by_key(|point| point.0);
            series.push(Series {
                name: name.clone(),
                style: context.styles.of(log),
                points,
            });
        }
        items.push(Item::Figure(Figure {
            id: format!("samples-{}", group.slug),
            title: format!("Noise samples spent: {}", group.title),
            caption: "Share of images whose certification ended within that many noise samples."
                .into(),
            guarantee: group.guarantee(),
            x,
            y: Axis::percent("images decided"),
            series,
        }));
    }
    (!items.is_empty()).then(|| Section {
        id: "samples".into(),
        title: "Noise samples".into(),
        intro: "Anytime certification stops an image as soon as its answer is settled; the \
                certificate holds whatever the stopping rule. With a pilot, samples of their own \
                choose how many are counted."
            .into(),
        items,
    })
}

/// What the logs of a group that may take fewer samples answered, and with how many samples.
fn savings(group: &Group<'_>) -> Option<Table> {
    let logs = group.logs.iter().zip(&group.names);
    let early =
        |log: &crate::load::LoadedLog| ["anytime", "pilot"].contains(&&*log.manifest.procedure);
    let anytime = logs.filter(|(log, _)| early(log));
    let row = |(log, name): (&&crate::load::LoadedLog, &String)| {
        let rows = rows(log);
        let asked = log.asked_radius();
        let radius = asked.unwrap_or(0.0);
        let good = rows
            .iter()
            .filter(|row| row.correct && row.radius >= radius);
        let spent = samples(log).and_then(|samples| mean(&samples));
        let most = log.manifest.configuration.get("n").and_then(|n| n.as_f64());
        vec![
            Cell::Text(name.clone()),
            Cell::number(asked),
            Cell::number((!rows.is_empty()).then(|| good.count() as f64 / rows.len() as f64)),
            Cell::number(spent),
            Cell::number(most),
            Cell::number(most.zip(spent).map(|(most, spent)| most / spent)),
        ]
    };
    let table: Vec<Vec<Cell>> = anytime.map(row).collect();
    (!table.is_empty()).then(|| Table {
        id: format!("anytime-{}", group.slug),
        title: format!("Anytime certification: {}", group.title),
        caption: "Where a radius was asked, each image was sampled only until \"radius ≥ R\" was \
                  decided, or as often as a pilot chose for it; else until the radius could \
                  hardly grow. Certified is the share (%) of \
                  all images that is right and certified, to the radius asked if one was. Fewer: \
                  how many times fewer noise samples than a fixed n of the most allowed."
            .into(),
        guarantee: group.guarantee(),
        columns: vec![
            Column::text("model"),
            Column::new("radius asked", Format::Plain, Best::None),
            Column::new("certified", Format::Percent, Best::None),
            Column::new("samples", Format::Fixed(0), Best::None),
            Column::new("most", Format::Fixed(0), Best::None),
            Column::new("fewer", Format::Fixed(1), Best::None),
        ],
        rows: table,
    })
}
