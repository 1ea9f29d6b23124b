//! HTML: sortable by the page's script, complete without it.

use maud::{Markup, html};

use super::{Cell, Table};

impl Table {
    /// The `<table>` alone; heading, caption and guarantee stand around it.
    pub fn to_html(&self) -> String {
        self.markup().into_string()
    }

    pub(crate) fn markup(&self) -> Markup {
        html! {
            table id={ "t-" (self.id) } data-table=(self.id) {
                "\n"
                thead { "\n"
                    @if self.has_groups() {
                        tr.groups {
                            @for (group, span) in self.groups() {
                                @if group.is_empty() {
                                    td colspan=(span) {}
                                } @else {
                                    th colspan=(span) { (group) }
                                }
                            }
                        }
                        "\n"
                    }
                    tr {
                        @for (at, column) in self.columns.iter().enumerate() {
                            th scope="col" class=[self.is_text(at).then_some("text")] aria-sort="none" {
                                button type="button"
                                    aria-label={ "sort by " (column.full_head()) } {
                                    (column.head)
                                }
                            }
                        }
                    }
                    "\n"
                }
                "\n"
                tbody { "\n"
                    @for row in 0..self.rows.len() {
                        tr { @for column in 0..self.columns.len() { (self.cell(row, column)) } }
                        "\n"
                    }
                }
                "\n"
            }
            "\n"
        }
    }

    fn cell(&self, row: usize, column: usize) -> Markup {
        let cell = &self.rows[row][column];
        let (text, bold) = self.shown(row, column);
        let text = match text.split_once(" [") {
            // The interval on a line of its own keeps the columns narrow.
            Some((value, rest)) if matches!(cell, Cell::Interval(_)) => {
                html! { (value) " " small { "[" (rest) } }
            }
            _ if matches!(cell, Cell::Text(_)) && column == 0 => breakable(&text),
            _ => html! { (text) },
        };
        let text = html! {
            @if bold { strong { (text) } } @else { (text) }
        };
        html! {
            @match (cell, column) {
                (Cell::Text(_), 0) => th scope="row" { (text) },
                (Cell::Text(_), _) => td.text { (text) },
                _ => td data-value=[cell.value()] { (text) },
            }
        }
    }
}

/// A name that may be broken where a new word starts: `HeatSmoothing` on a narrow screen is
/// `Heat` above `Smoothing`, not `HeatSmoo` above `thing`.
fn breakable(name: &str) -> Markup {
    let mut words = vec![String::new()];
    let mut last = ' ';
    for letter in name.chars() {
        if last.is_lowercase() && letter.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(letter);
        }
        last = letter;
    }
    html! {
        @for (at, word) in words.iter().enumerate() {
            @if at > 0 { wbr; }
            (word)
        }
    }
}
