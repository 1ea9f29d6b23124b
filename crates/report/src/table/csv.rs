//! Comma-separated values, numbers in full precision.

use super::{Cell, Format, Table};
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
            // People read percent, programs shares of 1: the heading says which.
            let head = match column.format {
                Format::Percent => format!("{} (share)", column.full_head()),
                _ => column.full_head(),
            };
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
                    Cell::Number(value) | Cell::Unranked(value) | Cell::Refuted(value) => {
                        cells.push(record::format_number(*value))
                    }
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

#[cfg(test)]
mod tests {
    use crate::table::{Best, Cell, Column, Format, Table};

    #[test]
    fn issue_17_point_17_headings_of_shares_say_so() {
        let table = Table {
            id: String::new(),
            title: String::new(),
            caption: String::new(),
            guarantee: String::new(),
            columns: vec![
                Column::text("model"),
                Column::new("clean", Format::Percent, Best::High),
                Column::new("ACR", Format::Fixed(3), Best::High),
            ],
            rows: vec![vec![
                Cell::Text("heat".into()),
                Cell::Number(0.5),
                Cell::Refuted(0.25),
            ]],
        };
        assert_eq!(table.to_csv(), "model,clean (share),ACR\nheat,0.5,0.25\n");
        assert!(table.to_markdown().contains("| 50.0 | 0.250† |"));
    }
}
