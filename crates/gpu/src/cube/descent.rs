//! The optimiser's step, and sums of two tensors.

use burn_backend::TensorMetadata;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::{channels_first, channels_last, empty_like, launch};
use crate::fused::Descent;

/// Sums that a tensor's squares are left in.
const SUMS: usize = 256;

/// One behind the other in memory, channels last where there are four axes.
fn in_order(x: CubeTensor) -> CubeTensor {
    match x.shape().num_dims() {
        4 => channels_last(x),
        _ => into_contiguous(x),
    }
}

/// As it was before.
fn back(x: CubeTensor) -> CubeTensor {
    match x.shape().num_dims() {
        4 => channels_first(x),
        _ => x,
    }
}

/// Numbers whose sum is that of all squares in all tensors.
pub(super) fn squares(tensors: &[CubeTensor]) -> CubeTensor {
    let out = empty_like(&tensors[0], [tensors.len() * SUMS]);
    for (place, tensor) in tensors.iter().enumerate() {
        let client = tensor.client.clone();
        let (count, dim) = launch(&client, SUMS);
        let elements = tensor.shape().num_elements();
        // Each unit sums up elements that lie side by side; a few units may have none.
        sums_of_squares::launch(
            &client,
            count,
            dim,
            in_order(tensor.clone()).into_buffer_arg(),
            out.clone().into_buffer_arg(),
            place * SUMS,
            elements,
        );
    }
    out
}

#[cube(launch)]
fn sums_of_squares(x: &[f32], out: &mut [f32], place: usize, elements: usize) {
    if ABSOLUTE_POS >= SUMS {
        terminate!();
    }
    let mut sum = 0.0f32;
    let mut element = ABSOLUTE_POS;
    while element < elements {
        sum += x[element] * x[element];
        element += SUMS;
    }
    out[place + ABSOLUTE_POS] = sum;
}

/// A parameter and its velocity after a step.
pub(super) fn descend(
    value: CubeTensor,
    velocity: Option<CubeTensor>,
    gradient: Option<CubeTensor>,
    by: Descent,
) -> [CubeTensor; 2] {
    let value = in_order(value);
    let client = value.client.clone();
    let [next, moved] = [0, 1].map(|_| empty_like(&value, value.shape()));
    let (count, dim) = launch(&client, value.shape().num_elements());
    // What is not there counts nothing: any other tensor stands in its place.
    let momentum = velocity.as_ref().map_or(0.0, |_| by.momentum);
    let shrink = gradient.as_ref().map_or(0.0, |_| by.shrink);
    let other = |tensor: Option<CubeTensor>| tensor.map_or(value.clone(), in_order);
    descended::launch(
        &client,
        count,
        dim,
        value.clone().into_buffer_arg(),
        other(velocity).into_buffer_arg(),
        other(gradient).into_buffer_arg(),
        next.clone().into_buffer_arg(),
        moved.clone().into_buffer_arg(),
        momentum,
        shrink,
        by.decay,
        by.rate,
    );
    [next, moved].map(back)
}

#[cube(launch)]
fn descended(
    value: &[f32],
    velocity: &[f32],
    gradient: &[f32],
    next: &mut [f32],
    moved: &mut [f32],
    momentum: f32,
    shrink: f32,
    decay: f32,
    rate: f32,
) {
    if ABSOLUTE_POS >= next.len() {
        terminate!();
    }
    let p = value[ABSOLUTE_POS];
    let v = momentum * velocity[ABSOLUTE_POS] + shrink * gradient[ABSOLUTE_POS] + decay * p;
    moved[ABSOLUTE_POS] = v;
    next[ABSOLUTE_POS] = p - rate * v;
}

/// `share a + other b`.
pub(super) fn blend((a, share): (CubeTensor, f32), (b, other): (CubeTensor, f32)) -> CubeTensor {
    let (a, b) = (in_order(a), in_order(b));
    let client = a.client.clone();
    let out = empty_like(&a, a.shape());
    let (count, dim) = launch(&client, a.shape().num_elements());
    blended::launch(
        &client,
        count,
        dim,
        a.into_buffer_arg(),
        b.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        share,
        other,
    );
    back(out)
}

#[cube(launch)]
fn blended(a: &[f32], b: &[f32], out: &mut [f32], share: f32, other: f32) {
    if ABSOLUTE_POS >= out.len() {
        terminate!();
    }
    out[ABSOLUTE_POS] = share * a[ABSOLUTE_POS] + other * b[ABSOLUTE_POS];
}
