//! Adversarial distances: the paper's table (L-bound, PGD, DDN) and attack curves.

use std::collections::BTreeSet;

use record::{AttackRow, LogKind};

use super::{Context, Group, Item, Section, attack_table, distances, guarantees, slug};
use crate::figure::{Axis, Figure, Series};
use crate::load::{LoadedLog, LoadedRows};
use crate::names;

const POINTS: usize = 200;

/// Adversarial distances, one section for all groups.
pub fn section(context: &mut Context<'_>) -> Option<Section> {
    let mut items = Vec::new();
    let mut keys: BTreeSet<(String, u64)> = BTreeSet::new();
    for log in context.logs {
        if matches!(log.manifest.kind, LogKind::Attack | LogKind::Lbound) {
            keys.insert((log.data(), log.top_k()));
        }
    }
    for (data, top_k) in keys {
        let title = if top_k == 1 {
            data.clone()
        } else {
            format!("{data}, top-{top_k}")
        };
        let logs: Vec<&LoadedLog> = context
            .logs
            .iter()
            .filter(|log| log.data() == data && log.top_k() == top_k)
            .filter(|log| matches!(log.manifest.kind, LogKind::Attack | LogKind::Lbound))
            .collect();
        let differences = distances::table(context, &title, logs.clone());
        items.push(Item::Table(attack_table::table(context, &title, logs)));
        items.extend(differences.map(Item::Table));
    }
    for group in context.groups(LogKind::Attack, false) {
        let procedures: BTreeSet<&str> = group
            .logs
            .iter()
            .map(|log| log.manifest.procedure.as_str())
            .collect();
        // PGD before DDN, as the paper has it.
        for procedure in procedures.into_iter().rev() {
            items.push(Item::Figure(figure(context, &group, procedure)));
        }
    }
    (!items.is_empty()).then(|| Section {
        id: "attacks".into(),
        title: "Adversarial distance".into(),
        intro:
            "L2 distances of pixels scaled to [0,1]; larger is more robust. An attack that finds \
                nothing proves nothing: these figures are observations, certificates are not."
                .into(),
        items,
    })
}

/// The rows of an attack log, without images whose label was the target.
pub fn attack_rows(log: &LoadedLog) -> Vec<&AttackRow> {
    let LoadedRows::Attack(rows) = &log.rows else {
        return Vec::new();
    };
    let left_out = |row: &&AttackRow| row.target == Some(row.label);
    rows.iter().filter(|row| !left_out(row)).collect()
}

/// Whether there was something to attack: the model gets the clean image right,
/// or, in a targeted attack, does not see the target in it.
pub fn attacked(row: &AttackRow) -> bool {
    match row.target {
        Some(_) => !(row.success && row.l2 == 0.0),
        None => row.clean_right(),
    }
}

/// What an attack log says in all.
pub struct Outcome {
    /// All images.
    pub images: usize,
    /// Wrong, or at the target, without any attack.
    pub wrong: usize,
    /// Distances of the successful attacks on the others, ascending.
    pub distances: Vec<f64>,
}

/// Counts an attack log.
pub fn outcome(log: &LoadedLog) -> Outcome {
    let rows = attack_rows(log);
    let tried: Vec<&AttackRow> = rows.iter().copied().filter(|row| attacked(row)).collect();
    let mut distances: Vec<f64> = tried
        .iter()
        .filter(|row| row.success)
        .map(|row| row.l2)
        .collect();
    distances.sort_unstable_by(f64::total_cmp);
    Outcome {
        images: rows.len(),
        wrong: rows.len() - tried.len(),
        distances,
    }
}

fn figure(context: &Context<'_>, group: &Group<'_>, procedure: &str) -> Figure {
    let mut logs: Vec<&LoadedLog> = group.logs.clone();
    logs.retain(|log| log.manifest.procedure == procedure);
    let outcomes: Vec<Outcome> = logs.iter().map(|log| outcome(log)).collect();
    let farthest = outcomes
        .iter()
        .filter_map(|found| found.distances.last())
        .copied()
        .fold(0.0, f64::max);
    let x = Axis::from_zero("L2 distance", farthest);
    let high = x.high;
    let series = logs
        .iter()
        .zip(names::names(&context.options.methods, &logs))
        .zip(&outcomes)
        .map(|((log, name), found)| {
            let point = |at: usize| {
                let distance = high * at as f64 / POINTS as f64;
                let broken = found.wrong + found.distances.partition_point(|&d| d <= distance);
                (distance, 100.0 * broken as f64 / found.images as f64)
            };
            Series {
                name,
                style: context.styles.of(log),
                points: (0..=POINTS).map(point).collect(),
            }
        });
    let attack = procedure.to_uppercase();
    Figure {
        id: format!("attack-{}-{}", slug(procedure), group.slug),
        title: format!("{attack}: share of images broken: {}", group.title),
        caption: "Share of all images that are wrong, or made wrong by the attack, within the \
                  distance; at distance 0: wrong without any attack. Lower is more robust."
            .into(),
        guarantee: guarantees(&logs),
        x,
        y: Axis::percent("images broken"),
        series: series.collect(),
    }
}
