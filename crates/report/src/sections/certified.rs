//! Certified accuracy: tables, curves, other certificates from the same counts.

use std::collections::BTreeSet;

use record::{CertifyRow, Guarantee, LogKind, Norm};

use super::{Context, Group, Item, Section, certificates, compare, envelope, probabilities};
use crate::ReportWarning;
use crate::figure::{Axis, Figure, Series, nice_step};
use crate::load::{LoadedLog, LoadedRows};
use crate::names::averages;
use crate::options::{Denominator, Options};
use crate::statistics::{CertifiedCurve, high_probability_accuracy};
use crate::table::{Best, Cell, Column, Format, Table};

/// Points of a curve: enough for the eye, few enough for a page.
const POINTS: usize = 200;

/// The rows of a certification log.
pub fn rows(log: &LoadedLog) -> &[CertifyRow] {
    match &log.rows {
        LoadedRows::Certify(rows) => rows,
        _ => &[],
    }
}

/// Certified accuracy, one section for all groups.
pub fn section(context: &mut Context<'_>) -> Option<Section> {
    let mut items = Vec::new();
    let (mut noises, mut norms) = (BTreeSet::new(), BTreeSet::new());
    // A log that decides one radius has no curve: `samples` tells about it.
    let wanted =
        |log: &LoadedLog| log.manifest.kind == LogKind::Certify && log.asked_radius().is_none();
    let mut groups = context.groups_of(true, wanted);
    read_in_l1(&mut groups);
    for group in groups {
        let curves: Vec<CertifiedCurve> = group.logs.iter().map(|log| curve(log)).collect();
        let radii = radii(&curves, context.options);
        items.push(Item::Figure(figure(context, &group, &curves)));
        items.push(Item::Table(accuracy_table(
            context, &group, &curves, &radii,
        )));
        items.push(Item::Table(high_probability_table(
            context.options,
            &group,
            &curves,
            &radii,
        )));
        items.extend(probabilities::figure(&group, &context.styles).map(Item::Figure));
        items.extend(probabilities::table(&group, &curves).map(Item::Table));
        if let Some(table) = compare::table(&group, &radii) {
            items.push(Item::Table(table));
        }
        items.extend(certificates::figure(&group).map(Item::Figure));
        noises.extend(group.logs.iter().map(|log| log.smoothing().noise.formula()));
        norms.insert(group.norm.to_string());
        warn(&group, &mut context.warnings);
    }
    items.extend(envelope::items(context, wanted));
    (!items.is_empty()).then(|| Section {
        id: "certified".into(),
        title: "Certified accuracy".into(),
        intro: format!(
            "A certificate speaks about the smoothed classifier g(x), the most probable class of \
             v(x+η) with {}, not about argmax v(x). Radii are {} distances of pixels scaled to \
             [0,1].",
            listed(noises),
            listed(norms),
        ),
        items,
    })
}

/// Beside L1 certificates stand the L2 certificates of the same data and sigma: the L1
/// norm of a perturbation is never below its L2 norm, so they are L1 certificates of
/// the same radius.
fn read_in_l1(groups: &mut [Group<'_>]) {
    let same = |a: &Group<'_>, b: &Group<'_>| {
        let key = |group: &Group<'_>| {
            let log = group.logs[0];
            (log.data(), log.manifest.sigma, log.top_k())
        };
        key(a) == key(b)
    };
    for at in 0..groups.len() {
        if groups[at].norm != Norm::L1 {
            continue;
        }
        let others = groups.iter().filter(|other| other.norm == Norm::L2);
        let others = others.filter(|other| same(&groups[at], other));
        let read: Vec<(&LoadedLog, String)> = others
            .flat_map(|other| other.logs.iter().copied().zip(&other.names))
            .map(|(log, name)| (log, format!("{name}, L2 read as L1")))
            .collect();
        let (logs, names): (Vec<&LoadedLog>, Vec<String>) = read.into_iter().unzip();
        groups[at].logs.extend(logs);
        groups[at].names.extend(names);
    }
}

/// What a table says about them.
const READ_AS_L1: &str = "L2 certificates are read as L1 with the same radius, since the L1 norm \
                          of a perturbation is never below its L2 norm. ";

impl Group<'_> {
    /// Whether L2 certificates stand among those of another norm.
    fn reads_l2(&self) -> bool {
        let mut norms = self.logs.iter().map(|log| log.smoothing().norm);
        norms.any(|norm| norm != self.norm)
    }
}

/// Whether noises must be told apart.
fn has_other_noise(group: &Group<'_>) -> bool {
    let mut noises = group.logs.iter().map(|log| log.smoothing().noise.word());
    noises.any(|word| word != "Gaussian")
}

/// `a`, `a or b`, ...
fn listed<T: AsRef<str>>(words: BTreeSet<T>) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    words.join(" or ")
}

pub fn curve(log: &LoadedLog) -> CertifiedCurve {
    CertifiedCurve::new(
        rows(log)
            .iter()
            .map(|row| row.predict.map(|_| (row.radius, row.correct))),
    )
}

