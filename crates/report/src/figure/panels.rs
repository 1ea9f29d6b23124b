//! Plots side by side: curves, points and measured distances over shared axes,
//! with one legend below.

use std::f64::consts::PI;

use super::chart::{Frame, axes, title};
use super::drawing::{
    Anchor, Colour, Drawing, DrawnShape, FONT_SIZE, INK, Outline, PAPER, Part, Point, Stroke, Text,
};
use super::labels::text_width;
use super::{Axis, description, png, svg};
use crate::{ReportError, table};

/// A curve of a [`Panel`].
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Its entry in the legend; empty: none.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// Width of the stroke, in pixels.
    pub width: f64,
    /// Lengths of dashes and gaps in turn, in pixels; empty: solid.
    pub dash: &'static [f64],
    /// (x, y), all finite.
    pub points: Vec<(f64, f64)>,
}

/// How a point is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbol {
    /// A five-pointed star.
    Star,
    /// A disc.
    Circle,
    /// A small disc, for many points.
    Dot,
    /// A ring, to put around another symbol.
    Ring,
    /// A hollow diamond.
    Diamond,
}

/// A point of a [`Panel`].
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Its entry in the legend; empty: none.
    pub name: String,
    /// Its shape.
    pub symbol: Symbol,
    /// Its colour.
    pub colour: Colour,
    /// (x, y).
    pub at: (f64, f64),
}

/// A distance along x, drawn as a line between two bars with its text above.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// From where to where.
    pub x: (f64, f64),
    /// At which height.
    pub y: f64,
    /// What is written above it.
    pub text: String,
}

/// One of the plots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// Above the plot.
    pub title: String,
    /// Curves, the first one lowest.
    pub curves: Vec<Curve>,
    /// Points, above the curves.
    pub marks: Vec<Mark>,
    /// Distances, above all.
    pub spans: Vec<Span>,
}

/// Plots side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Panels {
    /// Name of its files.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What is drawn, in a sentence or two.
    pub caption: String,
    /// What it guarantees, in words.
    pub guarantee: String,
    /// Horizontal axis of every plot.
    pub x: Axis,
    /// Vertical axis, shared.
    pub y: Axis,
    /// The plots, left to right.
    pub panels: Vec<Panel>,
}

const LEFT: f64 = 64.0;
const TOP: f64 = 76.0;
const BETWEEN: f64 = 22.0;
const PLOT_HEIGHT: f64 = 280.0;
/// Height of a line of the legend.
const LINE: f64 = 24.0;

impl Panels {
    /// Width of one plot: a single one may be wide.
    fn plot_width(&self) -> f64 {
        if self.panels.len() > 1 { 310.0 } else { 640.0 }
    }

    /// The drawing as PNG.
    ///
    /// # Errors
    /// A drawing that cannot be rendered.
    pub fn to_png(&self) -> Result<Vec<u8>, ReportError> {
        png::write(&self.drawing(true), &self.id)
    }

    /// The drawing for the page, which has the title beside it.
    pub(crate) fn to_inline_svg(&self) -> String {
        svg::write(&self.drawing(false), &self.id, &self.title, None)
    }

    /// The data drawn, as CSV: plot, what, x, y.
    pub fn to_csv(&self) -> String {
        let (x, y) = (table::quote(&self.x.label), table::quote(&self.y.label));
        let mut out = format!("plot,series,{x},{y}\n");
        for panel in &self.panels {
            let mut line = |name: &str, (x, y): (f64, f64)| {
                let (plot, name) = (table::quote(&panel.title), table::quote(name));
                let (x, y) = (record::format_number(x), record::format_number(y));
                out.push_str(&format!("{plot},{name},{x},{y}\n"));
            };
            for curve in &panel.curves {
                curve.points.iter().for_each(|&at| line(&curve.name, at));
            }
            panel
                .marks
                .iter()
                .for_each(|mark| line(&mark.name, mark.at));
        }
        out
    }

