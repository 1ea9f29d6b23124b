//! The paper's table of adversarial distances: L-bound, PGD, DDN.

use std::collections::{BTreeMap, BTreeSet};

use record::LogKind;

use super::attacks::{Outcome, attack_rows, attacked, outcome};
use super::refuted::{attacks_on, averages_something, refuted_bounds};
use super::{Context, slug};
use crate::ReportWarning;
use crate::load::{LoadedLog, LoadedRows};
use crate::names;
use crate::options::AttackConvention;
use crate::statistics::{mean, median};
use crate::table::{Best, Cell, Column, Format, Table};

/// The distances that the paper's tables average: see [`AttackConvention::Paper`].
fn paper_distances(log: &LoadedLog) -> Vec<f64> {
    let pgd = log.manifest.procedure.starts_with("pgd");
    let mut out: Vec<f64> = attack_rows(log)
        .iter()
        .map(|row| {
            if !attacked(row) {
                0.0
            } else if row.success {
                row.l2
            } else if pgd {
                let tried = Some(row.last_l2).filter(|tried| tried.is_finite());
                tried.or_else(|| log.setting("eps")).unwrap_or(4.0)
            } else {
                0.0
            }
        })
        .collect();
    out.sort_unstable_by(f64::total_cmp);
    out
}

/// One line of the table: a model with at most one log of each column.
#[derive(Default)]
struct Line<'a> {
    lbound: Option<&'a LoadedLog>,
    attacks: BTreeMap<&'a str, &'a LoadedLog>,
}

/// One row for each model, its L-bound and attack logs side by side.
pub fn table(context: &mut Context<'_>, title: &str, mut logs: Vec<&LoadedLog>) -> Table {
    let methods = &context.options.methods;
    names::sort(methods, &mut logs);
    let mut lines: Vec<(&str, Line<'_>)> = Vec::new();
    for log in &logs {
        let (model, procedure) = (log.manifest.model.key(), log.manifest.procedure.as_str());
        let free = |line: &Line<'_>| match log.manifest.kind {
            LogKind::Lbound => line.lbound.is_none(),
            _ => !line.attacks.contains_key(procedure),
        };
        let at = lines
            .iter()
            .position(|(found, line)| *found == model && free(line));
        let at = at.unwrap_or_else(|| {
            lines.push((model, Line::default()));
            lines.len() - 1
        });
        match log.manifest.kind {
            LogKind::Lbound => lines[at].1.lbound = Some(log),
            _ => _ = lines[at].1.attacks.insert(procedure, log),
        }
    }
    let lead: Vec<&LoadedLog> = lines
        .iter()
        .filter_map(|(_, line)| line.attacks.values().next().copied().or(line.lbound))
        .collect();
    let procedures: BTreeSet<&str> = lines
        .iter()
        .flat_map(|(_, line)| line.attacks.keys().copied())
        .collect();
    // PGD before DDN, as the paper has it.
    let procedures: Vec<&str> = procedures.into_iter().rev().collect();
    let has_lbound = lines.iter().any(|(_, line)| line.lbound.is_some());
    let has_probit = lines
        .iter()
        .any(|(_, line)| !probits(line.lbound).is_empty());
    let rows: Vec<Vec<Cell>> = names::names(methods, &lead)
        .into_iter()
        .zip(&lines)
        .map(|(name, (_, line))| {
            let mut row = vec![Cell::Text(name.clone())];
            if has_lbound {
                row.extend(lbound_cells(context, line));
            }
            if has_probit {
                row.extend(probit_cells(line.lbound));
            }
            for procedure in &procedures {
                row.extend(attack_cells(
                    context,
                    &name,
                    line.attacks.get(procedure).copied(),
                ));
            }
            let wrong = line.attacks.values().next().map(|log| outcome(log));
            row.push(Cell::number(
                wrong.map(|found| found.wrong as f64 / found.images as f64),
            ));
            row
        })
        .collect();
    Table {
        id: format!("adversarial-{}", slug(title)),
        title: format!("Adversarial distance: {title}"),
        caption: caption(context.options.attacks, has_lbound, has_probit, &procedures),
        guarantee: guarantee_by_kind(&logs),
        columns: columns(has_lbound, has_probit, &procedures),
        rows,
    }
}

/// `L-bound: approximate ...; DDN, PGD: empirical`.
fn guarantee_by_kind(logs: &[&LoadedLog]) -> String {
    let mut kinds: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for log in logs {
        let kind = match log.manifest.kind {
            LogKind::Lbound => "L-bound".to_owned(),
            _ => log.manifest.procedure.to_uppercase(),
        };
        kinds
            .entry(log.manifest.guarantee.to_string())
            .or_default()
            .insert(kind);
    }
    let texts = kinds.into_iter().map(|(words, kinds)| {
        let kinds: Vec<String> = kinds.into_iter().collect();
        format!("{}: {words}", kinds.join(", "))
    });
    texts.collect::<Vec<_>>().join("; ")
}

