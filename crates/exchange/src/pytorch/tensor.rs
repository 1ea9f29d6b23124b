//! Copies strided views out of storages.

use half::{bf16, f16};

use super::CheckpointError;
use super::object::{Kind, View};
use crate::Tensor;

/// Tensors of more dimensions are refused.
const MAX_RANK: usize = 16;

/// Copies a view into row-major order as `f32`. `budget` is the number of
/// elements that may still be made: views may overlap or repeat, so their sizes
/// do not follow from the file's.
pub(super) fn materialise(
    name: &str,
    view: &View<'_>,
    data: &[u8],
    budget: &mut usize,
) -> Result<Tensor, CheckpointError> {
    let fail = |reason: String| CheckpointError::Tensor {
        name: name.into(),
        reason,
    };
    let View {
        offset,
        size,
        stride,
        ..
    } = view;
    let kind = view.storage.kind;
    if size.len() != stride.len() || size.len() > MAX_RANK {
        return Err(fail(format!("size {size:?} with strides {stride:?}")));
    }
    let available = data.len() / kind.size();
    let count = size.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    let last = size.iter().zip(stride).try_fold(*offset, |last, (&d, &s)| {
        last.checked_add(d.saturating_sub(1).checked_mul(s)?)
    });
    let (Some(count), Some(last)) = (count, last) else {
        return Err(fail(format!("its size {size:?} is absurd")));
    };
    if count > 0 && last >= available {
        return Err(fail(format!(
            "it reads element {last} of a storage of {available}"
        )));
    }
    *budget = budget
        .checked_sub(count)
        .ok_or_else(|| fail("the tensors together are much larger than the file".into()))?;
    let element = |index: usize| {
        let at = index * kind.size();
        let bytes = &data[at..at + kind.size()];
        match (kind, bytes) {
            (Kind::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
            (Kind::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f32(),
            (Kind::Bf16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f32(),
            (Kind::F64, &[a, b, c, d, e, f, g, h]) => {
                f64::from_le_bytes([a, b, c, d, e, f, g, h]) as f32
            }
            _ => 0.0,
        }
    };
    let mut values = Vec::with_capacity(count);
    let mut position = vec![0; size.len()];
    let mut index = *offset;
    for _ in 0..count {
        values.push(element(index));
        // Count up like an odometer, the last dimension fastest. Between two
        // elements the index may wrap, as a dimension of 1 has any stride.
        for axis in (0..size.len()).rev() {
            position[axis] += 1;
            index = index.wrapping_add(stride[axis]);
            if position[axis] < size[axis] {
                break;
            }
            index = index.wrapping_sub(stride[axis].wrapping_mul(size[axis]));
            position[axis] = 0;
        }
    }
    Ok(Tensor {
        shape: size.clone(),
        values,
    })
}
