//! HTML: sortable by the page's script, complete without it.

use super::{Cell, Table};
use crate::page::escape;

impl Table {
    /// The `<table>` alone; heading, caption and guarantee stand around it.
    pub fn to_html(&self) -> String {
        let mut out = format!(
            "<table id=\"t-{0}\" data-table=\"{0}\">\n<thead>\n",
            self.id
        );
        if self.has_groups() {
            out.push_str("<tr class=\"groups\">");
            for (group, span) in self.groups() {
                let tag = if group.is_empty() { "td" } else { "th" };
                out.push_str(&format!(
                    "<{tag} colspan=\"{span}\">{}</{tag}>",
                    escape(group)
                ));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("<tr>");
        for (at, column) in self.columns.iter().enumerate() {
            let class = if self.is_text(at) {
                " class=\"text\""
            } else {
                ""
            };
            let label = escape(&column.full_head());
            out.push_str(&format!(
                "<th scope=\"col\"{class} aria-sort=\"none\"><button type=\"button\" \
                 aria-label=\"sort by {label}\">{}</button></th>",
                escape(&column.head)
            ));
        }
        out.push_str("</tr>\n</thead>\n<tbody>\n");
        for row in 0..self.rows.len() {
            out.push_str("<tr>");
            for column in 0..self.columns.len() {
                let (text, bold) = self.shown(row, column);
                // The interval on a line of its own keeps the columns narrow.
                let text = match text.split_once(" [") {
                    Some((value, rest)) if matches!(self.rows[row][column], Cell::Interval(_)) => {
                        format!("{} <small>[{}</small>", escape(value), escape(rest))
                    }
                    _ => escape(&text),
                };
                let text = if bold {
                    format!("<strong>{text}</strong>")
                } else {
                    text
                };
                let cell = &self.rows[row][column];
                let value = cell.value().map(|value| format!(" data-value=\"{value}\""));
                let value = value.unwrap_or_default();
                out.push_str(&match (cell, column) {
                    (Cell::Text(_), 0) => format!("<th scope=\"row\">{text}</th>"),
                    (Cell::Text(_), _) => format!("<td class=\"text\">{text}</td>"),
                    _ => format!("<td{value}>{text}</td>"),
                });
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table>\n");
        out
    }
}
