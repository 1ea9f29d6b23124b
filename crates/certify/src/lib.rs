//! Certification: statistics, PREDICT, CERTIFY, anytime certificates, L-bound, fidelity.
//!
//! - [`certify_all`] with a [`Certify`] plan: CERTIFY of Cohen et al., the paper's
//!   variant for a deterministic v, top-k, and anytime certificates.
//! - [`predict_all`][]: PREDICT.
//! - [`lbound_all`][]: the paper's L-bound.
//! - [`fidelity_all`][]: the distance between v and the Gaussian average of f.
//! - [`radius`][]: three certified radii as functions of p.
//! - [`statistics`][]: what all of it rests on.
//!
//! Whatever the batch size, number of threads, shard or restart, an image's result
//! is the same to the bit: its noise is a function of (seed, purpose, image,
//! sample), and its samples are looked at in order.

mod anytime;
mod certify;
mod closeness;
mod error;
mod fidelity;
mod guarantee;
mod image;
mod lbound;
mod observer;
mod plan;
mod predict;
pub mod radius;
mod sample;
pub mod statistics;

pub use anytime::Decision;
pub use certify::{Certificate, Outcome, certify_all};
pub use closeness::{Closeness, EffectiveSigma, FidelitySummary};
pub use error::Error;
pub use fidelity::{AtLevel, Distances, Fidelity, FidelityOutcome, fidelity_all};
pub use guarantee::{About, Guarantee};
pub use image::Image;
pub use lbound::{Bound, Centre, LBound, LBoundSummary, lbound_all, lbound_radius};
pub use observer::Observer;
pub use plan::{Certify, Goal, Select, TopKRule};
pub use predict::{Predict, Prediction, predict_all};
