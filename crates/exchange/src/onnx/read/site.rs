//! One node of the ONNX graph and what it reads.

use std::rc::Rc;

use network::NodeId;

use super::attributes::Attributes;
use super::view::View;
use crate::onnx::constant::Constant;
use crate::onnx::proto::NodeProto;

/// Why a node cannot be expressed.
pub(super) enum Refusal {
    /// The operator is not known.
    Operator,
    /// It is, but not like this.
    Reason(String),
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self::Reason(reason)
    }
}

impl From<&str> for Refusal {
    fn from(reason: &str) -> Self {
        Self::Reason(reason.into())
    }
}

/// A value of the ONNX graph.
#[derive(Clone)]
pub(super) enum Value {
    Constant(Rc<Constant>),
    Activation(Activation),
    /// A constant of an element type that is not computed with.
    Opaque,
}

/// Activations of a node, seen as an ONNX tensor.
#[derive(Clone)]
pub(super) struct Activation {
    pub node: NodeId,
    pub view: View,
}

/// One node to be expressed.
pub(super) struct Site<'a> {
    pub proto: &'a NodeProto,
    pub attributes: Attributes<'a>,
    pub inputs: Vec<Option<Value>>,
    /// What the file calls the stored values that these are.
    pub stored: Vec<Option<&'a str>>,
    /// Name for what it becomes.
    pub name: String,
}

impl Site<'_> {
    /// What a value of the network's own is called: as in the file, if it is stored there
    /// under a name, else as the node with `suffix`.
    pub fn value_name(&self, index: usize, suffix: &str) -> String {
        match self.stored.get(index) {
            Some(Some(name)) => (*name).into(),
            _ => format!("{}.{suffix}", self.name),
        }
    }

    pub fn constants(&self) -> Vec<Option<&Constant>> {
        let inputs = self.inputs.iter().map(|value| match value {
            Some(Value::Constant(constant)) => Some(constant.as_ref()),
            _ => None,
        });
        inputs.collect()
    }

    /// An optional constant input.
    pub fn constant(&self, index: usize) -> Result<Option<&Constant>, Refusal> {
        match self.inputs.get(index) {
            None | Some(None) => Ok(None),
            Some(Some(Value::Constant(constant))) => Ok(Some(constant)),
            Some(Some(_)) => Err(format!("input {index} is not constant").into()),
        }
    }

    /// A constant input of floats.
    pub fn weight(&self, index: usize) -> Result<&Constant, Refusal> {
        let constant = self.constant(index)?;
        let floats = constant.filter(|constant| constant.as_floats().is_some());
        floats.ok_or_else(|| format!("input {index} is not a tensor of floats").into())
    }

    pub fn activation(&self, index: usize) -> Result<&Activation, Refusal> {
        match self.inputs.get(index) {
            Some(Some(Value::Activation(activation))) => Ok(activation),
            _ => Err(format!("input {index} is constant or missing").into()),
        }
    }
}
