//! L2 attacks: PGD and DDN, their criteria and sanity checks.
//!
//! ```text
//! network -> Target -> Attack -> run (re-checks) -> Outcome -> Summary
//! ```
//!
//! - [`Target`]: what an attack sees. [`Deterministic`] is a network as it is,
//!   [`Averaged`] its average over noise; an attack cannot tell them apart.
//! - [`Attack`]: moves images. [`Pgd`] has a fixed budget, [`Ddn`] looks for the
//!   smallest norm; both come out of `check()`ed parameters ([`PgdParams`],
//!   [`DdnParams`]).
//! - [`Aim`]: the targets of a targeted attack.
//! - [`run`]: attacks a [`Batch`] and believes nothing: range, budget and success
//!   are measured again on the final images, which come back in the
//!   [`Outcome`]s.
//! - [`checks`]: is this network one on which an attack means something?
//! - [`maximise`]: the inner maximisation of adversarial training.
//!
//! Images are NHWC with pixels in [0, 1], and stay so. Everything is a pure
//! function of images, seeds and parameters: an image's result does not depend
//! on its neighbours in the batch.

mod aim;
mod attempt;
mod batch;
pub mod checks;
mod ddn;
mod error;
mod l2;
mod outcome;
mod pgd;
mod run;
mod summary;
mod target;

pub use aim::Aim;
pub use attempt::{Attack, Attempt, Kind, Visit};
pub use batch::{Batch, Goal};
pub use ddn::{Ddn, DdnParams};
pub use error::AttackError;
pub use outcome::{Outcome, Status};
pub use pgd::{Pgd, PgdParams};
pub use run::{maximise, run};
pub use summary::{Distances, Summary};
pub use target::{Averaged, Deterministic, Evaluation, Judgement, Points, Standing, Target};
