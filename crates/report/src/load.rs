//! Loads logs: ours with their manifests, other people's as they are.

use std::path::{Path, PathBuf};

use record::{
    About, AttackRow, CalibrationRow, CertifyRow, CleverRow, DataId, FidelityRow, Guarantee,
    IntervalRow, LboundRow, LogKind, Manifest, ModelId, Row, Selection, SmoothingId, Tsv, Versions,
    manifest_path,
};
use serde_json::Value;

use crate::{Options, ReportError, ReportWarning};

/// The rows of a log, by kind.
#[derive(Debug)]
pub enum LoadedRows {
    /// Certified radii.
    Certify(Vec<CertifyRow>),
    /// Adversarial distances.
    Attack(Vec<AttackRow>),
    /// L-bound radii.
    Lbound(Vec<LboundRow>),
    /// Distances to the Gaussian average.
    Fidelity(Vec<FidelityRow>),
    /// One-pass radii beside certified ones.
    Calibrate(Vec<CalibrationRow>),
    /// Estimated distances.
    Clever(Vec<CleverRow>),
    /// Intervals of real values.
    Interval(Vec<IntervalRow>),
}

/// A log in memory.
#[derive(Debug)]
pub struct LoadedLog {
    /// Where it was read from.
    pub path: PathBuf,
    /// Its manifest; of a published log, what its path tells.
    pub manifest: Manifest,
    /// Whether it came without a manifest.
    pub published: bool,
    /// Its rows.
    pub rows: LoadedRows,
}

impl LoadedLog {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match &self.rows {
            LoadedRows::Certify(rows) => rows.len(),
            LoadedRows::Attack(rows) => rows.len(),
            LoadedRows::Lbound(rows) => rows.len(),
            LoadedRows::Fidelity(rows) => rows.len(),
            LoadedRows::Calibrate(rows) => rows.len(),
            LoadedRows::Clever(rows) => rows.len(),
            LoadedRows::Interval(rows) => rows.len(),
        }
    }

    /// The one radius that an anytime certification was to decide, if it was.
    pub fn asked_radius(&self) -> Option<f64> {
        self.manifest.configuration.get("radius")?.as_f64()
    }

    /// Which noise, and the norm of radii.
    pub fn smoothing(&self) -> SmoothingId {
        self.manifest.smoothing.unwrap_or_default()
    }

    /// Adds the rows of another shard of the same run.
    pub fn join(&mut self, other: Self) {
        match (&mut self.rows, other.rows) {
            (LoadedRows::Certify(rows), LoadedRows::Certify(more)) => rows.extend(more),
            (LoadedRows::Attack(rows), LoadedRows::Attack(more)) => rows.extend(more),
            (LoadedRows::Lbound(rows), LoadedRows::Lbound(more)) => rows.extend(more),
            (LoadedRows::Fidelity(rows), LoadedRows::Fidelity(more)) => rows.extend(more),
            (LoadedRows::Calibrate(rows), LoadedRows::Calibrate(more)) => rows.extend(more),
            (LoadedRows::Clever(rows), LoadedRows::Clever(more)) => rows.extend(more),
            (LoadedRows::Interval(rows), LoadedRows::Interval(more)) => rows.extend(more),
            // Shards are joined by equal manifests, so their kinds agree.
            _ => {}
        }
    }

    /// k of top-k, 1 unless the configuration says otherwise.
    pub fn top_k(&self) -> u64 {
        self.manifest
            .configuration
            .get("top_k")
            .and_then(Value::as_u64)
            .unwrap_or(1)
    }

    /// A number from the configuration.
    pub fn setting(&self, name: &str) -> Option<f64> {
        self.manifest
            .configuration
            .get(name)
            .and_then(Value::as_f64)
    }

    /// `digits test`.
    pub fn data(&self) -> String {
        let DataId { name, split, .. } = &self.manifest.data;
        format!("{name} {split}").trim().to_owned()
    }
}

/// The kind of a log, from its first line: a log starts with the columns that its
/// kind requires.
pub fn kind_of_header(line: &str) -> Option<LogKind> {
    fn start<R: Row>() -> (LogKind, &'static [&'static str]) {
        (R::KIND, &R::COLUMNS[..R::REQUIRED])
    }
    let found: Vec<&str> = line.trim_end_matches('\r').split('\t').collect();
    [
        start::<CertifyRow>(),
        start::<AttackRow>(),
        start::<LboundRow>(),
        start::<FidelityRow>(),
        start::<CalibrationRow>(),
        start::<CleverRow>(),
        start::<IntervalRow>(),
    ]
    .into_iter()
    .find(|(_, required)| found.starts_with(required))
    .map(|(kind, _)| kind)
}

