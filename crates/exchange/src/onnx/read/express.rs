//! One node of the ONNX graph to nodes of ours.

use std::rc::Rc;

use super::attributes::Attributes;
use super::{Importer, Refusal, Site, Value, evaluate, node_name};
use crate::onnx::QUANTISED;
use crate::onnx::constant::Constant;
use crate::onnx::proto::NodeProto;

impl<'a> Importer<'a> {
    /// The values of a node: evaluated if it does not depend on the image,
    /// otherwise sketched.
    pub(super) fn express(
        &mut self,
        index: usize,
        node: &'a NodeProto,
    ) -> Result<Vec<Value>, Refusal> {
        if !matches!(node.domain.as_deref(), None | Some("" | "ai.onnx")) {
            return Err(Refusal::Operator);
        }
        let op = node.op_type.as_deref().unwrap_or_default();
        if QUANTISED.contains(&op) {
            return Err(Refusal::Operator);
        }
        let mut inputs = Vec::with_capacity(node.input.len());
        for name in &node.input {
            let value = self.values.get(name.as_str()).cloned();
            match value {
                None if name.is_empty() => inputs.push(None),
                None => return Err(format!("no earlier node makes its input `{name}`").into()),
                Some(Value::Opaque) => {
                    return Err(format!("`{name}` has an unusual element type").into());
                }
                value => inputs.push(value),
            }
        }
        let site = Site {
            proto: node,
            attributes: Attributes(node),
            inputs,
            stored: node
                .input
                .iter()
                .map(|name| self.stored.get(name.as_str()).copied())
                .collect(),
            name: node_name(node, index),
        };
        if self.skipped.contains(&index) {
            return Ok(vec![Value::Activation(site.activation(0)?.clone())]);
        }
        if op == "Constant" {
            return constant(&site.attributes).map(|c| vec![Value::Constant(Rc::new(c))]);
        }
        let computed = site
            .inputs
            .iter()
            .flatten()
            .any(|v| matches!(v, Value::Activation(_)));
        if !computed {
            let constants = site.constants();
            let (attributes, opset) = (&site.attributes, self.opset);
            let budget = &mut self.budget;
            if op == "Split" {
                let parts =
                    evaluate::split(attributes, opset, &constants, node.output.len(), budget)?;
                return Ok(parts
                    .into_iter()
                    .map(|c| Value::Constant(Rc::new(c)))
                    .collect());
            }
            let value = evaluate::evaluate(op, attributes, opset, &constants, budget)?;
            return Ok(vec![Value::Constant(Rc::new(value))]);
        }
        if op == "Split" {
            let parts = self.split(&site)?;
            return Ok(parts.into_iter().map(Value::Activation).collect());
        }
        self.operator(op, &site).map(|value| vec![value])
    }

    fn operator(&mut self, op: &str, site: &Site<'_>) -> Result<Value, Refusal> {
        let activation = match op {
            "Conv" => self.conv(site)?,
            "Gemm" => self.gemm(site)?,
            "MatMul" => self.matmul(site)?,
            "BatchNormalization" => self.batch_norm(site)?,
            "MaxPool" => self.max_pool(site)?,
            "AveragePool" => self.average_pool(site)?,
            "GlobalAveragePool" | "GlobalMaxPool" => self.global_pool(op, site)?,
            "ReduceMean" | "ReduceMax" | "ReduceSum" => self.reduce(op, site)?,
            "ReduceL2" => self.length(site)?,
            "LayerNormalization" | "RMSNormalization" => self.layer_norm(op, site)?,
            "GroupNormalization" => self.group_norm(site)?,
            "InstanceNormalization" => self.instance_norm(site)?,
            "Sqrt" => self.square_root(site)?,
            "Einsum" => self.einsum(site)?,
            "Gather" => self.gather(site)?,
            "Expand" => self.expand(site)?,
            "Pad" => self.pad(site)?,
            "Resize" | "Upsample" => self.resize(op, site)?,
            "Attention" => self.attention(site)?,
            "Concat" => self.concat(site)?,
            "Shape" => return self.shape(site),
            "Identity" | "Dropout" => site.activation(0)?.clone(),
            "Cast" => self.cast(site)?,
            "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => self.reshape(op, site)?,
            "Transpose" => self.transpose(site)?,
            "Slice" => self.slice(site)?,
            "Softmax" => self.softmax(site)?,
            "LogSoftmax" => return Err("is supported at the end of a network only".into()),
            _ => self.elementwise(op, site)?,
        };
        Ok(Value::Activation(activation))
    }
}

/// The value of a Constant node, in any of its forms.
fn constant(attributes: &Attributes<'_>) -> Result<Constant, Refusal> {
    if let Some(constant) = attributes.tensor("value")? {
        return Ok(constant);
    }
    if let Some(value) = attributes.float("value_float") {
        return Ok(Constant::floats(vec![], vec![value]));
    }
    if let Some(values) = attributes.floats("value_floats") {
        return Ok(Constant::floats(vec![values.len()], values.to_vec()));
    }
    if let Some(value) = attributes.int("value_int") {
        let mut constant = Constant::ints(vec![value]);
        constant.shape.clear();
        return Ok(constant);
    }
    let values = attributes
        .ints("value_ints")
        .ok_or("a constant without a value")?;
    Ok(Constant::ints(values.to_vec()))
}