    /// The drawing as SVG.
    pub fn to_svg(&self) -> String {
        let description = description(&self.caption, &self.guarantee);
        svg::write(
            &self.drawing(true),
            &self.id,
            &self.title,
            Some(&description),
        )
    }

    fn drawing(&self, with_title: bool) -> Drawing {
        let count = self.panels.len() as f64;
        let width = LEFT + count * (self.plot_width() + BETWEEN);
        let bottom = TOP + PLOT_HEIGHT;
        let (legend, lines) = self.legend(width, bottom + 72.0);
        let height = bottom + 72.0 + lines as f64 * LINE;
        let mut parts = Vec::new();
        if with_title {
            parts.push(title(LEFT, &self.title));
        }
        for (at, panel) in self.panels.iter().enumerate() {
            let left = LEFT + at as f64 * (self.plot_width() + BETWEEN);
            let frame = Frame {
                width,
                height,
                left,
                top: TOP,
                right: left + self.plot_width(),
                bottom,
            };
            parts.extend(axes(&frame, &self.x, &self.y, at == 0));
            self.panel(&mut parts, &frame, panel);
        }
        parts.extend(legend);
        Drawing {
            width,
            height,
            parts,
        }
    }

    fn panel(&self, parts: &mut Vec<Part>, frame: &Frame, panel: &Panel) {
        let place = |point| frame.place((&self.x, &self.y), point);
        let middle = (frame.left + frame.right) / 2.0;
        parts.push(Part::Text(Text {
            size: 14.0,
            ..Text::new((middle, frame.top - 14.0), Anchor::Middle, &*panel.title)
        }));
        for curve in &panel.curves {
            let points = curve.points.iter().copied().map(place).collect();
            parts.push(DrawnShape::line("", points, stroke(curve)));
        }
        for mark in &panel.marks {
            parts.push(symbol(mark, place(mark.at)));
        }
        for span in &panel.spans {
            let (from, to) = (place((span.x.0, span.y)), place((span.x.1, span.y)));
            parts.extend(dimension(from, to, &span.text));
        }
    }

    /// The legend, in as many lines as its entries need.
    fn legend(&self, width: f64, top: f64) -> (Vec<Part>, usize) {
        let mut parts = Vec::new();
        let mut named: Vec<&str> = vec![""];
        let (mut left, mut line) = (LEFT, 0);
        // What is drawn before a name, given where: its left end and its height.
        let mut entry = |name: &str, sample: &dyn Fn(f64, f64) -> Part| {
            let needed = 36.0 + text_width(name, FONT_SIZE);
            if left > LEFT && left + needed > width {
                (left, line) = (LEFT, line + 1);
            }
            let middle = top + line as f64 * LINE;
            parts.push(sample(left, middle));
            parts.push(Text::new((left + 30.0, middle + 4.5), Anchor::Start, name).into());
            left += needed + 6.0;
        };
        for curve in self.panels.iter().flat_map(|panel| &panel.curves) {
            if !named.contains(&curve.name.as_str()) {
                named.push(&curve.name);
                entry(&curve.name, &|left, middle| {
                    let points = vec![(left, middle), (left + 24.0, middle)];
                    DrawnShape::line("", points, stroke(curve))
                });
            }
        }
        for mark in self.panels.iter().flat_map(|panel| &panel.marks) {
            if !named.contains(&mark.name.as_str()) {
                named.push(&mark.name);
                entry(&mark.name, &|left, middle| {
                    symbol(mark, (left + 16.0, middle))
                });
            }
        }
        (parts, line + 1)
    }
}

fn stroke(curve: &Curve) -> Stroke {
    Stroke {
        colour: curve.colour,
        width: curve.width,
        dash: curve.dash,
    }
}

