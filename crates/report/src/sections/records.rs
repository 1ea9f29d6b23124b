//! Where every figure comes from.

use std::path::{Path, PathBuf};

use record::Norm;

use super::{Context, Item, Section};
use crate::load::LoadedLog;
use crate::names;
use crate::table::{Best, Cell, Column, Format, Table};

/// A table of all logs: file, what it is, hashes, seed, guarantee.
pub fn section(context: &mut Context<'_>) -> Option<Section> {
    let mut logs: Vec<&LoadedLog> = context.logs.iter().collect();
    logs.sort_by(|a, b| a.path.cmp(&b.path));
    let folder = common_folder(&logs);
    let row = |log: &&LoadedLog| {
        let manifest = &log.manifest;
        let text = |text: &str| Cell::Text(text.to_owned());
        let hash = |hash: &str| match log.published {
            true => text("–"),
            false => text(&hash.chars().take(8).collect::<String>()),
        };
        vec![
            text(
                &log.path
                    .strip_prefix(&folder)
                    .unwrap_or(&log.path)
                    .display()
                    .to_string(),
            ),
            text(&match manifest.kind.to_string() {
                kind if kind == manifest.procedure => kind,
                kind => format!("{kind} ({})", manifest.procedure),
            }),
            text(names::method_name(&context.options.methods, &manifest.method).1),
            text(&log.data()),
            Cell::number(manifest.sigma),
            manifest.smoothing.map_or(Cell::Missing, |smoothing| {
                text(&match smoothing.norm {
                    Norm::L2 => smoothing.noise.to_string(),
                    norm => format!("{}; radii in {norm}", smoothing.noise),
                })
            }),
            Cell::Number(log.len() as f64),
            if log.published {
                Cell::Missing
            } else {
                text(&manifest.seed.to_string())
            },
            hash(&manifest.model.sha256),
            hash(&manifest.data.sha256),
            text(&manifest.guarantee.brief()),
            text(&manifest.versions.program),
        ]
    };
    let heads = ["file", "kind", "method", "data"];
    let mut columns: Vec<Column> = heads.into_iter().map(Column::text).collect();
    columns.push(Column::new("σ", Format::Plain, Best::None));
    columns.push(Column::text("noise"));
    columns.push(Column::new("images", Format::Fixed(0), Best::None));
    columns.extend(["seed", "model", "contents", "guarantee", "version"].map(Column::text));
    let table = Table {
        id: "records".into(),
        title: "Logs".into(),
        caption: format!(
            "Every log of this report{}, with the start of its model's and data set's SHA-256.",
            match folder.to_str() {
                Some(folder) if !folder.is_empty() => format!(" under {folder}"),
                _ => String::new(),
            }
        ),
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

/// The folder that all logs are in.
fn common_folder(logs: &[&LoadedLog]) -> PathBuf {
    let mut folders = logs.iter().filter_map(|log| log.path.parent());
    let first = folders.next().map(Path::to_path_buf).unwrap_or_default();
    folders.fold(first, |common, folder| {
        common
            .iter()
            .zip(folder)
            .take_while(|(a, b)| a == b)
            .map(|(part, _)| part)
            .collect()
    })
}
