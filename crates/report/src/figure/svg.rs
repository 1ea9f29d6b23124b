//! Drawings as SVG: attributes for a file of its own, classes for the page.

use std::fmt::Write;

use super::drawing::{
    Anchor, Drawing, DrawnShape, FONT_SIZE, INK, Outline, PAPER, Part, Point, Text,
};

/// Width of the rim of a text, half of which lies under its letters.
pub const RIM: f64 = 4.0;

/// A drawing with its title. With a description it is a file of its own: it has a
/// size and white paper. Without one it is for the page, which has its own.
pub fn write(drawing: &Drawing, id: &str, title: &str, description: Option<&str>) -> String {
    let (width, height) = (drawing.width, drawing.height);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         role=\"img\" aria-labelledby=\"svg-{id}\" \
         font-family=\"Roboto, 'Helvetica Neue', Arial, sans-serif\" \
         font-size=\"{FONT_SIZE}\" fill=\"{INK}\""
    );
    if description.is_some() {
        let _ = write!(out, " width=\"{width:.0}\" height=\"{height:.0}\"");
    }
    let _ = writeln!(out, ">\n<title id=\"svg-{id}\">{}</title>", escape(title));
    if let Some(description) = description {
        let _ = writeln!(
            out,
            "<desc>{}</desc>\n<rect width=\"100%\" height=\"100%\" fill=\"{PAPER}\"/>",
            escape(description)
        );
    }
    parts(&mut out, &drawing.parts);
    out + "</svg>\n"
}

fn parts(out: &mut String, all: &[Part]) {
    for part in all {
        match part {
            Part::DrawnShape(found) => shape(out, found),
            Part::Text(found) => text(out, found),
            Part::Group {
                class,
                series,
                parts: inner,
            } => {
                let _ = write!(out, "<g class=\"{class}\"");
                if let Some(series) = series {
                    let _ = write!(out, " data-series=\"{series}\"");
                }
                out.push_str(">\n");
                parts(out, inner);
                out.push_str("</g>\n");
            }
        }
    }
}

fn shape(out: &mut String, shape: &DrawnShape) {
    let has_corners = match &shape.outline {
        Outline::Circle((x, y), radius) => {
            let (x, y) = (short(*x), short(*y));
            let _ = write!(out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"");
            false
        }
        Outline::Polygon(corners) => {
            let _ = write!(out, "<path d=\"{}Z\"", path(corners));
            true
        }
        Outline::Lines(lines) => {
            let all: String = lines.iter().map(|line| path(line)).collect();
            let _ = write!(out, "<path d=\"{all}\"");
            lines.iter().any(|line| line.len() > 2)
        }
    };
    class(out, shape.class);
    let fill = shape.fill.map_or("none".into(), |fill| fill.to_string());
    let _ = write!(out, " fill=\"{fill}\"");
    if let Some(stroke) = &shape.stroke {
        let _ = write!(out, " stroke=\"{}\"", stroke.colour);
        if stroke.width != 1.0 {
            let _ = write!(out, " stroke-width=\"{}\"", stroke.width);
        }
        if has_corners {
            out.push_str(" stroke-linejoin=\"round\"");
        }
        if !stroke.dash.is_empty() {
            let lengths: Vec<String> = stroke.dash.iter().map(f64::to_string).collect();
            let _ = write!(out, " stroke-dasharray=\"{}\"", lengths.join(" "));
        }
    }
    out.push_str("/>\n");
}

fn path(points: &[Point]) -> String {
    let mut out = String::new();
    for (at, &(x, y)) in points.iter().enumerate() {
        let command = if at == 0 { 'M' } else { 'L' };
        let _ = write!(out, "{command}{} {}", short(x), short(y));
    }
    out
}

fn text(out: &mut String, text: &Text) {
    let (x, y) = (short(text.at.0), short(text.at.1));
    let _ = write!(out, "<text x=\"{x}\" y=\"{y}\"");
    class(out, text.class);
    match text.anchor {
        Anchor::Start => {}
        Anchor::Middle => out.push_str(" text-anchor=\"middle\""),
        Anchor::End => out.push_str(" text-anchor=\"end\""),
    }
    if text.size != FONT_SIZE {
        let _ = write!(out, " font-size=\"{}\"", text.size);
    }
    if text.upwards {
        let _ = write!(out, " transform=\"rotate(-90 {x} {y})\"");
    }
    if text.rim {
        let _ = write!(
            out,
            " stroke=\"{PAPER}\" stroke-width=\"{RIM}\" stroke-linejoin=\"round\" \
             paint-order=\"stroke\""
        );
    }
    let _ = writeln!(out, ">{}</text>", escape(&text.text));
}

/// Text as XML, also inside double quotes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Not allowed in XML in any form.
            c if c.is_control() && !c.is_whitespace() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

fn class(out: &mut String, class: &str) {
    if !class.is_empty() {
        let _ = write!(out, " class=\"{class}\"");
    }
}

/// A hundredth of a pixel is more than anybody sees.
fn short(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