/// Reads one log; `None` if it has no rows yet, or rows of a kind that is not known
/// here.
pub fn load(
    path: &Path,
    options: &Options,
    warnings: &mut Vec<ReportWarning>,
) -> Result<Option<LoadedLog>, ReportError> {
    let table = Tsv::read(path)?;
    let json = manifest_path(path);
    let published = !json.exists();
    let manifest = if published {
        guess(path, &table, options)?
    } else {
        Manifest::read(&json)?
    };
    if let Some(torn) = table.torn() {
        warnings.push(ReportWarning::Torn {
            path: path.into(),
            line: torn.line,
        });
    }
    let rows = match &manifest.kind {
        LogKind::Certify => LoadedRows::Certify(table.rows()?),
        LogKind::Attack => LoadedRows::Attack(table.rows()?),
        LogKind::Lbound => LoadedRows::Lbound(table.rows()?),
        LogKind::Fidelity => LoadedRows::Fidelity(table.rows()?),
        LogKind::Calibrate => LoadedRows::Calibrate(table.rows()?),
        LogKind::Clever => LoadedRows::Clever(table.rows()?),
        LogKind::Interval => LoadedRows::Interval(table.rows()?),
        kind @ (LogKind::Accuracy | LogKind::Own(_)) => {
            warnings.push(ReportWarning::OwnKind {
                path: path.into(),
                kind: kind.to_string(),
            });
            return Ok(None);
        }
    };
    let log = LoadedLog {
        path: path.into(),
        manifest,
        published,
        rows,
    };
    if log.len() == 0 {
        warnings.push(ReportWarning::Empty { path: path.into() });
        return Ok(None);
    }
    if published {
        let (sigma, alpha) = (log.manifest.sigma, options.published_alpha);
        warnings.push(ReportWarning::Published {
            path: path.into(),
            sigma,
            alpha,
        });
    } else if table.torn().is_none() {
        let of = log.manifest.selection.len();
        let rows = log.len() as u64;
        if rows < of {
            warnings.push(ReportWarning::Unfinished {
                path: path.into(),
                rows,
                of,
            });
        }
    }
    Ok(Some(log))
}

/// A manifest for a log that has none. Cohen's and Salman's repositories name
/// their files `.../cifar10/resnet110/noise_0.25/test/sigma_0.25`.
fn guess(path: &Path, table: &Tsv, options: &Options) -> Result<Manifest, ReportError> {
    let Some(kind) = kind_of_header(&table.columns().join("\t")) else {
        let reason = "neither a manifest nor known columns".into();
        return Err(ReportError::NotALog {
            path: path.into(),
            reason,
        });
    };
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    // A name that holds another one comes before it.
    let data = [
        "cifar100",
        "cifar10",
        "tiny-imagenet",
        "imagenet",
        "fashion-mnist",
        "mnist",
        "digits",
        "svhn",
    ]
    .into_iter()
    .find(|name| parts.iter().any(|part| part.contains(name)))
    .unwrap_or("unknown data");
    let after = parts
        .iter()
        .position(|part| part.contains(data))
        .map_or(0, |at| at + 1);
    let label = &parts[after
        .max(parts.len().saturating_sub(4))
        .min(parts.len().saturating_sub(1))..];
    let split = if parts.contains(&"train") {
        "train"
    } else {
        "test"
    };
    Ok(Manifest {
        format: Manifest::FORMAT.into(),
        version: Manifest::VERSION,
        procedure: match &kind {
            LogKind::Certify => "cohen".into(),
            other => other.to_string(),
        },
        method: "published".into(),
        label: Some(label.join("/").trim_end_matches(".tsv").to_owned()),
        model: ModelId {
            sha256: path.display().to_string(),
            identity: None,
            path: None,
        },
        reference: None,
        data: DataId {
            name: data.into(),
            split: split.into(),
            sha256: String::new(),
        },
        selection: Selection::all(0),
        sigma: number_after(&parts, "sigma_").or_else(|| number_after(&parts, "noise_")),
        smoothing: Some(SmoothingId::default()),
        seed: 0,
        guarantee: match kind {
            LogKind::Certify => Guarantee::SoundSmoothed {
                alpha: options.published_alpha,
                about: About::TopOne,
                smoothing: SmoothingId::default(),
            },
            LogKind::Lbound => Guarantee::ApproximateIfAverage,
            LogKind::Clever => Guarantee::Estimate,
            _ => Guarantee::Empirical,
        },
        kind,
        configuration: Value::Null,
        versions: Versions::default(),
    })
}

/// The number after a word, in the last part of the path that has one.
fn number_after(parts: &[&str], word: &str) -> Option<f64> {
    parts.iter().rev().find_map(|part| {
        let rest = &part[part.find(word)? + word.len()..];
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        rest[..end].trim_end_matches('.').parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_tell_the_kind() {
        let attack = AttackRow::COLUMNS.join("\t");
        let least = AttackRow::COLUMNS[..AttackRow::REQUIRED].join("\t");
        let fidelity = FidelityRow::columns(&[0.25]).join("\t");
        for (header, kind) in [
            (CertifyRow::COLUMNS.join("\t"), LogKind::Certify),
            (LboundRow::COLUMNS.join("\t"), LogKind::Lbound),
            (fidelity, LogKind::Fidelity),
            (CalibrationRow::COLUMNS.join("\t"), LogKind::Calibrate),
            (CleverRow::COLUMNS.join("\t"), LogKind::Clever),
            (IntervalRow::columns(2).join("\t"), LogKind::Interval),
            (attack + "\tmore\r", LogKind::Attack),
            (least.clone(), LogKind::Attack),
        ] {
            assert_eq!(kind_of_header(&header), Some(kind));
        }
        assert_eq!(kind_of_header(&(least + "more")), None);
        assert_eq!(kind_of_header("epoch\tloss"), None);
    }

    #[test]
    fn paths_tell_sigma() {
        let parts = ["certify", "noise_0.50", "test", "sigma_0.25"];
        assert_eq!(number_after(&parts, "sigma_"), Some(0.25));
        assert_eq!(number_after(&parts, "noise_"), Some(0.5));
        assert_eq!(number_after(&["sigma_0.12.tsv"], "sigma_"), Some(0.12));
        assert_eq!(number_after(&["sigma_x"], "sigma_"), None);
    }
}
