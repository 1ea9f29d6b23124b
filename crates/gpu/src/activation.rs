//! Element-wise non-linearities and their derivatives.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use burn_backend::Backend;
use network::Activation;

use crate::fused::Fused;
use crate::tensor::Tensor;

/// Beyond so many standard deviations a Gaussian's tail is below f32's rounding.
const TAIL: f32 = 6.0;

fn sigmoid<B: Backend>(x: Tensor<B>) -> Tensor<B> {
    // By tanh, which does not overflow.
    let half = x.times_number(0.5).tanh();
    half.times_number(0.5).plus_number(0.5)
}

/// The standard normal distribution function.
fn normal<B: Backend>(x: Tensor<B>) -> Tensor<B> {
    let erf = x.times_number(FRAC_1_SQRT_2).erf();
    erf.times_number(0.5).plus_number(0.5)
}

/// The standard normal density.
fn density<B: Backend>(x: Tensor<B>) -> Tensor<B> {
    let square = x.clone().times(&x);
    let exp = square.times_number(-0.5).exp();
    exp.times_number(1.0 / (2.0 * PI).sqrt())
}

/// `min(max(x, 0), 1)`.
fn unit<B: Backend>(x: Tensor<B>) -> Tensor<B> {
    x.at_least(0.0).at_most(1.0)
}

/// Inner function of Gelu's `tanh` form, `sqrt(2/pi) * (x + 0.044715 x^3)`.
fn gelu_inner<B: Backend>(x: &Tensor<B>) -> Tensor<B> {
    let square = x.clone().times(x);
    let cubic = square.times_number(0.044715).plus_number(1.0).times(x);
    cubic.times_number((2.0 / PI).sqrt())
}

/// Value at `x`.
pub(crate) fn value<B: Backend>(activation: Activation, x: Tensor<B>) -> Tensor<B> {
    match activation {
        Activation::Relu => x.at_least(0.0),
        Activation::LeakyRelu { slope } => {
            let below = x.not_above(0.0);
            let scaled = x.clone().times_number(slope);
            x.replaced(below, scaled)
        }
        Activation::Clip { low, high } => x.at_least(low).at_most(high),
        Activation::Sigmoid => sigmoid(x),
        Activation::HardSigmoid { slope, offset } => {
            unit(x.times_number(slope).plus_number(offset))
        }
        Activation::HardSwish => {
            let gate = x.clone().times_number(1.0 / 6.0).plus_number(0.5);
            unit(gate).times(&x)
        }
        Activation::Gelu { tanh: false } => normal(x.clone()).times(&x),
        Activation::Gelu { tanh: true } => {
            let gate = gelu_inner(&x).tanh().plus_number(1.0);
            gate.times_number(0.5).times(&x)
        }
        Activation::Silu => sigmoid(x.clone()).times(&x),
        Activation::Tanh => x.tanh(),
        Activation::Exp => x.exp(),
    }
}

/// `dy` times the derivative at `x`; at a kink as [`Activation::derivative`].
pub(crate) fn pull_back<B: Fused>(
    activation: Activation,
    x: &Tensor<B>,
    dy: Tensor<B>,
) -> Tensor<B> {
    let x = x.clone();
    match activation {
        Activation::Relu => Tensor(B::relu_pull_back(x.0, dy.0)),
        Activation::LeakyRelu { slope } => {
            let scaled = dy.clone().times_number(slope);
            dy.replaced(x.not_above(0.0), scaled)
        }
        Activation::Clip { low, high } => {
            let dy = dy.filled(x.below(low), 0.0);
            dy.filled(x.above(high), 0.0)
        }
        Activation::Sigmoid => {
            let s = sigmoid(x);
            let other = s.clone().negative().plus_number(1.0);
            dy.times(&s).times(&other)
        }
        Activation::HardSigmoid { slope, offset } => {
            let y = x.times_number(slope).plus_number(offset);
            let dy = dy.times_number(slope);
            let dy = dy.filled(y.not_above(0.0), 0.0);
            dy.filled(y.not_below(1.0), 0.0)
        }
        Activation::HardSwish => {
            let slope = x.clone().times_number(1.0 / 3.0).plus_number(0.5);
            let slope = slope.filled(x.not_above(-3.0), 0.0);
            dy.times(&slope.filled(x.not_below(3.0), 1.0))
        }
        Activation::Gelu { tanh: false } => {
            let slope = density(x.clone()).times(&x).plus(&normal(x));
            dy.times(&slope)
        }
        Activation::Gelu { tanh: true } => {
            let t = gelu_inner(&x).tanh();
            let square = x.clone().times(&x);
            let du = square.times_number(3.0 * 0.044715).plus_number(1.0);
            let du = du.times_number((2.0 / PI).sqrt());
            let rest = t.clone().times(&t).negative().plus_number(1.0);
            let bent = rest.times(&du).times(&x);
            dy.times(&t.plus_number(1.0).plus(&bent).times_number(0.5))
        }
        Activation::Silu => {
            let s = sigmoid(x.clone());
            let rest = s.clone().negative().plus_number(1.0).times(&x);
            dy.times(&s.times(&rest.plus_number(1.0)))
        }
        Activation::Tanh => {
            let t = x.tanh();
            dy.times(&t.clone().times(&t).negative().plus_number(1.0))
        }
        Activation::Exp => dy.times(&x.exp()),
    }
}

/// `x` in units of the width of its channel, as far as a tail reaches.
fn in_widths<B: Backend>(x: Tensor<B>, width: &Tensor<B>) -> Tensor<B> {
    // A width of 0 gives a large number, which ends at the tail.
    let width = width.clone().at_least(1e-30_f32).per_channel();
    x.over(&width).at_least(-TAIL).at_most(TAIL)
}

/// `E max(x + width z, 0)` as `max(x, 0) + width t(|x| / width)`, with
/// `t(a) = phi(a) - a Phi(-a)`; one width a channel.
pub(crate) fn averaged_relu<B: Backend>(x: Tensor<B>, width: &Tensor<B>) -> Tensor<B> {
    let a = in_widths(x.clone(), width).abs();
    let tail = normal(a.clone().negative()).times(&a);
    let bump = density(a).minus(&tail).times(&width.clone().per_channel());
    x.at_least(0.0).plus(&bump)
}

/// `dy` times the derivative of [`averaged_relu`], `Phi(x / width)`.
pub(crate) fn averaged_relu_pull_back<B: Backend>(
    x: &Tensor<B>,
    width: &Tensor<B>,
    dy: Tensor<B>,
) -> Tensor<B> {
    dy.times(&normal(in_widths(x.clone(), width)))
}