pub fn accuracy(curve: &CertifiedCurve, radius: f64, denominator: Denominator) -> Option<f64> {
    let of = match denominator {
        Denominator::All => curve.images,
        Denominator::NonAbstained => curve.images - curve.abstained,
    };
    (of > 0).then(|| curve.count(radius) as f64 / of as f64)
}

/// The step between radii, and the largest radius certified.
pub fn step(curves: &[CertifiedCurve]) -> (f64, f64) {
    let largest = curves
        .iter()
        .map(CertifiedCurve::largest)
        .fold(0.0, f64::max);
    (nice_step(largest / 6.0), largest)
}

/// The radii of a table.
pub fn radii(curves: &[CertifiedCurve], options: &Options) -> Vec<f64> {
    if !options.radii.is_empty() {
        return options.radii.clone();
    }
    let (step, largest) = step(curves);
    (0..=(largest / step).floor() as usize)
        .map(|at| grid(at, 1, step))
        .collect()
}

/// `at * step / parts`, as the decimal number people would write: a published
/// radius of 0.3 must count as >= 0.3.
pub fn grid(at: usize, parts: usize, step: f64) -> f64 {
    let value = at as f64 * step / parts as f64;
    if value < 1e6 {
        (value * 1e9).round() / 1e9
    } else {
        value
    }
}

fn figure(context: &Context<'_>, group: &Group<'_>, curves: &[CertifiedCurve]) -> Figure {
    // A quarter of the table's step ends the axis closely above the largest
    // radius, and every radius of the table stays a point of the curve.
    let (step, largest) = step(curves);
    let step = step / 4.0;
    let steps = (largest / step).floor() as usize + 1;
    let parts = POINTS.div_ceil(steps);
    let denominator = context.options.denominator;
    let series = group
        .logs
        .iter()
        .zip(&group.names)
        .zip(curves)
        .map(|((log, name), curve)| {
            let point = |at| {
                let radius = grid(at, parts, step);
                Some((radius, 100.0 * accuracy(curve, radius, denominator)?))
            };
            let points = (0..=steps * parts).filter_map(point).collect();
            Series {
                name: name.clone(),
                style: context.styles.of(log),
                points,
            }
        });
    Figure {
        id: format!("certified-{}", group.slug),
        title: format!("Certified accuracy against radius: {}", group.title),
        caption: format!(
            "Share of {} that is right, not abstained on, and certified at least \
                          to the radius.",
            of_what(denominator)
        ),
        guarantee: group.guarantee(),
        x: Axis::linear(
            format!("{} radius", group.norm),
            "",
            0.0,
            grid(steps, 1, step),
        ),
        y: Axis::percent("certified accuracy"),
        series: series.collect(),
    }
}

pub fn of_what(denominator: Denominator) -> &'static str {
    match denominator {
        Denominator::All => "all images",
        Denominator::NonAbstained => "the images not abstained on (the paper's convention)",
    }
}

/// A column for each radius.
pub fn radius_columns(radii: &[f64], best: Best) -> impl Iterator<Item = Column> {
    radii.iter().map(move |radius| {
        Column::new(format!("{radius}"), Format::Percent, best).under("radius ≥")
    })
}

fn accuracy_table(
    context: &Context<'_>,
    group: &Group<'_>,
    curves: &[CertifiedCurve],
    radii: &[f64],
) -> Table {
    let denominator = context.options.denominator;
    let mut columns = vec![Column::text("model")];
    let noises = has_other_noise(group);
    columns.extend(noises.then(|| Column::text("noise")));
    let comparable = comparable(group);
    let rank = |best| if comparable { best } else { Best::None };
    columns.extend(radius_columns(radii, rank(Best::High)));
    columns.extend([
        Column::new("ACR", Format::Fixed(3), rank(Best::High)),
        Column::new("abstained", Format::Percent, rank(Best::Low)),
        Column::new("clean", Format::Percent, Best::High),
        Column::text("n"),
        Column::new("images", Format::Fixed(0), Best::None),
    ]);
    let row = |at: usize| {
        let curve = &curves[at];
        let mut row = vec![Cell::Text(group.names[at].clone())];
        let noise = group.logs[at].smoothing().noise;
        row.extend(noises.then(|| Cell::Text(noise.to_string())));
        row.extend(
            radii
                .iter()
                .map(|&r| Cell::number(accuracy(curve, r, denominator))),
        );
        row.push(Cell::number(Some(curve.acr())));
        row.push(Cell::number(Some(
            curve.abstained as f64 / curve.images as f64,
        )));
        row.push(Cell::number(clean_accuracy(context, group.logs[at])));
        row.push(samples_allowed(group.logs[at]).map_or(Cell::Missing, Cell::Text));
        row.push(Cell::Number(curve.images as f64));
        row
    };
    Table {
        id: format!("certified-{}", group.slug),
        title: format!("Certified accuracy (%): {}", group.title),
        caption: format!(
            "Share of {} that is right, not abstained on, and certified at least to the radius. \
             ACR is the mean of radius*correct over all images; clean is the accuracy of the model \
             as it is used (one pass for a deterministic one, its noise average for a stochastic \
             one, from an L-bound or attack log); n is the number of noise samples an image gets. \
             {}{}",
            of_what(denominator),
            if group.reads_l2() { READ_AS_L1 } else { "" },
            ranked(comparable)
        ),
        guarantee: group.guarantee(),
        columns,
        rows: (0..curves.len()).map(row).collect(),
    }
}

