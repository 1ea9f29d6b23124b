//! The verbs' tests of `crates/network`, compiled again for this crate's executor, and
//! what only concerns devices.
#![cfg(feature = "burn")]

mod common;
mod passes;
mod steps;

#[path = "../../../network/tests/it/noisy.rs"]
mod noisy;
#[path = "../../../network/tests/it/optimiser.rs"]
mod optimiser;
#[path = "../../../network/tests/it/pytorch.rs"]
mod pytorch;
#[path = "../../../network/tests/it/refusals.rs"]
mod refusals;
// The oracle's own gradients, which the next needs.
#[path = "../../../network/tests/it/gradients.rs"]
mod gradients;
#[path = "../../../network/tests/it/tokens.rs"]
mod tokens;
#[path = "../../../network/tests/it/verbs.rs"]
mod verbs;
