//! Constants whose elements are moved, picked or repeated.

use super::numbers::binary;
use super::{Evaluated, spend};
use crate::onnx::constant::{Constant, Data, elements};
use crate::onnx::read::Refusal;
use crate::onnx::read::attributes::Attributes;
use crate::onnx::read::layout::part_sizes;
use crate::onnx::read::shapes::{Slices, axis, permutation};

/// Parts of a constant, one behind the other.
pub(in crate::onnx::read) fn split(
    node: &Attributes<'_>,
    opset: i64,
    inputs: &[Option<&Constant>],
    parts: usize,
    budget: &mut usize,
) -> Result<Vec<Constant>, Refusal> {
    let x = inputs.first().copied().flatten().ok_or("no input")?;
    let along = axis(node.int("axis").unwrap_or(0), x.shape.len())?;
    let given = match inputs.get(1).copied().flatten() {
        Some(given) => given.as_ints(),
        None if opset < 13 => node.ints("split"),
        None => None,
    };
    spend(budget, x.len())?;
    let mut first = 0;
    let mut out = Vec::with_capacity(parts);
    for count in part_sizes(given, x.shape[along], parts)? {
        let range = (along as i64, first as i64, (first + count) as i64, 1);
        out.push(slice(x, &Slices(vec![range]))?);
        first += count;
    }
    Ok(out)
}

pub(super) fn reshape(x: &Constant, shape: Vec<usize>) -> Evaluated {
    if elements(&shape) != Some(x.len()) {
        return Err(format!("cannot make {shape:?} of {:?}", x.shape).into());
    }
    let data = x.data.clone();
    Ok(Constant { shape, data })
}

/// The elements at these positions, in a new shape.
pub(super) fn pick(
    x: &Constant,
    shape: Vec<usize>,
    indices: impl Iterator<Item = usize>,
) -> Constant {
    let data = match &x.data {
        Data::Float(values) => Data::Float(indices.map(|i| values[i]).collect()),
        Data::Int(values) => Data::Int(indices.map(|i| values[i]).collect()),
    };
    Constant { shape, data }
}

pub(super) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i];
    }
    strides
}

/// Positions of a strided walk, the last dimension fastest.
pub(super) fn walk(offset: usize, sizes: &[usize], strides: &[usize]) -> Vec<usize> {
    let mut positions = vec![offset];
    for (&size, &stride) in sizes.iter().zip(strides) {
        let next = positions.iter();
        let next =
            next.flat_map(|&p| (0..size).map(move |i| p.wrapping_add(i.wrapping_mul(stride))));
        positions = next.collect();
    }
    positions
}

pub(super) fn transpose(x: &Constant, perm: Option<&[i64]>) -> Evaluated {
    let perm = permutation(perm, x.shape.len())?;
    let from = strides(&x.shape);
    let shape: Vec<usize> = perm.iter().map(|&p| x.shape[p]).collect();
    let strides: Vec<usize> = perm.iter().map(|&p| from[p]).collect();
    let indices = walk(0, &shape, &strides);
    Ok(pick(x, shape, indices.into_iter()))
}

pub(super) fn concat(node: &Attributes<'_>, inputs: &[Option<&Constant>]) -> Evaluated {
    let parts: Vec<&Constant> = inputs.iter().copied().flatten().collect();
    let first = parts.first().ok_or("no inputs")?;
    let axis = axis(node.int("axis").unwrap_or(0), first.shape.len())?;
    let mut shape = first.shape.clone();
    shape[axis] = 0;
    for part in &parts {
        let same = |(i, &d): (usize, &usize)| i == axis || first.shape[i] == d;
        if part.shape.len() != shape.len() || !part.shape.iter().enumerate().all(same) {
            return Err("inputs of different shapes".into());
        }
        shape[axis] += part.shape[axis];
    }
    let outer: usize = shape[..axis].iter().product();
    let run = |part: &Constant| part.len() / outer.max(1);
    let rows = (0..outer).flat_map(|o| {
        parts
            .iter()
            .map(move |p| (*p, o * run(p)..(o + 1) * run(p)))
    });
    let data = if parts.iter().all(|p| p.as_ints().is_some()) {
        let values = rows.flat_map(|(p, range)| p.as_ints().unwrap_or(&[])[range].to_vec());
        Data::Int(values.collect())
    } else if parts.iter().all(|p| p.as_floats().is_some()) {
        let values = rows.flat_map(|(p, range)| p.as_floats().unwrap_or(&[])[range].to_vec());
        Data::Float(values.collect())
    } else {
        return Err("inputs of different types".into());
    };
    Ok(Constant { shape, data })
}

