//! `F.json`: what stands beside each log.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{About, Difference, Guarantee, LogKind, RecordError, Selection, SmoothingId, atomic};

/// A model file, known by its hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelId {
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// SHA-256 of everything that decides the outputs: graph, normalisation, input
    /// shape, weights. Options can make several networks of one file. `None` in
    /// early records, which are then compared by the file alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Where it was; for people, never compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl ModelId {
    /// Whether two records are about one network: the same file, read the same way.
    pub fn is(&self, other: &Self) -> bool {
        self.key() == other.key()
            || (self.sha256 == other.sha256
                && (self.identity.is_none() || other.identity.is_none()))
    }

    /// What stands for the network where records are sorted by it.
    pub fn key(&self) -> &str {
        self.identity.as_deref().unwrap_or(&self.sha256)
    }
}

/// A data set, known by its hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataId {
    /// `digits`, `cifar10`, ... or the folder's name.
    pub name: String,
    /// `train` or `test`.
    pub split: String,
    /// SHA-256 of its contents, hexadecimal.
    pub sha256: String,
}

/// What computed the results; never compared, since results do not depend on
/// the thread count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// Version of heatsmooth.
    pub program: String,
    /// Instruction set or device of the kernels, for example `avx2`.
    pub isa: String,
    /// Number of threads.
    pub threads: usize,
}

/// What a log measured, on what, and what it guarantees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always [`Manifest::FORMAT`].
    pub format: String,
    /// Version of this schema, [`Manifest::VERSION`].
    pub version: u32,
    /// What the log holds.
    pub kind: LogKind,
    /// How it was measured: `cohen`, `anytime`, `pgd`, `ddn`, `lbound`, ...
    pub procedure: String,
    /// How the model was made: `baseline`, `gaussian`, `smoothadv`, `heat`, ...
    pub method: String,
    /// Name for people where the method alone would be ambiguous; never compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The model measured.
    pub model: ModelId,
    /// The model compared with (fidelity: f).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<ModelId>,
    /// The data set.
    pub data: DataId,
    /// Which of its images.
    pub selection: Selection,
    /// Noise std in units of pixels scaled to [0, 1]; `None` without noise.
    pub sigma: Option<f64>,
    /// Which noise, and the norm of radii; `None` without noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smoothing: Option<SmoothingId>,
    /// Seed of all noise.
    pub seed: u64,
    /// What the results guarantee.
    pub guarantee: Guarantee,
    /// Every other resolved option of the command. The report reads `top_k`
    /// (results for different k are never mixed), `samples` (m noises of a
    /// stochastic model), `eps` (attacks) and `calibration` (what the finished rows
    /// of a calibration log came to) from it, where they are there.
    pub configuration: Value,
    /// What computed it.
    pub versions: Versions,
}

impl Manifest {
    /// Value of `format`.
    pub const FORMAT: &str = "heatsmooth-log";
    /// The version this library writes, and the newest it reads.
    pub const VERSION: u32 = 1;

    /// Reads a manifest; a newer version or another format is refused.
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        let manifest: Self = read_versioned(path, Self::FORMAT, Self::VERSION)?;
        Ok(manifest.with_what_it_is_about().with_its_noise())
    }

    /// Early manifests do not tell their noise: it was Gaussian.
    fn with_its_noise(mut self) -> Self {
        let early = self.sigma.map(|_| SmoothingId::default());
        self.smoothing = self.smoothing.or(early);
        self
    }

    /// Early manifests tell what a top-k certificate is about in their
    /// configuration alone.
    fn with_what_it_is_about(mut self) -> Self {
        let top_k = self.configuration.get("top_k").and_then(Value::as_u64);
        let rule = self.configuration.get("rule").and_then(Value::as_str);
        if let Guarantee::SoundSmoothed { about, .. } = &mut self.guarantee
            && *about == About::TopOne
            && let Some(k) = top_k.filter(|&k| k > 1)
        {
            *about = match rule {
                Some("paper") => About::Set(k as usize),
                _ => About::LabelInTop(k as usize),
            };
        }
        self
    }

    /// Writes it, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), RecordError> {
        atomic::write_json(path, self)
    }

    /// What may differ between manifests whose rows belong together.
    pub(crate) const NEVER_COMPARED: [&str; 8] = [
        "versions",
        "label",
        "model.path",
        "reference.path",
        // The hash says which data they are; a folder may have moved.
        "data.name",
        "guarantee.in_words",
        // Stands in the manifest itself.
        "guarantee.smoothing",
        // What the finished rows of a calibration log came to.
        "configuration.calibration",
    ];

    /// Whether `wanted` is the same measurement of more images, those of `self`
    /// first, so that its rows are the first ones of `wanted`.
    pub(crate) fn grows_into(&self, wanted: &Self) -> bool {
        let (found, whole) = (&self.selection, &wanted.selection);
        let grown = Self {
            selection: Selection {
                end: whole.end,
                ..*found
            },
            ..self.clone()
        };
        found.shard.is_none() && found.end < whole.end && grown.differences(wanted).is_empty()
    }

    /// The fields in which `self` (on disk) differs from `wanted` such that
    /// their rows must not be mixed. Versions, paths, labels and the wording of
    /// the guarantee may differ.
    pub fn differences(&self, wanted: &Self) -> Vec<Difference> {
        differences(self, wanted, &Self::NEVER_COMPARED)
    }
}

