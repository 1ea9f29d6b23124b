//! Figures as SVG: attributes for a file of its own, classes for the page.

use std::fmt::Write;

use serde::Serialize;

use super::labels::{LABEL_SPACING, label_places, shorten, text_width};
use super::scale::tick_text;
use super::{Axis, Figure, Series};
use crate::page::escape;

/// Okabe and Ito's colours, safe for colour-blind eyes, without those too light
/// for white paper. Dashes tell the lines apart without any colour.
pub const COLOURS: [&str; 7] = [
    "#0072b2", "#009e73", "#d55e00", "#5f6368", "#cc79a7", "#b27a00", "#2f8fc7",
];
const DASHES: [&str; 7] = ["", "9 4", "3 3", "12 4 3 4", "6 3", "1.5 4", "16 5"];
pub(super) const INK: &str = "#1f2328";
const FAINT: &str = "#d0d7de";

fn colour(style: usize) -> &'static str {
    COLOURS[style % COLOURS.len()]
}

/// The attribute of a dashed line. A second line of one model has its colour
/// and the next dashes.
fn dash(style: usize) -> String {
    match DASHES[(style + style / COLOURS.len()) % DASHES.len()] {
        "" => String::new(),
        dash => format!(" stroke-dasharray=\"{dash}\""),
    }
}

/// Where things stand in a drawing, in pixels.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Frame {
    /// Width of the drawing.
    pub width: f64,
    /// Height of the drawing.
    pub height: f64,
    /// Left edge of the plot.
    pub left: f64,
    /// Top edge of the plot.
    pub top: f64,
    /// Right edge of the plot.
    pub right: f64,
    /// Bottom edge of the plot.
    pub bottom: f64,
}

pub(super) const FONT_SIZE: f64 = 13.0;

impl Figure {
    /// The frame that its lines and labels need.
    pub(crate) fn frame(&self, with_title: bool) -> Frame {
        let longest = self
            .series
            .iter()
            .map(|series| text_width(&series.name, FONT_SIZE))
            .fold(0.0, f64::max);
        let top = if with_title { 44.0 } else { 14.0 };
        let plot = (LABEL_SPACING * self.series.len() as f64).max(300.0);
        let (left, right) = (64.0, 560.0);
        let width = right + 44.0 + longest.min(330.0);
        Frame {
            width,
            height: top + plot + 54.0,
            left,
            top,
            right,
            bottom: top + plot,
        }
    }

    /// The drawing as a file of its own.
    pub fn to_svg(&self) -> String {
        self.draw(true)
    }

    /// The drawing for the page, which has the title beside it.
    pub(crate) fn to_inline_svg(&self) -> String {
        self.draw(false)
    }

    fn draw(&self, alone: bool) -> String {
        let frame = self.frame(alone);
        let (width, height) = (frame.width, frame.height);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             role=\"img\" aria-labelledby=\"svg-{0}\" \
             font-family=\"Roboto, 'Helvetica Neue', Arial, sans-serif\" \
             font-size=\"{FONT_SIZE}\" fill=\"{INK}\"",
            self.id
        );
        if alone {
            let _ = write!(out, " width=\"{width:.0}\" height=\"{height:.0}\"");
        }
        let _ = write!(
            out,
            ">\n<title id=\"svg-{}\">{}</title>\n",
            self.id,
            escape(&self.title)
        );
        if alone {
            let _ = writeln!(
                out,
                "<desc>{} Guarantee: {}.</desc>\n\
                 <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
                 <text class=\"title\" x=\"{}\" y=\"26\" font-size=\"16\">{}</text>",
                escape(&self.caption),
                escape(&self.guarantee),
                frame.left,
                escape(&self.title)
            );
        }
        axes(&mut out, &frame, &self.x, &self.y, true);
        let labels = label_places(&frame, &self.y, &self.series);
        for (at, (series, label)) in self.series.iter().zip(labels).enumerate() {
            let twins = self.series[..at].iter();
            let twins = twins.filter(|s| s.style == series.style).count();
            let dash = dash(series.style + twins);
            line(
                &mut out,
                &frame,
                (&self.x, &self.y),
                series,
                &dash,
                at,
                label,
            );
        }
        out.push_str("</svg>\n");
        out
    }
}

