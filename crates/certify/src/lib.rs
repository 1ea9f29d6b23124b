//! Certification: statistics, PREDICT, CERTIFY, anytime certificates, L-bound, fidelity,
//! calibration.
//!
//! - [`certify_all`] with a [`Certify`] plan: CERTIFY of Cohen et al., the paper's
//!   variant for a deterministic v, top-k, and anytime certificates.
//! - [`predict_all`][]: PREDICT.
//! - [`lbound_all`][]: the paper's L-bound.
//! - [`interval_all`] with an [`IntervalPlan`]: how far smoothed real values can move.
//! - [`fidelity_all`][]: the distance between v and the average of f over noise.
//! - [`clever_all`][]: CLEVER, an estimate of the distance to another class.
//! - [`one_pass_radius`][]: Cohen's radius from one pass of an average, and
//!   [`calibrate_all`] with [`Calibrate::choose`]: what of it may be promised.
//! - [`radius`][]: three certified radii as functions of p.
//! - [`statistics`][]: what all of it rests on.
//!
//! Whatever the batch size, number of threads, shard or restart, an image's result
//! is the same to the bit: its noise is a function of (seed, purpose, image,
//! sample), and its samples are looked at in order.
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use heatsmooth_certify::{CertifyOutcome, CertifyParams, Smoothing, certify_all};
//! use network::architecture::{Task, build};
//! use network::{Images, Model, ModelInfo, Reference, Shape};
//!
//! let graph = build("mlp", &Task::new(Shape::new(8, 8, 1), 10))?;
//! let network = Reference::<f32>::new(&Model::initialised(graph, 0, ModelInfo::default()));
//! let mut images = Images::new(Shape::new(8, 8, 1));
//! images.push(0, 3, &[0.5; 64]);
//!
//! let params = CertifyParams { n0: 10, n: 50, ..CertifyParams::default() };
//! let plan = params.plan(Smoothing::gaussian(0.25)?, 0)?;
//! let mut observer = |outcome: CertifyOutcome| {
//!     println!("certified radius {}", outcome.certificate.radius);
//!     ControlFlow::Continue(())
//! };
//! certify_all(&network, [images], &plan, 64, &mut observer)?;
//! println!("{}", plan.guarantee());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod anytime;
mod calibrate;
mod certify;
mod clever;
mod closeness;
mod error;
mod fidelity;
mod grid;
mod image;
mod interval;
mod lbound;
mod observer;
mod one_pass;
mod pilot;
mod plan;
mod predict;
pub mod radius;
mod sample;
mod smoothing;
pub mod statistics;
mod tally;

pub use anytime::{Decision, Prior};
pub use calibrate::{Calibrate, CalibrateParams, CalibrationOutcome, calibrate_all};
pub use certify::{Certificate, CertifyOutcome, certify_all};
pub use clever::{Clever, CleverOutcome, CleverParams, clever_all};
pub use closeness::{Closeness, EffectiveSigma, FidelitySummary};
pub use error::CertifyError;
pub use fidelity::{
    AtLevel, Fidelity, FidelityDistances, FidelityOutcome, FidelityParams, fidelity_all,
};
pub use interval::{
    CertifiedInterval, IntervalOutcome, IntervalParams, IntervalPlan, interval_all, lipschitz,
};
pub use lbound::{Bound, Centre, LBound, LBoundParams, LBoundSummary, lbound_all, lbound_radius};
pub use observer::OutcomeObserver;
pub use one_pass::one_pass_radius;
pub use pilot::Pilot;
pub use plan::{Certify, CertifyParams, Evidence, Select, Sides, StopRule, TopKRule};
pub use predict::{Predict, PredictParams, Prediction, predict_all};
pub use smoothing::{NoiseChoice, Smoothing};
