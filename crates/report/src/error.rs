//! What can stop a report, and what is worth telling although it goes on.

use std::fmt;
use std::path::PathBuf;

use record::{CertifyRow, RecordError, Row};

/// An error while building or writing a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A record does not read or a file does not write.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A path is neither a folder nor a log.
    #[error("{}: {reason}", .path.display())]
    NotALog {
        /// The path given.
        path: PathBuf,
        /// Why it is none.
        reason: String,
    },
    /// There is nothing to report.
    #[error("no logs, runs or galleries under {}", join(.paths))]
    Nothing {
        /// The paths that were searched.
        paths: Vec<PathBuf>,
    },
    /// An option makes no sense.
    #[error("{name}: expected {expected}, got {got}")]
    Option {
        /// The option.
        name: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        got: String,
    },
    /// Published figures that are not known.
    #[error("beside: there are no published figures `{got}`")]
    Literature {
        /// What was asked for.
        got: String,
        /// What there is.
        known: String,
    },
    /// A figure does not become a picture.
    #[error("figure {figure}: cannot draw: {reason}")]
    Draw {
        /// The figure's id.
        figure: String,
        /// What the renderer said.
        reason: String,
    },
}

impl ReportError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Record(error) => error.hint(),
            Self::Literature { known, .. } => Some(format!("there are {known}")),
            Self::Nothing { .. } => Some(
                "name folders that hold certify, attack, lbound or fidelity logs (F.tsv with F.json)"
                    .into(),
            ),
            Self::NotALog { .. } => Some(format!(
                "a certification log starts with the columns `{}`",
                CertifyRow::COLUMNS[..CertifyRow::REQUIRED].join(" ")
            )),
            _ => None,
        }
    }
}

fn join(paths: &[PathBuf]) -> String {
    paths
        .iter()
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

/// Something a reader of the report should know. The text ends in advice.
#[derive(Clone, Debug, PartialEq)]
pub enum ReportWarning {
    /// The last line of a log is torn: its run was killed.
    Torn {
        /// The log.
        path: PathBuf,
        /// The torn line, which was left out.
        line: u64,
    },
    /// A log has fewer images than its run was asked for.
    Unfinished {
        /// The log.
        path: PathBuf,
        /// Images in it.
        rows: u64,
        /// Images asked for.
        of: u64,
    },
    /// A log holds no rows yet.
    Empty {
        /// The log.
        path: PathBuf,
    },
    /// A table in a searched folder is not a log.
    Skipped {
        /// The file.
        path: PathBuf,
    },
    /// A log's rows are of a kind that another program defines.
    OwnKind {
        /// The log.
        path: PathBuf,
        /// Its kind.
        kind: String,
    },
    /// Two logs are of the same run; the second is left out.
    Duplicate {
        /// The log left out.
        path: PathBuf,
        /// The log that stays.
        of: PathBuf,
    },
    /// Only some shards of a run are there.
    ShardsMissing {
        /// One of the shards.
        path: PathBuf,
        /// How many are there.
        found: usize,
        /// How many there should be.
        of: u64,
    },
    /// A log without manifest: its alpha and sigma are not known for sure.
    Published {
        /// The log.
        path: PathBuf,
        /// Its sigma, if the path tells.
        sigma: Option<f64>,
        /// The alpha that is assumed.
        alpha: f64,
    },
    /// Logs under one data set's name are of different data.
    DataDiffers {
        /// The data set.
        data: String,
    },
    /// Two logs of one table cover different images.
    ImagesDiffer {
        /// The table's group.
        group: String,
    },
    /// Many distances of an attack sit on the smallest one it can reach.
    AttackFloor {
        /// The model's name.
        model: String,
        /// The attack.
        attack: String,
        /// How many.
        count: usize,
        /// Of how many successes.
        of: usize,
        /// The floor.
        distance: f64,
    },
    /// Some gallery images were left out to keep the page small.
    GalleryCut {
        /// Images shown.
        shown: usize,
        /// Images there.
        of: usize,
    },
}

impl fmt::Display for ReportWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn { path, line } => write!(
                f,
                "{}:{line}: the last line is torn (the run was killed); read up to there. \
                 Run its command again to finish it",
                path.display()
            ),
            Self::Unfinished { path, rows, of } => write!(
                f,
                "{}: {rows} of {of} images so far. Run its command again to finish it",
                path.display()
            ),
            Self::Empty { path } => write!(
                f,
                "{}: no rows yet, left out. Run its command again to fill it",
                path.display()
            ),
            Self::Skipped { path } => write!(
                f,
                "{}: not a log that this program knows, left out. Name it directly to see why",
                path.display()
            ),
            Self::OwnKind { path, kind } => write!(
                f,
                "{}: its rows are of the kind `{kind}`, which a report does not show, left out. \
                 The command that wrote it sums it up when it is run again",
                path.display()
            ),
            Self::Duplicate { path, of } => write!(
                f,
                "{}: the same run as {}, left out. Remove one of them",
                path.display(),
                of.display()
            ),
            Self::ShardsMissing { path, found, of } => write!(
                f,
                "{}: {found} of {of} shards of its run are here. Run or name the others",
                path.display()
            ),
            Self::Published { path, sigma, alpha } => {
                let sigma = sigma.map_or("sigma is unknown".into(), |sigma| {
                    format!("sigma {sigma} is taken from its path")
                });
                write!(
                    f,
                    "{}: no manifest beside it; {sigma}, and alpha = {alpha} is assumed. Check \
                     both before quoting its figures",
                    path.display()
                )
            }
            Self::DataDiffers { data } => write!(
                f,
                "{data}: its logs are of different contents (other hashes). Do not compare them; \
                 fetch one version of the data and run again"
            ),
            Self::ImagesDiffer { group } => write!(
                f,
                "{group}: the logs cover different images; comparisons use those in common. \
                 Measure all of them on the same images"
            ),
            Self::AttackFloor {
                model,
                attack,
                count,
                of,
                distance,
            } => write!(
                f,
                "{model}: {count} of {of} {attack} distances sit at {distance:.3}, the smallest \
                 that its steps can reach. Give it more steps"
            ),
            Self::GalleryCut { shown, of } => write!(
                f,
                "gallery: {shown} of {of} images are shown, to keep the page small. \
                 Raise the gallery limit to see more"
            ),
        }
    }
}