pub(super) fn gather(
    x: &Constant,
    indices: &Constant,
    along: i64,
    budget: &mut usize,
) -> Evaluated {
    let along = axis(along, x.shape.len())?;
    let list = indices.as_ints().ok_or("indices that are no integers")?;
    let list = list.iter().map(|&i| axis(i, x.shape[along]));
    let list: Vec<usize> = list.collect::<Result<_, Refusal>>()?;
    let (before, after) = (&x.shape[..along], &x.shape[along + 1..]);
    let shape = [before, &indices.shape, after].concat();
    spend(budget, elements(&shape).ok_or("too many elements")?)?;
    let outer: usize = before.iter().product();
    let inner: usize = after.iter().product();
    let size = x.shape[along];
    let list = &list;
    let positions = (0..outer).flat_map(|o| {
        list.iter()
            .flat_map(move |&i| (0..inner).map(move |k| (o * size + i) * inner + k))
    });
    Ok(pick(x, shape, positions))
}

pub(super) fn slice(x: &Constant, slices: &Slices) -> Evaluated {
    let (mut shape, mut strides) = (x.shape.clone(), strides(&x.shape));
    let mut offset = 0;
    for &(along, start, end, step) in &slices.0 {
        let along = axis(along, x.shape.len())?;
        let (first, count, step) = Slices::resolve((start, end, step), shape[along])?;
        offset += first * strides[along];
        shape[along] = count;
        // Backwards is forwards around the end of the numbers; see `walk`.
        strides[along] = strides[along].wrapping_mul(step as usize);
    }
    let positions = walk(offset, &shape, &strides);
    if positions.iter().any(|&p| p >= x.len()) {
        return Err("an axis is given twice".into());
    }
    Ok(pick(x, shape, positions.into_iter()))
}

/// A constant with some of its elements, or slices of it, replaced.
pub(super) fn scatter(x: &Constant, indices: &Constant, updates: &Constant) -> Evaluated {
    let list = indices.as_ints().ok_or("places that are no integers")?;
    let depth = *indices.shape.last().ok_or("no places")?;
    if depth == 0 || depth > x.shape.len() {
        return Err("places of another number of dimensions".into());
    }
    let run: usize = x.shape[depth..].iter().product();
    if updates.len() != list.len() / depth * run {
        return Err("another number of places than of values".into());
    }
    let mut result = x.clone();
    for (i, place) in list.chunks_exact(depth).enumerate() {
        let at = place_of(place, &x.shape)?;
        let (from, to) = (i * run..(i + 1) * run, at * run..(at + 1) * run);
        match (&mut result.data, &updates.data) {
            (Data::Float(to_values), Data::Float(values)) => {
                to_values[to].copy_from_slice(&values[from]);
            }
            (Data::Int(to_values), Data::Int(values)) => {
                to_values[to].copy_from_slice(&values[from]);
            }
            _ => return Err("inputs of different types".into()),
        }
    }
    Ok(result)
}

/// Repeats a constant to a shape; a larger one stays as it is.
pub(super) fn expanded(value: &Constant, shape: Vec<usize>, budget: &mut usize) -> Evaluated {
    let count = elements(&shape).ok_or("an absurd shape")?;
    spend(budget, count)?;
    let data = match value.data {
        Data::Float(_) => Data::Float(vec![0.0; count]),
        Data::Int(_) => Data::Int(vec![0; count]),
    };
    let zeros = Constant { shape, data };
    binary(&zeros, value, |_, b| b, |_, b| Some(b), budget)
}

/// Elements, or slices, at places of several dimensions.
pub(super) fn gather_nd(x: &Constant, indices: &Constant, budget: &mut usize) -> Evaluated {
    let list = indices.as_ints().ok_or("indices that are no integers")?;
    let (&depth, before) = indices.shape.split_last().ok_or("no places")?;
    if depth == 0 || depth > x.shape.len() {
        return Err("places of another number of dimensions".into());
    }
    let (outer, inner) = x.shape.split_at(depth);
    let shape = [before, inner].concat();
    spend(budget, elements(&shape).ok_or("too many elements")?)?;
    let run: usize = inner.iter().product();
    let mut positions = Vec::with_capacity(list.len() / depth * run);
    for place in list.chunks_exact(depth) {
        let at = place_of(place, outer)?;
        positions.extend(at * run..(at + 1) * run);
    }
    Ok(pick(x, shape, positions.into_iter()))
}

/// Number of the element at a place, of a tensor of these sizes.
fn place_of(place: &[i64], sizes: &[usize]) -> Result<usize, Refusal> {
    let mut at = 0;
    for (&p, &size) in place.iter().zip(sizes) {
        at = at * size + axis(p, size)?;
    }
    Ok(at)
}
