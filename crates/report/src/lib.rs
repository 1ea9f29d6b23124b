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
//!
//! # Example
//!
//! Other people's certification logs work too, also without a manifest; what was
//! assumed about them is told by [`Report::warnings`].
//!
//! ```
//! use heatsmooth_report::{Options, ReportError, build};
//!
//! # fn main() -> Result<(), ReportError> {
//! let folder = tempfile::tempdir().expect("a temporary folder");
//! let log = folder.path().join("cifar10-sigma_0.25");
//! let text = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n\
//!             0\t3\t3\t0.5\t1\t0:00:15.1\n\
//!             20\t7\t-1\t0.0\t0\t0:00:15.1\n";
//! std::fs::write(&log, text).expect("a temporary file");
//!
//! let options = Options {
//!     radii: vec![0.0, 0.25],
//!     ..Options::default()
//! };
//! let report = build(&[log], &options)?;
//! for warning in report.warnings() {
//!     eprintln!("warning: {warning}");
//! }
//! let table = report.tables().next().expect("a table of certified accuracy");
//! let heads = "model,radius ≥ 0 (share),radius ≥ 0.25 (share),ACR,";
//! assert!(table.to_csv().starts_with(heads));
//! // Half of the images are right and certified to a radius of 0.25.
//! assert!(table.to_csv().contains(",0.5,0.5,0.25,"));
//!
//! let written = report.write(&folder.path().join("report"))?;
//! assert!(written.page.ends_with("report.html"));
//! # Ok(())
//! # }
//! ```

mod discover;
mod error;
mod figure;
mod gallery;
mod literature;
mod load;
mod names;
mod options;
mod page;
mod same;
mod sections;
mod shards;
mod statistics;
mod table;

use std::path::{Path, PathBuf};

pub use error::{ReportError, ReportWarning};
pub use figure::{Axis, Colour, Curve, Figure, Mark, Panel, Panels, Series, Span, Symbol};
pub use literature::PublishedResult;
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
    warnings: Vec<ReportWarning>,
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
    let published = PublishedResult::named(&options.beside)?;
    let found = discover::discover(paths)?;
    let mut warnings = found.warnings;
    let mut logs = Vec::new();
    for path in &found.logs {
        logs.extend(load::load(path, options, &mut warnings)?);
    }
    let mut runs = Vec::new();
    for path in &found.runs {
        runs.extend(training::load(path, &mut warnings)?);
    }
    let mut galleries = Vec::new();
    for path in &found.galleries {
        galleries.push((path.clone(), Gallery::read(path)?));
    }
    name_once(&mut logs, &mut runs, &mut galleries);
    let logs = shards::join(logs, &mut warnings);
    if logs.is_empty() && runs.is_empty() && galleries.is_empty() {
        return Err(ReportError::Nothing {
            paths: paths.to_vec(),
        });
    }
    let mut order: Vec<&load::LoadedLog> = logs.iter().collect();
    names::sort(&options.methods, &mut order);
    let styles = Styles::new(&order);
    let mut context = Context {
        logs: &logs,
        options,
        styles,
        warnings,
    };
    let sections = [
        sections::certified::section(&mut context),
        sections::beside::section(&context, &published),
        sections::calibration::section(&mut context),
        sections::intervals::section(&mut context),
        sections::attacks::section(&mut context),
        sections::clever::section(&mut context),
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

/// One identity for each model and one name for each data set, in all records.
fn name_once(
    logs: &mut [load::LoadedLog],
    runs: &mut [training::RunRecord],
    galleries: &mut [(PathBuf, Gallery)],
) {
    let of_logs = logs.iter_mut().flat_map(|log| {
        let record::Manifest {
            model, reference, ..
        } = &mut log.manifest;
        std::iter::once(model).chain(reference.iter_mut())
    });
    let of_runs = runs.iter_mut().flat_map(|run| {
        let record::RunManifest { model, parent, .. } = &mut run.manifest;
        model.iter_mut().chain(parent.iter_mut())
    });
    let of_galleries = galleries.iter_mut().map(|(_, gallery)| &mut gallery.model);
    same::one_identity_each(of_logs.chain(of_runs).chain(of_galleries));
    let of_logs = logs.iter_mut().map(|log| &mut log.manifest.data);
    let of_runs = runs.iter_mut().map(|run| &mut run.manifest.data);
    let of_galleries = galleries.iter_mut().map(|(_, gallery)| &mut gallery.data);
    same::one_name_each(of_logs.chain(of_runs).chain(of_galleries));
}

impl Report {
    /// What a reader should know, each ending in advice.
    pub fn warnings(&self) -> &[ReportWarning] {
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

    /// All plots with points, in the order of the page.
    pub fn panels(&self) -> impl Iterator<Item = &Panels> {
        self.items().filter_map(|item| match item {
            Item::Panels(panels) => Some(panels),
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
        for panels in self.panels() {
            let path = |extension| out.join(format!("figures/{}.{extension}", panels.id));
            files.push((path("svg"), panels.to_svg().into_bytes()));
            files.push((path("png"), panels.to_png()?));
            files.push((path("csv"), panels.to_csv().into_bytes()));
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
