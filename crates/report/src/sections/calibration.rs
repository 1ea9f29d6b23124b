//! What one pass may promise, beside what samples prove.

use record::{CalibrationRow, Guarantee, LogKind};
use serde_json::Value;

use super::certified::{grid, radii, radius_columns, step};
use super::{Context, Group, Item, Section};
use crate::figure::{Axis, COLOURS, Curve, Figure, Mark, Panel, Panels, Series, Symbol};
use crate::load::{LoadedLog, LoadedRows};
use crate::statistics::CertifiedCurve;
use crate::table::{Best, Cell, Column, Format, Table};

/// Points of a curve: enough for the eye, few enough for a page.
const POINTS: usize = 200;
/// Dots of a plot.
const DOTS: usize = 2000;

/// One-pass radii, one section for all groups.
pub fn section(context: &mut Context<'_>) -> Option<Section> {
    let mut items = Vec::new();
    for group in context.groups(LogKind::Calibrate, true) {
        let lines: Vec<Line<'_>> = group
            .logs
            .iter()
            .enumerate()
            .flat_map(|(at, log)| lines(log, &group.names[at], group.logs.len() > 1))
            .collect();
        items.push(Item::Figure(curves(context, &group, &lines)));
        items.push(Item::Table(accuracies(context, &group, &lines)));
        items.push(Item::Table(promises(&group)));
        items.push(Item::Panels(scatter(&group)));
    }
    (!items.is_empty()).then(|| Section {
        id: "one-pass".into(),
        title: "One-pass radii".into(),
        intro: "One pass of v gives a radius, σ·Φ⁻¹(p) of its largest probability p, which would \
                be Cohen's if v were exactly the average of f. Calibration compares it with the \
                certified radii of g, the smoothed f, on images that training did not see, and \
                shrinks it until a promised share of such inputs keeps within what g has. It is a \
                promise about the population, not about each input."
            .into(),
        items,
    })
}

fn rows(log: &LoadedLog) -> &[CalibrationRow] {
    match &log.rows {
        LoadedRows::Calibrate(rows) => rows,
        _ => &[],
    }
}

/// Shrink and cap, once the log is finished.
fn calibration(log: &LoadedLog) -> Option<(f64, f64)> {
    let found = log.manifest.configuration.get("calibration")?;
    let number = |name: &str| found.get(name).and_then(Value::as_f64);
    Some((number("shrink")?, number("cap")?))
}

/// The calibrated radius; 0: no promise.
fn promised((shrink, cap): (f64, f64), row: &CalibrationRow) -> f64 {
    (row.one_pass - shrink).min(cap).max(0.0)
}

/// One of the radii of a log, over its images.
struct Line<'a> {
    log: &'a LoadedLog,
    name: String,
    curve: CertifiedCurve,
    /// Whether the axis must hold it whole.
    decides_axis: bool,
}

/// g's certificate, one pass as it is, and one pass calibrated.
fn lines<'a>(log: &'a LoadedLog, name: &str, several: bool) -> Vec<Line<'a>> {
    let line =
        |what: &str, decides_axis, radius: &dyn Fn(&CalibrationRow) -> Option<(f64, bool)>| Line {
            log,
            name: if several {
                format!("{name}: {what}")
            } else {
                what.to_owned()
            },
            curve: CertifiedCurve::new(rows(log).iter().map(radius)),
            decides_axis,
        };
    let right = |row: &CalibrationRow| row.predict == row.label;
    let above = |radius: f64, right: bool| (radius > 0.0).then_some((radius, right));
    let mut all = vec![
        line("g, sampled", true, &|row| {
            row.g_predict
                .map(|class| (row.g_radius, class == row.label))
        }),
        line("one pass", false, &|row| above(row.one_pass, right(row))),
    ];
    if let Some(found) = calibration(log) {
        all.push(line("one pass, calibrated", true, &|row| {
            above(promised(found, row), right(row))
        }));
    }
    all
}

