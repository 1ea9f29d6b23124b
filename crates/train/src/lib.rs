//! Training: SGD, schedules, checkpoints and the methods.
//!
//! A run is a folder: `run.json`, `epochs.tsv`, a checkpoint that is replaced
//! atomically, and in the end `model.safetensors`. The state of a run is a pure
//! function of its configuration and its position, so a killed run continues
//! and ends with the same bytes.

mod checkpoint;
mod error;
mod evaluate;
pub mod loss;
pub mod methods;
mod observer;
mod run;
mod schedule;
mod sgd;
mod smooth;

pub use error::TrainError;
pub use evaluate::{Accuracy, evaluate};
pub use methods::{Method, Position};
pub use observer::{EpochReport, Observer, Progress, Silent};
pub use run::{CHECKPOINT_FILE, EPOCHS_FILE, Leg, MODEL_FILE, Plan, Run, train};
pub use schedule::{Schedule, ScheduleError};
pub use sgd::{Sgd, SgdParams};
pub use smooth::{HeatRun, iterate_file, smooth};
