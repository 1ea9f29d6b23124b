//! A small certification log.

use std::path::Path;
use std::time::Duration;

use heatsmooth_record::{
    About, CertifyRow, DataId, Guarantee, Log, LogKind, Manifest, ModelId, Row, Selection,
    SmoothingId, Versions,
};

/// The columns of the log: not all that a row may have.
pub fn columns() -> Vec<&'static str> {
    [&CertifyRow::COLUMNS[..10], &["samples"]].concat()
}

pub fn manifest(images: u64) -> Manifest {
    Manifest {
        format: Manifest::FORMAT.into(),
        version: Manifest::VERSION,
        kind: LogKind::Certify,
        procedure: "cohen".into(),
        method: "heat".into(),
        label: None,
        model: ModelId {
            sha256: "aa".into(),
            identity: None,
            path: None,
        },
        reference: None,
        data: DataId {
            name: "digits".into(),
            split: "test".into(),
            sha256: "bb".into(),
        },
        selection: Selection::all(images),
        sigma: Some(0.25),
        smoothing: Some(SmoothingId::default()),
        seed: 0,
        guarantee: Guarantee::SoundSmoothed {
            alpha: 0.001,
            about: About::TopOne,
            smoothing: SmoothingId::default(),
        },
        configuration: serde_json::json!({"n": 1000}),
        versions: Versions::default(),
    }
}

pub fn row(idx: u64) -> CertifyRow {
    let certified = !idx.is_multiple_of(4);
    CertifyRow {
        idx,
        label: 3,
        predict: certified.then_some(3),
        radius: if certified {
            0.1 + idx as f64 / 7.0
        } else {
            0.0
        },
        correct: certified,
        time: Some(Duration::from_micros(1_234_567)),
        n_a: Some(990),
        n: Some(1000),
        p_lower: 0.98,
        samples: Some(1100),
        ..CertifyRow::default()
    }
}

pub fn write(path: &Path, manifest: &Manifest) {
    let (mut log, opened) = Log::open(path, manifest, &columns()).unwrap();
    for idx in manifest.selection.indices().skip(opened.rows.len()) {
        log.append(&row(idx)).unwrap();
    }
    log.finish().unwrap();
}
