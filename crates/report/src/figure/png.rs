//! Drawings as PNG, twice the size of the SVG, with our own font.

use tiny_skia::{
    Color, FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, StrokeDash, Transform,
};
use ttf_parser::{Face, OutlineBuilder};

use super::drawing::{
    Anchor, Colour, Drawing, DrawnShape, INK, Outline, PAPER, Part, Point, Stroke, Text,
};
use super::svg::RIM;
use crate::ReportError;

/// See `assets/README.md` for where it comes from and its licence.
const FONT: &[u8] = include_bytes!("../../assets/Roboto-Regular-subset.ttf");
const SCALE: f32 = 2.0;

/// The drawing of the figure `id`.
pub fn write(drawing: &Drawing, id: &str) -> Result<Vec<u8>, ReportError> {
    let error = |reason: String| ReportError::Draw {
        figure: id.to_owned(),
        reason,
    };
    let pixels = |length: f64| (length.round() as f32 * SCALE) as u32;
    let mut canvas = Canvas {
        font: Face::parse(FONT, 0).map_err(|source| error(source.to_string()))?,
        pixels: Pixmap::new(pixels(drawing.width), pixels(drawing.height))
            .ok_or_else(|| error("it has no size".into()))?,
    };
    canvas.pixels.fill(Color::WHITE);
    canvas.parts(&drawing.parts);
    canvas
        .pixels
        .encode_png()
        .map_err(|source| error(source.to_string()))
}

struct Canvas {
    font: Face<'static>,
    pixels: Pixmap,
}

impl Canvas {
    fn parts(&mut self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Group { parts, .. } => self.parts(parts),
                Part::DrawnShape(shape) => self.shape(shape),
                Part::Text(text) => self.text(text),
            }
        }
    }

    fn shape(&mut self, shape: &DrawnShape) {
        // A line through a single point, or to a place that is no number, has no
        // path and nothing to show.
        if let Some(path) = path_of(&shape.outline) {
            if let Some(colour) = shape.fill {
                self.fill(&path, colour);
            }
            if let Some(stroke) = shape.stroke {
                self.stroke(&path, stroke);
            }
        }
    }

    fn text(&mut self, text: &Text) {
        let Some(path) = letters(&self.font, text) else {
            return;
        };
        if text.rim {
            self.stroke(&path, Stroke::solid(PAPER, RIM));
        }
        self.fill(&path, INK);
    }

    fn fill(&mut self, path: &Path, colour: Colour) {
        self.pixels.fill_path(
            path,
            &paint(colour),
            FillRule::Winding,
            Transform::from_scale(SCALE, SCALE),
            None,
        );
    }

    fn stroke(&mut self, path: &Path, stroke: Stroke) {
        let dash = stroke.dash.iter().map(|&length| length as f32).collect();
        let pen = tiny_skia::Stroke {
            width: stroke.width as f32,
            line_join: LineJoin::Round,
            // None for a solid line, which has no lengths.
            dash: StrokeDash::new(dash, 0.0),
            ..tiny_skia::Stroke::default()
        };
        self.pixels.stroke_path(
            path,
            &paint(stroke.colour),
            &pen,
            Transform::from_scale(SCALE, SCALE),
            None,
        );
    }
}

fn paint(colour: Colour) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(colour.red, colour.green, colour.blue, 255);
    paint
}

fn path_of(outline: &Outline) -> Option<Path> {
    let mut path = PathBuilder::new();
    match outline {
        Outline::Circle((x, y), radius) => {
            path.push_circle(*x as f32, *y as f32, *radius as f32);
        }
        Outline::Polygon(corners) => {
            lines(&mut path, corners);
            path.close();
        }
        Outline::Lines(all) => all.iter().for_each(|points| lines(&mut path, points)),
    }
    path.finish()
}

fn lines(path: &mut PathBuilder, points: &[Point]) {
    for (at, &(x, y)) in points.iter().enumerate() {
        if at == 0 {
            path.move_to(x as f32, y as f32);
        } else {
            path.line_to(x as f32, y as f32);
        }
    }
}

/// The outlines of a text's letters, in their places.
fn letters(font: &Face<'_>, text: &Text) -> Option<Path> {
    // White space of any kind is a space; what the font lacks is its empty box.
    let glyphs: Vec<_> = text
        .text
        .chars()
        .map(|letter| if letter.is_whitespace() { ' ' } else { letter })
        .map(|letter| font.glyph_index(letter).unwrap_or_default())
        .collect();
    let advance = |glyph| f32::from(font.glyph_hor_advance(glyph).unwrap_or_default());
    let length: f32 = glyphs.iter().map(|&glyph| advance(glyph)).sum();
    let mut pen = Pen {
        path: PathBuilder::new(),
        at: (text.at.0 as f32, text.at.1 as f32),
        scale: text.size as f32 / f32::from(font.units_per_em()),
        upwards: text.upwards,
        along: match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -length / 2.0,
            Anchor::End => -length,
        },
    };
    for glyph in glyphs {
        // Nothing is drawn of a glyph without an outline, such as the space.
        let _ = font.outline_glyph(glyph, &mut pen);
        pen.along += advance(glyph);
    }
    pen.path.finish()
}

