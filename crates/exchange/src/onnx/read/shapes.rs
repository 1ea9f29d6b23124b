//! Rules about shapes: axes, reshaping, slicing.

use super::Refusal;
use super::attributes::Attributes;
use crate::onnx::constant::{Constant, MAX_RANK, elements};

/// Resolves -1 (what is left) and, if `zeros`, 0 (as before).
pub(super) fn target_shape(
    from: &[usize],
    wanted: &[i64],
    zeros: bool,
) -> Result<Vec<usize>, Refusal> {
    let fail = || Refusal::from(format!("cannot make {wanted:?} of {from:?}"));
    let mut shape = Vec::with_capacity(wanted.len().min(MAX_RANK));
    let mut open = None;
    if wanted.len() > MAX_RANK {
        return Err(fail());
    }
    for (index, &size) in wanted.iter().enumerate() {
        shape.push(match size {
            -1 if open.replace(index).is_none() => 1,
            0 if zeros => *from.get(index).ok_or_else(fail)?,
            size => usize::try_from(size).map_err(|_| fail())?,
        });
    }
    let total = elements(from).ok_or_else(fail)?;
    let known = elements(&shape).ok_or_else(fail)?;
    if let Some(open) = open {
        shape[open] = total.checked_div(known).ok_or_else(fail)?;
    }
    if elements(&shape) != Some(total) {
        return Err(fail());
    }
    Ok(shape)
}

/// Where an axis is in `rank` dimensions; negative ones count from the end.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, Refusal> {
    let from_start = if axis < 0 { axis + rank as i64 } else { axis };
    let index = usize::try_from(from_start).ok().filter(|&i| i < rank);
    index.ok_or_else(|| format!("axis {axis} of {rank} dimensions").into())
}

/// Shape with ones inserted.
pub(super) fn unsqueezed(shape: &[usize], axes: &[i64]) -> Result<Vec<usize>, Refusal> {
    let rank = shape.len() + axes.len();
    if rank > MAX_RANK {
        return Err("too many dimensions".into());
    }
    let places: Result<Vec<usize>, Refusal> = axes.iter().map(|&a| axis(a, rank)).collect();
    let places = places?;
    let mut rest = shape.iter();
    let sizes = (0..rank).map(|i| match places.contains(&i) {
        true => Some(1),
        false => rest.next().copied(),
    });
    let sizes: Option<Vec<usize>> = sizes.collect();
    sizes.ok_or_else(|| "an axis is given twice".into())
}

/// Shape without these dimensions of one element, or without all of them.
pub(super) fn squeezed(shape: &[usize], axes: Option<&[i64]>) -> Result<Vec<usize>, Refusal> {
    let dropped: Vec<usize> = match axes {
        Some(axes) => {
            let places = axes.iter().map(|&a| axis(a, shape.len()));
            places.collect::<Result<_, Refusal>>()?
        }
        None => (0..shape.len()).filter(|&i| shape[i] == 1).collect(),
    };
    if dropped.iter().any(|&i| shape[i] != 1) {
        return Err(format!("dimensions {dropped:?} of {shape:?} are not all 1").into());
    }
    let kept = shape
        .iter()
        .enumerate()
        .filter(|(i, _)| !dropped.contains(i));
    Ok(kept.map(|(_, &d)| d).collect())
}

/// The order of dimensions, checked; reversed by default.
pub(super) fn permutation(perm: Option<&[i64]>, rank: usize) -> Result<Vec<usize>, Refusal> {
    let perm: Vec<usize> = match perm {
        Some(perm) => perm
            .iter()
            .map(|&p| usize::try_from(p).unwrap_or(rank))
            .collect(),
        None => (0..rank).rev().collect(),
    };
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..rank) {
        return Err(format!("{perm:?} is no order of {rank} dimensions").into());
    }
    Ok(perm)
}

/// What a Slice node asks for: `(axis, start, end, step)`.
pub(super) struct Slices(pub(super) Vec<(i64, i64, i64, i64)>);

impl Slices {
    /// From attributes in opset 9, from inputs later.
    pub(super) fn new(
        node: &Attributes<'_>,
        inputs: &[Option<&Constant>],
        opset: i64,
    ) -> Result<Self, Refusal> {
        let list = |index: usize, name: &str| -> Option<Vec<i64>> {
            if opset < 10 {
                return node.ints(name).map(<[i64]>::to_vec);
            }
            let input = inputs.get(index).copied().flatten()?;
            input.as_ints().map(<[i64]>::to_vec)
        };
        let starts = list(1, "starts").ok_or("no constant starts")?;
        let ends = list(2, "ends").ok_or("no constant ends")?;
        let n = starts.len();
        let axes = list(3, "axes").unwrap_or_else(|| (0..n as i64).collect());
        let steps = list(4, "steps").unwrap_or_else(|| vec![1; n]);
        if [ends.len(), axes.len(), steps.len()] != [n; 3] || n > MAX_RANK {
            return Err("starts, ends, axes and steps differ in number".into());
        }
        let slices = (0..n).map(|i| (axes[i], starts[i], ends[i], steps[i]));
        Ok(Self(slices.collect()))
    }

    /// First index, number and step along one axis of `size` elements.
    pub(super) fn resolve(
        (start, end, step): (i64, i64, i64),
        size: usize,
    ) -> Result<(usize, usize, i64), Refusal> {
        let n = i64::try_from(size).map_err(|_| Refusal::from("an absurd size"))?;
        let from_start = |i: i64| if i < 0 { i.saturating_add(n) } else { i };
        let (start, end) = (from_start(start), from_start(end));
        let (start, span) = match step {
            1.. => {
                let start = start.clamp(0, n);
                (start, end.clamp(0, n) - start)
            }
            0 => return Err("a step of 0".into()),
            _ => {
                let start = start.clamp(-1, n - 1);
                (start, start - end.clamp(-1, n - 1))
            }
        };
        let count = span.max(0).unsigned_abs().div_ceil(step.unsigned_abs());
        Ok((start.max(0) as usize, count as usize, step))
    }
}
