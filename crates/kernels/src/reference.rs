//! The specification of every kernel: plain loops over `f32` or `f64`.
//!
//! Slow on purpose. Tests compare the fast kernels with these, and evaluate
//! whole networks in `f64` with them.

mod conv;
mod norm;
mod pool;

pub use conv::{conv, conv_input_gradient, conv_weight_gradient};
pub use norm::{BatchNorm, BatchStatistics, batch_norm_eval, batch_statistics};
pub use pool::{average_pool, average_pool_gradient, max_pool, max_pool_gradient};

use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// `f32` or `f64`.
pub trait Real:
    Copy
    + PartialOrd
    + Default
    + Send
    + Sync
    + std::fmt::Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Nearest value.
    fn from_f64(x: f64) -> Self;
    /// Exact, or the same.
    fn to_f64(self) -> f64;
    /// Exact, or rounded.
    fn from_f32(x: f32) -> Self {
        Self::from_f64(f64::from(x))
    }
    /// Square root.
    fn sqrt(self) -> Self;
    /// Exponential.
    fn exp(self) -> Self;
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    fn from_f64(x: f64) -> Self {
        x as f32
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    fn sqrt(self) -> Self {
        self.sqrt()
    }
    fn exp(self) -> Self {
        self.exp()
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    fn from_f64(x: f64) -> Self {
        x
    }
    fn to_f64(self) -> f64 {
        self
    }
    fn sqrt(self) -> Self {
        self.sqrt()
    }
    fn exp(self) -> Self {
        self.exp()
    }
}
