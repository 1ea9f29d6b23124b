//! Operators on constants: shapes that exporters compute, weights that they
//! transpose.

mod numbers;
mod places;

use self::numbers::{
    binary, cast, compared, float, multiply, pixelwise_conv, range, running_sums, unary,
};
pub(super) use self::places::split;
use self::places::{concat, expanded, gather, gather_nd, reshape, scatter, slice, transpose};
use super::Refusal;
use super::attributes::Attributes;
use super::shapes::{Slices, squeezed, target_shape, unsqueezed};
use crate::onnx::constant::{Constant, elements};

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
        "GatherND" if node.int("batch_dims").unwrap_or(0) == 0 => {
            gather_nd(input(0)?, input(1)?, budget)
        }
        "CumSum" => {
            let along = input(1)?.scalar().ok_or("no single axis")? as i64;
            let [exclusive, reverse] = ["exclusive", "reverse"].map(|a| node.int(a) == Some(1));
            running_sums(input(0)?, along, exclusive, reverse)
        }
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
        "Sin" => float(input(0)?, f64::sin),
        "Cos" => float(input(0)?, f64::cos),
        "Tanh" => float(input(0)?, f64::tanh),
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
        "Conv" => pixelwise_conv(node, input(0)?, input(1)?, input(2).ok(), budget),
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