/// Reads a JSON file with `format` and `version` fields.
pub(crate) fn read_versioned<T: DeserializeOwned>(
    path: &Path,
    format: &str,
    version: u32,
) -> Result<T, RecordError> {
    let value: Value = atomic::read_json(path)?;
    let found = value
        .get("format")
        .and_then(Value::as_str)
        .unwrap_or("none");
    if found != format {
        return Err(RecordError::json(
            path,
            format!("its format is `{found}`, expected `{format}`"),
        ));
    }
    match value.get("version").and_then(Value::as_u64) {
        Some(found) if found <= u64::from(version) => {}
        Some(found) => {
            let reason = format!("its version is {found}, this program reads up to {version}");
            return Err(RecordError::json(path, reason));
        }
        None => return Err(RecordError::json(path, "it has no version")),
    }
    serde_json::from_value(value).map_err(|error| RecordError::json(path, error))
}

/// Compares two records field by field, except the dotted paths in `ignored`.
pub(crate) fn differences<T: Serialize>(
    found: &T,
    wanted: &T,
    ignored: &[&str],
) -> Vec<Difference> {
    let mut out = Vec::new();
    // A record that does not become JSON cannot have been written either.
    let json = |record: &T| serde_json::to_value(record).unwrap_or(Value::Null);
    compare(
        "",
        Some(&json(found)),
        Some(&json(wanted)),
        ignored,
        &mut out,
    );
    out
}