fn symbol(mark: &Mark, (x, y): Point) -> Part {
    let colour = mark.colour;
    let (outline, fill, stroke) = match mark.symbol {
        Symbol::Dot => {
            let dot = Outline::Circle((x, y), 2.0);
            return DrawnShape::plain(dot, Some(colour), None);
        }
        Symbol::Circle => (
            Outline::Circle((x, y), 4.2),
            Some(colour),
            Stroke::solid(PAPER, 0.8),
        ),
        Symbol::Ring => (
            Outline::Circle((x, y), 8.0),
            None,
            Stroke::solid(colour, 1.8),
        ),
        Symbol::Star => {
            let corner = |at: u32| {
                let radius = if at.is_multiple_of(2) { 6.4 } else { 2.6 };
                let (sin, cos) = (PI * f64::from(at) / 5.0).sin_cos();
                (x + radius * sin, y - radius * cos)
            };
            let corners = (0..10).map(corner).collect();
            (
                Outline::Polygon(corners),
                Some(colour),
                Stroke::solid(PAPER, 0.8),
            )
        }
        Symbol::Diamond => {
            let corners = vec![(x, y - 5.5), (x + 5.5, y), (x, y + 5.5), (x - 5.5, y)];
            (
                Outline::Polygon(corners),
                Some(PAPER),
                Stroke::solid(colour, 1.8),
            )
        }
    };
    DrawnShape::plain(outline, fill, Some(stroke))
}

/// A line between two bars, a little above the height it measures at.
fn dimension((from, y): Point, (to, _): Point, text: &str) -> [Part; 2] {
    let above = y - 15.0;
    let bar = |x: f64| vec![(x, above - 5.0), (x, above + 5.0)];
    let lines = vec![vec![(from, above), (to, above)], bar(from), bar(to)];
    let lines = Outline::Lines(lines);
    let middle = ((from + to) / 2.0, above - 9.0);
    [
        DrawnShape::plain(lines, None, Some(Stroke::solid(INK, 1.8))),
        Part::Text(Text {
            rim: true,
            ..Text::new(middle, Anchor::Middle, text)
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panels(count: usize) -> Panels {
        let mark = |symbol, name: &str| Mark {
            name: name.into(),
            symbol,
            colour: Colour::hex(0xd55e00),
            at: (0.0, 0.5),
        };
        let panel = Panel {
            title: "a < b".into(),
            curves: vec![Curve {
                name: "curve".into(),
                colour: Colour::hex(0x0072b2),
                width: 2.0,
                dash: &[],
                points: vec![(-1.0, -1.0), (1.0, 1.0)],
            }],
            marks: vec![
                mark(Symbol::Star, "star"),
                mark(Symbol::Circle, "circle"),
                mark(Symbol::Diamond, "diamond"),
                mark(Symbol::Ring, ""),
            ],
            spans: vec![Span {
                x: (-0.5, 0.0),
                y: 0.0,
                text: "0.50".into(),
            }],
        };
        Panels {
            id: "f".into(),
            title: "title".into(),
            caption: "caption".into(),
            guarantee: "empirical".into(),
            x: Axis::linear("x", "", -1.0, 1.0),
            y: Axis::linear("y", "", -1.0, 1.0),
            panels: vec![panel; count],
        }
    }

    #[test]
    fn every_panel_is_drawn_and_the_legend_names_things_once() {
        let svg = panels(3).to_svg();
        assert_eq!(svg.matches("a &lt; b").count(), 3);
        assert_eq!(svg.matches(">0.50<").count(), 3);
        for name in ["curve", "star", "circle", "diamond"] {
            assert_eq!(svg.matches(&format!(">{name}<")).count(), 1, "{name}");
        }
        // One label and one set of numbers for the axis that is shared.
        assert_eq!(svg.matches("rotate(-90 ").count(), 1);
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn the_data_drawn_stand_in_the_csv() {
        let csv = panels(2).to_csv();
        assert!(
            csv.starts_with("plot,series,x,y\na < b,curve,-1,-1\n"),
            "{csv}"
        );
        // Two points of a curve and four marks in each plot.
        assert_eq!(csv.lines().count(), 1 + 2 * 6);
    }

    #[test]
    fn a_picture_comes_out() {
        let png = panels(1).to_png().unwrap();
        assert!(png.starts_with(b"\x89PNG"));
        assert_eq!(png, panels(1).to_png().unwrap());
        assert_ne!(png, panels(2).to_png().unwrap());
    }
}
