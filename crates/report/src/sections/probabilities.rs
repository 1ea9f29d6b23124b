//! How the bounds on p_A are spread: what the average certified radius hides.

use super::{Group, certified::rows};
use crate::figure::{Axis, Figure, Series};
use crate::names::Styles;
use crate::statistics::CertifiedCurve;
use crate::table::{Best, Cell, Column, Format, Table};

/// Bounds at which the table counts images.
const LEVELS: [f64; 8] = [0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 0.999, 0.9999];

const POINTS: usize = 200;

/// The bounds of the images that are right, ascending, over all images; `None` where a
/// log has none.
fn bounds(group: &Group<'_>, at: usize) -> Option<Vec<f64>> {
    let rows = rows(group.logs[at]);
    let known = rows.iter().all(|row| !row.p_lower.is_nan());
    let right = rows.iter().filter(|row| row.correct);
    let mut bounds: Vec<f64> = right.map(|row| row.p_lower).collect();
    bounds.sort_unstable_by(f64::total_cmp);
    known.then_some(bounds)
}

/// The share of all images whose bound is at least so large.
fn share(bounds: &[f64], level: f64, images: usize) -> f64 {
    let below = bounds.partition_point(|&bound| bound < level);
    (bounds.len() - below) as f64 / images as f64
}

/// The distribution beside the average certified radius, where logs have the bounds.
pub fn table(group: &Group<'_>, curves: &[CertifiedCurve]) -> Option<Table> {
    let row = |at: usize| {
        let (bounds, curve) = (bounds(group, at)?, &curves[at]);
        let mut row = vec![
            Cell::Text(group.names[at].clone()),
            Cell::number(Some(curve.acr())),
        ];
        row.extend(LEVELS.map(|level| Cell::Number(share(&bounds, level, curve.images))));
        Some(row)
    };
    let rows: Vec<Vec<Cell>> = (0..curves.len()).filter_map(row).collect();
    if rows.is_empty() {
        return None;
    }
    let mut columns = vec![
        Column::text("model"),
        Column::new("ACR", Format::Fixed(3), Best::None),
    ];
    columns.extend(
        LEVELS.map(|level| {
            Column::new(level.to_string(), Format::Percent, Best::None).under("p_A ≥")
        }),
    );
    Some(Table {
        id: format!("p-a-{}", group.slug),
        title: format!("Distribution of p_A (%): {}", group.title),
        caption: "Share of all images that are right and whose lower bound on the probability of \
                  the class is at least so large, beside the average certified radius. ACR is an \
                  average of quantiles of these bounds, which grow without limit towards 1: a few \
                  images near 1 can outweigh many near 1/2, so models are better compared by both."
            .into(),
        guarantee: group.guarantee(),
        columns,
        rows,
    })
}

/// The same as curves.
pub fn figure(group: &Group<'_>, styles: &Styles) -> Option<Figure> {
    let series = |at: usize| {
        let (bounds, log) = (bounds(group, at)?, group.logs[at]);
        let point = |step: usize| {
            let level = 0.5 + 0.5 * step as f64 / POINTS as f64;
            (level, 100.0 * share(&bounds, level, log.len()))
        };
        Some(Series {
            name: group.names[at].clone(),
            style: styles.of(log),
            points: (0..=POINTS).map(point).collect(),
        })
    };
    let series: Vec<Series> = (0..group.logs.len()).filter_map(series).collect();
    (!series.is_empty()).then(|| Figure {
        id: format!("p-a-{}", group.slug),
        title: format!("Distribution of p_A: {}", group.title),
        caption: "Share of all images that are right and whose lower bound on the probability of \
                  the class is at least so large."
            .into(),
        guarantee: group.guarantee(),
        x: Axis::linear("lower bound on p_A", "", 0.5, 1.0),
        y: Axis::percent("images"),
        series,
    })
}
