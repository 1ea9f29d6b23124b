//! Plots side by side: curves, points and measured distances over shared axes,
//! with one legend below.

use std::f64::consts::PI;
use std::fmt::Write;

use super::Axis;
use super::labels::text_width;
use super::png;
use super::svg::{FONT_SIZE, Frame, INK, axes};
use crate::ReportError;
use crate::page::escape;

/// A curve of a [`Panel`].
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Its entry in the legend; empty: none.
    pub name: String,
    /// Any colour of SVG.
    pub colour: &'static str,
    /// Width of the stroke, in pixels.
    pub width: f64,
    /// Dashes as in SVG; empty: solid.
    pub dash: &'static str,
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
    /// Any colour of SVG.
    pub colour: &'static str,
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
        png::render(&self.id, &self.to_svg())
    }

    /// The drawing.
    pub fn to_svg(&self) -> String {
        let count = self.panels.len() as f64;
        let width = LEFT + count * (self.plot_width() + BETWEEN);
        let bottom = TOP + PLOT_HEIGHT;
        let (legend, lines) = self.legend(width, bottom + 72.0);
        let height = bottom + 72.0 + lines as f64 * LINE;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" aria-labelledby=\"svg-{id}\" \
             font-family=\"Roboto, 'Helvetica Neue', Arial, sans-serif\" \
             font-size=\"{FONT_SIZE}\" fill=\"{INK}\">\n\
             <title id=\"svg-{id}\">{title}</title>\n<desc>{} Guarantee: {}.</desc>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"{LEFT}\" y=\"26\" font-size=\"16\">{title}</text>\n",
            escape(&self.caption),
            escape(&self.guarantee),
            id = self.id,
            title = escape(&self.title),
        );
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
            axes(&mut out, &frame, &self.x, &self.y, at == 0);
            self.draw(&mut out, &frame, panel);
        }
        out + &legend + "</svg>\n"
    }

    fn draw(&self, out: &mut String, frame: &Frame, panel: &Panel) {
        let place = |(x, y): (f64, f64)| {
            (
                frame.left + self.x.place(x) * (frame.right - frame.left),
                frame.bottom - self.y.place(y) * (frame.bottom - frame.top),
            )
        };
        let middle = (frame.left + frame.right) / 2.0;
        let _ = writeln!(
            out,
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"14\">{}</text>",
            frame.top - 14.0,
            escape(&panel.title)
        );
        for curve in &panel.curves {
            let mut path = String::new();
            for (at, &point) in curve.points.iter().enumerate() {
                let (x, y) = place(point);
                let _ = write!(path, "{}{x:.2} {y:.2}", if at == 0 { 'M' } else { 'L' });
            }
            stroke(out, &path, curve);
        }
        for mark in &panel.marks {
            symbol(out, mark, place(mark.at));
        }
        for span in &panel.spans {
            dimension(
                out,
                place((span.x.0, span.y)),
                place((span.x.1, span.y)),
                &span.text,
            );
        }
    }

    /// The legend, in as many lines as its entries need.
    fn legend(&self, width: f64, top: f64) -> (String, usize) {
        let mut out = String::new();
        let mut named: Vec<&str> = vec![""];
        let (mut left, mut line) = (LEFT, 0);
        let mut entry = |out: &mut String, name: &str, draw: &dyn Fn(&mut String, f64, f64)| {
            let needed = 36.0 + text_width(name, FONT_SIZE);
            if left > LEFT && left + needed > width {
                (left, line) = (LEFT, line + 1);
            }
            let middle = top + line as f64 * LINE;
            draw(out, left, middle);
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                left + 30.0,
                middle + 4.5,
                escape(name)
            );
            left += needed + 6.0;
        };
        for curve in self.panels.iter().flat_map(|panel| &panel.curves) {
            if !named.contains(&curve.name.as_str()) {
                named.push(&curve.name);
                entry(&mut out, &curve.name, &|out, left, middle| {
                    stroke(out, &format!("M{left:.1} {middle:.1}h24"), curve);
                });
            }
        }
        for mark in self.panels.iter().flat_map(|panel| &panel.marks) {
            if !named.contains(&mark.name.as_str()) {
                named.push(&mark.name);
                entry(&mut out, &mark.name, &|out, left, middle| {
                    symbol(out, mark, (left + 16.0, middle));
                });
            }
        }
        (out, line + 1)
    }
}

