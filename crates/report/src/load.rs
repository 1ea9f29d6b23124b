//! Loads logs: ours with their manifests, other people's as they are.

use std::path::{Path, PathBuf};

use record::{
    AttackRow, CertifyRow, DataId, FidelityRow, Guarantee, Kind, LboundRow, Manifest, ModelId, Row,
    Selection, Table, Versions, manifest_path,
};
use serde_json::Value;

use crate::{Options, ReportError, Warning};

/// The rows of a log, by kind.
#[derive(Debug)]
pub enum Rows {
    /// Certified radii.
    Certify(Vec<CertifyRow>),
    /// Adversarial distances.
    Attack(Vec<AttackRow>),
    /// L-bound radii.
    Lbound(Vec<LboundRow>),
    /// Distances to the Gaussian average.
    Fidelity(Vec<FidelityRow>),
}

/// A log in memory.
#[derive(Debug)]
pub struct Log {
    /// Where it was read from.
    pub path: PathBuf,
    /// Its manifest; of a published log, what its path tells.
    pub manifest: Manifest,
    /// Whether it came without a manifest.
    pub published: bool,
    /// Names of its further columns.
    pub extra: Vec<String>,
    /// Its rows.
    pub rows: Rows,
}

impl Log {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match &self.rows {
            Rows::Certify(rows) => rows.len(),
            Rows::Attack(rows) => rows.len(),
            Rows::Lbound(rows) => rows.len(),
            Rows::Fidelity(rows) => rows.len(),
        }
    }

    /// The one radius that an anytime certification was to decide, if it was.
    pub fn asked_radius(&self) -> Option<f64> {
        self.manifest.configuration.get("radius")?.as_f64()
    }

    /// Adds the rows of another shard of the same run.
    pub fn join(&mut self, other: Self) {
        match (&mut self.rows, other.rows) {
            (Rows::Certify(rows), Rows::Certify(more)) => rows.extend(more),
            (Rows::Attack(rows), Rows::Attack(more)) => rows.extend(more),
            (Rows::Lbound(rows), Rows::Lbound(more)) => rows.extend(more),
            (Rows::Fidelity(rows), Rows::Fidelity(more)) => rows.extend(more),
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

    /// Position of a further column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.extra.iter().position(|column| column == name)
    }

    /// `digits test`.
    pub fn data(&self) -> String {
        let DataId { name, split, .. } = &self.manifest.data;
        format!("{name} {split}").trim().to_owned()
    }
}

/// The columns that a log of this kind starts with.
pub fn header_of(kind: Kind) -> String {
    fn start<R: Row>() -> String {
        R::COLUMNS[..R::REQUIRED].join("\t")
    }
    match kind {
        Kind::Certify => start::<CertifyRow>(),
        Kind::Attack => start::<AttackRow>(),
        Kind::Lbound => start::<LboundRow>(),
        Kind::Fidelity => start::<FidelityRow>(),
    }
}

/// The kind of a log, from its first line.
pub fn kind_of_header(line: &str) -> Option<Kind> {
    let line = line.trim_end_matches('\r');
    [Kind::Certify, Kind::Attack, Kind::Lbound, Kind::Fidelity]
        .into_iter()
        .find(|&kind| {
            line.strip_prefix(&header_of(kind))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('\t'))
        })
}

/// Reads one log; `None` if it has no rows yet.
pub fn load(
    path: &Path,
    options: &Options,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Log>, ReportError> {
    let table = Table::read(path)?;
    let json = manifest_path(path);
    let published = !json.exists();
    let manifest = if published {
        guess(path, &table, options)?
    } else {
        Manifest::read(&json)?
    };
    if let Some(torn) = table.torn() {
        warnings.push(Warning::Torn {
            path: path.into(),
            line: torn.line,
        });
    }
    let (extra, rows) = match manifest.kind {
        Kind::Certify => (
            table.extra_columns::<CertifyRow>(),
            Rows::Certify(table.rows()?),
        ),
        Kind::Attack => (
            table.extra_columns::<AttackRow>(),
            Rows::Attack(table.rows()?),
        ),
        Kind::Lbound => (
            table.extra_columns::<LboundRow>(),
            Rows::Lbound(table.rows()?),
        ),
        Kind::Fidelity => (
            table.extra_columns::<FidelityRow>(),
            Rows::Fidelity(table.rows()?),
        ),
    };
    let log = Log {
        path: path.into(),
        manifest,
        published,
        extra,
        rows,
    };
    if log.len() == 0 {
        warnings.push(Warning::Empty { path: path.into() });
        return Ok(None);
    }
    if published {
        let (sigma, alpha) = (log.manifest.sigma, options.published_alpha);
        warnings.push(Warning::Published {
            path: path.into(),
            sigma,
            alpha,
        });
    } else if table.torn().is_none() {
        let of = log.manifest.selection.len();
        let rows = log.len() as u64;
        if rows < of {
            warnings.push(Warning::Unfinished {
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
fn guess(path: &Path, table: &Table, options: &Options) -> Result<Manifest, ReportError> {
    let Some(kind) = kind_of_header(&table.columns().join("\t")) else {
        let reason = "neither a manifest nor known columns".into();
        return Err(ReportError::NotALog {
            path: path.into(),
            reason,
        });
    };
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let data = [
        "cifar10",
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
        kind,
        procedure: if kind == Kind::Certify {
            "cohen".into()
        } else {
            kind.to_string()
        },
        method: "published".into(),
        label: Some(label.join("/").trim_end_matches(".tsv").to_owned()),
        model: ModelId {
            sha256: path.display().to_string(),
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
        seed: 0,
        guarantee: match kind {
            Kind::Certify => Guarantee::SoundSmoothed {
                alpha: options.published_alpha,
            },
            Kind::Lbound => Guarantee::ApproximateIfAverage,
            Kind::Attack | Kind::Fidelity => Guarantee::Empirical,
        },
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
        for kind in [Kind::Certify, Kind::Attack, Kind::Lbound, Kind::Fidelity] {
            assert_eq!(kind_of_header(&header_of(kind)), Some(kind));
            assert_eq!(kind_of_header(&(header_of(kind) + "\tmore")), Some(kind));
            assert_eq!(kind_of_header(&(header_of(kind) + "more")), None);
        }
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
