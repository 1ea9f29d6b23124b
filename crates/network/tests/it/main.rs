//! The tests of this crate from outside, in one binary to link it once.

mod architectures;
mod common;
mod fold;
mod gradients;
mod noisy;
mod optimiser;
mod pytorch;
mod refusals;
mod threads;
mod tokens;
mod verbs;
