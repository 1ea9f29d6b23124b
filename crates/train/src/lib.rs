//! Training: SGD, schedules, checkpoints and the methods.
//!
//! A run is a folder: `run.json`, `epochs.tsv`, a checkpoint that is replaced
//! atomically, and in the end `model.safetensors`. The state of a run is a pure
//! function of its configuration and its position, so a killed run continues
//! and ends with the same bytes.
//!
//! ```
//! use std::sync::Arc;
//!
//! use data::{OpenOptions, Split};
//! use network::architecture::{Task, build};
//! use network::{Alone, Model, ModelInfo, Reference};
//! use train::methods::Baseline;
//! use train::{Run, Silent, Training};
//!
//! let digits = data::open("digits", Split::Train, &OpenOptions::default())?.first(64);
//! let graph = build("mlp", &Task::new(digits.shape(), 10))?;
//! let start = Model::initialised(graph, 0, ModelInfo::default());
//! let folder = tempfile::tempdir()?;
//! let run = Run {
//!     folder: folder.path(),
//!     train: &digits,
//!     test: None,
//!     training: &Training { epochs: 1, batch_size: 32, ..Training::default() },
//!     seed: 0,
//!     load: &|model| Ok(Box::new(Reference::<f32>::new(model))),
//!     ranks: Arc::new(Alone),
//! };
//! let trained = train::train(&start, &mut Baseline::default(), &run, &mut Silent)?;
//! assert_ne!(trained.parameters, start.parameters);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checkpoint;
mod error;
mod evaluate;
pub mod loss;
pub mod methods;
mod minibatch;
mod observer;
mod ranks;
pub mod rows;
mod run;
mod schedule;
mod training;

pub use error::TrainError;
pub use evaluate::{Accuracy, EvaluateError, ValueErrors, evaluate, evaluate_values, rank};
pub use methods::{Leg, LegContext, Method, Position};
pub use minibatch::Minibatch;
pub use observer::{EpochReport, Silent, TrainObserver, TrainProgress};
pub use ranks::RankNorms;
pub use run::{CHECKPOINT_FILE, EPOCHS_FILE, MODEL_FILE, Run, tidy, train};
pub use schedule::{Schedule, ScheduleError};
pub use training::{AugmentChoice, Training};
