//! Batch norms, sums over channels, and ReLUs on the way back.
//!
//! Values lie in memory as `rows x channels`, a row for each pixel of each image. Sums
//! over rows are made in two or more steps: each unit sums up a few rows of one channel,
//! the next kernel the sums of a few units, until one row is left. What is summed up by
//! whom depends on the shape alone, so results do not change from run to run.

use burn_backend::TensorMetadata;
use burn_backend::ops::FloatTensorOps;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::prelude::*;

use super::{channels_first, channels_last, empty_like, launch};
use crate::fused::BatchMoments;

/// Rows that a unit sums up.
const ROWS: usize = 64;

/// Rows and channels of what lies in memory with its channels last.
fn extents(x: &CubeTensor) -> [usize; 2] {
    let [images, height, width, channels] = x.shape().dims();
    [images * height * width, channels]
}

/// Mean and biased variance, one value a channel.
pub(super) fn moments(x: CubeTensor) -> [CubeTensor; 2] {
    let x = channels_last(x);
    let client = x.client.clone();
    let [rows, channels] = extents(&x);
    let mut left = rows.div_ceil(ROWS);
    let pair = |left: usize| [0, 1].map(|_| empty_like(&x, [left * channels]));
    let [mut mean, mut squares] = pair(left);
    let (count, dim) = launch(&client, left * channels);
    row_moments::launch(
        &client,
        count,
        dim,
        x.clone().into_buffer_arg(),
        mean.clone().into_buffer_arg(),
        squares.clone().into_buffer_arg(),
        rows,
        channels,
    );
    // Rows behind each of those that are left.
    let mut span = ROWS;
    while left > 1 {
        let fewer = left.div_ceil(ROWS);
        let [next_mean, next_squares] = pair(fewer);
        let (count, dim) = launch(&client, fewer * channels);
        joined_moments::launch(
            &client,
            count,
            dim,
            mean.into_buffer_arg(),
            squares.into_buffer_arg(),
            next_mean.clone().into_buffer_arg(),
            next_squares.clone().into_buffer_arg(),
            left,
            channels,
            rows,
            span,
        );
        [mean, squares] = [next_mean, next_squares];
        left = fewer;
        span *= ROWS;
    }
    let variance = CubeBackend::float_mul_scalar(squares, (1.0 / rows as f32).into());
    [mean, variance]
}

/// Mean of a few rows, and the sum of squared distances from it.
#[cube(launch)]
fn row_moments(x: &[f32], mean: &mut [f32], squares: &mut [f32], rows: usize, channels: usize) {
    if ABSOLUTE_POS >= mean.len() {
        terminate!();
    }
    let channel = ABSOLUTE_POS % channels;
    let first = ABSOLUTE_POS / channels * ROWS;
    let end = min(first + ROWS, rows);
    let mut sum = 0.0f32;
    for row in first..end {
        sum += x[row * channels + channel];
    }
    let centre = sum / f32::cast_from((end - first) as u32);
    let mut square = 0.0f32;
    for row in first..end {
        let d = x[row * channels + channel] - centre;
        square += d * d;
    }
    mean[ABSOLUTE_POS] = centre;
    squares[ABSOLUTE_POS] = square;
}

/// The same of several such, each of `span` rows but for the last.
#[cube(launch)]
fn joined_moments(
    means: &[f32],
    squares: &[f32],
    mean: &mut [f32],
    joined: &mut [f32],
    parts: usize,
    channels: usize,
    rows: usize,
    span: usize,
) {
    if ABSOLUTE_POS >= mean.len() {
        terminate!();
    }
    let channel = ABSOLUTE_POS % channels;
    let first = ABSOLUTE_POS / channels * ROWS;
    let end = min(first + ROWS, parts);
    let all = f32::cast_from((min(end * span, rows) - first * span) as u32);
    let mut centre = 0.0f32;
    for part in first..end {
        let share = f32::cast_from((min((part + 1) * span, rows) - part * span) as u32) / all;
        centre += share * means[part * channels + channel];
    }
    let mut square = 0.0f32;
    for part in first..end {
        let count = f32::cast_from((min((part + 1) * span, rows) - part * span) as u32);
        let d = means[part * channels + channel] - centre;
        square += squares[part * channels + channel] + count * d * d;
    }
    mean[ABSOLUTE_POS] = centre;
    joined[ABSOLUTE_POS] = square;
}