fn compare(
    field: &str,
    found: Option<&Value>,
    wanted: Option<&Value>,
    ignored: &[&str],
    out: &mut Vec<Difference>,
) {
    // Early records do not know the identity of their model.
    let early = field.ends_with(".identity") && (found.is_none() || wanted.is_none());
    if found == wanted || ignored.contains(&field) || early {
        return;
    }
    if let (Some(Value::Object(found)), Some(Value::Object(wanted))) = (found, wanted) {
        let added = wanted.keys().filter(|key| !found.contains_key(*key));
        for key in found.keys().chain(added) {
            let field = if field.is_empty() {
                key.clone()
            } else {
                format!("{field}.{key}")
            };
            compare(&field, found.get(key), wanted.get(key), ignored, out);
        }
        return;
    }
    let show = |value: Option<&Value>| value.map_or("-".to_string(), Value::to_string);
    out.push(Difference {
        field: field.into(),
        found: show(found),
        wanted: show(wanted),
    });
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    pub(crate) fn sample() -> Manifest {
        Manifest {
            format: Manifest::FORMAT.into(),
            version: Manifest::VERSION,
            kind: LogKind::Certify,
            procedure: "cohen".into(),
            method: "heat".into(),
            label: None,
            model: ModelId {
                sha256: "aa".into(),
                identity: Some("a1".into()),
                path: Some("run/model.safetensors".into()),
            },
            reference: None,
            data: DataId {
                name: "digits".into(),
                split: "test".into(),
                sha256: "bb".into(),
            },
            selection: Selection::all(6),
            sigma: Some(0.25),
            smoothing: Some(SmoothingId::default()),
            seed: 0,
            guarantee: Guarantee::SoundSmoothed {
                alpha: 0.001,
                about: About::TopOne,
                smoothing: SmoothingId::default(),
            },
            configuration: json!({"n": 1000, "n0": 100, "select": "clean"}),
            versions: Versions {
                program: "0.1.0".into(),
                isa: "avx2".into(),
                threads: 2,
            },
        }
    }

    #[test]
    fn comes_back_from_disk_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("F.json");
        let manifest = Manifest {
            sigma: Some(0.1 + 0.2),
            ..sample()
        };
        manifest.write(&path).unwrap();
        assert_eq!(Manifest::read(&path).unwrap(), manifest);
    }

    #[test]
    fn names_what_differs_and_ignores_what_may() {
        let found = sample();
        let mut wanted = Manifest {
            sigma: Some(0.5),
            seed: 7,
            label: Some("x".into()),
            ..sample()
        };
        wanted.versions.threads = 64;
        wanted.model.path = None;
        wanted.configuration = json!({"n": 1000, "n0": 50, "anytime": true});
        let texts: Vec<String> = found
            .differences(&wanted)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            texts,
            [
                "configuration.n0 is 100, wanted 50",
                "configuration.select is \"clean\", wanted -",
                "configuration.anytime is -, wanted true",
                "seed is 0, wanted 7",
                "sigma is 0.25, wanted 0.5",
            ]
        );
        assert!(found.differences(&found).is_empty());
    }

    #[test]
    fn issue_17_point_2_one_file_read_in_two_ways_is_two_models() {
        let found = sample();
        let mut wanted = sample();
        wanted.model.identity = Some("a2".into());
        let texts: Vec<String> = found
            .differences(&wanted)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(texts, ["model.identity is \"a1\", wanted \"a2\""]);
        assert!(!found.model.is(&wanted.model));
        // An early record knows the file alone.
        wanted.model.identity = None;
        assert!(found.differences(&wanted).is_empty());
        assert!(wanted.differences(&found).is_empty());
        assert!(found.model.is(&wanted.model));
        wanted.model.sha256 = "bb".into();
        assert!(!found.differences(&wanted).is_empty());
    }

    #[test]
    fn the_wording_of_a_guarantee_may_differ_but_nothing_else_of_it() {
        let found = sample();
        let wanted = |about| Manifest {
            guarantee: Guarantee::SoundSmoothed {
                alpha: 0.001,
                about,
                smoothing: SmoothingId::default(),
            },
            ..sample()
        };
        assert!(found.differences(&wanted(About::TopOne)).is_empty());
        let differences = found.differences(&wanted(About::Set(5)));
        let texts: Vec<String> = differences.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["guarantee.about is -, wanted {\"set\":5}"]);
    }

    #[test]
    fn an_early_manifest_tells_by_its_configuration_what_it_is_about() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("F.json");
        for (configuration, expected) in [
            (json!({"top_k": 1, "rule": "paper"}), About::TopOne),
            (json!({"top_k": 5, "rule": "paper"}), About::Set(5)),
            (json!({"top_k": 5, "rule": "sound"}), About::LabelInTop(5)),
            (json!(null), About::TopOne),
        ] {
            let early = Manifest {
                configuration,
                ..sample()
            };
            early.write(&path).unwrap();
            let Guarantee::SoundSmoothed { about, .. } = Manifest::read(&path).unwrap().guarantee
            else {
                panic!("a certificate");
            };
            assert_eq!(about, expected);
        }
    }

    #[test]
    fn an_early_manifest_is_about_gaussian_noise() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("F.json");
        let early = Manifest {
            smoothing: None,
            ..sample()
        };
        early.write(&path).unwrap();
        assert!(
            !std::fs::read_to_string(&path)
                .unwrap()
                .contains("smoothing")
        );
        assert_eq!(Manifest::read(&path).unwrap(), sample());
        assert!(
            Manifest::read(&path)
                .unwrap()
                .differences(&sample())
                .is_empty()
        );
        let without_noise = Manifest {
            sigma: None,
            ..early
        };
        without_noise.write(&path).unwrap();
        assert_eq!(Manifest::read(&path).unwrap().smoothing, None);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("F.json");
        for (text, expected) in [
            (r#"{"format":"other","version":1}"#, "its format is `other`"),
            (
                r#"{"format":"heatsmooth-log","version":9}"#,
                "reads up to 1",
            ),
            (r#"{"format":"heatsmooth-log"}"#, "no version"),
            (
                r#"{"format":"heatsmooth-log","version":1}"#,
                "missing field `kind`",
            ),
            ("[]", "its format is `none`"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Manifest::read(&path).unwrap_err().to_string();
            assert!(
                error.contains(expected) && error.contains("F.json"),
                "{error}"
            );
        }
    }
}
