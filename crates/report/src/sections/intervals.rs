//! Intervals of real values: certified, and reached by attacks.

use record::{Guarantee, IntervalRow, LogKind, OutputInterval};
use serde_json::Value;

use super::{Context, Group, Item, Section};
use crate::figure::{Axis, COLOURS, Curve, Mark, Panel, Panels, Symbol, nice_step};
use crate::load::{LoadedLog, LoadedRows};
use crate::statistics::mean;
use crate::table::{Best, Cell, Column, Format, Table};

/// Images of a plot: enough for the eye, few enough for a page.
const IMAGES: usize = 400;

/// Intervals, one section for all groups.
pub fn section(context: &mut Context<'_>) -> Option<Section> {
    let mut items = Vec::new();
    for group in context.groups(LogKind::Interval, false) {
        items.push(Item::Table(table(&group)));
        let outputs = group.logs.iter().map(|log| outputs(log)).max();
        for output in 0..outputs.unwrap_or(0) {
            items.push(Item::Panels(plot(&group, output)));
        }
    }
    (!items.is_empty()).then(|| Section {
        id: "intervals".into(),
        title: "Intervals of real values".into(),
        intro:
            "A certified interval holds the smoothed output, the median (or the mean) of v(x+η) \
                over the noise, at every perturbed image within ε; it says nothing about v(x) \
                itself. What an attack reached is what v(x) itself was seen to become: it proves \
                nothing beyond."
                .into(),
        items,
    })
}

fn rows(log: &LoadedLog) -> &[IntervalRow] {
    match &log.rows {
        LoadedRows::Interval(rows) => rows,
        _ => &[],
    }
}

fn outputs(log: &LoadedLog) -> usize {
    rows(log)
        .iter()
        .map(|row| row.outputs.len())
        .max()
        .unwrap_or(0)
}

/// What an output is called.
fn output_name(log: &LoadedLog, output: usize) -> String {
    let names = log.manifest.configuration.get("outputs");
    let name = names
        .and_then(|names| names.get(output))
        .and_then(Value::as_str);
    name.map_or_else(|| output.to_string(), str::to_owned)
}

/// What the intervals of a log are.
fn what(log: &LoadedLog) -> String {
    match (log.manifest.guarantee, log.manifest.procedure.as_str()) {
        (Guarantee::Empirical, attack) => format!("reached by {}", attack.to_uppercase()),
        (_, smoothed) => format!("certified {smoothed}"),
    }
}

fn of(log: &LoadedLog, output: usize) -> impl Iterator<Item = &OutputInterval> {
    rows(log)
        .iter()
        .filter_map(move |row| row.outputs.get(output))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 1 => Some(values[middle]),
        _ => Some(0.5 * (values[middle - 1] + values[middle])),
    }
}

fn table(group: &Group<'_>) -> Table {
    let line = |log: &LoadedLog, name: &str, output: usize| {
        let widths: Vec<f64> = of(log, output).map(OutputInterval::width).collect();
        let known: Vec<f64> = of(log, output)
            .filter(|own| own.target.is_finite())
            .map(|own| f64::from(u8::from((own.lower..=own.upper).contains(&own.target))))
            .collect();
        vec![
            Cell::Text(name.to_owned()),
            Cell::Text(what(log)),
            Cell::Text(output_name(log, output)),
            Cell::number(log.setting("eps")),
            Cell::number(log.manifest.sigma),
            Cell::number(mean(&widths)),
            Cell::number(median(widths)),
            Cell::number(mean(&known)),
            Cell::number(log.setting("n")),
            Cell::Number(log.len() as f64),
        ]
    };
    let logs = group.logs.iter().zip(&group.names);
    let rows =
        logs.flat_map(|(log, name)| (0..outputs(log)).map(move |output| line(log, name, output)));
    Table {
        id: format!("intervals-{}", group.slug),
        title: format!("Intervals for perturbations up to ε: {}", group.title),
        caption: "Width of the interval of each output, mean and median over the images; how \
                  often (%) the data set's own value lies in it; noisy copies an image."
            .into(),
        guarantee: group.guarantee(),
        columns: vec![
            Column::text("model"),
            Column::text("interval"),
            Column::text("output"),
            Column::new("ε", Format::Plain, Best::None),
            Column::new("σ", Format::Plain, Best::None),
            Column::new("mean", Format::Short, Best::None).under("width"),
            Column::new("median", Format::Short, Best::None).under("width"),
            Column::new("target inside", Format::Percent, Best::None),
            Column::new("n", Format::Fixed(0), Best::None),
            Column::new("images", Format::Fixed(0), Best::None),
        ],
        rows: rows.collect(),
    }
}

/// The intervals of one output, the images in the order of what they are around.
fn plot(group: &Group<'_>, output: usize) -> Panels {
    let (mut low, mut high, mut most) = (f64::INFINITY, f64::NEG_INFINITY, 1);
    let mut name = output.to_string();
    let mut panels = Vec::new();
    for (log, model) in group.logs.iter().zip(&group.names) {
        let each = rows(log).len().div_ceil(IMAGES).max(1);
        let mut own: Vec<&OutputInterval> = of(log, output).step_by(each).collect();
        if own.is_empty() {
            continue;
        }
        let centre = |own: &OutputInterval| match own.centre.is_nan() {
            true => own.value,
            false => own.centre,
        };
        own.sort_by(|a, b| centre(a).total_cmp(&centre(b)));
        name = output_name(log, output);
        most = most.max(own.len());
        for value in own
            .iter()
            .flat_map(|own| [own.lower, own.upper, own.target])
        {
            if value.is_finite() {
                (low, high) = (low.min(value), high.max(value));
            }
        }
        let certified = log.manifest.guarantee != Guarantee::Empirical;
        let curve = |name: &str, colour, dash, value: &dyn Fn(&OutputInterval) -> f64| Curve {
            name: name.into(),
            colour: COLOURS[colour],
            width: 1.6,
            dash,
            points: own
                .iter()
                .enumerate()
                .map(|(at, own)| (at as f64 + 1.0, value(own)))
                .collect(),
        };
        let end = if certified { "certified" } else { "reached" };
        let around = if certified { "smoothed output" } else { "v(x)" };
        let marks = own
            .iter()
            .enumerate()
            .filter(|(_, own)| own.target.is_finite());
        panels.push(Panel {
            title: format!("{model}: {}", what(log)),
            curves: vec![
                curve(&format!("lowest {end}"), 0, &[], &|own| own.lower),
                curve(&format!("highest {end}"), 2, &[], &|own| own.upper),
                curve(around, 3, &[6.0, 4.0], &centre),
            ],
            marks: marks
                .map(|(at, own)| Mark {
                    name: "target".into(),
                    symbol: Symbol::Dot,
                    colour: COLOURS[1],
                    at: (at as f64 + 1.0, own.target),
                })
                .collect(),
            spans: Vec::new(),
        });
    }
    let step = nice_step(((high - low) / 6.0).max(1e-9));
    let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
    Panels {
        id: format!("intervals-{output}-{}", group.slug),
        title: format!("Intervals of {name}: {}", group.title),
        caption: format!(
            "Both ends of the interval of each image (of at most {IMAGES}, evenly spaced), the \
             images in the order of what the interval is around; dots: the data set's own values."
        ),
        guarantee: group.guarantee(),
        x: Axis::linear("image", "", 1.0, most as f64),
        y: Axis::linear(name, "", low, high),
        panels,
    }
}