/// `scale (x - mean) / deviation + shift`.
pub(super) fn normalise(
    x: CubeTensor,
    moments: &BatchMoments<CubeBackend>,
    [scale, shift]: [CubeTensor; 2],
) -> CubeTensor {
    let x = channels_last(x);
    let client = x.client.clone();
    let [rows, channels] = extents(&x);
    let out = empty_like(&x, x.shape());
    let (count, dim) = launch(&client, rows * channels);
    let flat = |tensor: &CubeTensor| into_contiguous(tensor.clone()).into_buffer_arg();
    normalised_rows::launch(
        &client,
        count,
        dim,
        x.into_buffer_arg(),
        flat(&moments.mean),
        flat(&moments.variance),
        flat(&scale),
        flat(&shift),
        out.clone().into_buffer_arg(),
        channels,
        moments.epsilon,
    );
    channels_first(out)
}

#[cube(launch)]
fn normalised_rows(
    x: &[f32],
    mean: &[f32],
    variance: &[f32],
    scale: &[f32],
    shift: &[f32],
    out: &mut [f32],
    channels: usize,
    epsilon: f32,
) {
    if ABSOLUTE_POS >= out.len() {
        terminate!();
    }
    let channel = ABSOLUTE_POS % channels;
    let z = (x[ABSOLUTE_POS] - mean[channel]) / (variance[channel] + epsilon).sqrt();
    out[ABSOLUTE_POS] = z * scale[channel] + shift[channel];
}

/// Sums of rows, once the first kernel has summed up [`ROWS`] each.
fn joined(mut sums: CubeTensor, rows: usize, channels: usize) -> CubeTensor {
    let client = sums.client.clone();
    let mut left = rows.div_ceil(ROWS);
    while left > 1 {
        let fewer = left.div_ceil(ROWS);
        let out = empty_like(&sums, [fewer * channels]);
        let (count, dim) = launch(&client, fewer * channels);
        row_sums::launch(
            &client,
            count,
            dim,
            sums.into_buffer_arg(),
            out.clone().into_buffer_arg(),
            left,
            channels,
        );
        (sums, left) = (out, fewer);
    }
    sums
}

/// Sums over images and pixels, one a channel.
pub(super) fn channel_sums(x: CubeTensor) -> CubeTensor {
    let x = channels_last(x);
    let client = x.client.clone();
    let [rows, channels] = extents(&x);
    let left = rows.div_ceil(ROWS);
    let out = empty_like(&x, [left * channels]);
    let (count, dim) = launch(&client, left * channels);
    row_sums::launch(
        &client,
        count,
        dim,
        x.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        rows,
        channels,
    );
    joined(out, rows, channels)
}

#[cube(launch)]
fn row_sums(x: &[f32], out: &mut [f32], rows: usize, channels: usize) {
    if ABSOLUTE_POS >= out.len() {
        terminate!();
    }
    let channel = ABSOLUTE_POS % channels;
    let first = ABSOLUTE_POS / channels * ROWS;
    let end = min(first + ROWS, rows);
    let mut sum = 0.0f32;
    for row in first..end {
        sum += x[row * channels + channel];
    }
    out[ABSOLUTE_POS] = sum;
}

/// With `z = (x - mean) / deviation`, the sums of `dy` and `dy z`.
pub(super) fn sums(
    x: CubeTensor,
    dy: CubeTensor,
    moments: &BatchMoments<CubeBackend>,
) -> [CubeTensor; 2] {
    let (x, dy) = (channels_last(x), channels_last(dy));
    let client = x.client.clone();
    let [rows, channels] = extents(&x);
    let left = rows.div_ceil(ROWS);
    // Both side by side, so that the rest is one sum of twice as many channels.
    let out = empty_like(&x, [left * 2 * channels]);
    let (count, dim) = launch(&client, left * channels);
    row_products::launch(
        &client,
        count,
        dim,
        x.into_buffer_arg(),
        dy.into_buffer_arg(),
        moments.mean.clone().into_buffer_arg(),
        moments.variance.clone().into_buffer_arg(),
        out.clone().into_buffer_arg(),
        rows,
        channels,
        moments.epsilon,
    );
    let both = joined(out, rows, 2 * channels);
    [0, 1].map(|which| {
        let range = which * channels..(which + 1) * channels;
        CubeBackend::float_slice(both.clone(), &[range.into()])
    })
}

