//! Turn an image classifier into its own Gaussian average: after training, one
//! forward pass answers what randomized smoothing needs thousands of noisy passes
//! for.
//!
//! This crate is the whole of heatsmooth; the binary and the Python package are
//! doors to it.
//!
//! | to | call |
//! |---|---|
//! | choose where networks run | [`Device`] |
//! | train on several machines | [`Device::with_ranks`] with a [`Collective`] |
//! | do a part of a measurement in an array job | [`shard_of_environment`] |
//! | read a model or data set, or bring one's own | [`ModelSource`], [`DataSource`], [`GivenImages`] |
//! | train or smooth a model | [`fit`] with a [`MethodChoice`] |
//! | certify, bound, attack or compare a model | [`measure()`] with one of [`measurements`] |
//! | find out what one pass may promise | [`calibrate()`] |
//! | do either by name | [`Registry`] |
//! | run a whole experiment | [`Experiment`] |
//! | write tables, figures and a page | [`report`] |
//!
//! Everything resumes: what was stopped goes on where it was and ends with the
//! same bytes. Same seed, same answer, for any number of threads.
//!
//! # Example
//!
//! A network is trained on the embedded digits, smoothed without labels, and
//! certified.
//!
//! ```
//! use heatsmooth::measurements::Certified;
//! use heatsmooth::{
//!     CertifyParams, DataSource, Device, HeatParams, ImageChoice, ImageSource as _, Job,
//!     MethodChoice, ModelSource, Quiet, Split, SplitChoice, StartFrom, Subject, Training, fit, measure,
//! };
//!
//! # fn main() -> Result<(), heatsmooth::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let out = folder.path();
//! let device = Device::cpu(None)?;
//! let digits = DataSource::named("digits");
//! let train = digits.open(Split::Train, None)?;
//! let training = Training { epochs: 2, batch_size: 64, lr: 0.05, clip: 1.0, ..Training::default() };
//! let folders = [out.join("baseline"), out.join("heat")];
//! let job = |start, folder| Job {
//!     start,
//!     train: &train,
//!     test: None,
//!     training: &training,
//!     folder,
//!     seed: 0,
//!     device: &device,
//! };
//!
//! let start = StartFrom::Architecture { name: "mlp", normalise: None };
//! let baseline = fit(MethodChoice::baseline(), &job(start, &folders[0]), &mut Quiet)?;
//!
//! let f = ModelSource::new(&baseline.file);
//! let loaded = f.load(None)?;
//! let start = StartFrom::Model { loaded: &loaded, path: &f.path };
//! let heat = MethodChoice::heat(0.25, HeatParams::default())?;
//! let v = fit(heat, &job(start, &folders[1]), &mut Quiet)?;
//!
//! let first = ImageChoice::first(20);
//! let v = ModelSource::new(v.file);
//! let subject = Subject::open(&v, &digits, &SplitChoice::default(), &first, &device)?;
//! let params = CertifyParams { n: 200, ..CertifyParams::default() };
//! let smoothing = subject.smoothing(None, 0.25)?;
//! let certified = Certified::new(smoothing, params, 0)?;
//! let measured = measure(&certified, &subject, &out.join("certified.tsv"), &mut Quiet)?;
//! assert_eq!(measured.images, 20);
//! println!("{measured}");
//! # Ok(())
//! # }
//! ```

mod accuracy;
mod album;
mod bench;
mod calibrate;
mod choice;
pub mod config;
mod device;
mod error;
mod evaluation;
mod experiment;
mod fit;
mod illustration;
mod measure;
pub mod measurements;
mod modes;
#[cfg(feature = "mpi")]
mod mpi;
mod normalise;
mod observer;
mod one_pass;
mod predict;
pub mod presets;
mod registry;
mod shard;
mod smooth;
mod source;
mod subject;

pub use accuracy::{accuracy, value_errors};
pub use bench::{Bench, Work};
pub use calibrate::{calibrate, calibration_log};
pub use choice::{AttackChoice, MethodChoice};
pub use device::{Device, DeviceInfo, Engine};
pub use error::Error;
pub use evaluation::{AccuracyFigures, EvalOptions};
pub use experiment::{
    Experiment, FitStage, ImportStage, Laboratory, MeasureStage, PriceList, Stage, StagePrice,
    StageResult, StageStart,
};
pub use fit::{Fitted, Job, Origin, StartFrom, Workshop, fit};
pub use illustration::{Illustration, IllustrationParams, illustrate};
pub use measure::{Figures, Measured, Measurement, measure};
pub use modes::certification_modes;
#[cfg(feature = "mpi")]
pub use mpi::MpiJob;
pub use observer::{Observer, Quiet, StageProgress};
pub use one_pass::{OnePassFigures, OnePassShare, calibration_at, one_pass};
pub use predict::{
    Answer, ClassAnswer, LBOUND_GUARANTEE, PictureAnswer, Predictor, VoteOptions, answer,
    calibrated_guarantee, certificate, one_pass_level, vote, vote_guarantee, vote_shares,
};
pub use registry::{
    AttackEntry, MeasureContext, MeasureFn, MeasurementEntry, MethodEntry, Registry,
};
pub use shard::{FoundShard, shard_in, shard_log, shard_of_environment};
pub use smooth::{Base, SmoothOptions, Smoothed};
pub use source::{
    DataSource, GivenImages, ImageSource, ModelSource, SplitChoice, TaskChoice, Weights,
    parse_shape,
};
pub use subject::{ImageChoice, Subject, image_range};

pub use attack::{DdnParams, PgdParams};
pub use certify::{
    CalibrateParams, CertifyParams, CleverParams, FidelityParams, IntervalParams, LBoundParams,
    NoiseChoice, PredictParams, Select, Smoothing, TopKRule,
};
pub use data::{Dataset, Split};
pub use exchange::Loaded;
pub use network::{Alone, Calibration, Collective, Images, Model, TaskKind};
pub use train::methods::{
    AdversarialParams, AverageParams, HeatParams, InnerAttackParams, NoiseDraws, TrainingNoise,
};
pub use train::{Accuracy, RankNorms, Schedule, Training, ValueErrors};

// The crates below, whole: for methods, attacks and measurements of one's own.
pub use {attack, certify, data, exchange, network, record, report, settings, train};
