//! L2 attacks: PGD and DDN, their criteria and sanity checks.
//!
//! ```text
//! network -> Target -> Attack -> run (re-checks) -> AttackOutcome -> AttackSummary
//! ```
//!
//! - [`Target`]: what an attack sees. [`Deterministic`] is a network as it is,
//!   [`Averaged`] its average over noise; an attack cannot tell them apart.
//! - [`Attack`]: moves images. [`Pgd`] has a fixed budget, [`Ddn`] looks for the
//!   smallest norm.
//! - [`Aim`]: the targets of a targeted attack.
//! - [`run`]: attacks the images of a [`Challenge`] and believes nothing: range, budget and success
//!   are measured again on the final images, which come back in the
//!   [`AttackOutcome`]s.
//! - [`checks`]: is this network one on which an attack means something?
//! - [`maximise`]: the inner maximisation of adversarial training.
//! - [`reach`]: how far real values can be moved within a budget.
//!
//! Images are NHWC with pixels in [0, 1], and stay so. Everything is a pure
//! function of images, seeds and parameters: an image's result does not depend
//! on its neighbours in the batch.
//!
//! ```
//! use attack::{Challenge, Deterministic, Pgd, PgdParams, run};
//! use network::architecture::{Task, build};
//! use network::{Images, Model, ModelInfo, Reference, Shape};
//!
//! let graph = build("mlp", &Task::new(Shape::new(8, 8, 1), 10))?;
//! let network = Reference::<f32>::new(&Model::initialised(graph, 0, ModelInfo::default()));
//! let mut images = Images::new(Shape::new(8, 8, 1));
//! images.push(0, 3, &[0.5; 64]);
//!
//! let pgd = Pgd::new(PgdParams { eps: 2.0, ..PgdParams::default() }, 0)?;
//! let target = Deterministic::new(&network);
//! let outcomes = run(&pgd, &target, &Challenge::new(&images), &mut |_| {})?;
//! assert!(outcomes[0].l2.is_none_or(|distance| distance <= 2.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod aim;
mod attempt;
mod challenge;
pub mod checks;
mod ddn;
mod descent;
mod error;
mod l2;
mod outcome;
mod pgd;
mod run;
mod summary;
mod target;
mod values;

pub use aim::Aim;
pub use attempt::{Attack, AttackKind, Attempt, Visit};
pub use challenge::{Challenge, Goal};
pub use ddn::{Ddn, DdnParams};
pub use error::AttackError;
pub use outcome::{AttackOutcome, Status};
pub use pgd::{Pgd, PgdParams};
pub use run::{maximise, run};
pub use summary::{AttackDistances, AttackSummary};
pub use target::{Averaged, Deterministic, Evaluation, Judgement, Standing, Target};
pub use values::{Reach, reach};
