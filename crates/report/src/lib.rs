//! Tables, figures and the HTML page, from records alone.
//!
//! [`build`] finds logs, run folders and galleries under the paths given and
//! turns them into a [`Report`]; [`Report::write`] puts it on disk:
//!
//! | file | what |
//! |---|---|
//! | `report.html` | everything in one self-contained page |
//! | `tables/ID.md`, `.tex`, `.csv` | each table; CSV in full precision |
//! | `figures/ID.svg`, `.png`, `.csv` | each figure, and the data drawn |

mod discover;
mod error;
mod figure;
mod gallery;
mod load;
mod names;
mod options;
mod page;
mod sections;
mod shards;
mod statistics;
mod table;

use std::path::{Path, PathBuf};

pub use error::{ReportError, Warning};
pub use figure::{Axis, Curve, Figure, Mark, Panel, Panels, Series, Span, Symbol};
pub use names::averages;
pub use options::{AttackConvention, Denominator, Options};
pub use statistics::{
    Interval, Paired, high_probability_accuracy, mean_difference, paired_difference,
};
pub use table::{Best, Cell, Column, Format, Table};

use names::Styles;
use record::{Gallery, atomic};
use sections::{Context, Item, Section, training};

/// A report, ready to be written.
#[derive(Debug)]
pub struct Report {
    title: String,
    logs: usize,
    sections: Vec<Section>,
    warnings: Vec<Warning>,
}

/// What [`Report::write`] wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The page.
    pub page: PathBuf,
    /// All files, the page first.
    pub files: Vec<PathBuf>,
}

/// Finds the records under `paths` (folders are searched, a file must be a log)
/// and builds the report.
pub fn build(paths: &[PathBuf], options: &Options) -> Result<Report, ReportError> {
    options.check()?;
    let found = discover::discover(paths)?;
    let mut warnings = found.warnings;
    let mut logs = Vec::new();
    for path in &found.logs {
        logs.extend(load::load(path, options, &mut warnings)?);
    }
    let logs = shards::join(logs, &mut warnings);
    let mut runs = Vec::new();
    for path in &found.runs {
        runs.extend(training::load(path, &mut warnings)?);
    }
    let mut galleries = Vec::new();
    for path in &found.galleries {
        galleries.push((path.clone(), Gallery::read(path)?));
    }
    if logs.is_empty() && runs.is_empty() && galleries.is_empty() {
        return Err(ReportError::Nothing {
            paths: paths.to_vec(),
        });
    }
    let mut order: Vec<&load::Log> = logs.iter().collect();
    names::sort(&mut order);
    let styles = Styles::new(&order);
    let mut context = Context {
        logs: &logs,
        options,
        styles,
        warnings,
    };
    let sections = [
        sections::certified::section(&mut context),
        sections::attacks::section(&mut context),
        sections::samples::section(&mut context),
        sections::fidelity::section(&mut context),
        sections::timing::section(&mut context),
        training::section(&mut context, &runs),
        gallery::section(&mut context, &galleries)?,
        sections::records::section(&mut context),
    ];
    Ok(Report {
        title: options.title.clone(),
        logs: logs.len(),
        sections: sections.into_iter().flatten().collect(),
        warnings: context.warnings,
    })
}

impl Report {
    /// What a reader should know, each ending in advice.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// All tables, in the order of the page.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.items().filter_map(|item| match item {
            Item::Table(table) => Some(table),
            _ => None,
        })
    }

    /// All figures, in the order of the page.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.items().filter_map(|item| match item {
            Item::Figure(figure) => Some(figure),
            _ => None,
        })
    }

    fn items(&self) -> impl Iterator<Item = &Item> {
        self.sections.iter().flat_map(|section| &section.items)
    }

    /// The page, whole: it needs no other file and no network.
    pub fn to_html(&self) -> String {
        page::render(self)
    }

    /// Writes all files into `out`, each whole or not at all.
    pub fn write(&self, out: &Path) -> Result<Written, ReportError> {
        let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
        let page = out.join("report.html");
        files.push((page.clone(), self.to_html().into_bytes()));
        for table in self.tables() {
            let path = |extension| out.join(format!("tables/{}.{extension}", table.id));
            files.push((path("md"), table.to_markdown().into_bytes()));
            files.push((path("tex"), table.to_latex().into_bytes()));
            files.push((path("csv"), table.to_csv().into_bytes()));
        }
        for figure in self.figures() {
            let path = |extension| out.join(format!("figures/{}.{extension}", figure.id));
            files.push((path("svg"), figure.to_svg().into_bytes()));
            files.push((path("png"), figure.to_png()?));
            files.push((path("csv"), figure.to_csv().into_bytes()));
        }
        for (path, bytes) in &files {
            atomic::write(path, bytes)?;
        }
        Ok(Written {
            page,
            files: files.into_iter().map(|(path, _)| path).collect(),
        })
    }
}
