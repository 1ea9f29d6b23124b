//! CLEVER scores, beside what attacks found.

use std::collections::BTreeMap;

use record::{AttackRow, CleverRow, LogKind};
use serde_json::Value;

use super::attacks::{attack_rows, attacked};
use super::refuted::attacks_on;
use super::{Context, Item, Section, guarantees, slug};
use crate::load::{LoadedLog, LoadedRows};
use crate::names;
use crate::statistics::{mean, median};
use crate::table::{Best, Cell, Column, Format, Table};

/// So many of the images whose score an attack undercuts are listed.
const LISTED: usize = 50;

/// For each data set, norm and kind of target a table of the scores, and the images
/// on which an attack shows the score to be too large.
pub fn section(context: &mut Context<'_>) -> Option<Section> {
    let mut groups: BTreeMap<(String, String, String), Vec<&LoadedLog>> = BTreeMap::new();
    for log in context.logs {
        if log.manifest.kind == LogKind::Clever {
            let key = (log.data(), log.manifest.procedure.clone(), norm(log));
            groups.entry(key).or_default().push(log);
        }
    }
    let mut items = Vec::new();
    for ((data, procedure, norm), mut logs) in groups {
        let methods = &context.options.methods;
        names::sort(methods, &mut logs);
        let names = names::names(methods, &logs);
        let targeted = match procedure.ends_with("targeted") {
            true => ", targeted",
            false => "",
        };
        let title = format!("{data}, {norm}{targeted}");
        let found: Vec<Scores<'_>> = logs
            .iter()
            .map(|log| Scores::of(log, context.logs))
            .collect();
        items.push(Item::Table(table(&title, &logs, &names, &found)));
        items.extend(marked(&title, &logs, &names, &found).map(Item::Table));
    }
    (!items.is_empty()).then(|| Section {
        id: "clever".into(),
        title: "CLEVER scores".into(),
        intro: "An estimate, not a bound (Weng et al. 2018): the margin between two classes \
                divided by the largest slope that a reverse Weibull distribution, fitted to \
                gradients at random points around the image, leaves room for. Where an attack \
                changes the class within the score, the score is too large, and marked (†). \
                Where none does, nothing is proven."
            .into(),
        items,
    })
}

/// `L2` or `Linf`.
fn norm(log: &LoadedLog) -> String {
    let name = log
        .manifest
        .configuration
        .get("norm")
        .and_then(Value::as_str);
    match name {
        Some("linf") => "Linf".into(),
        _ => "L2".into(),
    }
}

/// The scores of images that the model gets right, and the nearest that an attack
/// came to them.
struct Scores<'a> {
    rows: Vec<(&'a CleverRow, Option<(String, f64)>)>,
}

impl<'a> Scores<'a> {
    fn of(log: &'a LoadedLog, logs: &[LoadedLog]) -> Self {
        let LoadedRows::Clever(rows) = &log.rows else {
            return Self { rows: Vec::new() };
        };
        let targeted = log.manifest.procedure.ends_with("targeted");
        let linf = norm(log) == "Linf";
        let mut nearest: BTreeMap<(u64, u32, Option<u32>), (String, f64)> = BTreeMap::new();
        for attack in attacks_on(log, logs) {
            let broken =
                |row: &&AttackRow| attacked(row) && row.success && row.target.is_some() == targeted;
            for row in attack_rows(attack).into_iter().filter(broken) {
                let distance = if linf { row.linf } else { row.l2 };
                let found = (attack.manifest.procedure.to_uppercase(), distance);
                let key = (row.idx, row.label, row.target);
                let best = nearest.entry(key).or_insert_with(|| found.clone());
                if found.1 < best.1 {
                    *best = found;
                }
            }
        }
        let right = rows.iter().filter(|row| row.correct);
        let rows = right.map(|row| {
            let key = (row.idx, row.label, targeted.then_some(row.target));
            (row, nearest.get(&key).cloned())
        });
        Self {
            rows: rows.collect(),
        }
    }

    /// Images that an attack changes within their score.
    fn exceeded(&self) -> impl Iterator<Item = (&CleverRow, &str, f64)> {
        self.rows.iter().filter_map(|(row, nearest)| {
            let (attack, distance) = nearest.as_ref()?;
            (*distance < row.score).then_some((*row, attack.as_str(), *distance))
        })
    }
}

