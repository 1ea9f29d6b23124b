//! Where every figure comes from.

use super::{Context, Item, Section};
use crate::load::Log;
use crate::names;
use crate::table::{Best, Cell, Column, Format, Table};

/// A table of all logs: file, what it is, hashes, seed, guarantee.
pub fn section(context: &mut Context<'_>) -> Option<Section> {
    let mut logs: Vec<&Log> = context.logs.iter().collect();
    logs.sort_by(|a, b| a.path.cmp(&b.path));
    let row = |log: &&Log| {
        let manifest = &log.manifest;
        let text = |text: &str| Cell::Text(text.to_owned());
        let hash = |hash: &str| match log.published {
            true => text("–"),
            false => text(&hash.chars().take(12).collect::<String>()),
        };
        vec![
            text(&log.path.display().to_string()),
            text(&format!("{} ({})", manifest.kind, manifest.procedure)),
            text(names::method_name(&manifest.method).1),
            text(&log.data()),
            Cell::number(manifest.sigma),
            Cell::Number(log.len() as f64),
            if log.published {
                Cell::Missing
            } else {
                text(&manifest.seed.to_string())
            },
            hash(&manifest.model.sha256),
            hash(&manifest.data.sha256),
            text(&manifest.guarantee.to_string()),
            text(&manifest.versions.program),
        ]
    };
    let heads = ["file", "kind", "method", "data"];
    let mut columns: Vec<Column> = heads.into_iter().map(Column::text).collect();
    columns.push(Column::new("σ", Format::Short, Best::None));
    columns.push(Column::new("images", Format::Fixed(0), Best::None));
    columns.extend(["seed", "model", "contents", "guarantee", "version"].map(Column::text));
    let table = Table {
        id: "records".into(),
        title: "Logs".into(),
        caption: "Every log of this report, with the start of its model's and data set's SHA-256."
            .into(),
        guarantee: "as listed".into(),
        columns,
        rows: logs.iter().map(row).collect(),
    };
    (!logs.is_empty()).then(|| Section {
        id: "records".into(),
        title: "Records".into(),
        intro: "The figures above are computed from these files and nothing else.".into(),
        items: vec![Item::Table(table)],
    })
}
