//! The parts of a report: each turns logs into tables and figures.

pub mod attack_table;
pub mod attacks;
pub mod beside;
pub mod calibration;
pub mod certificates;
pub mod certified;
pub mod clever;
pub mod compare;
pub mod distances;
pub mod envelope;
pub mod fidelity;
pub mod intervals;
pub mod probabilities;
pub mod records;
pub mod refuted;
pub mod samples;
pub mod timing;
pub mod training;

use std::collections::BTreeMap;

use record::{LogKind, Norm};

use crate::figure::{Figure, Panels};
use crate::gallery::Card;
use crate::load::LoadedLog;
use crate::names::{self, Styles};
use crate::table::Table;
use crate::{Options, ReportWarning};

/// A part of the report.
#[derive(Debug)]
pub struct Section {
    /// Its anchor in the page.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What a reader needs to know first.
    pub intro: String,
    /// Its tables and figures, in order.
    pub items: Vec<Item>,
}

/// What a section is made of.
#[derive(Debug)]
pub enum Item {
    /// A table.
    Table(Table),
    /// A figure.
    Figure(Figure),
    /// Plots with points.
    Panels(Panels),
    /// Single images.
    Gallery(Vec<Card>),
}

/// What the sections work on.
pub struct Context<'a> {
    /// All logs.
    pub logs: &'a [LoadedLog],
    /// The user's choices.
    pub options: &'a Options,
    /// Colours of the models.
    pub styles: Styles,
    /// What the reader should know.
    pub warnings: Vec<ReportWarning>,
}

/// Logs that may stand in one table: same data set, sigma, k and norm, in the
/// order of the tables, with names that tell them apart.
pub struct Group<'a> {
    /// `digits test, σ = 0.25`.
    pub title: String,
    /// The same for file names and anchors.
    pub slug: String,
    /// The norm of their radii.
    pub norm: Norm,
    /// The logs.
    pub logs: Vec<&'a LoadedLog>,
    /// Their names.
    pub names: Vec<String>,
}

impl<'a> Context<'a> {
    /// The logs of a kind by data set, k and norm, and by sigma where that is
    /// asked.
    pub fn groups(&self, kind: LogKind, by_sigma: bool) -> Vec<Group<'a>> {
        self.groups_of(by_sigma, |log| log.manifest.kind == kind)
    }

    /// Some logs by data set, k and norm, and by sigma where that is asked.
    pub fn groups_of(&self, by_sigma: bool, wanted: impl Fn(&LoadedLog) -> bool) -> Vec<Group<'a>> {
        let mut groups: BTreeMap<(String, u64, u64, Norm), Vec<&LoadedLog>> = BTreeMap::new();
        for log in self.logs.iter().filter(|log| wanted(log)) {
            // Sigma is not negative, so its bits sort as it does.
            let sigma = if by_sigma {
                log.manifest.sigma.unwrap_or(0.0).to_bits()
            } else {
                0
            };
            groups
                .entry((log.data(), sigma, log.top_k(), log.smoothing().norm))
                .or_default()
                .push(log);
        }
        groups
            .into_iter()
            .map(|((data, sigma, top_k, norm), mut logs)| {
                names::sort(&self.options.methods, &mut logs);
                let sigma = f64::from_bits(sigma);
                let mut title = data;
                if sigma > 0.0 {
                    title += &format!(", σ = {sigma}");
                }
                if top_k != 1 {
                    title += &format!(", top-{top_k}");
                }
                if norm != Norm::default() {
                    title += &format!(", {norm}");
                }
                Group {
                    slug: slug(&title),
                    title,
                    norm,
                    names: names::names(&self.options.methods, &logs),
                    logs,
                }
            })
            .collect()
    }
}

impl Group<'_> {
    /// What the logs guarantee, in words.
    pub fn guarantee(&self) -> String {
        guarantees(&self.logs)
    }
}

/// The different guarantees of some logs.
pub fn guarantees(logs: &[&LoadedLog]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for log in logs {
        let text = log.manifest.guarantee.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join("; ")
}

/// Letters and digits, everything else as one dash.
pub fn slug(text: &str) -> String {
    let text = text.replace('σ', "sigma").to_lowercase();
    let parts = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    parts
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}