/// How many noise samples an image gets: `1000`, or `≤ 10000` where it may stop early.
fn samples_allowed(log: &LoadedLog) -> Option<String> {
    let n = log.setting("n")?;
    Some(match log.manifest.procedure.as_str() {
        "anytime" | "pilot" => format!("≤ {n}"),
        _ => n.to_string(),
    })
}

/// Whether all logs had the same number of samples: with more of them radii grow,
/// whatever the model.
fn comparable(group: &Group<'_>) -> bool {
    let known = group.logs.iter().filter_map(|log| samples_allowed(log));
    let known: std::collections::BTreeSet<String> = known.collect();
    known.len() <= 1
}

fn ranked(comparable: bool) -> &'static str {
    match comparable {
        true => "Best in bold.",
        false => "Runs of different n are not ranked: radii grow with n, whatever the model.",
    }
}

/// Clean accuracy of the same model on the same data: from the log itself, whose
/// clean pass is how a deterministic model classifies, or from an L-bound or attack
/// log beside it.
fn clean_accuracy(context: &Context<'_>, log: &LoadedLog) -> Option<f64> {
    let share = |right: usize, of: usize| (of > 0).then(|| right as f64 / of as f64);
    let averages = averages(&context.options.methods, &log.manifest.method);
    let rows = rows(log);
    if !averages && rows.iter().any(|row| row.clean_correct.is_some()) {
        let right = rows.iter().filter(|row| row.clean_correct == Some(true));
        return share(right.count(), rows.len());
    }
    let same = |other: &&LoadedLog| {
        other.manifest.model.key() == log.manifest.model.key()
            && other.data() == log.data()
            && other.top_k() == log.top_k()
            && (!averages || other.setting("samples").is_none_or(|samples| samples > 1.0))
    };
    let all = context.logs;
    let lbound = all.iter().filter(same).find_map(|other| match &other.rows {
        LoadedRows::Lbound(rows) => {
            share(rows.iter().filter(|row| row.correct).count(), rows.len())
        }
        _ => None,
    });
    lbound.or_else(|| {
        all.iter().filter(same).find_map(|other| match &other.rows {
            LoadedRows::Attack(rows) => share(
                rows.iter().filter(|row| row.clean_right()).count(),
                rows.len(),
            ),
            _ => None,
        })
    })
}

fn high_probability_table(
    options: &Options,
    group: &Group<'_>,
    curves: &[CertifiedCurve],
    radii: &[f64],
) -> Table {
    let row = |at: usize| {
        let curve = &curves[at];
        let mut row = vec![Cell::Text(group.names[at].clone())];
        row.extend(radii.iter().map(|&radius| {
            let Guarantee::SoundSmoothed { alpha, .. } = group.logs[at].manifest.guarantee else {
                return Cell::Missing;
            };
            let accuracy = curve.count(radius) as f64 / curve.images as f64;
            Cell::Number(high_probability_accuracy(
                accuracy,
                alpha,
                options.rho,
                curve.images,
            ))
        }));
        row
    };
    let best = match comparable(group) {
        true => Best::High,
        false => Best::None,
    };
    let columns = [Column::text("model")]
        .into_iter()
        .chain(radius_columns(radii, best));
    Table {
        id: format!("high-probability-{}", group.slug),
        title: format!("High-probability certified accuracy (%): {}", group.title),
        caption: format!(
            "Cohen's lower bound on the certified accuracy over these images, right with \
             probability 1-ρ for ρ = {} although each certificate may fail with probability α: \
             acc - α - sqrt(α(1-α)ln(1/ρ)/N) - ln(1/ρ)/(3N), all images in the denominator.",
            options.rho
        ),
        guarantee: group.guarantee(),
        columns: columns.collect(),
        rows: (0..curves.len()).map(row).collect(),
    }
}

fn warn(group: &Group<'_>, warnings: &mut Vec<ReportWarning>) {
    let images = |log: &LoadedLog| {
        let mut images: Vec<u64> = rows(log).iter().map(|row| row.idx).collect();
        images.sort_unstable();
        images
    };
    if let Some((first, rest)) = group.logs.split_first()
        && !rest.is_empty()
    {
        let first = images(first);
        if rest.iter().any(|log| images(log) != first) {
            warnings.push(ReportWarning::ImagesDiffer {
                group: group.title.clone(),
            });
        }
    }
    let mut hashes = group
        .logs
        .iter()
        .map(|log| &log.manifest.data.sha256)
        .filter(|h| !h.is_empty());
    if let Some(first) = hashes.next()
        && hashes.any(|hash| hash != first)
    {
        warnings.push(ReportWarning::DataDiffers {
            data: group.logs[0].data(),
        });
    }
}