/// Draws letters, which the font gives in its own units with y upwards.
struct Pen {
    path: PathBuilder,
    at: (f32, f32),
    scale: f32,
    upwards: bool,
    /// How far along the line of text the letter starts, in the font's units.
    along: f32,
}

impl Pen {
    fn place(&self, x: f32, y: f32) -> (f32, f32) {
        let (along, above) = (self.scale * (x + self.along), self.scale * y);
        if self.upwards {
            (self.at.0 - above, self.at.1 - along)
        } else {
            (self.at.0 + along, self.at.1 - above)
        }
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.place(x1, y1), self.place(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let (x1, y1) = self.place(x1, y1);
        let ((x2, y2), (x, y)) = (self.place(x2, y2), self.place(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The darkest and the extent of what a text paints on a drawing of 100 x 60.
    fn painted(text: Text) -> (u32, u32, u32, u32) {
        let drawing = Drawing {
            width: 100.0,
            height: 60.0,
            parts: vec![text.into()],
        };
        let png = write(&drawing, "text").unwrap();
        let pixels = Pixmap::decode_png(&png).unwrap();
        let (mut left, mut top, mut right, mut bottom) = (u32::MAX, u32::MAX, 0, 0);
        for (at, pixel) in pixels.pixels().iter().enumerate() {
            if pixel.red() < 128 {
                let (x, y) = (at as u32 % pixels.width(), at as u32 / pixels.width());
                (left, right) = (left.min(x), right.max(x));
                (top, bottom) = (top.min(y), bottom.max(y));
            }
        }
        (left, top, right, bottom)
    }

    #[test]
    fn texts_stand_where_their_anchors_say() {
        let at = |anchor| painted(Text::new((50.0, 30.0), anchor, "HHH"));
        let (left, top, right, bottom) = at(Anchor::Start);
        assert!((100..106).contains(&left), "{left}");
        // On the baseline, as high as the font's capital letters.
        assert_eq!(bottom, 59);
        assert!((40..43).contains(&top), "{top}");
        let width = right - left;
        let (left, _, right, _) = at(Anchor::Middle);
        assert!((left + right).abs_diff(200) <= 2, "{left} {right}");
        assert!((right - left).abs_diff(width) <= 1);
        let (_, _, right, _) = at(Anchor::End);
        assert!((94..100).contains(&right), "{right}");
    }

    #[test]
    fn an_upward_text_is_the_same_text_turned() {
        let upwards = Text {
            upwards: true,
            ..Text::new((50.0, 30.0), Anchor::Start, "Lσ−²")
        };
        let (left, top, right, bottom) = painted(Text::new((50.0, 30.0), Anchor::Start, "Lσ−²"));
        let turned = painted(upwards);
        assert!((turned.2 - turned.0).abs_diff(bottom - top) <= 1);
        assert!((turned.3 - turned.1).abs_diff(right - left) <= 1);
        // Its start is at the bottom, its baseline at the right.
        assert!(turned.3 < 60 && turned.2 >= 98, "{turned:?}");
    }

    /// The signs that figures use, each with its own shape.
    #[test]
    fn the_font_has_the_signs_of_figures() {
        let font = Face::parse(FONT, 0).unwrap();
        for sign in "σηλρα−±²⁰⁵₀…≥≤–éü%@".chars() {
            assert!(font.glyph_index(sign).is_some(), "{sign}");
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_no_panic() {
        let line = |points| DrawnShape::line("", points, Stroke::solid(INK, 1.0));
        let drawing = Drawing {
            width: 10.0,
            height: 10.0,
            parts: vec![
                line(vec![]),
                line(vec![(1.0, 1.0)]),
                line(vec![(f64::NAN, 1.0), (2.0, f64::INFINITY)]),
                line(vec![(-1e300, 0.0), (1e300, 5.0)]),
                Text::new((f64::NAN, 0.0), Anchor::End, "text").into(),
                Text::new((0.0, 0.0), Anchor::End, "\u{1}\u{fffd}\n𝕏").into(),
            ],
        };
        write(&drawing, "odd").unwrap();
        for size in [0.0, f64::NAN, 1e12] {
            let drawing = Drawing {
                width: size,
                height: 10.0,
                parts: vec![],
            };
            assert!(write(&drawing, "odd").is_err());
        }
    }
}