/// Both axes; without `y_text` only the grid of the vertical one, as right of a
/// plot that shares it.
pub(super) fn axes(out: &mut String, frame: &Frame, x: &Axis, y: &Axis, y_text: bool) {
    let Frame {
        left,
        top,
        right,
        bottom,
        ..
    } = *frame;
    let _ = writeln!(out, "<g class=\"axis y\">");
    for tick in y.ticks() {
        let place = bottom - y.place(tick) * (bottom - top);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{place:.1}\" y2=\"{place:.1}\" \
             stroke=\"{FAINT}\"/>"
        );
        if y_text {
            let _ = write!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 8.0,
                place + 4.5,
                tick_text(tick)
            );
        }
        out.push('\n');
    }
    if y_text {
        let _ = writeln!(
            out,
            "<text class=\"label\" transform=\"rotate(-90)\" x=\"{:.1}\" y=\"16\" \
             text-anchor=\"middle\">{}</text>",
            -(top + bottom) / 2.0,
            escape(&with_unit(y))
        );
    }
    let _ = writeln!(
        out,
        "</g>\n<g class=\"axis x\">\n\
         <line class=\"base\" x1=\"{left}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\" \
         stroke=\"{INK}\"/>"
    );
    for tick in x.ticks() {
        let place = left + x.place(tick) * (right - left);
        let _ = writeln!(
            out,
            "<line class=\"tick\" x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"{bottom}\" y2=\"{:.1}\" \
             stroke=\"{INK}\"/><text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 5.0,
            bottom + 20.0,
            tick_text(tick)
        );
    }
    let _ = writeln!(
        out,
        "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n</g>",
        (left + right) / 2.0,
        bottom + 42.0,
        escape(&with_unit(x))
    );
}

fn with_unit(axis: &Axis) -> String {
    if axis.unit.is_empty() {
        axis.label.clone()
    } else {
        format!("{} ({})", axis.label, axis.unit)
    }
}

/// One line with its label: a sample of the line and its name.
fn line(
    out: &mut String,
    frame: &Frame,
    (x, y): (&Axis, &Axis),
    series: &Series,
    dash: &str,
    at: usize,
    label: f64,
) {
    let Frame {
        left,
        top,
        right,
        bottom,
        ..
    } = *frame;
    let stroke = colour(series.style);
    let mut path = String::new();
    for (index, &(px, py)) in series.points.iter().enumerate() {
        let place = (
            left + x.place(px) * (right - left),
            bottom - y.place(py) * (bottom - top),
        );
        let command = if index == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", place.0, place.1);
    }
    let _ = write!(
        out,
        "<g class=\"series s{}\" data-series=\"{at}\">\n\
         <path d=\"{path}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"2.2\" \
         stroke-linejoin=\"round\"{dash}/>\n",
        series.style % COLOURS.len()
    );
    if let [(px, py)] = series.points[..] {
        // A line of one point would be invisible.
        let (cx, cy) = (
            left + x.place(px) * (right - left),
            bottom - y.place(py) * (bottom - top),
        );
        let _ = writeln!(
            out,
            "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"4\" fill=\"{stroke}\"/>"
        );
    }
    let _ = writeln!(
        out,
        "<path d=\"M{:.1} {label:.1}H{:.1}\" stroke=\"{stroke}\" stroke-width=\"2.2\"{dash}/>\
         <text x=\"{:.1}\" y=\"{:.1}\">{}</text>\n</g>",
        right + 8.0,
        right + 32.0,
        right + 38.0,
        label + 4.5,
        escape(&shorten(&series.name))
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WCAG asks 3:1 of graphics; the page's light colours are the same ones.
    #[test]
    fn colours_stand_out_on_white_and_in_the_page() {
        let style = include_str!("../page/report.css");
        for (at, colour) in COLOURS.iter().enumerate() {
            let channel = |from: usize| {
                let value = u8::from_str_radix(&colour[from..from + 2], 16).unwrap();
                let value = f64::from(value) / 255.0;
                if value <= 0.03928 {
                    value / 12.92
                } else {
                    ((value + 0.055) / 1.055).powf(2.4)
                }
            };
            let light = 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
            assert!(1.05 / (light + 0.05) >= 3.0, "{colour}");
            assert!(
                style.contains(&format!("--s{at}: light-dark({colour}, ")),
                "{colour}"
            );
        }
    }

    /// As of one model certified in two ways.
    #[test]
    fn two_lines_of_one_style_have_different_dashes() {
        let series = |name: &str| Series {
            name: name.into(),
            style: 0,
            points: vec![(0.0, 1.0), (1.0, 0.0)],
        };
        let figure = Figure {
            id: "twins".into(),
            title: String::new(),
            caption: String::new(),
            guarantee: String::new(),
            x: Axis::linear("x", "", 0.0, 1.0),
            y: Axis::linear("y", "", 0.0, 1.0),
            series: vec![series("a"), series("b")],
        };
        let drawn = figure.draw(true);
        let lines: Vec<&str> = drawn
            .split("stroke-linejoin=\"round\"")
            .skip(1)
            .filter_map(|rest| rest.split("/>").next())
            .collect();
        assert_eq!(lines.len(), 2);
        assert_ne!(lines[0], lines[1]);
    }
}