#[cube(launch)]
fn row_products(
    x: &[f32],
    dy: &[f32],
    mean: &[f32],
    variance: &[f32],
    out: &mut [f32],
    rows: usize,
    channels: usize,
    epsilon: f32,
) {
    if ABSOLUTE_POS * 2 >= out.len() {
        terminate!();
    }
    let channel = ABSOLUTE_POS % channels;
    let part = ABSOLUTE_POS / channels;
    let first = part * ROWS;
    let end = min(first + ROWS, rows);
    let centre = mean[channel];
    let inverse = 1.0f32 / (variance[channel] + epsilon).sqrt();
    let mut sum = 0.0f32;
    let mut along = 0.0f32;
    for row in first..end {
        let d = dy[row * channels + channel];
        sum += d;
        along += d * ((x[row * channels + channel] - centre) * inverse);
    }
    out[part * 2 * channels + channel] = sum;
    out[part * 2 * channels + channels + channel] = along;
}

/// The gradient with respect to what was normalised: [`crate::fused::Fused`].
pub(super) fn pull_back(
    x: CubeTensor,
    dy: CubeTensor,
    moments: &BatchMoments<CubeBackend>,
    scale: CubeTensor,
    sums: Option<[CubeTensor; 2]>,
) -> CubeTensor {
    let (x, dy) = (channels_last(x), channels_last(dy));
    let client = x.client.clone();
    let [rows, channels] = extents(&x);
    let out = empty_like(&x, x.shape());
    let (count, dim) = launch(&client, rows * channels);
    let flat = |tensor: &CubeTensor| into_contiguous(tensor.clone()).into_buffer_arg();
    let of_batch = sums.is_some();
    // Without sums any vector stands in their place, unread.
    let [sum, along] = sums.unwrap_or([moments.mean.clone(), moments.mean.clone()]);
    pulled_back_rows::launch(
        &client,
        count,
        dim,
        x.into_buffer_arg(),
        dy.into_buffer_arg(),
        flat(&moments.mean),
        flat(&moments.variance),
        flat(&scale),
        flat(&sum),
        flat(&along),
        out.clone().into_buffer_arg(),
        channels,
        moments.epsilon,
        1.0 / rows as f32,
        of_batch,
    );
    channels_first(out)
}

#[cube(launch)]
fn pulled_back_rows(
    x: &[f32],
    dy: &[f32],
    mean: &[f32],
    variance: &[f32],
    scale: &[f32],
    sum: &[f32],
    along: &[f32],
    out: &mut [f32],
    channels: usize,
    epsilon: f32,
    share: f32,
    #[comptime] of_batch: bool,
) {
    if ABSOLUTE_POS >= out.len() {
        terminate!();
    }
    let channel = ABSOLUTE_POS % channels;
    let inverse = 1.0f32 / (variance[channel] + epsilon).sqrt();
    let factor = scale[channel] * inverse;
    if of_batch {
        let z = (x[ABSOLUTE_POS] - mean[channel]) * inverse;
        let centred = dy[ABSOLUTE_POS] - sum[channel] * share;
        out[ABSOLUTE_POS] = factor * (centred - z * (along[channel] * share));
    } else {
        out[ABSOLUTE_POS] = factor * dy[ABSOLUTE_POS];
    }
}

/// `dy` where `x` is above 0, and 0 elsewhere.
pub(super) fn relu_pull_back(x: CubeTensor, dy: CubeTensor) -> CubeTensor {
    let (x, dy) = (channels_last(x), channels_last(dy));
    let client = x.client.clone();
    let out = empty_like(&x, x.shape());
    let (count, dim) = launch(&client, x.shape().num_elements());
    masked::launch(
        &client,
        count,
        dim,
        x.into_buffer_arg(),
        dy.into_buffer_arg(),
        out.clone().into_buffer_arg(),
    );
    channels_first(out)
}

#[cube(launch)]
fn masked(x: &[f32], dy: &[f32], out: &mut [f32]) {
    if ABSOLUTE_POS >= out.len() {
        terminate!();
    }
    out[ABSOLUTE_POS] = select(x[ABSOLUTE_POS] > 0.0f32, dy[ABSOLUTE_POS], 0.0f32);
}
