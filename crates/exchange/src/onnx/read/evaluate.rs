//! Operators on constants: shapes that exporters compute, weights that they
//! transpose.

use super::Refusal;
use super::attributes::Attributes;
use super::layout::part_sizes;
use super::shapes::{Slices, axis, permutation, squeezed, target_shape, unsqueezed};
use crate::onnx::constant::{Constant, Data, elements};
use crate::onnx::proto::data_type;

type Evaluated = Result<Constant, Refusal>;

/// Evaluates an operator; `budget` is the number of elements that may still be
/// made. Missing optional inputs are `None`.
pub(super) fn evaluate(
    op: &str,
    node: &Attributes<'_>,
    opset: i64,
    inputs: &[Option<&Constant>],
    budget: &mut usize,
) -> Evaluated {
    let input = |index: usize| {
        let input = inputs.get(index).copied().flatten();
        input.ok_or_else(|| Refusal::from(format!("input {index} is missing")))
    };
    let ints = |index: usize| {
        let input = input(index)?;
        let ints = input.as_ints();
        ints.ok_or_else(|| Refusal::from("floats where integers are wanted"))
    };
    // Axes are an attribute at first, an input later.
    let axes = || match inputs.get(1).copied().flatten() {
        Some(axes) => axes.as_ints().map(<[i64]>::to_vec),
        None => node.ints("axes").map(<[i64]>::to_vec),
    };
    // Nothing below makes more elements than its inputs have, except where
    // checked separately.
    let total = inputs.iter().flatten().map(|c| c.len()).sum();
    spend(budget, total)?;
    match op {
        "Identity" | "Dropout" => Ok(input(0)?.clone()),
        "Cast" => cast(input(0)?, node.int("to").unwrap_or(0)),
        "Shape" => Ok(Constant::ints(
            input(0)?.shape.iter().map(|&d| d as i64).collect(),
        )),
        "Reshape" => {
            let zeros = node.int("allowzero") != Some(1);
            let shape = target_shape(&input(0)?.shape, ints(1)?, zeros)?;
            reshape(input(0)?, shape)
        }
        "Flatten" => {
            let x = input(0)?;
            let axis = node.axis("axis", 1, x.shape.len() + 1)?;
            let (a, b) = x.shape.split_at(axis.min(x.shape.len()));
            reshape(x, vec![a.iter().product(), b.iter().product()])
        }
        "Unsqueeze" => {
            let x = input(0)?;
            let axes = axes().ok_or("no axes")?;
            let shape = unsqueezed(&x.shape, &axes)?;
            reshape(x, shape)
        }
        "Squeeze" => {
            let x = input(0)?;
            let shape = squeezed(&x.shape, axes().as_deref())?;
            reshape(x, shape)
        }
        "Transpose" => transpose(input(0)?, node.ints("perm")),
        "Concat" => concat(node, inputs),
        "Gather" => gather(input(0)?, input(1)?, node.int("axis").unwrap_or(0), budget),
        "Tile" => {
            let x = input(0)?;
            let repeats = ints(1)?;
            let ones: Vec<usize> = vec![1; x.shape.len()];
            if repeats.len() != ones.len() {
                return Err("repeats of another number of dimensions".into());
            }
            // Each dimension behind a new one, which is repeated.
            let (mut split, mut wide) = (vec![], vec![]);
            for (&size, &times) in x.shape.iter().zip(repeats) {
                let times = usize::try_from(times).map_err(|_| "repeats less than never")?;
                split.extend([1, size]);
                wide.extend([times, size]);
            }
            let whole: Vec<usize> = wide
                .chunks_exact(2)
                .map(|pair| pair[0].saturating_mul(pair[1]))
                .collect();
            reshape(&expanded(&reshape(x, split)?, wide, budget)?, whole)
        }
        "Slice" => {
            let x = input(0)?;
            let slices = Slices::new(node, inputs, opset)?;
            slice(x, &slices)
        }
        "Neg" => unary(input(0)?, |v| -v, |v| v.checked_neg()),
        "Sqrt" => float(input(0)?, f64::sqrt),
        "Reciprocal" => float(input(0)?, f64::recip),
        "Exp" => float(input(0)?, f64::exp),
        "Floor" => float(input(0)?, f64::floor),
        "Ceil" => float(input(0)?, f64::ceil),
        "Add" => binary(input(0)?, input(1)?, |a, b| a + b, i64::checked_add, budget),
        "Sub" => binary(input(0)?, input(1)?, |a, b| a - b, i64::checked_sub, budget),
        "Mul" => binary(input(0)?, input(1)?, |a, b| a * b, i64::checked_mul, budget),
        "Div" => binary(input(0)?, input(1)?, |a, b| a / b, i64::checked_div, budget),
        "Pow" => binary(input(0)?, input(1)?, f64::powf, |_, _| None, budget),
        "Mod" => binary(
            input(0)?,
            input(1)?,
            f64::rem_euclid,
            i64::checked_rem_euclid,
            budget,
        ),
        "Not" => unary(input(0)?, |v| v, |v| Some(i64::from(v == 0))),
        "Less" => {
            let less = |a, b| Some(i64::from(a < b));
            compared(input(0)?, input(1)?, |a, b| a < b, less, budget)
        }
        "Greater" => {
            let greater = |a, b| Some(i64::from(a > b));
            compared(input(0)?, input(1)?, |a, b| a > b, greater, budget)
        }
        "Relu" => float(input(0)?, |v| v.max(0.0)),
        "Sigmoid" => float(input(0)?, |v| 1.0 / (1.0 + (-v).exp())),
        "Log" => float(input(0)?, f64::ln),
        "Abs" => unary(input(0)?, f64::abs, |v| v.checked_abs()),
        "Sign" => unary(
            input(0)?,
            |v| if v == 0.0 { 0.0 } else { v.signum() },
            |v| Some(v.signum()),
        ),
        "Min" => binary(
            input(0)?,
            input(1)?,
            f64::min,
            |a, b| Some(a.min(b)),
            budget,
        ),
        "Max" => binary(
            input(0)?,
            input(1)?,
            f64::max,
            |a, b| Some(a.max(b)),
            budget,
        ),
        "Clip" => {
            let bound = |index: usize, or: f64| match inputs.get(index).copied().flatten() {
                Some(bound) => bound
                    .scalar()
                    .ok_or_else(|| Refusal::from("bounds that are no numbers")),
                None => Ok(or),
            };
            let (low, high) = (bound(1, f64::MIN)?, bound(2, f64::MAX)?);
            float(input(0)?, |v| v.max(low).min(high))
        }
        "Range" => range(input(0)?, input(1)?, input(2)?, budget),
        "ScatterND" => scatter(input(0)?, input(1)?, input(2)?),
        "MatMul" => multiply(input(0)?, input(1)?, budget),
        "Equal" => {
            let equal = |a, b| Some(i64::from(a == b));
            compared(input(0)?, input(1)?, |a, b| a == b, equal, budget)
        }
        "Where" => {
            let (condition, yes) = (input(0)?, input(1)?);
            let not = unary(condition, |v| v, |v| Some(i64::from(v == 0)))?;
            let is = unary(condition, |v| v, |v| Some(i64::from(v != 0)))?;
            let times = |a: &Constant, b: &Constant, budget: &mut usize| {
                binary(a, b, |a, b| a * b, i64::checked_mul, budget)
            };
            let (yes, no) = (times(&is, yes, budget)?, times(&not, input(2)?, budget)?);
            binary(&yes, &no, |a, b| a + b, i64::checked_add, budget)
        }
        "ConstantOfShape" | "Expand" => {
            let at = usize::from(op == "Expand");
            let sizes = ints(at)?.iter().map(|&d| usize::try_from(d).ok());
            let shape: Option<Vec<usize>> = sizes.collect();
            let shape = shape.filter(|shape| elements(shape).is_some());
            let shape = shape.ok_or("an absurd shape")?;
            let value = match at {
                1 => input(0)?.clone(),
                _ => node
                    .tensor("value")?
                    .unwrap_or(Constant::floats(vec![], vec![0.0])),
            };
            let value = match at {
                1 => value,
                _ => reshape(&value, vec![1])?,
            };
            expanded(&value, shape, budget)
        }
        _ => Err(Refusal::Operator),
    }
}

