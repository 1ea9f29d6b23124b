//! Arithmetic on constants.

use super::places::{reshape, strides, transpose, walk};
use super::{Evaluated, spend};
use crate::onnx::constant::{Constant, Data, elements};
use crate::onnx::proto::data_type;
use crate::onnx::read::Refusal;
use crate::onnx::read::attributes::Attributes;
use crate::onnx::read::shapes::axis;

/// Truth values of a comparison.
pub(super) fn compared(
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
pub(super) fn range(
    start: &Constant,
    end: &Constant,
    step: &Constant,
    budget: &mut usize,
) -> Evaluated {
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

/// Rows of the first times a matrix.
pub(super) fn multiply(a: &Constant, b: &Constant, budget: &mut usize) -> Evaluated {
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

pub(super) fn cast(x: &Constant, to: i64) -> Evaluated {
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

pub(super) fn unary(
    x: &Constant,
    float: impl Fn(f64) -> f64,
    int: impl Fn(i64) -> Option<i64>,
) -> Evaluated {
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

pub(super) fn float(x: &Constant, f: impl Fn(f64) -> f64) -> Evaluated {
    if x.as_floats().is_none() {
        return Err("integers where floats are wanted".into());
    }
    unary(x, f, |_| None)
}

/// Element by element, with ONNX's rules for different shapes. Integers and
/// floats mix to floats.
pub(super) fn binary(
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

/// A convolution by windows of one pixel, which is a product with a matrix: of position
/// embeddings that the network computes.
pub(super) fn pixelwise_conv(
    node: &Attributes<'_>,
    x: &Constant,
    weight: &Constant,
    bias: Option<&Constant>,
    budget: &mut usize,
) -> Evaluated {
    let plain = |name: &str, usual: i64| {
        let values = node.ints(name).unwrap_or_default();
        values.iter().all(|&value| value == usual)
    };
    let &[out, channels, 1, 1] = &weight.shape[..] else {
        return Err(Refusal::Operator);
    };
    let fits = x.shape.len() == 4 && x.shape[1] == channels;
    let usual = node.int("group").unwrap_or(1) == 1
        && plain("strides", 1)
        && plain("pads", 0)
        && matches!(node.text("auto_pad"), None | Some("NOTSET" | "VALID"));
    if !fits || !usual {
        return Err(Refusal::Operator);
    }
    // The channels last, and back.
    let last = transpose(x, Some(&[0, 2, 3, 1]))?;
    let matrix = reshape(weight, vec![out, channels])?;
    let mut y = multiply(&last, &transpose(&matrix, None)?, budget)?;
    if let Some(bias) = bias {
        y = binary(&y, bias, |a, b| a + b, |_, _| None, budget)?;
    }
    transpose(&y, Some(&[0, 3, 1, 2]))
}

/// Sums of all elements up to each along one dimension, with it or without.
pub(super) fn running_sums(x: &Constant, along: i64, exclusive: bool, reverse: bool) -> Evaluated {
    let along = axis(along, x.shape.len())?;
    let (size, step) = (x.shape[along], strides(&x.shape)[along]);
    let mut values = x.to_f64();
    for start in 0..values.len() {
        // The first element of each line.
        if start / step % size != 0 {
            continue;
        }
        let mut sum = 0.0;
        for i in 0..size {
            let i = if reverse { size - 1 - i } else { i };
            let value = &mut values[start + i * step];
            let before = sum;
            sum += *value;
            *value = if exclusive { before } else { sum };
        }
    }
    let shape = x.shape.clone();
    let values = values.into_iter();
    let data = match x.data {
        Data::Int(_) => Data::Int(values.map(|v| v as i64).collect()),
        Data::Float(_) => Data::Float(values.map(|v| v as f32).collect()),
    };
    Ok(Constant { shape, data })
}
