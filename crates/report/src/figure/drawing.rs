//! A drawing as data: what it is made of, in pixels, in the order of painting.
//! [`svg`](super::svg) and [`png`](super::png) write it.

use std::fmt;

/// A colour, written `#rrggbb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    /// Share of red.
    pub red: u8,
    /// Share of green.
    pub green: u8,
    /// Share of blue.
    pub blue: u8,
}

impl Colour {
    /// From a number like `0x0072b2`.
    pub const fn hex(rgb: u32) -> Self {
        let [_, red, green, blue] = rgb.to_be_bytes();
        Self { red, green, blue }
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.red, self.green, self.blue)
    }
}

/// The colour of text and axes.
pub const INK: Colour = Colour::hex(0x1f2328);
/// The colour of paper.
pub const PAPER: Colour = Colour::hex(0xffffff);

/// Size of text that says nothing else.
pub const FONT_SIZE: f64 = 13.0;

/// A place, from the upper left corner.
pub type Point = (f64, f64);

/// A drawing, on white paper.
pub struct Drawing {
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
    /// What is painted, the first lowest.
    pub parts: Vec<Part>,
}

/// What a drawing is made of.
pub enum Part {
    /// Parts that belong together; the page finds them by their class.
    Group {
        /// Classes of the group.
        class: String,
        /// The number of the series that it draws, if it draws one.
        series: Option<usize>,
        /// What it holds.
        parts: Vec<Part>,
    },
    /// Lines and areas.
    DrawnShape(DrawnShape),
    /// Words.
    Text(Text),
}

/// Lines and areas.
pub struct DrawnShape {
    /// Its class in the page; empty: none.
    pub class: &'static str,
    /// Where it runs.
    pub outline: Outline,
    /// The colour inside.
    pub fill: Option<Colour>,
    /// How its outline is drawn.
    pub stroke: Option<Stroke>,
}

/// Where a shape runs.
pub enum Outline {
    /// Each through its points.
    Lines(Vec<Vec<Point>>),
    /// Through its corners and back.
    Polygon(Vec<Point>),
    /// Around a point.
    Circle(Point, f64),
}

/// How a line is drawn; its corners are round.
#[derive(Clone, Copy)]
pub struct Stroke {
    /// Its colour.
    pub colour: Colour,
    /// Its width.
    pub width: f64,
    /// Lengths of dashes and gaps in turn; empty: solid.
    pub dash: &'static [f64],
}

impl Stroke {
    /// A solid line.
    pub fn solid(colour: Colour, width: f64) -> Self {
        Self {
            colour,
            width,
            dash: &[],
        }
    }
}

impl DrawnShape {
    /// A line through points.
    pub fn line(class: &'static str, points: Vec<Point>, stroke: Stroke) -> Part {
        Part::DrawnShape(Self {
            class,
            outline: Outline::Lines(vec![points]),
            fill: None,
            stroke: Some(stroke),
        })
    }

    /// Something without a class.
    pub fn plain(outline: Outline, fill: Option<Colour>, stroke: Option<Stroke>) -> Part {
        Part::DrawnShape(Self {
            class: "",
            outline,
            fill,
            stroke,
        })
    }
}

/// Which part of a text stands at its place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Its start.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

/// Words, in the colour of ink.
pub struct Text {
    /// Its class in the page; empty: none.
    pub class: &'static str,
    /// Where its baseline is.
    pub at: Point,
    /// What of it stands there.
    pub anchor: Anchor,
    /// Size of the font.
    pub size: f64,
    /// Whether it runs upwards instead of to the right.
    pub upwards: bool,
    /// Whether it has a rim of paper, to be read across lines.
    pub rim: bool,
    /// The words.
    pub text: String,
}

impl Text {
    /// Words of ordinary size, from left to right.
    pub fn new(at: Point, anchor: Anchor, text: impl Into<String>) -> Self {
        Self {
            class: "",
            at,
            anchor,
            size: FONT_SIZE,
            upwards: false,
            rim: false,
            text: text.into(),
        }
    }
}

impl From<Text> for Part {
    fn from(text: Text) -> Self {
        Self::Text(text)
    }
}