fn spend(budget: &mut usize, count: usize) -> Result<(), Refusal> {
    let left = budget.checked_sub(count);
    *budget = left.ok_or("the constants together are much larger than the file")?;
    Ok(())
}

/// Repeats a constant to a shape; a larger one stays as it is.
fn expanded(value: &Constant, shape: Vec<usize>, budget: &mut usize) -> Evaluated {
    let count = elements(&shape).ok_or("an absurd shape")?;
    spend(budget, count)?;
    let data = match value.data {
        Data::Float(_) => Data::Float(vec![0.0; count]),
        Data::Int(_) => Data::Int(vec![0; count]),
    };
    let zeros = Constant { shape, data };
    binary(&zeros, value, |_, b| b, |_, b| Some(b), budget)
}

/// Truth values of a comparison.
fn compared(
    a: &Constant,
    b: &Constant,
    float: impl Fn(f64, f64) -> bool,
    int: impl Fn(i64, i64) -> Option<i64>,
    budget: &mut usize,
) -> Evaluated {
    let result = binary(a, b, |a, b| f64::from(float(a, b)), int, budget)?;
    cast(&result, data_type::BOOL.into())
}

/// Numbers from `start` up to `end`, which is not among them.
fn range(start: &Constant, end: &Constant, step: &Constant, budget: &mut usize) -> Evaluated {
    let number = |c: &Constant| c.scalar().ok_or_else(|| Refusal::from("no single numbers"));
    let (first, last, by) = (number(start)?, number(end)?, number(step)?);
    let count = ((last - first) / by).ceil().max(0.0);
    if !count.is_finite() || count >= (1u64 << 32) as f64 {
        return Err("an absurd range".into());
    }
    spend(budget, count as usize)?;
    let values = (0..count as usize).map(|i| first + i as f64 * by);
    Ok(match start.data {
        Data::Int(_) => Constant::ints(values.map(|v| v as i64).collect()),
        Data::Float(_) => {
            Constant::floats(vec![count as usize], values.map(|v| v as f32).collect())
        }
    })
}

