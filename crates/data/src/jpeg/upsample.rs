//! Components that are stored at half the width or height become as large as the image:
//! by weights of 3/4 and 1/4 in each direction, rounded as libjpeg-turbo rounds. Other
//! ratios, and components of one or two columns, are repeated.

use std::ops::Range;

use super::plane::Plane;

/// The samples of a row of the image from column `left` on. `sums` is scratch.
#[inline(always)]
pub(super) fn row(plane: &Plane, y: usize, left: usize, out: &mut [u8], sums: &mut Vec<i16>) {
    let [across, down] = plane.ratio;
    let smooth = plane.real_width > 2;
    match (across, down) {
        (1, 1) => {
            let row = &plane.row(y)[left - plane.left..];
            out.copy_from_slice(&row[..out.len()]);
        }
        (2, 1) if smooth => {
            let row = plane.row(y);
            padded(plane, [row, row], left..left + out.len(), sums, |a, _| a);
            // (3a + b + 1) / 4 to the left, (3a + b + 2) / 4 to the right.
            halves(sums, left % 2, out, [1, 2], 2);
        }
        (2, 2) if smooth => {
            let rows = plane.neighbours(y);
            padded(plane, rows, left..left + out.len(), sums, |a, b| 3 * a + b);
            halves(sums, left % 2, out, [8, 7], 4);
        }
        (1, 2) => {
            let [near, far] = plane.neighbours(y);
            let from = left - plane.left;
            let bias = 1 + (y % 2) as u16;
            let pairs = near[from..].iter().zip(&far[from..]);
            for (out, (&near, &far)) in out.iter_mut().zip(pairs) {
                *out = ((3 * u16::from(near) + u16::from(far) + bias) >> 2) as u8;
            }
        }
        _ => {
            let row = plane.row(y / down);
            for (x, out) in (left..).zip(out) {
                *out = row[x / across - plane.left];
            }
        }
    }
}

/// Fills `sums` with what two rows give together, for the columns that some pixels need and
/// one more at each side; beyond the edges stands the last one.
#[inline(always)]
fn padded(
    plane: &Plane,
    [near, far]: [&[u8]; 2],
    pixels: Range<usize>,
    sums: &mut Vec<i16>,
    sum: impl Fn(i16, i16) -> i16,
) {
    let (first, end) = (pixels.start / 2, pixels.end.div_ceil(2));
    let at = |column: usize| {
        let column = column.min(plane.real_width - 1) - plane.left;
        sum(near[column].into(), far[column].into())
    };
    let (from, to) = (first - plane.left, end - plane.left);
    sums.resize(to - from + 2, 0);
    let pairs = near[from..to].iter().zip(&far[from..to]);
    for (out, (&near, &far)) in sums[1..].iter_mut().zip(pairs) {
        *out = sum(near.into(), far.into());
    }
    sums[0] = at(first.saturating_sub(1));
    sums[to - from + 1] = at(end);
}

/// Each value in the middle of `sums` gives a pixel towards its left neighbour and one
/// towards its right one; `skip` leaves out the first.
#[inline(always)]
fn halves(sums: &[i16], skip: usize, out: &mut [u8], bias: [i16; 2], shift: u32) {
    let left = |i: usize| ((3 * sums[i] + sums[i - 1] + bias[0]) >> shift) as u8;
    let right = |i: usize| ((3 * sums[i] + sums[i + 1] + bias[1]) >> shift) as u8;
    let (first, out) = out.split_at_mut(skip.min(out.len()));
    first.iter_mut().for_each(|out| *out = right(1));
    let begin = 1 + skip;
    let (pairs, last) = out.as_chunks_mut::<2>();
    let three = sums[begin - 1..].windows(3);
    for (pair, sums) in pairs.iter_mut().zip(three) {
        let near = 3 * sums[1];
        *pair = [
            ((near + sums[0] + bias[0]) >> shift) as u8,
            ((near + sums[2] + bias[1]) >> shift) as u8,
        ];
    }
    let end = begin + pairs.len();
    last.iter_mut().for_each(|out| *out = left(end));
}
