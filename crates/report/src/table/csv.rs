//! Comma-separated values, numbers in full precision.

use super::{Cell, Table};
use crate::statistics::Interval;

impl Table {
    /// The table as CSV (RFC 4180, but with plain line feeds). Shares stay
    /// shares of 1; an interval becomes three columns; missing cells are empty.
    pub fn to_csv(&self) -> String {
        let intervals: Vec<bool> = (0..self.columns.len())
            .map(|at| {
                self.rows
                    .iter()
                    .any(|row| matches!(row[at], Cell::Interval(_)))
            })
            .collect();
        let mut heads = Vec::new();
        for (column, &interval) in self.columns.iter().zip(&intervals) {
            let head = column.full_head();
            heads.push(quote(&head));
            if interval {
                heads.extend(["low", "high"].map(|end| quote(&format!("{head} {end}"))));
            }
        }
        let mut out = heads.join(",") + "\n";
        for row in &self.rows {
            let mut cells = Vec::new();
            for (cell, &interval) in row.iter().zip(&intervals) {
                match cell {
                    Cell::Text(text) => cells.push(quote(text)),
                    Cell::Number(value) => cells.push(record::format_number(*value)),
                    Cell::Interval(Interval { value, low, high }) => {
                        cells.extend([*value, *low, *high].map(record::format_number));
                    }
                    Cell::Missing if interval => cells.extend([const { String::new() }; 3]),
                    Cell::Missing => cells.push(String::new()),
                }
            }
            out.push_str(&cells.join(","));
            out.push('\n');
        }
        out
    }
}

/// Quotes a field where it has to be.
pub fn quote(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
