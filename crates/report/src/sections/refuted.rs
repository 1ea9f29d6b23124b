//! L-bounds that the attacks of the same report refute.

use std::collections::BTreeMap;

use record::LogKind;

use super::attacks::{attack_rows, attacked};
use crate::load::{LoadedLog, LoadedRows};

/// Models that were never made an average of anything.
pub fn averages_something(method: &str) -> bool {
    !["baseline", "adversarial", "imported", "published"].contains(&method)
}

/// The attacks on the classifier that a log of L-bounds is about: the network
/// itself, or its average over noise.
pub fn attacks_on<'a>(
    bounds: &LoadedLog,
    logs: &'a [LoadedLog],
) -> impl Iterator<Item = &'a LoadedLog> {
    let average = |log: &LoadedLog| match log.manifest.kind {
        LogKind::Lbound => log.setting("samples").unwrap_or(0.0) > 0.0,
        _ => log.setting("samples").unwrap_or(1.0) > 1.0,
    };
    let (model, data) = (bounds.manifest.model.key().to_owned(), bounds.data());
    let (top_k, averaged) = (bounds.top_k(), average(bounds));
    logs.iter().filter(move |log| {
        log.manifest.kind == LogKind::Attack
            && log.manifest.model.key() == model
            && log.data() == data
            && log.top_k() == top_k
            && average(log) == averaged
    })
}

/// Images whose class an attack changes within the L-bound: the attack's name and
/// its distance.
pub fn refuted_bounds(bounds: &LoadedLog, logs: &[LoadedLog]) -> BTreeMap<u64, (String, f64)> {
    let LoadedRows::Lbound(rows) = &bounds.rows else {
        return BTreeMap::new();
    };
    let positive = rows.iter().filter(|row| row.radius > 0.0);
    let radii: BTreeMap<(u64, u32), f64> = positive
        .map(|row| ((row.idx, row.label), row.radius))
        .collect();
    let mut refuted: BTreeMap<u64, (String, f64)> = BTreeMap::new();
    for log in attacks_on(bounds, logs) {
        for row in attack_rows(log) {
            let within = radii.get(&(row.idx, row.label));
            if !(attacked(row) && row.success && within.is_some_and(|radius| row.l2 < *radius)) {
                continue;
            }
            let found = (log.manifest.procedure.to_uppercase(), row.l2);
            let nearest = refuted.entry(row.idx).or_insert_with(|| found.clone());
            if found.1 < nearest.1 {
                *nearest = found;
            }
        }
    }
    refuted
}
