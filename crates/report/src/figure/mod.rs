//! Figures: line charts as data, and plots with points, side by side, in
//! [`panels`]. Both become one [`drawing`], which is written as SVG and as PNG.

mod chart;
mod drawing;
mod labels;
mod panels;
mod png;
mod scale;
mod svg;

use serde::Serialize;

pub use chart::COLOURS;
pub use drawing::Colour;
pub use panels::{Curve, Mark, Panel, Panels, Span, Symbol};
pub use scale::nice_step;

use crate::table;

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// What is on it.
    pub label: String,
    /// Unit shown after values, for example `%`.
    pub unit: &'static str,
    /// Lowest value.
    pub low: f64,
    /// Highest value.
    pub high: f64,
    /// Logarithmic.
    pub log: bool,
}

impl Axis {
    /// A linear axis; an empty range is widened.
    pub fn linear(label: impl Into<String>, unit: &'static str, low: f64, high: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self {
            label: label.into(),
            unit,
            low,
            high,
            log: false,
        }
    }

    /// From 0 to the next round number above `most`.
    pub fn from_zero(label: impl Into<String>, most: f64) -> Self {
        let step = nice_step(most / 20.0);
        Self::linear(label, "", 0.0, scale::clean((most / step).ceil() * step))
    }

    /// 0 to 100 %.
    pub fn percent(label: impl Into<String>) -> Self {
        Self::linear(label, "%", 0.0, 100.0)
    }

    /// A logarithmic axis over positive values.
    pub fn logarithmic(label: impl Into<String>, low: f64, high: f64) -> Self {
        let low = if low > 0.0 { low } else { 1.0 };
        let high = if high > low { high } else { 10.0 * low };
        Self {
            label: label.into(),
            unit: "",
            low,
            high,
            log: true,
        }
    }
}

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its colour and dashes, the same for a model in every figure.
    pub style: usize,
    /// (x, y), x ascending, all finite.
    pub points: Vec<(f64, f64)>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Name of its files and its anchor in the page.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What is drawn, in a sentence or two.
    pub caption: String,
    /// What it guarantees, in words.
    pub guarantee: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
}

/// What a drawing's file tells those who cannot see it.
fn description(caption: &str, guarantee: &str) -> String {
    format!("{caption} Guarantee: {guarantee}.")
}

impl Figure {
    /// The data drawn, as CSV: series, x, y.
    pub fn to_csv(&self) -> String {
        let head = |axis: &Axis| match axis.unit {
            "" => table::quote(&axis.label),
            unit => table::quote(&format!("{} ({unit})", axis.label)),
        };
        let mut out = format!("series,{},{}\n", head(&self.x), head(&self.y));
        for series in &self.series {
            let name = table::quote(&series.name);
            for &(x, y) in &series.points {
                let (x, y) = (record::format_number(x), record::format_number(y));
                out.push_str(&format!("{name},{x},{y}\n"));
            }
        }
        out
    }
}
