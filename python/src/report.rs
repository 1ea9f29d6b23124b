//! Reports, and the joining of shards.

use std::path::PathBuf;

use heatsmooth::report::{AttackConvention, Denominator, Options, Report, build};
use heatsmooth::{Error, Registry, record};
use pyo3::prelude::*;

use crate::errors::{raise, refuse};
use crate::watch::{Watch, run};

/// What a page is to show.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Wanted {
    title: Option<String>,
    radii: Vec<f64>,
    denominator: String,
    attacks: String,
}

fn built(py: Python<'_>, paths: &[PathBuf], wanted: Wanted) -> PyResult<Report> {
    let defaults = Options::default();
    let options = Options {
        title: wanted.title.unwrap_or(defaults.title),
        radii: wanted.radii,
        denominator: match wanted.denominator.as_str() {
            "all" => Denominator::All,
            "non-abstained" => Denominator::NonAbstained,
            other => return Err(unknown(py, "denominator", other, "all, non-abstained")),
        },
        attacks: match wanted.attacks.as_str() {
            "successes" => AttackConvention::Successes,
            "paper" => AttackConvention::Paper,
            other => return Err(unknown(py, "attacks", other, "successes, paper")),
        },
        methods: Registry::standard().method_infos(),
        ..Options::default()
    };
    run(py, &Watch::default(), || {
        build(paths, &options).map_err(Error::from)
    })
}

fn unknown(py: Python<'_>, name: &str, got: &str, expected: &str) -> PyErr {
    let message = format!("{name} is `{got}`, expected {expected}");
    refuse(py, &message, "see the function's documentation")
}

/// Writes a report; answers with the page, all files, and warnings.
#[pyfunction]
pub fn report(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    out: PathBuf,
    wanted: Wanted,
) -> PyResult<(PathBuf, Vec<PathBuf>, Vec<String>)> {
    let report = built(py, &paths, wanted)?;
    let warnings = report.warnings().iter().map(ToString::to_string).collect();
    let written = run(py, &Watch::default(), || {
        report.write(&out).map_err(Error::from)
    })?;
    Ok((written.page, written.files, warnings))
}

/// Figures (id, title, SVG) that a report would draw of these logs.
#[pyfunction]
pub fn figures(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    wanted: Wanted,
) -> PyResult<Vec<(String, String)>> {
    let report = built(py, &paths, wanted)?;
    let figures = report.figures().map(|f| (f.id.clone(), f.to_svg()));
    let panels = report.panels().map(|p| (p.id.clone(), p.to_svg()));
    Ok(figures.chain(panels).collect())
}

/// Joins the logs of all shards of one run.
#[pyfunction]
pub fn merge(py: Python<'_>, shards: Vec<PathBuf>, out: PathBuf) -> PyResult<()> {
    let merged = record::merge(&shards, &out);
    merged.map(drop).map_err(|error| raise(py, &error.into()))
}
