//! Tensors whose values are known.

use half::{bf16, f16};
use prost::bytes::Bytes;

use super::proto::{TensorProto, data_type};
use super::{External, OnnxError};

/// More dimensions than this are refused everywhere.
pub(super) const MAX_RANK: usize = 8;

/// Values of a constant; truth values and all integers are `i64`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Data {
    Float(Vec<f32>),
    Int(Vec<i64>),
}

/// A constant tensor, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Constant {
    pub(super) shape: Vec<usize>,
    pub(super) data: Data,
}

/// Number of elements, if it is sane.
pub(super) fn elements(shape: &[usize]) -> Option<usize> {
    if shape.len() > MAX_RANK {
        return None;
    }
    shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
}

impl Constant {
    pub(super) fn floats(shape: Vec<usize>, values: Vec<f32>) -> Self {
        let data = Data::Float(values);
        Self { shape, data }
    }

    pub(super) fn ints(values: Vec<i64>) -> Self {
        let shape = vec![values.len()];
        let data = Data::Int(values);
        Self { shape, data }
    }

    pub(super) fn len(&self) -> usize {
        match &self.data {
            Data::Float(values) => values.len(),
            Data::Int(values) => values.len(),
        }
    }

    pub(super) fn as_floats(&self) -> Option<&[f32]> {
        match &self.data {
            Data::Float(values) => Some(values),
            Data::Int(_) => None,
        }
    }

    pub(super) fn as_ints(&self) -> Option<&[i64]> {
        match &self.data {
            Data::Int(values) => Some(values),
            Data::Float(_) => None,
        }
    }

    /// Its values as `f64`, of either type.
    pub(super) fn to_f64(&self) -> Vec<f64> {
        match &self.data {
            Data::Float(values) => values.iter().map(|&v| v.into()).collect(),
            Data::Int(values) => values.iter().map(|&v| v as f64).collect(),
        }
    }

    /// Its only value.
    pub(super) fn scalar(&self) -> Option<f64> {
        (self.len() == 1).then(|| self.to_f64()[0])
    }

    /// Decodes a message; the number of values must be what its dimensions
    /// say. `None` for element types that classifiers do not compute with.
    pub(super) fn decode(
        tensor: &TensorProto,
        external: &mut dyn External,
    ) -> Result<Option<Self>, OnnxError> {
        let name = tensor.name.as_deref().unwrap_or_default();
        let fail = |reason: String| OnnxError::Tensor {
            name: name.into(),
            reason,
        };
        let dims = tensor.dims.iter().map(|&d| usize::try_from(d).ok());
        let shape: Option<Vec<usize>> = dims.collect();
        let shape = shape.filter(|shape| elements(shape).is_some());
        let shape = shape.ok_or_else(|| fail(format!("absurd size {:?}", tensor.dims)))?;
        let raw = if tensor.data_location == Some(1) {
            Some(external_bytes(tensor, external)?)
        } else {
            tensor.raw_data.clone()
        };
        let raw = raw.as_deref();
        let data = match tensor.data_type.unwrap_or_default() {
            data_type::FLOAT => Data::Float(match raw {
                Some(raw) => words(raw).map(f32::from_le_bytes).collect(),
                None => tensor.float_data.clone(),
            }),
            data_type::DOUBLE => Data::Float(match raw {
                Some(raw) => words(raw).map(|b| f64::from_le_bytes(b) as f32).collect(),
                None => tensor.double_data.iter().map(|&v| v as f32).collect(),
            }),
            kind @ (data_type::FLOAT16 | data_type::BFLOAT16) => {
                let bits: Vec<u16> = match raw {
                    Some(raw) => words(raw).map(u16::from_le_bytes).collect(),
                    None => tensor.int32_data.iter().map(|&v| v as u16).collect(),
                };
                let bits = bits.into_iter();
                Data::Float(if kind == data_type::FLOAT16 {
                    bits.map(|b| f16::from_bits(b).to_f32()).collect()
                } else {
                    bits.map(|b| bf16::from_bits(b).to_f32()).collect()
                })
            }
            data_type::INT64 => Data::Int(match raw {
                Some(raw) => words(raw).map(i64::from_le_bytes).collect(),
                None => tensor.int64_data.clone(),
            }),
            data_type::INT32 => Data::Int(match raw {
                Some(raw) => words(raw).map(|b| i32::from_le_bytes(b).into()).collect(),
                None => tensor.int32_data.iter().map(|&v| v.into()).collect(),
            }),
            data_type::BOOL => Data::Int(match raw {
                Some(raw) => raw.iter().map(|&b| b.into()).collect(),
                None => tensor.int32_data.iter().map(|&v| v.into()).collect(),
            }),
            _ => return Ok(None),
        };
        let constant = Self { shape, data };
        if elements(&constant.shape) != Some(constant.len()) {
            let Self { shape, .. } = &constant;
            return Err(fail(format!(
                "{} values for size {shape:?}",
                constant.len()
            )));
        }
        Ok(Some(constant))
    }
}

fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks::<N>().0.iter().copied()
}

/// The part of another file that holds a tensor's values.
fn external_bytes(tensor: &TensorProto, external: &mut dyn External) -> Result<Bytes, OnnxError> {
    let name = tensor.name.clone().unwrap_or_default();
    let entry = |key: &str| {
        let entries = tensor.external_data.iter();
        let mut found = entries.filter(|entry| entry.key.as_deref() == Some(key));
        found.next().and_then(|entry| entry.value.as_deref())
    };
    let fail = |reason: String| OnnxError::Tensor {
        name: name.clone(),
        reason,
    };
    let location = entry("location").unwrap_or_default();
    let file = external.file(location).map_err(fail)?;
    let number = |key: &str, default: usize| match entry(key) {
        Some(text) => text.parse().map_err(|_| fail(format!("{key} `{text}`"))),
        None => Ok(default),
    };
    let offset = number("offset", 0)?;
    let length = number("length", file.len().saturating_sub(offset))?;
    match offset.checked_add(length) {
        Some(end) if end <= file.len() => Ok(file.slice(offset..end)),
        _ => Err(fail(format!(
            "bytes {offset}..+{length} of `{location}`, which has {}",
            file.len()
        ))),
    }
}
