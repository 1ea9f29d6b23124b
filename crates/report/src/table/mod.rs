//! Tables: one model, four languages.

mod csv;
mod html;
mod latex;
mod markdown;

pub use csv::quote;

use crate::statistics::Interval;

/// Which value of a column is set in bold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Best {
    /// None.
    None,
    /// The highest.
    High,
    /// The lowest.
    Low,
}

/// How a number is rounded for people. CSV keeps it whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A share, shown in percent with one digit.
    Percent,
    /// This many digits after the point.
    Fixed(usize),
    /// Three significant digits.
    Short,
    /// As many digits as it has.
    Plain,
}

impl Format {
    /// The number as text.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Percent => fixed(100.0 * value, 1),
            Self::Fixed(digits) => fixed(value, digits),
            Self::Plain => record::format_number(value),
            Self::Short if value == 0.0 || !value.is_finite() => format!("{value}"),
            Self::Short => {
                let magnitude = value.abs().log10().floor() as i32;
                let digits = usize::try_from(2 - magnitude).unwrap_or(0).min(9);
                format!("{value:.digits$}")
            }
        }
    }
}

/// So many digits behind the point; what rounds to zero is no less than zero.
fn fixed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.strip_prefix('-') {
        Some(zero) if zero.bytes().all(|byte| matches!(byte, b'0' | b'.')) => zero.to_owned(),
        _ => text,
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Heading shared with its neighbours; may be empty.
    pub group: String,
    /// Its own heading.
    pub head: String,
    /// Which value is set in bold.
    pub best: Best,
    /// How numbers are rounded.
    pub format: Format,
}

impl Column {
    /// A column of numbers.
    pub fn new(head: impl Into<String>, format: Format, best: Best) -> Self {
        Self {
            group: String::new(),
            head: head.into(),
            best,
            format,
        }
    }

    /// A column of text.
    pub fn text(head: impl Into<String>) -> Self {
        Self::new(head, Format::Fixed(0), Best::None)
    }

    /// Under a heading shared with its neighbours.
    pub fn under(self, group: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            ..self
        }
    }

    /// Both headings in one.
    pub fn full_head(&self) -> String {
        if self.group.is_empty() {
            self.head.clone()
        } else {
            format!("{} {}", self.group, self.head)
        }
    }
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number.
    Number(f64),
    /// A number that is not ranked beside the others.
    Unranked(f64),
    /// A number that the records themselves refute: marked, and not ranked.
    Refuted(f64),
    /// A number with its confidence interval.
    Interval(Interval),
    /// Not measured.
    Missing,
}

impl Cell {
    /// A number, if it was measured.
    pub fn number(value: Option<f64>) -> Self {
        value
            .filter(|value| value.is_finite())
            .map_or(Self::Missing, Self::Number)
    }

    fn show(&self, format: Format) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(value) | Self::Unranked(value) => format.show(*value),
            Self::Refuted(value) => format!("{}†", format.show(*value)),
            Self::Interval(interval) => {
                let signed = |value: f64| {
                    let text = format.show(value.abs());
                    match text.bytes().all(|byte| matches!(byte, b'0' | b'.')) {
                        true => text,
                        false if value < 0.0 => format!("−{text}"),
                        false => format!("+{text}"),
                    }
                };
                let Interval { value, low, high } = *interval;
                format!("{} [{}, {}]", signed(value), signed(low), signed(high))
            }
            Self::Missing => "–".into(),
        }
    }

    /// The number, ranked or not.
    fn value(&self) -> Option<f64> {
        match self {
            Self::Number(value) | Self::Unranked(value) | Self::Refuted(value) => Some(*value),
            Self::Interval(interval) => Some(interval.value),
            Self::Text(_) | Self::Missing => None,
        }
    }

    /// The number, if it is ranked.
    fn ranked(&self) -> Option<f64> {
        match self {
            Self::Unranked(_) | Self::Refuted(_) => None,
            other => other.value(),
        }
    }
}

/// A table: caption, columns, rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Name of its files and its anchor in the page.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What stands in it, in a sentence or two.
    pub caption: String,
    /// What its figures guarantee, in words.
    pub guarantee: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// The cell as text, and whether it is set in bold: the best of its column
    /// as shown (ties after rounding are all best), or an interval without 0.
    fn shown(&self, row: usize, column: usize) -> (String, bool) {
        let Column { format, best, .. } = self.columns[column];
        let cell = &self.rows[row][column];
        let text = cell.show(format);
        if let Cell::Interval(interval) = cell {
            return (text, interval.excludes_zero());
        }
        let mut values: Vec<f64> = self
            .rows
            .iter()
            .filter_map(|row| row[column].ranked())
            .collect();
        values.sort_unstable_by(f64::total_cmp);
        let best = match best {
            Best::High if values.len() > 1 => values.last(),
            Best::Low if values.len() > 1 => values.first(),
            _ => None,
        };
        let bold = best.is_some_and(|&best| cell.ranked().is_some() && format.show(best) == text);
        (text, bold)
    }

    /// The shared headings as (text, columns they span).
    fn groups(&self) -> Vec<(&str, usize)> {
        let mut out: Vec<(&str, usize)> = Vec::new();
        for column in &self.columns {
            match out.last_mut() {
                Some((group, span)) if *group == column.group => *span += 1,
                _ => out.push((&column.group, 1)),
            }
        }
        out
    }

    fn has_groups(&self) -> bool {
        self.columns.iter().any(|column| !column.group.is_empty())
    }

    /// Whether a column holds words, which are set to the left.
    fn is_text(&self, column: usize) -> bool {
        self.rows
            .iter()
            .any(|row| matches!(row[column], Cell::Text(_)))
    }
}
