//! Adversarial distances of two models, paired over images.

use std::collections::BTreeMap;

use super::attacks::{attack_rows, attacked};
use super::compare::EACH_WITH_EACH;
use super::{Context, guarantees, slug};
use crate::load::{LoadedLog, LoadedRows};
use crate::names;
use crate::statistics::median_difference;
use crate::table::{Best, Cell, Column, Format, Table};

/// L-bound, then the attacks as the paper has them, then others.
fn order(procedure: &str) -> usize {
    ["lbound", "pgd", "ddn"]
        .iter()
        .position(|known| *known == procedure)
        .unwrap_or(usize::MAX)
}

/// The distance of each image, by number and label: 0 where it is wrong without an attack, infinite where an attack found
/// nothing.
type Distances = BTreeMap<(u64, u32), f64>;

fn distances(log: &LoadedLog) -> Distances {
    match &log.rows {
        LoadedRows::Lbound(rows) => {
            let radius = |right: bool, radius: f64| if right { radius.max(0.0) } else { 0.0 };
            let each = rows.iter();
            each.map(|row| ((row.idx, row.label), radius(row.correct, row.radius)))
                .collect()
        }
        _ => {
            let distance = |row: &record::AttackRow| match (attacked(row), row.success) {
                (false, _) => 0.0,
                (true, true) => row.l2,
                (true, false) => f64::INFINITY,
            };
            let rows = attack_rows(log).into_iter();
            rows.map(|row| ((row.idx, row.label), distance(row)))
                .collect()
        }
    }
}

/// Median difference of each distance for the pairs of models, or `None` where
/// there is no pair.
pub fn table(context: &Context<'_>, title: &str, mut logs: Vec<&LoadedLog>) -> Option<Table> {
    let methods = &context.options.methods;
    names::sort(methods, &mut logs);
    let mut procedures: Vec<&str> = logs.iter().map(|l| l.manifest.procedure.as_str()).collect();
    procedures.sort_unstable_by_key(|name| (order(name), *name));
    procedures.dedup();
    let mut models: Vec<(&str, &LoadedLog)> = Vec::new();
    for &log in &logs {
        let hash = log.manifest.model.key();
        if models.iter().all(|(known, _)| *known != hash) {
            models.push((hash, log));
        }
    }
    let named: Vec<&LoadedLog> = models.iter().map(|(_, log)| *log).collect();
    let names = names::names(methods, &named);
    let of = |model: usize, procedure: &str| {
        let mut found = logs.iter().filter(|log| {
            log.manifest.model.key() == models[model].0 && log.manifest.procedure == procedure
        });
        // Two logs of the same model and attack cannot be told apart here.
        found.next().filter(|_| found.next().is_none())
    };
    let mut rows = Vec::new();
    for first in 0..models.len() {
        if models.len() > EACH_WITH_EACH && first > 0 {
            break;
        }
        for second in first + 1..models.len() {
            let mut row = vec![Cell::Text(format!("{} − {}", names[first], names[second]))];
            row.extend(procedures.iter().map(|procedure| {
                let pair = of(first, procedure).zip(of(second, procedure));
                let interval = pair.and_then(|(a, b)| {
                    let (a, b) = (distances(a), distances(b));
                    let both = a.iter().filter_map(|(image, a)| Some((*a, *b.get(image)?)));
                    // Never found for either: no difference is known.
                    let mut differences: Vec<f64> = both
                        .map(|(a, b)| if a == b { 0.0 } else { a - b })
                        .collect();
                    median_difference(&mut differences)
                });
                interval.map_or(Cell::Missing, Cell::Interval)
            }));
            if row.iter().any(|cell| matches!(cell, Cell::Interval(_))) {
                rows.push(row);
            }
        }
    }
    if rows.is_empty() {
        return None;
    }
    let mut columns = vec![Column::text("difference")];
    columns.extend(procedures.iter().map(|procedure| {
        let name = match *procedure {
            "lbound" => "L-bound".into(),
            other => other.to_uppercase(),
        };
        Column::new(name, Format::Fixed(3), Best::None)
    }));
    Some(Table {
        id: format!("distance-difference-{}", slug(title)),
        title: format!("Difference in adversarial distance: {title}"),
        caption: "Median over images of the first model's distance minus the second's, over the \
                  images that both logs have (0 where a model is wrong without an attack, beyond \
                  all others where an attack found nothing), with the 95 % interval of the sign \
                  test. Bold: the interval leaves out 0. The intervals speak about one \
                  comparison each and are not corrected for their number."
            .into(),
        guarantee: guarantees(&logs),
        columns,
        rows,
    })
}
