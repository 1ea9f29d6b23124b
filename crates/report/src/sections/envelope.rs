//! One method at several noise levels, and the envelope over them.

use std::collections::BTreeMap;

use super::certified::{accuracy, curve, grid, of_what, radii, radius_columns, step};
use super::{Context, Group, Item, slug};
use crate::figure::{Axis, Figure, Series};
use crate::load::LoadedLog;
use crate::names;
use crate::statistics::CertifiedCurve;
use crate::table::{Best, Cell, Column, Format, Table};

/// What the envelope is, and what it is not.
const MEANING: &str = "At each radius the envelope shows the σ that certifies most images there: \
                       one classifier for each radius, chosen on these images. It is not the \
                       curve of one classifier, and the largest radius of each image over the σ \
                       would be no classifier's certificate.";

/// Points between two radii of the tables.
const POINTS: usize = 20;

/// A figure and a table for each method that was certified at several levels on the
/// same images.
pub fn items(context: &Context<'_>, wanted: impl Fn(&LoadedLog) -> bool) -> Vec<Item> {
    let mut items = Vec::new();
    for group in context.groups_of(false, wanted) {
        let mut methods: BTreeMap<(&str, Option<&str>), Vec<&LoadedLog>> = BTreeMap::new();
        for log in &group.logs {
            let key = (log.manifest.method.as_str(), log.manifest.label.as_deref());
            methods.entry(key).or_default().push(log);
        }
        for mut logs in methods.into_values() {
            let level = |log: &LoadedLog| log.manifest.sigma.unwrap_or(0.0);
            logs.sort_by(|a, b| level(a).total_cmp(&level(b)));
            let levels: Vec<f64> = logs.iter().filter_map(|log| log.manifest.sigma).collect();
            let distinct = levels.windows(2).all(|pair| pair[0] < pair[1]);
            if levels.len() < 2 || levels.len() != logs.len() || !distinct || !same_images(&logs) {
                continue;
            }
            let name = names::names(&context.options.methods, &logs[..1]).remove(0);
            items.extend(of_method(context, &group, &name, &logs, &levels));
        }
    }
    items
}

fn same_images(logs: &[&LoadedLog]) -> bool {
    let images = |log: &LoadedLog| -> Vec<u64> {
        super::certified::rows(log)
            .iter()
            .map(|row| row.idx)
            .collect()
    };
    logs.windows(2)
        .all(|pair| images(pair[0]) == images(pair[1]))
}

fn of_method(
    context: &Context<'_>,
    group: &Group<'_>,
    name: &str,
    logs: &[&LoadedLog],
    levels: &[f64],
) -> [Item; 2] {
    let curves: Vec<CertifiedCurve> = logs.iter().map(|log| curve(log)).collect();
    let denominator = context.options.denominator;
    let at = |level: usize, radius: f64| accuracy(&curves[level], radius, denominator);
    let best = |radius: f64| {
        let all = (0..levels.len()).filter_map(|level| Some((level, at(level, radius)?)));
        all.reduce(|best, next| if next.1 > best.1 { next } else { best })
    };
    let radii = radii(&curves, context.options);
    let title = format!("{name}, {}", group.title);
    let slug = slug(&title);
    let guarantee = super::guarantees(logs);
    let (step, largest) = step(&curves);
    let steps = ((largest / step).floor() as usize + 1) * POINTS;
    let points = |share: &dyn Fn(f64) -> Option<f64>| -> Vec<(f64, f64)> {
        let radii = (0..=steps).map(|at| grid(at, POINTS, step));
        radii
            .filter_map(|radius| Some((radius, 100.0 * share(radius)?)))
            .collect()
    };
    let mut series: Vec<Series> = levels
        .iter()
        .enumerate()
        .map(|(level, sigma)| Series {
            name: format!("σ = {sigma}"),
            style: level + 1,
            points: points(&|radius| at(level, radius)),
        })
        .collect();
    series.push(Series {
        name: "envelope".into(),
        style: 0,
        points: points(&|radius| best(radius).map(|(_, share)| share)),
    });
    let figure = Figure {
        id: format!("envelope-{slug}"),
        title: format!("Certified accuracy over σ: {title}"),
        caption: format!("Share of {}. {MEANING}", of_what(denominator)),
        guarantee: guarantee.clone(),
        x: Axis::linear(
            format!("{} radius", group.norm),
            "",
            0.0,
            grid(steps, POINTS, step),
        ),
        y: Axis::percent("certified accuracy"),
        series,
    };
    let row = |level: usize| {
        let mut row = vec![Cell::Text(format!("σ = {}", levels[level]))];
        row.extend(radii.iter().map(|&radius| Cell::number(at(level, radius))));
        row.push(Cell::number(Some(curves[level].acr())));
        row
    };
    let mut rows: Vec<Vec<Cell>> = (0..levels.len()).map(row).collect();
    let found: Vec<_> = radii.iter().map(|&radius| best(radius)).collect();
    let mut envelope = vec![Cell::Text("envelope".into())];
    envelope.extend(found.iter().map(|best| match best {
        Some((_, share)) => Cell::Unranked(*share),
        None => Cell::Missing,
    }));
    envelope.push(Cell::Missing);
    let mut chosen = vec![Cell::Text("σ of the envelope".into())];
    chosen.extend(found.iter().map(|best| match best {
        Some((level, share)) if *share > 0.0 => Cell::Text(levels[*level].to_string()),
        _ => Cell::Missing,
    }));
    chosen.push(Cell::Missing);
    rows.extend([envelope, chosen]);
    let mut columns = vec![Column::text("noise")];
    columns.extend(radius_columns(&radii, Best::High));
    columns.push(Column::new("ACR", Format::Fixed(3), Best::High));
    let table = Table {
        id: format!("envelope-{slug}"),
        title: format!("Certified accuracy over σ (%): {title}"),
        caption: format!("Share of {}. {MEANING}", of_what(denominator)),
        guarantee,
        columns,
        rows,
    };
    [Item::Figure(figure), Item::Table(table)]
}
