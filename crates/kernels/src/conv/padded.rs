//! A copy of an image with its zeros around it, so that no inner loop asks
//! where it is.

use super::padded_size;
use crate::geometry::{Padding, Shape};

/// Copies one image; every float of `to` is written.
pub(super) fn pad(input: Shape, padding: Padding, x: &[f32], to: &mut [f32]) {
    let [height, width] = padded_size(input, padding);
    let (row, padded_row) = (input.width * input.channels, width * input.channels);
    assert_eq!(x.len(), input.len());
    assert_eq!(to.len(), height * padded_row);
    let left = padding.left * input.channels;
    let (top, rest) = to.split_at_mut(padding.top * padded_row);
    let (middle, bottom) = rest.split_at_mut(input.height * padded_row);
    top.fill(0.0);
    bottom.fill(0.0);
    for (x, to) in x.chunks_exact(row).zip(middle.chunks_exact_mut(padded_row)) {
        to[..left].fill(0.0);
        to[left..left + row].copy_from_slice(x);
        to[left + row..].fill(0.0);
    }
}