fn stroke(out: &mut String, path: &str, curve: &Curve) {
    let dash = match curve.dash {
        "" => String::new(),
        dash => format!(" stroke-dasharray=\"{dash}\""),
    };
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" \
         stroke-linejoin=\"round\"{dash}/>",
        curve.colour, curve.width
    );
}

fn symbol(out: &mut String, mark: &Mark, (x, y): (f64, f64)) {
    let colour = mark.colour;
    let shape = match mark.symbol {
        Symbol::Circle => {
            format!("<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"4.2\" fill=\"{colour}\"")
        }
        Symbol::Ring => {
            let ring = format!("<circle cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"8\" fill=\"none\"");
            let _ = writeln!(out, "{ring} stroke=\"{colour}\" stroke-width=\"1.8\"/>");
            return;
        }
        Symbol::Star => {
            let corner = |at: u32| {
                let radius = if at.is_multiple_of(2) { 6.4 } else { 2.6 };
                let (sin, cos) = (PI * f64::from(at) / 5.0).sin_cos();
                format!("{:.2},{:.2}", x + radius * sin, y - radius * cos)
            };
            let corners: Vec<String> = (0..10).map(corner).collect();
            format!(
                "<polygon points=\"{}\" fill=\"{colour}\"",
                corners.join(" ")
            )
        }
        Symbol::Diamond => {
            let path = format!("M{x:.2} {:.2}l5.5 5.5l-5.5 5.5l-5.5 -5.5z", y - 5.5);
            let _ = writeln!(
                out,
                "<path d=\"{path}\" fill=\"#ffffff\" stroke=\"{colour}\" stroke-width=\"1.8\"/>"
            );
            return;
        }
    };
    let _ = writeln!(out, "{shape} stroke=\"#ffffff\" stroke-width=\"0.8\"/>");
}

/// A line between two bars, a little above the height it measures at.
fn dimension(out: &mut String, (from, y): (f64, f64), (to, _): (f64, f64), text: &str) {
    let above = y - 15.0;
    let bar = |x: f64| format!("M{x:.2} {:.2}V{:.2}", above - 5.0, above + 5.0);
    let _ = writeln!(
        out,
        "<path d=\"M{from:.2} {above:.2}H{to:.2}{}{}\" fill=\"none\" stroke=\"{INK}\" \
         stroke-width=\"1.8\"/>\n<text x=\"{:.2}\" y=\"{:.2}\" text-anchor=\"middle\" \
         stroke=\"#ffffff\" stroke-width=\"4\" paint-order=\"stroke\">{}</text>",
        bar(from),
        bar(to),
        (from + to) / 2.0,
        above - 9.0,
        escape(text)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panels(count: usize) -> Panels {
        let mark = |symbol, name: &str| Mark {
            name: name.into(),
            symbol,
            colour: "#d55e00",
            at: (0.0, 0.5),
        };
        let panel = Panel {
            title: "a < b".into(),
            curves: vec![Curve {
                name: "curve".into(),
                colour: "#0072b2",
                width: 2.0,
                dash: "",
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
        assert_eq!(svg.matches("rotate(-90)").count(), 1);
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn a_picture_comes_out() {
        let png = panels(1).to_png().unwrap();
        assert!(png.starts_with(b"\x89PNG"));
        assert_eq!(png, panels(1).to_png().unwrap());
        assert_ne!(png, panels(2).to_png().unwrap());
    }
}
