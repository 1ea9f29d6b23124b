//! A node's attributes by name.

use super::Refusal;
use super::shapes::axis;
use crate::onnx::Nowhere;
use crate::onnx::constant::Constant;
use crate::onnx::proto::{AttributeProto, NodeProto};

/// A node's attributes.
#[derive(Clone, Copy)]
pub(super) struct Attributes<'a>(pub(super) &'a NodeProto);

impl<'a> Attributes<'a> {
    fn get(&self, name: &str) -> Option<&'a AttributeProto> {
        let mut all = self.0.attribute.iter();
        all.find(|attribute| attribute.name.as_deref() == Some(name))
    }

    pub(super) fn int(&self, name: &str) -> Option<i64> {
        self.get(name)?.i
    }

    pub(super) fn float(&self, name: &str) -> Option<f32> {
        self.get(name)?.f
    }

    pub(super) fn ints(&self, name: &str) -> Option<&'a [i64]> {
        self.get(name).map(|attribute| attribute.ints.as_slice())
    }

    pub(super) fn floats(&self, name: &str) -> Option<&'a [f32]> {
        self.get(name).map(|attribute| attribute.floats.as_slice())
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        let bytes = self.get(name)?.s.as_deref()?;
        std::str::from_utf8(bytes).ok()
    }

    /// A constant; those of unknown element types are refused.
    pub(super) fn tensor(&self, name: &str) -> Result<Option<Constant>, Refusal> {
        let Some(tensor) = self.get(name).and_then(|attribute| attribute.t.as_ref()) else {
            return Ok(None);
        };
        match Constant::decode(tensor, &mut Nowhere) {
            Ok(Some(constant)) => Ok(Some(constant)),
            Ok(None) => Err("a constant of an unknown element type".into()),
            Err(error) => Err(error.to_string().into()),
        }
    }

    /// An axis of `rank` dimensions.
    pub(super) fn axis(&self, name: &str, default: i64, rank: usize) -> Result<usize, Refusal> {
        axis(self.int(name).unwrap_or(default), rank)
    }

    /// Two sizes, vertical and horizontal.
    pub(super) fn pair(&self, name: &str) -> Result<Option<[usize; 2]>, Refusal> {
        match self.ints(name) {
            None | Some([]) => Ok(None),
            Some(&[v, h]) => Ok(Some([extent(v)?, extent(h)?])),
            Some(other) => Err(format!("{name} {other:?}: only images have a place here").into()),
        }
    }
}

/// A size in pixels: small enough that sums and products are harmless.
pub(super) fn extent(value: i64) -> Result<usize, Refusal> {
    let size = usize::try_from(value).ok().filter(|&v| v < 1 << 20);
    size.ok_or_else(|| format!("a size of {value} pixels").into())
}