/// What each of the three radii guarantees.
fn words(group: &Group<'_>) -> String {
    format!(
        "g, sampled: {}; one pass: {}; one pass, calibrated: {}",
        "sound for the smoothed reference, with probability 1-alpha for each image",
        Guarantee::ApproximateIfAverage,
        group.guarantee()
    )
}

fn share(curve: &CertifiedCurve, radius: f64) -> f64 {
    curve.count(radius) as f64 / curve.images as f64
}

fn curves(context: &Context<'_>, group: &Group<'_>, lines: &[Line<'_>]) -> Figure {
    let decisive = lines.iter().filter(|line| line.decides_axis);
    let decisive: Vec<CertifiedCurve> = decisive.map(|line| line.curve.clone()).collect();
    let (step, largest) = step(&decisive);
    let step = step / 4.0;
    let steps = (largest / step).floor() as usize + 1;
    let parts = POINTS.div_ceil(steps);
    let series = lines.iter().map(|line| Series {
        name: line.name.clone(),
        style: context.styles.of(line.log),
        points: (0..=steps * parts)
            .map(|at| grid(at, parts, step))
            .map(|radius| (radius, 100.0 * share(&line.curve, radius)))
            .collect(),
    });
    Figure {
        id: format!("one-pass-{}", group.slug),
        title: format!(
            "One-pass radii beside sampled certificates: {}",
            group.title
        ),
        caption: "Share of all images that is right with at least the radius: by samples of g, by \
                  one pass of v as it is, and by one pass after calibration."
            .into(),
        guarantee: words(group),
        x: Axis::linear("L2 radius", "", 0.0, grid(steps, 1, step)),
        y: Axis::percent("right, with radius"),
        series: series.collect(),
    }
}

fn accuracies(context: &Context<'_>, group: &Group<'_>, lines: &[Line<'_>]) -> Table {
    let decisive = lines.iter().filter(|line| line.decides_axis);
    let decisive: Vec<CertifiedCurve> = decisive.map(|line| line.curve.clone()).collect();
    let radii = radii(&decisive, context.options);
    let mut columns = vec![Column::text("radius")];
    columns.extend(radius_columns(&radii, Best::None));
    columns.push(Column::new("ACR", Format::Fixed(3), Best::None));
    columns.push(Column::new("images", Format::Fixed(0), Best::None));
    let row = |line: &Line<'_>| {
        let mut row = vec![Cell::Text(line.name.clone())];
        row.extend(radii.iter().map(|&r| Cell::Number(share(&line.curve, r))));
        row.push(Cell::number(Some(line.curve.acr())));
        row.push(Cell::Number(line.curve.images as f64));
        row
    };
    Table {
        id: format!("one-pass-{}", group.slug),
        title: format!("Right with radius (%): {}", group.title),
        caption: "Share of all images that is right with at least the radius: by samples of g, by \
                  one pass of v as it is, and by one pass after calibration. ACR is the mean of \
                  radius*correct over all images."
            .into(),
        guarantee: words(group),
        columns,
        rows: lines.iter().map(row).collect(),
    }
}

/// What was promised, and what it took.
fn promises(group: &Group<'_>) -> Table {
    let row = |(log, name): (&&LoadedLog, &String)| {
        let rows = rows(log);
        let share = |is: &dyn Fn(&CalibrationRow) -> bool| {
            Cell::Number(rows.iter().filter(|row| is(row)).count() as f64 / rows.len() as f64)
        };
        let found = calibration(log);
        let calibrated = |is: &dyn Fn(&CalibrationRow, f64) -> bool| match found {
            Some(found) => share(&|row| is(row, promised(found, row))),
            None => Cell::Missing,
        };
        let (miss, confidence) = match log.manifest.guarantee {
            Guarantee::Calibrated { miss, confidence } => (Some(miss), Some(confidence)),
            _ => (None, None),
        };
        vec![
            Cell::Text(name.clone()),
            Cell::number(miss),
            Cell::number(confidence),
            share(&CalibrationRow::same_class),
            share(&|row| row.misses(row.one_pass)),
            calibrated(&|row, radius| row.misses(radius)),
            calibrated(&|_, radius| radius > 0.0),
            Cell::number(found.map(|(shrink, _)| shrink)),
            Cell::number(found.map(|(_, cap)| cap)),
            Cell::number(log.setting("n")),
            Cell::Number(rows.len() as f64),
        ]
    };
    Table {
        id: format!("calibration-{}", group.slug),
        title: format!("Calibration: {}", group.title),
        caption:
            "Promised miss rate and confidence (%); how often (%) g certifies the class of v; \
                  how often one pass says more than g has, as it is and calibrated, on the \
                  calibration images themselves; how many of them are promised a radius; what is \
                  taken off a radius, and the largest that n samples of g could certify."
                .into(),
        guarantee: group.guarantee(),
        columns: vec![
            Column::text("model"),
            Column::new("miss", Format::Percent, Best::None),
            Column::new("confidence", Format::Percent, Best::None),
            Column::new("same class", Format::Percent, Best::High),
            Column::new("as it is", Format::Percent, Best::Low).under("says too much"),
            Column::new("calibrated", Format::Percent, Best::None).under("says too much"),
            Column::new("promised", Format::Percent, Best::High),
            Column::new("shrink", Format::Fixed(4), Best::Low),
            Column::new("cap", Format::Fixed(4), Best::None),
            Column::new("n", Format::Fixed(0), Best::None),
            Column::new("images", Format::Fixed(0), Best::None),
        ],
        rows: group.logs.iter().zip(&group.names).map(row).collect(),
    }
}

/// The one-pass radius of each image against what g certifies of its class.
fn scatter(group: &Group<'_>) -> Panels {
    let all = || group.logs.iter().flat_map(|log| rows(log));
    let certified = all().map(|row| row.g_radius).fold(0.0, f64::max);
    let said = all().map(|row| row.one_pass).fold(0.0, f64::max);
    let x = Axis::from_zero("certified radius of g", certified.max(1e-3));
    let y = Axis::from_zero("one-pass radius of v", said.clamp(x.high, 2.0 * x.high));
    let panel = |(log, name): (&&LoadedLog, &String)| {
        let line = |name: &str, shift: f64, dash| Curve {
            name: name.into(),
            colour: COLOURS[3],
            width: 1.6,
            dash,
            points: vec![
                (0.0, shift.min(y.high)),
                (
                    x.high.min(y.high - shift).max(0.0),
                    (x.high + shift).min(y.high),
                ),
            ],
        };
        let mut curves = vec![line("equal", 0.0, &[])];
        if let Some((shrink, _)) = calibration(log) {
            curves.push(line("equal after calibration", shrink, &[6.0, 4.0]));
        }
        let mark = |row: &CalibrationRow| {
            let same = row.same_class();
            Mark {
                name: if same {
                    "same class"
                } else {
                    "g has no certificate for the class"
                }
                .into(),
                symbol: Symbol::Dot,
                colour: if same { COLOURS[0] } else { COLOURS[2] },
                at: (
                    if same { row.g_radius } else { 0.0 },
                    row.one_pass.min(y.high),
                ),
            }
        };
        let each = rows(log).len().div_ceil(DOTS).max(1);
        Panel {
            title: name.clone(),
            curves,
            marks: rows(log).iter().step_by(each).map(mark).collect(),
            spans: Vec::new(),
        }
    };
    Panels {
        id: format!("one-pass-scatter-{}", group.slug),
        title: format!("One pass against samples: {}", group.title),
        caption: format!(
            "The one-pass radius of each image (of at most {DOTS}, evenly spaced; larger ones on \
             the upper edge) against the certified radius of g for the class of v, 0 where g has \
             none. Above the solid line one pass says more than g has; above the dashed one also \
             after calibration."
        ),
        guarantee: words(group),
        panels: group.logs.iter().zip(&group.names).map(panel).collect(),
        x,
        y,
    }
}
