//! Noise samples spent: what anytime certification saves.

use record::Kind;

use super::timing::samples;
use super::{Context, Item, Section};
use crate::figure::{Axis, Figure, Series};

const POINTS: usize = 200;

/// A figure for each group in which images differ in what they cost.
pub fn section(context: &mut Context<'_>) -> Option<Section> {
    let mut items = Vec::new();
    for group in context.groups(Kind::Certify, true) {
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
                certificate holds whatever the stopping rule."
            .into(),
        items,
    })
}
