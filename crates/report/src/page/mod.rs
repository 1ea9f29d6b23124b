//! The page: one HTML file with everything in it.

mod gallery;

use std::fmt::Write;

use serde_json::{Value, json};

use crate::Report;
use crate::figure::{Axis, Figure};
use crate::sections::Item;
use crate::table::Table;

const TEMPLATE: &str = include_str!("report.html");
const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// Text as HTML or XML, also inside double quotes.
pub fn escape(text: &str) -> String {
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

/// The whole page. Tables and figures are complete without the script, which
/// adds sorting, values under the pointer, switches and filters.
pub fn render(report: &Report) -> String {
    let figures: Vec<Value> = report.figures().map(figure_data).collect();
    // `<` only inside strings: `</script>` cannot end the element.
    let data = json!({ "figures": figures })
        .to_string()
        .replace('<', "\\u003c");
    fill(TEMPLATE, |mark| match mark {
        "style" => STYLE.to_owned(),
        "script" => SCRIPT.to_owned(),
        "title" => escape(&report.title),
        "navigation" => navigation(report),
        "summary" => summary(report),
        "sections" => sections(report),
        "data" => data.clone(),
        _ => String::new(),
    })
}

/// Replaces each `{{mark}}` of a template, once: what is put in is not searched.
fn fill(template: &str, text: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, (mark, after))) = rest
        .split_once("{{")
        .and_then(|(before, rest)| Some((before, rest.split_once("}}")?)))
    {
        out.push_str(before);
        out.push_str(&text(mark));
        rest = after;
    }
    out + rest
}

fn navigation(report: &Report) -> String {
    let mut out = String::new();
    let mut link = |id: &str, title: &str| {
        let _ = writeln!(out, "<a href=\"#{id}\">{}</a>", escape(title));
    };
    for section in &report.sections {
        link(&section.id, &section.title);
    }
    link("definitions", "Definitions");
    out
}

fn summary(report: &Report) -> String {
    let (tables, figures) = (report.tables().count(), report.figures().count());
    let count =
        |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let mut out = format!(
        "<p>{}, {}, {}.</p>\n",
        count(report.logs, "log"),
        count(tables, "table"),
        count(figures, "figure")
    );
    if !report.warnings.is_empty() {
        let _ = write!(
            out,
            "<details class=\"warnings\" open><summary>{}</summary>\n<ul>\n",
            count(report.warnings.len(), "warning")
        );
        for warning in &report.warnings {
            let _ = writeln!(out, "<li>{}.</li>", escape(&warning.to_string()));
        }
        out.push_str("</ul></details>\n");
    }
    out
}

fn sections(report: &Report) -> String {
    let mut out = String::new();
    let mut figure = 0;
    for section in &report.sections {
        let _ = write!(
            out,
            "<section id=\"{0}\" aria-labelledby=\"h-{0}\">\n<h2 id=\"h-{0}\">{1}</h2>\n\
             <p class=\"intro\">{2}</p>\n",
            section.id,
            escape(&section.title),
            escape(&section.intro)
        );
        for item in &section.items {
            match item {
                Item::Table(table) => out.push_str(&table_part(table)),
                Item::Figure(found) => {
                    out.push_str(&figure_part(found, figure));
                    figure += 1;
                }
                Item::Gallery(cards) => out.push_str(&gallery::render(cards)),
            }
        }
        out.push_str("</section>\n");
    }
    out
}

fn table_part(table: &Table) -> String {
    format!(
        "<div class=\"part\">\n<h3>{title}</h3>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-label=\"{title}\">\n{}</div>\n<p class=\"caption\">{}</p>\n{}{}</div>\n",
        table.to_html(),
        escape(&table.caption),
        guarantee(&table.guarantee),
        files("tables", &table.id, &["md", "tex", "csv"]),
        title = escape(&table.title),
    )
}

fn figure_part(figure: &Figure, number: usize) -> String {
    let mut switches = String::new();
    // One line alone needs no switch.
    let several = figure.series.len() > 1;
    for (at, series) in figure.series.iter().enumerate().filter(|_| several) {
        let _ = write!(
            switches,
            "<button type=\"button\" aria-pressed=\"true\" data-series=\"{at}\" class=\"s{}\">{}</button>",
            series.style % crate::figure::COLOURS.len(),
            escape(&series.name)
        );
    }
    format!(
        "<figure class=\"part\" id=\"f-{id}\" data-figure=\"{number}\">\n<h3>{title}</h3>\n\
         <div class=\"plot\" tabindex=\"0\" role=\"group\" aria-label=\"{title}. Arrow keys read the \
         values.\">\n{}<div class=\"tip\" role=\"status\" hidden></div></div>\n\
         <div class=\"switches\" role=\"group\" aria-label=\"lines shown\">{switches}</div>\n\
         <figcaption><p class=\"caption\">{}</p>\n{}{}</figcaption>\n</figure>\n",
        figure.to_inline_svg(),
        escape(&figure.caption),
        guarantee(&figure.guarantee),
        files("figures", &figure.id, &["svg", "png", "csv"]),
        id = figure.id,
        title = escape(&figure.title),
    )
}

fn guarantee(words: &str) -> String {
    format!(
        "<p class=\"guarantee\"><b>Guarantee:</b> {}.</p>\n",
        escape(words)
    )
}

fn files(folder: &str, id: &str, extensions: &[&str]) -> String {
    let link = |extension: &&str| {
        let name = extension.to_uppercase();
        format!("<a href=\"{folder}/{id}.{extension}\">{name}</a>")
    };
    let links: Vec<String> = extensions.iter().map(link).collect();
    format!("<p class=\"files\">{}</p>\n", links.join(" "))
}

/// What the script needs of a figure; values rounded to what a reader can use.
fn figure_data(figure: &Figure) -> Value {
    let short = |value: f64| format!("{value:.6e}").parse::<f64>().unwrap_or(value);
    let axis = |axis: &Axis| {
        json!({ "label": axis.label, "unit": axis.unit, "low": axis.low, "high": axis.high,
                "log": axis.log })
    };
    let series: Vec<Value> = figure
        .series
        .iter()
        .map(|series| {
            let part = |at: fn(&(f64, f64)) -> f64| -> Vec<f64> {
                series.points.iter().map(|point| short(at(point))).collect()
            };
            json!({ "name": series.name, "x": part(|p| p.0), "y": part(|p| p.1) })
        })
        .collect();
    json!({ "frame": figure.frame(false), "x": axis(&figure.x), "y": axis(&figure.y), "series": series })
}