/// A constant with some of its elements, or slices of it, replaced.
fn scatter(x: &Constant, indices: &Constant, updates: &Constant) -> Evaluated {
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
        let mut at = 0;
        for (&p, &size) in place.iter().zip(&x.shape) {
            at = at * size + axis(p, size)?;
        }
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

/// Rows of the first times a matrix.
fn multiply(a: &Constant, b: &Constant, budget: &mut usize) -> Evaluated {
    let (Some(x), Some(y)) = (a.as_floats(), b.as_floats()) else {
        return Err("integers where floats are wanted".into());
    };
    let (&[depth, columns], Some(&last)) = (&b.shape[..], a.shape.last()) else {
        return Err(format!("multiplies {:?} by {:?}", a.shape, b.shape).into());
    };
    if last != depth || depth == 0 || columns == 0 {
        return Err(format!("multiplies {:?} by {:?}", a.shape, b.shape).into());
    }
    // Every product costs.
    let rows = x.len() / depth;
    let products = rows.checked_mul(columns).ok_or("too many elements")?;
    spend(budget, products)?;
    let mut values = Vec::with_capacity(products);
    for row in x.chunks_exact(depth) {
        for column in 0..columns {
            let terms = row.iter().enumerate();
            let sum: f64 = terms
                .map(|(k, &x)| f64::from(x) * f64::from(y[k * columns + column]))
                .sum();
            values.push(sum as f32);
        }
    }
    let mut shape = a.shape.clone();
    if let Some(last) = shape.last_mut() {
        *last = columns;
    }
    Ok(Constant::floats(shape, values))
}

/// Parts of a constant, one behind the other.
pub(super) fn split(
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

fn reshape(x: &Constant, shape: Vec<usize>) -> Evaluated {
    if elements(&shape) != Some(x.len()) {
        return Err(format!("cannot make {shape:?} of {:?}", x.shape).into());
    }
    let data = x.data.clone();
    Ok(Constant { shape, data })
}

/// The elements at these positions, in a new shape.
fn pick(x: &Constant, shape: Vec<usize>, indices: impl Iterator<Item = usize>) -> Constant {
    let data = match &x.data {
        Data::Float(values) => Data::Float(indices.map(|i| values[i]).collect()),
        Data::Int(values) => Data::Int(indices.map(|i| values[i]).collect()),
    };
    Constant { shape, data }
}

fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i];
    }
    strides
}

/// Positions of a strided walk, the last dimension fastest.
fn walk(offset: usize, sizes: &[usize], strides: &[usize]) -> Vec<usize> {
    let mut positions = vec![offset];
    for (&size, &stride) in sizes.iter().zip(strides) {
        let next = positions.iter();
        let next =
            next.flat_map(|&p| (0..size).map(move |i| p.wrapping_add(i.wrapping_mul(stride))));
        positions = next.collect();
    }
    positions
}

