//! The page: one HTML file with everything in it.

mod definitions;
mod gallery;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Value, json};

use crate::Report;
use crate::figure::{Axis, COLOURS, Figure, Panels};
use crate::sections::Item;
use crate::table::Table;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
/// So many warnings are shown at once; more can be unfolded.
const FEW_WARNINGS: usize = 5;
/// Nothing is fetched: the page shows what is in it and nothing else.
const POLICY: &str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; \
                      script-src 'unsafe-inline'";

/// The whole page. Tables and figures are complete without the script, which
/// adds sorting, values under the pointer, switches and filters.
pub fn render(report: &Report) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (report.title) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body { "\n"
                a.skip href="#main" { "skip to the results" }
                header {
                    h1 { (report.title) }
                    button #theme type="button" aria-label="switch between light and dark" { "◐" }
                }
                (navigation(report))
                main #main { "\n"
                    (summary(report))
                    (sections(report))
                    (definitions::render())
                }
                script #data type="application/json" { (PreEscaped(data(report))) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn navigation(report: &Report) -> Markup {
    html! {
        nav aria-label="sections" {
            @for section in &report.sections {
                a href={ "#" (section.id) } { (section.title) }
            }
            a href={ "#" (definitions::ID) } { (definitions::TITLE) }
        }
    }
}

fn summary(report: &Report) -> Markup {
    let count =
        |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    html! {
        p {
            (count(report.logs, "log")) ", " (count(report.tables().count(), "table")) ", "
            (count(report.figures().count() + report.panels().count(), "figure")) "."
        }
        @if !report.warnings.is_empty() {
            // Many of them would push the results off the first screen.
            details.warnings open[report.warnings.len() <= FEW_WARNINGS] {
                summary { (count(report.warnings.len(), "warning")) }
                ul {
                    @for warning in &report.warnings { li { (warning) "." } }
                }
            }
        }
    }
}

fn sections(report: &Report) -> Markup {
    // The script finds a figure's data by its number in the whole page.
    let mut figures = 0..;
    html! {
        @for section in &report.sections {
            @let heading = format!("h-{}", section.id);
            section id=(section.id) aria-labelledby=(heading) {
                h2 id=(heading) { (section.title) }
                p.intro { (section.intro) }
                "\n"
                @for item in &section.items {
                    @match item {
                        Item::Table(table) => (table_part(table)),
                        Item::Figure(figure) => (figure_part(figure, figures.next())),
                        Item::Panels(panels) => (panels_part(panels)),
                        Item::Gallery(cards) => (gallery::render(cards)),
                    }
                    "\n"
                }
            }
            "\n"
        }
    }
}

fn table_part(table: &Table) -> Markup {
    html! {
        div.part {
            h3 { (table.title) }
            div.scroll tabindex="0" role="region" aria-label=(table.title) {
                (table.markup())
            }
            (below("tables", &table.id, &["md", "tex", "csv"], &table.caption, &table.guarantee))
        }
    }
}

fn figure_part(figure: &Figure, number: Option<usize>) -> Markup {
    let words = format!("{}. Arrow keys read the values.", figure.title);
    let series = figure.series.iter().enumerate();
    html! {
        figure.part id={ "f-" (figure.id) } data-figure=[number] {
            h3 { (figure.title) }
            div.plot tabindex="0" role="group" aria-label=(words) {
                (PreEscaped(figure.to_inline_svg()))
                div.tip role="status" hidden {}
            }
            div.switches role="group" aria-label="lines shown" {
                // One line alone needs no switch.
                @for (at, series) in series.filter(|_| figure.series.len() > 1) {
                    button type="button" aria-pressed="true" data-series=(at)
                        class={ "s" (series.style % COLOURS.len()) } {
                        (line_sample(figure, at)) (series.name)
                    }
                }
            }
            figcaption {
                (below("figures", &figure.id, &["svg", "png", "csv"], &figure.caption, &figure.guarantee))
            }
        }
    }
}

/// A piece of a line as it is drawn: there are fewer colours than lines, and dashes
/// tell them apart.
fn line_sample(figure: &Figure, at: usize) -> Markup {
    let dashes: Vec<String> = figure.dashes(at).iter().map(f64::to_string).collect();
    html! {
        svg.sample viewBox="0 0 28 8" width="28" height="8" aria-hidden="true" {
            path d="M0 4H28" stroke-width="3" stroke-dasharray=(dashes.join(" ")) {}
        }
    }
}

fn panels_part(panels: &Panels) -> Markup {
    html! {
        figure.part id={ "f-" (panels.id) } {
            h3 { (panels.title) }
            div.plot { (PreEscaped(panels.to_inline_svg())) }
            figcaption {
                (below("figures", &panels.id, &["svg", "png", "csv"], &panels.caption, &panels.guarantee))
            }
        }
    }
}

/// What stands below a table or figure: what it shows, what it guarantees, and
/// its files.
fn below(folder: &str, id: &str, extensions: &[&str], caption: &str, guarantee: &str) -> Markup {
    html! {
        p.caption { (caption) }
        p.guarantee { b { "Guarantee:" } " " (guarantee) "." }
        p.files {
            @for extension in extensions {
                a href={ (folder) "/" (id) "." (extension) } { (extension.to_uppercase()) } " "
            }
        }
    }
}

/// What the script needs of the figures, as JSON.
fn data(report: &Report) -> String {
    let figures: Vec<Value> = report.figures().map(figure_data).collect();
    // `<` only inside strings: `</script>` cannot end the element.
    json!({ "figures": figures })
        .to_string()
        .replace('<', "\\u003c")
}

/// One figure for the script; values rounded to what a reader can use.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Series;

    #[test]
    fn issue_17_point_15_narrow_screens_scroll_rather_than_shrink() {
        let narrow = STYLE.split_once("@media (max-width: 40rem)").unwrap().1;
        let narrow = narrow.split_once("@media").unwrap().0;
        // Names break instead of lying over numbers; figures keep their texts' size.
        assert!(narrow.contains("overflow-wrap: break-word"));
        assert!(narrow.contains(".plot svg { min-width: 42rem; }"));
        assert!(narrow.contains(".plot { overflow-x: auto;"));
    }

    #[test]
    fn issue_17_point_19_chips_of_one_colour_have_different_dashes() {
        let series = |style| Series {
            name: String::new(),
            style,
            points: vec![],
        };
        let figure = Figure {
            id: String::new(),
            title: String::new(),
            caption: String::new(),
            guarantee: String::new(),
            x: Axis::percent("x"),
            y: Axis::percent("y"),
            series: [0, COLOURS.len(), 0].map(series).into(),
        };
        let dashes: Vec<_> = (0..3).map(|at| figure.dashes(at)).collect();
        assert!(dashes[0] != dashes[1] && dashes[0] != dashes[2]);
        assert!(
            line_sample(&figure, 1)
                .into_string()
                .contains("stroke-dasharray")
        );
    }
}
