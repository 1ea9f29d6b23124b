//! Records of runs and results: schemas, crash-safe writing, reading.
//!
//! | file | what | type |
//! |---|---|---|
//! | `run.json` | what a training run was asked to do, and from what | [`RunManifest`] |
//! | `epochs.tsv` | one line per epoch, open-ended columns | [`TableWriter`], [`Table`] |
//! | `F.tsv` | one line per image: a certification, attack, L-bound or fidelity log | [`Log`], [`Table::rows`] |
//! | `F.json` | beside each `F.tsv`: what was measured, on what, and what it guarantees | [`Manifest`] |
//! | `gallery.json` | pictures of single images, in a folder of their own | [`Gallery`] |
//!
//! Logs are tab-separated with one header line. Numbers are written in full
//! precision (the shortest text that reads back to the same bits), an empty
//! cell means "not measured". Every row is one `write`, so a killed process
//! leaves at most one torn last line, which [`TableWriter`] cuts off on
//! reopening and [`Table`] skips with a note.

pub mod atomic;
mod duration;
mod error;
mod gallery;
mod guarantee;
mod log;
mod manifest;
mod merge;
mod number;
mod rows;
mod run;
mod selection;
mod table;
mod writer;

pub use duration::{format_duration, parse_duration};
pub use error::{Difference, RecordError};
pub use gallery::{
    AdversarialImage, DifferenceImage, Gallery, GalleryImage, GalleryWriter, NoisyImage, Pictures,
};
pub use guarantee::Guarantee;
pub use log::{Log, Opened, manifest_path};
pub use manifest::{DataId, Kind, Manifest, ModelId, Versions};
pub use merge::{Merged, merge};
pub use number::format_number;
pub use rows::{AttackRow, Cells, CertifyRow, FidelityRow, LboundRow, Line, Row};
pub use run::RunManifest;
pub use selection::{Selection, Shard};
pub use table::{Table, Torn};
pub use writer::{Reopened, TableWriter};