fn columns(has_lbound: bool, has_probit: bool, procedures: &[&str]) -> Vec<Column> {
    let distance = |head: &str| Column::new(head, Format::Fixed(4), Best::High);
    let mut columns = vec![Column::text("model")];
    if has_lbound {
        columns.extend(["median", "mean"].map(|head| distance(head).under("L-bound, entries > 0")));
        let refuted = Column::new("refuted", Format::Percent, Best::None);
        columns.push(refuted.under("L-bound, entries > 0"));
        columns.extend(["median", "mean"].map(|head| distance(head).under("L-bound, all images")));
    }
    if has_probit {
        columns.extend(["median", "mean"].map(|head| distance(head).under("probit, all images")));
    }
    for procedure in procedures {
        let group = procedure.to_uppercase();
        columns.extend(["median", "mean"].map(|head| distance(head).under(&group)));
        columns.push(Column::new("success", Format::Percent, Best::Low).under(&group));
    }
    columns.push(Column::new("wrong anyway", Format::Percent, Best::Low));
    columns
}

fn caption(
    convention: AttackConvention,
    has_lbound: bool,
    has_probit: bool,
    procedures: &[&str],
) -> String {
    let mut caption = match convention {
        AttackConvention::Successes => {
            "Attacks: median and mean L2 distance over successful attacks on images that the model \
             gets right; success is their share (%)."
        }
        AttackConvention::Paper => {
            "Attacks by the paper's convention: median and mean L2 distance over all images, 0 where \
             the model is wrong anyway, a failed PGD at the distance it tried, a failed DDN at 0; \
             success is the share (%) of right images broken."
        }
    }
    .to_owned();
    caption += " Images wrong without any attack (%) are counted apart.";
    if procedures.iter().any(|name| name.ends_with("-targeted")) {
        caption += " A targeted attack succeeds where its target is predicted; images of the \
                    target's class are left out, and those seen as the target without any attack \
                    are the ones counted apart.";
    }
    if has_lbound {
        caption += " L-bound: once over its positive entries, as in the paper, once over all images \
                    with 0 where another class is ahead; its guarantee is approximate. Refuted: \
                    the share (%) of positive entries within which one of these attacks changes \
                    the class; then the model is no Gaussian average there, and its L-bounds (†) \
                    promise nothing. Neither these nor those of models that were never smoothed \
                    are ranked.";
    }
    if has_probit {
        caption += " Probit: the sharper bound from the same probabilities, \
                    σ/2·(Φ⁻¹(p_y) - Φ⁻¹(max p_i)), under the same condition.";
    }
    caption
}

fn lbound_cells(context: &Context<'_>, line: &Line<'_>) -> [Cell; 5] {
    let Some((log, LoadedRows::Lbound(rows))) = line.lbound.map(|log| (log, &log.rows)) else {
        return [const { Cell::Missing }; 5];
    };
    let refuted = refuted_bounds(log, context.logs).len();
    let ranked = averages_something(&log.manifest.method);
    let mut all: Vec<f64> = rows.iter().map(|row| row.radius.max(0.0)).collect();
    all.sort_unstable_by(f64::total_cmp);
    let positive = &all[all.partition_point(|&radius| radius <= 0.0)..];
    let [a, b, c, d] = [median(positive), mean(positive), median(&all), mean(&all)].map(|value| {
        match (Cell::number(value), ranked) {
            (Cell::Number(value), _) if refuted > 0 => Cell::Refuted(value),
            (Cell::Number(value), false) => Cell::Unranked(value),
            (cell, _) => cell,
        }
    });
    let share = (!positive.is_empty()).then(|| refuted as f64 / positive.len() as f64);
    let attacked = attacks_on(log, context.logs).next().is_some();
    [a, b, Cell::number(share.filter(|_| attacked)), c, d]
}

/// The probit bounds of a log in ascending order, 0 where another class is ahead;
/// none where a row has none.
fn probits(log: Option<&LoadedLog>) -> Vec<f64> {
    let Some(LoadedRows::Lbound(rows)) = log.map(|log| &log.rows) else {
        return Vec::new();
    };
    if rows.iter().any(|row| row.probit.is_nan()) {
        return Vec::new();
    }
    let mut all: Vec<f64> = rows.iter().map(|row| row.probit.max(0.0)).collect();
    all.sort_unstable_by(f64::total_cmp);
    all
}

fn probit_cells(log: Option<&LoadedLog>) -> [Cell; 2] {
    let all = probits(log);
    [median(&all), mean(&all)].map(Cell::number)
}

fn attack_cells(context: &mut Context<'_>, name: &str, log: Option<&LoadedLog>) -> [Cell; 3] {
    let Some(log) = log else {
        return [const { Cell::Missing }; 3];
    };
    let Outcome {
        images,
        wrong,
        distances,
    } = outcome(log);
    let attacked = images - wrong;
    let success = (attacked > 0).then(|| distances.len() as f64 / attacked as f64);
    warn_floor(context, name, log, &distances);
    let (middle, average) = match context.options.attacks {
        AttackConvention::Successes => (median(&distances), mean(&distances)),
        AttackConvention::Paper => {
            let all = paper_distances(log);
            (median(&all), mean(&all))
        }
    };
    [middle, average, success].map(Cell::number)
}

/// DDN shrinks its ball by a fixed factor a step, so few steps cannot reach
/// small distances: many results then share the smallest one.
fn warn_floor(context: &mut Context<'_>, name: &str, log: &LoadedLog, distances: &[f64]) {
    let Some(&floor) = distances.first() else {
        return;
    };
    let count = distances.partition_point(|&distance| distance <= 1.02 * floor);
    if log.manifest.procedure.starts_with("ddn")
        && distances.len() >= 20
        && 10 * count > distances.len()
    {
        context.warnings.push(ReportWarning::AttackFloor {
            model: name.into(),
            attack: "DDN".into(),
            count,
            of: distances.len(),
            distance: floor,
        });
    }
}
