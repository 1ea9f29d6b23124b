//! Other certificates from the same counts.

use super::{Group, certified::rows};
use crate::figure::{Axis, Figure, Series};

const POINTS: usize = 200;

/// All three certificates against the bound on p, where the logs have them.
pub fn figure(group: &Group<'_>) -> Option<Figure> {
    let mut points: Vec<[f64; 4]> = Vec::new();
    for log in &group.logs {
        for row in rows(log).iter().filter(|row| row.predict.is_some()) {
            let point = [row.p_lower, row.radius, row.lecuyer, row.li];
            if point.iter().all(|value| value.is_finite()) {
                points.push(point);
            }
        }
    }
    points.sort_unstable_by(|a, b| a[0].total_cmp(&b[0]));
    // One point for each step of p, so that a million rows draw like a hundred.
    points.dedup_by_key(|point| (point[0] * 2.0 * POINTS as f64).floor());
    if points.len() < 2 {
        return None;
    }
    let names = [
        "Cohen et al.",
        "Lecuyer et al. (PixelDP)",
        "Li et al. (Rényi)",
    ];
    let series = names.iter().enumerate().map(|(at, name)| Series {
        name: (*name).into(),
        style: at,
        points: points
            .iter()
            .map(|point| (point[0], point[at + 1]))
            .collect(),
    });
    let largest = points
        .iter()
        .flat_map(|point| &point[1..])
        .copied()
        .fold(0.0, f64::max);
    Some(Figure {
        id: format!("certificates-{}", group.slug),
        title: format!("Three certificates from the same counts: {}", group.title),
        caption: "Certified radius against the lower bound on the probability of the class. All \
                  three are sound; Cohen's is the tightest possible for Gaussian noise."
            .into(),
        guarantee: group.guarantee(),
        x: Axis::linear("lower bound on p", "", points[0][0].min(0.5), 1.0),
        y: Axis::from_zero(format!("certified {} radius", group.norm), largest),
        series: series.collect(),
    })
}
