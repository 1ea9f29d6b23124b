//! Line charts as drawings.

use serde::Serialize;

use super::drawing::{
    Anchor, Colour, Drawing, DrawnShape, FONT_SIZE, INK, Outline, Part, Stroke, Text,
};
use super::labels::{LABEL_SPACING, label_places, shorten, text_width};
use super::scale::tick_text;
use super::{Axis, Figure, Series, png, svg};
use crate::ReportError;

/// Okabe and Ito's colours, safe for colour-blind eyes, without those too light
/// for white paper. Dashes tell the lines apart without any colour.
pub const COLOURS: [Colour; 7] = [
    Colour::hex(0x0072b2),
    Colour::hex(0x009e73),
    Colour::hex(0xd55e00),
    Colour::hex(0x5f6368),
    Colour::hex(0xcc79a7),
    Colour::hex(0xb27a00),
    Colour::hex(0x2f8fc7),
];
const DASHES: [&[f64]; 7] = [
    &[],
    &[9.0, 4.0],
    &[3.0, 3.0],
    &[12.0, 4.0, 3.0, 4.0],
    &[6.0, 3.0],
    &[1.5, 4.0],
    &[16.0, 5.0],
];
const FAINT: Colour = Colour::hex(0xd0d7de);
/// Width of a line of data.
const LINE_WIDTH: f64 = 2.2;

/// The stroke of a line. A second line of one model has its colour and the next
/// dashes.
fn stroke(style: usize, twins: usize) -> Stroke {
    let dash = style + twins;
    Stroke {
        colour: COLOURS[style % COLOURS.len()],
        width: LINE_WIDTH,
        dash: DASHES[(dash + dash / COLOURS.len()) % DASHES.len()],
    }
}

impl Figure {
    /// The dashes and gaps of a line, in pixels; none: solid.
    pub(crate) fn dashes(&self, at: usize) -> &'static [f64] {
        let style = self.series[at].style;
        let twins = self.series[..at]
            .iter()
            .filter(|s| s.style == style)
            .count();
        stroke(style, twins).dash
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

impl Frame {
    /// Where a point of the data is drawn.
    pub fn place(&self, (x, y): (&Axis, &Axis), point: (f64, f64)) -> (f64, f64) {
        (
            self.left + x.place(point.0) * (self.right - self.left),
            self.bottom - y.place(point.1) * (self.bottom - self.top),
        )
    }
}

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
        let description = super::description(&self.caption, &self.guarantee);
        svg::write(&self.draw(true), &self.id, &self.title, Some(&description))
    }

    /// The drawing for the page, which has the title beside it.
    pub(crate) fn to_inline_svg(&self) -> String {
        svg::write(&self.draw(false), &self.id, &self.title, None)
    }

    /// The drawing as PNG.
    ///
    /// # Errors
    /// A drawing that cannot be rendered.
    pub fn to_png(&self) -> Result<Vec<u8>, ReportError> {
        png::write(&self.draw(true), &self.id)
    }

    fn draw(&self, with_title: bool) -> Drawing {
        let frame = self.frame(with_title);
        let mut parts = Vec::new();
        if with_title {
            parts.push(title(frame.left, &self.title));
        }
        parts.extend(axes(&frame, &self.x, &self.y, true));
        let labels = label_places(&frame, &self.y, &self.series);
        for (at, (series, label)) in self.series.iter().zip(labels).enumerate() {
            let twins = self.series[..at].iter();
            let twins = twins.filter(|s| s.style == series.style).count();
            parts.push(Part::Group {
                class: format!("series s{}", series.style % COLOURS.len()),
                series: Some(at),
                parts: self.line(&frame, series, stroke(series.style, twins), label),
            });
        }
        Drawing {
            width: frame.width,
            height: frame.height,
            parts,
        }
    }

    /// One line with its label: a sample of the line and its name.
    fn line(&self, frame: &Frame, series: &Series, stroke: Stroke, label: f64) -> Vec<Part> {
        let points = series.points.iter();
        let points: Vec<_> = points
            .map(|&point| frame.place((&self.x, &self.y), point))
            .collect();
        let mut parts = Vec::new();
        if let [point] = points[..] {
            // A line of one point would be invisible.
            let disc = Outline::Circle(point, 4.0);
            parts.push(DrawnShape::plain(disc, Some(stroke.colour), None));
        }
        parts.push(DrawnShape::line("", points, stroke));
        let right = frame.right;
        let sample = vec![(right + 8.0, label), (right + 32.0, label)];
        parts.push(DrawnShape::line("", sample, stroke));
        let name = shorten(&series.name);
        parts.push(Text::new((right + 38.0, label + 4.5), Anchor::Start, name).into());
        parts
    }
}

