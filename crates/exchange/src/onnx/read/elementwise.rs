//! Operators on each element: non-linearities and arithmetic.

use network::{Activation as Function, Op};

use super::view::{Axis, View, long};
use super::{Activation, Importer, Refusal, Site, Value};
use crate::onnx::constant::Constant;

impl Importer<'_> {
    pub(super) fn elementwise(&mut self, op: &str, site: &Site<'_>) -> Result<Activation, Refusal> {
        let attributes = &site.attributes;
        let function = match op {
            "Relu" => Function::Relu,
            "Sigmoid" => Function::Sigmoid,
            "Tanh" => Function::Tanh,
            "Exp" => Function::Exp,
            "HardSwish" => Function::HardSwish,
            "LeakyRelu" => Function::LeakyRelu {
                slope: attributes.float("alpha").unwrap_or(0.01),
            },
            "HardSigmoid" => Function::HardSigmoid {
                slope: attributes.float("alpha").unwrap_or(0.2),
                offset: attributes.float("beta").unwrap_or(0.5),
            },
            "Gelu" => Function::Gelu {
                tanh: attributes.text("approximate") == Some("tanh"),
            },
            "Clip" if self.opset < 11 => clip(attributes.float("min"), attributes.float("max")),
            "Clip" => {
                let bound = |index: usize| match site.constant(index)? {
                    None => Ok(None),
                    Some(c) => match c.scalar() {
                        Some(value) => Ok(Some(value as f32)),
                        None => Err(Refusal::from("bounds that are no numbers")),
                    },
                };
                clip(bound(1)?, bound(2)?)
            }
            "Swish" => match attributes.float("alpha").unwrap_or(1.0) {
                1.0 => Function::Silu,
                alpha => return self.swish(alpha, site),
            },
            "PRelu" => return self.prelu(site),
            "Erf" => {
                let x = site.activation(0)?.clone();
                let node = self.sketch.erf(&site.name, x.node);
                return Ok(Activation { node, ..x });
            }
            "Neg" => {
                let x = site.activation(0)?.clone();
                let node = self
                    .sketch
                    .affine(&site.name, x.node, vec![-1.0], vec![0.0])?;
                return Ok(Activation { node, ..x });
            }
            "Pow" => return self.power(site),
            "Add" | "Sub" | "Mul" | "Div" | "Min" | "Max" | "Sum" => {
                return self.arithmetic(op, site);
            }
            _ => return Err(Refusal::Operator),
        };
        self.apply(&site.name, function, site.activation(0)?)
    }

    fn apply(
        &mut self,
        name: &str,
        function: Function,
        x: &Activation,
    ) -> Result<Activation, Refusal> {
        let node = self
            .sketch
            .layer(name, Op::Activation(function), x.node, vec![])?;
        let view = x.view.clone();
        Ok(Activation { node, view })
    }

    /// `max(x, 0) + slope * min(x, 0)`, with a slope per channel as
    /// `max(x, 0) - slope * max(-x, 0)`.
    fn prelu(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?;
        let slope = site.weight(1)?;
        if let Some(slope) = slope.scalar() {
            let slope = slope as f32;
            return self.apply(&site.name, Function::LeakyRelu { slope }, x);
        }
        let (x, slope) = self.per_channel(&site.name, x, slope)?;
        let name = |part: &str| format!("{}.{part}", site.name);
        let positive = self.apply(&name("positive"), Function::Relu, &x)?;
        let negative = self
            .sketch
            .affine(&name("minus"), x.node, vec![-1.0], vec![0.0])?;
        let negative = self
            .sketch
            .layer(&name("negative"), Op::RELU, negative, vec![])?;
        let slope = slope.iter().map(|s| -s).collect();
        let negative = self
            .sketch
            .affine(&name("slope"), negative, slope, vec![0.0])?;
        let node = self.sketch.add(&site.name, positive.node, negative)?;
        Ok(Activation { node, ..x })
    }

    /// `x * sigmoid(alpha * x)`.
    fn swish(&mut self, alpha: f32, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?.clone();
        let name = |part: &str| format!("{}.{part}", site.name);
        let scaled = self
            .sketch
            .affine(&name("alpha"), x.node, vec![alpha], vec![0.0])?;
        let sigmoid = Op::Activation(Function::Sigmoid);
        let gate = self
            .sketch
            .layer(&name("sigmoid"), sigmoid, scaled, vec![])?;
        let node = self.sketch.mul(&site.name, x.node, gate)?;
        Ok(Activation { node, ..x })
    }

    /// Squares and cubes.
    fn power(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?.clone();
        let exponent = site.constant(1)?.and_then(Constant::scalar);
        let exponent = match exponent {
            Some(e) if [1.0, 2.0, 3.0].contains(&e) => e as usize,
            _ => return Err("only the powers 1, 2 and 3 are supported".into()),
        };
        let mut node = x.node;
        for _ in 1..exponent {
            node = self.sketch.mul(&site.name, node, x.node)?;
        }
        Ok(Activation { node, ..x })
    }

    fn arithmetic(&mut self, op: &str, site: &Site<'_>) -> Result<Activation, Refusal> {
        let value = |index: usize| match site.inputs.get(index) {
            Some(Some(value)) => Ok(value.clone()),
            _ => Err(Refusal::from(format!("input {index} is missing"))),
        };
        let mut result = value(0)?;
        if site.inputs.len() == 1 && matches!(op, "Sum" | "Min" | "Max") {
            return Ok(site.activation(0)?.clone());
        }
        for index in 1..site.inputs.len() {
            let sum = match (&result, &value(index)?) {
                (Value::Activation(a), Value::Activation(b)) => self.two(op, &site.name, a, b)?,
                (Value::Activation(a), Value::Constant(b)) => {
                    self.with_constant(op, &site.name, a, b, false)?
                }
                (Value::Constant(a), Value::Activation(b)) => {
                    self.with_constant(op, &site.name, b, a, true)?
                }
                _ => return Err("several constants".into()),
            };
            result = Value::Activation(sum);
        }
        match result {
            Value::Activation(activation) => Ok(activation),
            _ => Err("one input".into()),
        }
    }

    /// Two branches.
    fn two(
        &mut self,
        op: &str,
        name: &str,
        a: &Activation,
        b: &Activation,
    ) -> Result<Activation, Refusal> {
        let (mut a, mut b) = (a.clone(), b.clone());
        let fits = |long: &View, short: &View, x, y| {
            let dims = long.0.iter().zip(&short.0);
            let same = dims.filter(|(p, q)| {
                let (p, q) = (self::long(x, p), self::long(y, q));
                p == q || q.is_empty()
            });
            long.0.len() == short.0.len() && same.count() == long.0.len()
        };
        let (x, y) = (self.node_shape(&a), self.node_shape(&b));
        if !fits(&a.view, &b.view, x, y) && !fits(&b.view, &a.view, y, x) {
            // Vectors that were flattened from different shapes.
            for side in [&mut a, &mut b] {
                match self.vector(name, side)? {
                    (node, None) => {
                        let view = View::vector();
                        *side = Activation { node, view };
                    }
                    _ => return Err("a flattened image with its channels last".into()),
                }
            }
        }
        let (x, y) = (self.node_shape(&a), self.node_shape(&b));
        let node = match op {
            "Add" | "Sum" => self.sketch.add(name, a.node, b.node)?,
            "Mul" => self.sketch.mul(name, a.node, b.node)?,
            "Sub" => {
                let minus = format!("{name}.minus");
                let minus = self.sketch.affine(&minus, b.node, vec![-1.0], vec![0.0])?;
                self.sketch.add(name, a.node, minus)?
            }
            _ => return Err("one of the inputs must be constant".into()),
        };
        let view = if x.len() >= y.len() { a.view } else { b.view };
        Ok(Activation { node, view })
    }

    /// A branch and a constant; `first` if the constant stands first.
    fn with_constant(
        &mut self,
        op: &str,
        name: &str,
        x: &Activation,
        constant: &Constant,
        first: bool,
    ) -> Result<Activation, Refusal> {
        if matches!(op, "Min" | "Max") {
            let bound = constant.scalar().ok_or("wants one number")? as f32;
            let function = match op {
                "Max" => clip(Some(bound), None),
                _ => clip(None, Some(bound)),
            };
            return self.apply(name, function, x);
        }
        let (x, values) = self.per_channel(name, x, constant)?;
        let (one, zero) = (vec![1.0], vec![0.0]);
        let negative = || values.iter().map(|v| -v).collect();
        let (scale, shift) = match (op, first) {
            ("Add" | "Sum", _) => (one, values),
            ("Sub", false) => (one, negative()),
            ("Sub", true) => (vec![-1.0], values),
            ("Mul", _) => (values, zero),
            ("Div", false) => (values.iter().map(|v| 1.0 / v).collect(), zero),
            _ => return Err("divides by activations".into()),
        };
        let node = self.sketch.affine(name, x.node, scale, shift)?;
        Ok(Activation { node, ..x })
    }

    /// A constant as one value, or one per channel of the branch, which may
    /// have to be flattened for that.
    fn per_channel(
        &mut self,
        name: &str,
        x: &Activation,
        constant: &Constant,
    ) -> Result<(Activation, Vec<f32>), Refusal> {
        let values: Vec<f32> = constant.to_f64().into_iter().map(|v| v as f32).collect();
        let rank = x.view.0.len() + 1;
        let sizes = self.sizes(x);
        let fail = || Refusal::from(format!("a constant of {:?} on {sizes:?}", constant.shape));
        let missing = rank.checked_sub(constant.shape.len()).ok_or_else(fail)?;
        self.spend(values.len())?;
        if values.len() == 1 {
            return Ok((x.clone(), values));
        }
        let wide = constant.shape.iter().enumerate().filter(|(_, d)| **d != 1);
        let wide: Vec<(usize, usize)> = wide.map(|(i, &d)| (i + missing, d)).collect();
        let [(dim, size)] = wide[..] else {
            return Err(fail());
        };
        if dim == 0 || sizes[dim] != size {
            return Err(fail());
        }
        if long(self.node_shape(x), &x.view.0[dim - 1]) == [Axis::Channel] {
            return Ok((x.clone(), values));
        }
        match self.vector(name, x)? {
            (node, None) => {
                let view = View::vector();
                Ok((Activation { node, view }, values))
            }
            _ => Err(fail()),
        }
    }
}

/// Bounds as an activation; open ends are the largest numbers.
fn clip(low: Option<f32>, high: Option<f32>) -> Function {
    let (low, high) = (low.unwrap_or(f32::MIN), high.unwrap_or(f32::MAX));
    let (low, high) = (low.max(f32::MIN), high.min(f32::MAX));
    if low == 0.0 && high == f32::MAX {
        return Function::Relu;
    }
    Function::Clip { low, high }
}
