//! Records of runs and results: schemas, crash-safe writing, reading.
//!
//! | file | what | type |
//! |---|---|---|
//! | `run.json` | what a training run was asked to do, and from what | [`RunManifest`] |
//! | `epochs.tsv` | one line per epoch, open-ended columns | [`TsvWriter`], [`Tsv`] |
//! | `F.tsv` | one line per image: a certification, attack, L-bound, fidelity, calibration or interval log | [`Log`], [`Tsv::rows`] |
//! | `F.json` | beside each `F.tsv`: what was measured, on what, and what it guarantees | [`Manifest`] |
//! | `gallery.json` | pictures of single images, in a folder of their own | [`Gallery`] |
//!
//! Logs are tab-separated with one header line. Numbers are written in full
//! precision (the shortest text that reads back to the same bits), an empty
//! cell means "not measured". Every row is one `write`, so a killed process
//! leaves at most one torn last line, which [`TsvWriter`] cuts off on
//! reopening and [`Tsv`] skips with a note.
//!
//! # Example
//!
//! A measurement opens its log before the long work and appends a row for each
//! image. Killed and started again, it finds the rows that are there and goes on
//! with the next image; the log of another model, data set or setting is refused.
//!
//! ```
//! use heatsmooth_record::{
//!     About, CertifyRow, DataId, Guarantee, Log, LogKind, Manifest, ModelId, RecordError, Row,
//!     Selection, SmoothingId, Tsv, Versions,
//! };
//!
//! # fn main() -> Result<(), RecordError> {
//! let manifest = Manifest {
//!     format: Manifest::FORMAT.into(),
//!     version: Manifest::VERSION,
//!     kind: LogKind::Certify,
//!     procedure: "cohen".into(),
//!     method: "heat".into(),
//!     label: None,
//!     model: ModelId { sha256: "43eff3b2".into(), ..ModelId::default() },
//!     reference: None,
//!     data: DataId { name: "digits".into(), split: "test".into(), sha256: "4853df62".into() },
//!     selection: Selection::all(3),
//!     sigma: Some(0.25),
//!     smoothing: Some(SmoothingId::default()),
//!     seed: 0,
//!     guarantee: Guarantee::SoundSmoothed {
//!         alpha: 0.001,
//!         about: About::TopOne,
//!         smoothing: SmoothingId::default(),
//!     },
//!     configuration: serde_json::json!({"n": 10_000}),
//!     versions: Versions::default(),
//! };
//! // Stands for the measurement of one image.
//! let certify = |idx| CertifyRow {
//!     idx,
//!     label: 7,
//!     predict: Some(7),
//!     radius: 0.5,
//!     correct: true,
//!     ..CertifyRow::default()
//! };
//!
//! let folder = tempfile::tempdir().expect("a temporary folder");
//! let path = folder.path().join("certify.tsv");
//! let (mut log, _) = Log::open(&path, &manifest, CertifyRow::COLUMNS)?;
//! log.append(&certify(0))?;
//! drop(log); // The first run is killed here.
//!
//! let (mut log, opened) = Log::open(&path, &manifest, CertifyRow::COLUMNS)?;
//! for idx in manifest.selection.indices().skip(opened.rows.len()) {
//!     log.append(&certify(idx))?;
//! }
//! log.finish()?;
//!
//! let rows: Vec<CertifyRow> = Tsv::read(&path)?.rows()?;
//! assert_eq!(rows.len(), 3);
//! assert_eq!(rows[2].radius, 0.5);
//! # Ok(())
//! # }
//! ```

pub mod atomic;
mod duration;
mod error;
mod gallery;
mod guarantee;
mod kind;
mod log;
mod manifest;
mod merge;
mod method;
mod number;
mod rows;
mod run;
mod selection;
mod smoothing;
mod status;
mod tsv;
mod tsv_writer;

pub use duration::{format_duration, parse_duration};
pub use error::{Difference, RecordError};
pub use gallery::{
    AdversarialPicture, DifferencePicture, Gallery, GalleryImage, GalleryWriter, NoisyPicture,
    Pictures,
};
pub use guarantee::{About, Guarantee, SmoothedValue};
pub use kind::LogKind;
pub use log::{Log, Opened, manifest_path};
pub use manifest::{DataId, Manifest, ModelId, Versions};
pub use merge::{Merged, merge};
pub use method::MethodInfo;
pub use number::format_number;
pub use rows::{
    AccuracyRow, AttackRow, CalibrationRow, CellError, Cells, CertifyRow, CleverRow, FidelityLevel,
    FidelityRow, IntervalRow, LboundRow, LevelDistance, Line, OutputInterval, Row,
};
pub use run::{RanksId, RunManifest};
pub use selection::{Selection, Shard};
pub use smoothing::{NoiseLaw, Norm, SmoothingId};
pub use status::{LogStatus, ShardStatus, status};
pub use tsv::{Torn, Tsv};
pub use tsv_writer::{Reopened, TsvWriter};