fn transpose(x: &Constant, perm: Option<&[i64]>) -> Evaluated {
    let perm = permutation(perm, x.shape.len())?;
    let from = strides(&x.shape);
    let shape: Vec<usize> = perm.iter().map(|&p| x.shape[p]).collect();
    let strides: Vec<usize> = perm.iter().map(|&p| from[p]).collect();
    let indices = walk(0, &shape, &strides);
    Ok(pick(x, shape, indices.into_iter()))
}

fn concat(node: &Attributes<'_>, inputs: &[Option<&Constant>]) -> Evaluated {
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

fn gather(x: &Constant, indices: &Constant, along: i64, budget: &mut usize) -> Evaluated {
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

fn slice(x: &Constant, slices: &Slices) -> Evaluated {
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

fn cast(x: &Constant, to: i64) -> Evaluated {
    let shape = x.shape.clone();
    let data = match (i32::try_from(to).unwrap_or(0), &x.data) {
        (data_type::FLOAT | data_type::DOUBLE | data_type::FLOAT16 | data_type::BFLOAT16, _) => {
            Data::Float(x.to_f64().into_iter().map(|v| v as f32).collect())
        }
        (data_type::INT32 | data_type::INT64, _) => {
            Data::Int(x.to_f64().into_iter().map(|v| v as i64).collect())
        }
        (data_type::BOOL, _) => {
            Data::Int(x.to_f64().into_iter().map(|v| (v != 0.0).into()).collect())
        }
        _ => return Err(format!("cannot cast to element type {to}").into()),
    };
    Ok(Constant { shape, data })
}

fn unary(x: &Constant, float: impl Fn(f64) -> f64, int: impl Fn(i64) -> Option<i64>) -> Evaluated {
    let shape = x.shape.clone();
    let data = match &x.data {
        Data::Float(values) => {
            let values = values.iter().map(|&v| float(v.into()) as f32);
            Data::Float(values.collect())
        }
        Data::Int(values) => {
            let values: Option<Vec<i64>> = values.iter().map(|&v| int(v)).collect();
            Data::Int(values.ok_or("an integer is too large")?)
        }
    };
    Ok(Constant { shape, data })
}

fn float(x: &Constant, f: impl Fn(f64) -> f64) -> Evaluated {
    if x.as_floats().is_none() {
        return Err("integers where floats are wanted".into());
    }
    unary(x, f, |_| None)
}

/// Element by element, with ONNX's rules for different shapes. Integers and
/// floats mix to floats.
fn binary(
    a: &Constant,
    b: &Constant,
    float: impl Fn(f64, f64) -> f64,
    int: impl Fn(i64, i64) -> Option<i64>,
    budget: &mut usize,
) -> Evaluated {
    let rank = a.shape.len().max(b.shape.len());
    let padded = |c: &Constant| {
        let mut shape = vec![1; rank - c.shape.len()];
        shape.extend(&c.shape);
        shape
    };
    let (sa, sb) = (padded(a), padded(b));
    let mut shape = Vec::with_capacity(rank);
    for (&x, &y) in sa.iter().zip(&sb) {
        shape.push(match (x, y) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => return Err(format!("shapes {sa:?} and {sb:?} do not fit").into()),
        });
    }
    spend(budget, elements(&shape).ok_or("too many elements")?)?;
    let positions = |own: &[usize]| {
        let mut steps = strides(own);
        steps
            .iter_mut()
            .zip(own)
            .filter(|(_, d)| **d == 1)
            .for_each(|(s, _)| *s = 0);
        walk(0, &shape, &steps)
    };
    let pairs = positions(&sa).into_iter().zip(positions(&sb));
    let data = match (&a.data, &b.data) {
        (Data::Int(a), Data::Int(b)) => {
            let values: Option<Vec<i64>> = pairs.map(|(i, j)| int(a[i], b[j])).collect();
            Data::Int(values.ok_or("an integer is out of range")?)
        }
        _ => {
            let (a, b) = (a.to_f64(), b.to_f64());
            Data::Float(pairs.map(|(i, j)| float(a[i], b[j]) as f32).collect())
        }
    };
    Ok(Constant { shape, data })
}