fn table(title: &str, logs: &[&LoadedLog], names: &[String], found: &[Scores<'_>]) -> Table {
    let row = |(name, scores): (&String, &Scores<'_>)| {
        let mut all: Vec<f64> = scores.rows.iter().map(|(row, _)| row.score).collect();
        all.sort_unstable_by(f64::total_cmp);
        let nearest = scores
            .rows
            .iter()
            .filter_map(|(_, nearest)| nearest.as_ref());
        let mut nearest: Vec<f64> = nearest.map(|(_, distance)| *distance).collect();
        nearest.sort_unstable_by(f64::total_cmp);
        let exceeded = scores.exceeded().count();
        let score = |value: Option<f64>| match Cell::number(value) {
            Cell::Number(value) if exceeded > 0 => Cell::Refuted(value),
            cell => cell,
        };
        let share = (!nearest.is_empty()).then(|| exceeded as f64 / nearest.len() as f64);
        vec![
            Cell::Text(name.clone()),
            score(median(&all)),
            score(mean(&all)),
            Cell::Number(all.len() as f64),
            Cell::number(median(&nearest)),
            Cell::Number(nearest.len() as f64),
            Cell::number(share),
        ]
    };
    Table {
        id: format!("clever-{}", slug(title)),
        title: format!("CLEVER scores, an estimate: {title}"),
        caption: "Scores of the images that the model gets right, and the smallest distance at \
                  which an attack of this report changes their class, in the same norm. Undercut: \
                  the share (%) of the images broken whose attack is nearer than their score; \
                  then scores (†) are no lower bounds. Never ranked: a score is no guarantee."
            .into(),
        guarantee: guarantees(logs),
        columns: vec![
            Column::text("model"),
            Column::new("median", Format::Fixed(4), Best::None).under("CLEVER (estimate)"),
            Column::new("mean", Format::Fixed(4), Best::None).under("CLEVER (estimate)"),
            Column::new("images", Format::Fixed(0), Best::None).under("CLEVER (estimate)"),
            Column::new("median", Format::Fixed(4), Best::None).under("nearest attack"),
            Column::new("broken", Format::Fixed(0), Best::None).under("nearest attack"),
            Column::new("undercut", Format::Percent, Best::None).under("nearest attack"),
        ],
        rows: names.iter().zip(found).map(row).collect(),
    }
}

/// The images whose score an attack undercuts, those first whose score is most too
/// large.
fn marked(
    title: &str,
    logs: &[&LoadedLog],
    names: &[String],
    found: &[Scores<'_>],
) -> Option<Table> {
    let all = names.iter().zip(found).flat_map(|(name, scores)| {
        let rows = scores.exceeded();
        rows.map(move |(row, attack, distance)| (name, row, attack, distance))
    });
    let mut all: Vec<_> = all.collect();
    let ratio = |row: &CleverRow, distance: f64| row.score / distance;
    all.sort_by(|a, b| ratio(b.1, b.3).total_cmp(&ratio(a.1, a.3)));
    let count = all.len();
    all.truncate(LISTED);
    let rows = all.into_iter().map(|(name, row, attack, distance)| {
        vec![
            Cell::Text(name.clone()),
            Cell::Number(row.idx as f64),
            Cell::Refuted(row.score),
            Cell::Number(distance),
            Cell::Text(attack.to_owned()),
        ]
    });
    (count > 0).then(|| Table {
        id: format!("clever-undercut-{}", slug(title)),
        title: format!("Images on which an attack is nearer than the CLEVER score: {title}"),
        caption: format!(
            "{count} images, at most {LISTED} of them listed, those first whose score is the \
             largest multiple of the distance at which the attack changes their class."
        ),
        guarantee: guarantees(logs),
        columns: vec![
            Column::text("model"),
            Column::new("image", Format::Fixed(0), Best::None),
            Column::new("score", Format::Fixed(4), Best::None),
            Column::new("attack distance", Format::Fixed(4), Best::None),
            Column::text("attack"),
        ],
        rows: rows.collect(),
    })
}
