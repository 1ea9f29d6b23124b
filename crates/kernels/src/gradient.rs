//! Gradients of convolutions.
//!
//! [`WeightGradient`] covers every geometry. [`InputGradient`] does too, by a
//! direct kernel; where the stride is 1 the forward kernels on rotated weights
//! are faster and the caller prefers them.

mod direct;
mod input;
mod tile;
mod weight;
mod winograd;

pub use input::InputGradient;
pub use weight::{ConvInputs, InputPass, WeightGradient};

#[cfg(test)]
mod tests;
