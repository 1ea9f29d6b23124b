//! What a report must know about a training method.

use std::borrow::Cow;

/// How a training method is named, and how its models classify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodInfo {
    /// As manifests name it: `heat`.
    pub name: Cow<'static, str>,
    /// As people read it: `HeatSmoothing`.
    pub display: Cow<'static, str>,
    /// Whether its models classify by an average over noise, so that one pass
    /// without noise says nothing about them.
    pub stochastic: bool,
    /// Its place in tables; lower comes first.
    pub order: usize,
}

impl MethodInfo {
    /// A method whose models classify by one pass without noise.
    pub const fn deterministic(name: &'static str, display: &'static str, order: usize) -> Self {
        Self {
            name: Cow::Borrowed(name),
            display: Cow::Borrowed(display),
            stochastic: false,
            order,
        }
    }

    /// A method whose models classify by an average over noise.
    pub const fn stochastic(name: &'static str, display: &'static str, order: usize) -> Self {
        Self {
            name: Cow::Borrowed(name),
            display: Cow::Borrowed(display),
            stochastic: true,
            order,
        }
    }
}
