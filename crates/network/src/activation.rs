//! Element-wise non-linearities and their derivatives.

use serde::{Deserialize, Serialize};

/// Element-wise non-linearities.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// `x` if positive, else `slope * x`.
    LeakyRelu {
        /// Slope for negative values.
        slope: f32,
    },
    /// `min(max(x, low), high)`.
    Clip {
        /// Lower end.
        low: f32,
        /// Upper end.
        high: f32,
    },
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `min(max(slope * x + offset, 0), 1)`.
    HardSigmoid {
        /// 1/6 in PyTorch, 0.2 by default in ONNX.
        slope: f32,
        /// 1/2.
        offset: f32,
    },
    /// `x * min(max(x/6 + 1/2, 0), 1)`.
    HardSwish,
    /// `x * Phi(x)`, with the error function or its `tanh` approximation.
    Gelu {
        /// Use `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`.
        tanh: bool,
    },
    /// `x * sigmoid(x)`.
    Silu,
    /// Hyperbolic tangent.
    Tanh,
    /// `e^x`.
    Exp,
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `Phi(x)`, the standard normal distribution function.
fn normal(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

/// `E max(x + width z, 0)` with `z ~ N(0, 1)`, and its derivative.
pub(crate) fn averaged_relu(x: f64, width: f64) -> (f64, f64) {
    if width == 0.0 {
        return (Activation::Relu.value(x), Activation::Relu.derivative(x));
    }
    let (u, phi) = (x / width, normal(x / width));
    let density = (-0.5 * u * u).exp() / (2.0 * std::f64::consts::PI).sqrt();
    (x * phi + width * density, phi)
}

/// Inner function of Gelu's `tanh` form, `sqrt(2/pi) * (x + 0.044715 x^3)`, and
/// its derivative.
fn gelu_inner(x: f64) -> (f64, f64) {
    let c = (2.0 / std::f64::consts::PI).sqrt();
    (
        c * (x + 0.044715 * x * x * x),
        c * (1.0 + 3.0 * 0.044715 * x * x),
    )
}

impl Activation {
    /// Whether its numbers are.
    pub(crate) fn is_finite(self) -> bool {
        match self {
            Self::LeakyRelu { slope } => slope.is_finite(),
            Self::Clip { low, high } => low.is_finite() && high.is_finite(),
            Self::HardSigmoid { slope, offset } => slope.is_finite() && offset.is_finite(),
            Self::Relu
            | Self::Sigmoid
            | Self::HardSwish
            | Self::Gelu { .. }
            | Self::Silu
            | Self::Tanh
            | Self::Exp => true,
        }
    }

    /// Value at `x`.
    pub fn value(self, x: f64) -> f64 {
        match self {
            Self::Relu => x.max(0.0),
            Self::LeakyRelu { slope } => {
                if x > 0.0 {
                    x
                } else {
                    f64::from(slope) * x
                }
            }
            Self::Clip { low, high } => x.max(f64::from(low)).min(f64::from(high)),
            Self::Sigmoid => sigmoid(x),
            Self::HardSigmoid { slope, offset } => {
                (f64::from(slope) * x + f64::from(offset)).clamp(0.0, 1.0)
            }
            Self::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
            Self::Gelu { tanh: false } => x * normal(x),
            Self::Gelu { tanh: true } => 0.5 * x * (1.0 + gelu_inner(x).0.tanh()),
            Self::Silu => x * sigmoid(x),
            Self::Tanh => x.tanh(),
            Self::Exp => x.exp(),
        }
    }

    /// Derivative at `x`; at a kink, PyTorch's choice (0 for `Relu` at 0).
    pub fn derivative(self, x: f64) -> f64 {
        let inside = |t: bool| if t { 1.0 } else { 0.0 };
        match self {
            Self::Relu => inside(x > 0.0),
            Self::LeakyRelu { slope } => {
                if x > 0.0 {
                    1.0
                } else {
                    f64::from(slope)
                }
            }
            Self::Clip { low, high } => inside(x >= f64::from(low) && x <= f64::from(high)),
            Self::Sigmoid => sigmoid(x) * (1.0 - sigmoid(x)),
            Self::HardSigmoid { slope, offset } => {
                let y = f64::from(slope) * x + f64::from(offset);
                f64::from(slope) * inside(y > 0.0 && y < 1.0)
            }
            Self::HardSwish => match x {
                x if x <= -3.0 => 0.0,
                x if x >= 3.0 => 1.0,
                x => x / 3.0 + 0.5,
            },
            Self::Gelu { tanh: false } => {
                let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
                normal(x) + x * density
            }
            Self::Gelu { tanh: true } => {
                let (u, du) = gelu_inner(x);
                let t = u.tanh();
                0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * du
            }
            Self::Silu => {
                let s = sigmoid(x);
                s * (1.0 + x * (1.0 - s))
            }
            Self::Tanh => 1.0 - x.tanh() * x.tanh(),
            Self::Exp => x.exp(),
        }
    }
}