/// The title above a drawing.
pub fn title(left: f64, title: &str) -> Part {
    Part::Text(Text {
        class: "title",
        size: 16.0,
        ..Text::new((left, 26.0), Anchor::Start, title)
    })
}

/// Both axes; without `y_text` only the grid of the vertical one, as right of a
/// plot that shares it.
pub fn axes(frame: &Frame, x: &Axis, y: &Axis, y_text: bool) -> [Part; 2] {
    let Frame {
        left,
        top,
        right,
        bottom,
        ..
    } = *frame;
    let label = |axis: &Axis, at, upwards| {
        Part::Text(Text {
            class: "label",
            upwards,
            ..Text::new(at, Anchor::Middle, with_unit(axis))
        })
    };
    let group = |class: &str, parts| Part::Group {
        class: class.into(),
        series: None,
        parts,
    };
    let mut vertical = Vec::new();
    for tick in y.ticks() {
        let place = bottom - y.place(tick) * (bottom - top);
        let across = vec![(left, place), (right, place)];
        vertical.push(DrawnShape::line("grid", across, Stroke::solid(FAINT, 1.0)));
        if y_text {
            let at = (left - 8.0, place + 4.5);
            vertical.push(Text::new(at, Anchor::End, tick_text(tick)).into());
        }
    }
    if y_text {
        vertical.push(label(y, (16.0, (top + bottom) / 2.0), true));
    }
    let ink = Stroke::solid(INK, 1.0);
    let base = vec![(left, bottom), (right, bottom)];
    let mut horizontal = vec![DrawnShape::line("base", base, ink)];
    for tick in x.ticks() {
        let place = left + x.place(tick) * (right - left);
        let down = vec![(place, bottom), (place, bottom + 5.0)];
        horizontal.push(DrawnShape::line("tick", down, ink));
        let at = (place, bottom + 20.0);
        horizontal.push(Text::new(at, Anchor::Middle, tick_text(tick)).into());
    }
    horizontal.push(label(x, ((left + right) / 2.0, bottom + 42.0), false));
    [group("axis y", vertical), group("axis x", horizontal)]
}

fn with_unit(axis: &Axis) -> String {
    if axis.unit.is_empty() {
        axis.label.clone()
    } else {
        format!("{} ({})", axis.label, axis.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WCAG asks 3:1 of graphics; the page's light colours are the same ones.
    #[test]
    fn colours_stand_out_on_white_and_in_the_page() {
        let style = include_str!("../page/report.css");
        for (at, colour) in COLOURS.iter().enumerate() {
            let channel = |value: u8| {
                let value = f64::from(value) / 255.0;
                if value <= 0.03928 {
                    value / 12.92
                } else {
                    ((value + 0.055) / 1.055).powf(2.4)
                }
            };
            let light = 0.2126 * channel(colour.red)
                + 0.7152 * channel(colour.green)
                + 0.0722 * channel(colour.blue);
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
        for style in 0..20 {
            let (first, second) = (stroke(style, 0), stroke(style, 1));
            assert_eq!(first.colour, second.colour);
            assert_ne!(first.dash, second.dash);
        }
    }
}
