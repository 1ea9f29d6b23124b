//! Operators on each element: non-linearities and arithmetic.

use network::{Activation as Function, Op};

use super::matrices::{finite, role};
use super::sketch::spreads;
use super::view::{Part, View, joined};
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
            "Abs" => Function::LeakyRelu { slope: -1.0 },
            "Elu" | "Selu" | "Celu" => return self.elu(op, site),
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
                let (low, high) = (bound(1)?, bound(2)?);
                if let (Some(least), None) = (low, high)
                    && let Some(length) = self.at_least(&site.name, site.activation(0)?, least)
                {
                    return Ok(length);
                }
                clip(low, high)
            }
            "Swish" => match attributes.float("alpha").unwrap_or(1.0) {
                1.0 => Function::Silu,
                alpha => return self.swish(alpha, site),
            },
            "PRelu" => return self.prelu(site),
            "Erf" => {
                let x = site.activation(0)?.clone();
                let node = self.sketch.part(&site.name, "Erf", x.node);
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

    /// `gamma * x` where that is positive, else `below * (e^(rate * x) - 1)`.
    fn elu(&mut self, op: &str, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?.clone();
        let alpha = |usual| site.attributes.float("alpha").unwrap_or(usual);
        let (gamma, below, rate) = match op {
            "Elu" => (1.0, alpha(1.0), 1.0),
            "Celu" => (1.0, alpha(1.0), 1.0 / alpha(1.0)),
            _ => {
                let gamma = site.attributes.float("gamma").unwrap_or(1.050_701);
                (gamma, gamma * alpha(1.673_263_2), 1.0)
            }
        };
        let name = |part: &str| format!("{}.{part}", site.name);
        let positive = self.apply(&name("positive"), Function::Relu, &x)?;
        let zero = vec![0.0];
        let positive =
            (self.sketch).affine(&name("gamma"), positive.node, vec![gamma], zero.clone())?;
        let negative = self.apply(&name("negative"), clip(None, Some(0.0)), &x)?;
        let negative = (self.sketch).affine(&name("rate"), negative.node, vec![rate], zero)?;
        let power = Op::Activation(Function::Exp);
        let power = self.sketch.layer(&name("exp"), power, negative, vec![])?;
        let negative = (self.sketch).affine(&name("below"), power, vec![below], vec![-below])?;
        let node = self.sketch.add(&site.name, positive, negative)?;
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
        let view = x.view.clone();
        let result = Activation { node, view };
        if exponent == 2 {
            self.pair_fact("Mul", &x, &x, &result);
        }
        Ok(result)
    }

    fn arithmetic(&mut self, op: &str, site: &Site<'_>) -> Result<Activation, Refusal> {
        let value = |index: usize| match site.inputs.get(index) {
            Some(Some(value)) => Ok(value.clone()),
            _ => Err(Refusal::from(format!("input {index} is missing"))),
        };
        // Subtracting and dividing change it.
        let own = |index: usize| match op {
            "Sub" | "Div" => format!("{}.value", site.name),
            _ => site.value_name(index, "value"),
        };
        let mut result = value(0)?;
        if site.inputs.len() == 1 && matches!(op, "Sum" | "Min" | "Max") {
            return Ok(site.activation(0)?.clone());
        }
        for index in 1..site.inputs.len() {
            let sum = match (&result, &value(index)?) {
                (Value::Activation(a), Value::Activation(b)) => self.two(op, &site.name, a, b)?,
                (Value::Activation(a), Value::Constant(b)) => {
                    self.with_constant(op, [&site.name, &own(index)], a, b, false)?
                }
                (Value::Constant(a), Value::Activation(b)) => {
                    self.with_constant(op, [&site.name, &own(index - 1)], b, a, true)?
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
    pub(super) fn two(
        &mut self,
        op: &str,
        name: &str,
        a: &Activation,
        b: &Activation,
    ) -> Result<Activation, Refusal> {
        if op == "Div" {
            return self.quotient(name, a, b);
        }
        let (x, y) = self.beside(name, a, b)?;
        let node = match op {
            "Add" | "Sum" => self.sketch.add(name, x.node, y.node)?,
            "Mul" => self.sketch.mul(name, x.node, y.node)?,
            "Sub" => {
                let minus = format!("{name}.minus");
                let minus = self.sketch.affine(&minus, y.node, vec![-1.0], vec![0.0])?;
                self.sketch.add(name, x.node, minus)?
            }
            _ => return Err("one of the inputs must be constant".into()),
        };
        let (first, second) = (self.node_shape(&x), self.node_shape(&y));
        let view = if spreads(first, second) {
            x.view
        } else {
            y.view
        };
        let result = Activation { node, view };
        self.pair_fact(op, a, b, &result);
        Ok(result)
    }

    /// Two branches in the same layout; one of them may have to be spread.
    fn beside(
        &mut self,
        name: &str,
        a: &Activation,
        b: &Activation,
    ) -> Result<(Activation, Activation), Refusal> {
        let (x, y) = (self.node_shape(a), self.node_shape(b));
        if x == y && a.view.is(&b.view) && a.view.covers(x.len()) {
            return Ok((a.clone(), b.clone()));
        }
        let rank = a.view.dims.len().max(b.view.dims.len());
        let padded = |x: &Activation| {
            let mut sizes = vec![1; rank - x.view.dims.len()];
            sizes.extend(x.view.sizes());
            sizes
        };
        let (own, other) = (padded(a), padded(b));
        let sizes: Vec<usize> = own.iter().zip(&other).map(|(&a, &b)| a.max(b)).collect();
        // Images beside a value of each channel or pixel: operators spread it.
        for (long, short, swapped) in [(a, b, false), (b, a, true)] {
            let (first, second) = (self.node_shape(long), self.node_shape(short));
            let layouts: [fn(usize, network::Shape) -> View; 2] = [View::nchw, View::nhwc];
            let same = layouts.iter().any(|view| {
                long.view.is(&view(self.batch, first)) && short.view.is(&view(self.batch, second))
            });
            if same && spreads(first, second) {
                let pair = (long.clone(), short.clone());
                return Ok(if swapped { (pair.1, pair.0) } else { pair });
            }
        }
        let fail = || Refusal::from(format!("shapes {own:?} and {other:?} do not fit"));
        let spread = |x: &Activation| {
            let view = x.view.expanded(&sizes)?;
            Some(Activation { node: x.node, view })
        };
        let (a, b) = (spread(a).ok_or_else(fail)?, spread(b).ok_or_else(fail)?);
        // The memory of one of them, if that has every element once.
        for (fixed, moved, swapped) in [(&a, &b, false), (&b, &a, true)] {
            let shape = self.node_shape(fixed);
            if fixed.view.covers(shape.len())
                && let Some(walks) = along(&fixed.view, &moved.view)
            {
                let view = View {
                    offset: moved.view.offset,
                    dims: vec![walks],
                };
                let moved = Activation {
                    node: moved.node,
                    view,
                };
                let name = format!("{name}.beside");
                let node = self.arranged(&name, &moved, &[0], shape)?;
                let view = fixed.view.clone();
                let moved = Activation { node, view };
                let pair = (fixed.clone(), moved);
                return Ok(if swapped { (pair.1, pair.0) } else { pair });
            }
        }
        let first = self.row_major(&format!("{name}.first"), &a)?;
        let second = self.row_major(&format!("{name}.second"), &b)?;
        Ok((first, second))
    }

    /// A branch and a constant, by the names of what comes out and of the value that the
    /// constant may become; `first` if the constant stands first.
    pub(super) fn with_constant(
        &mut self,
        op: &str,
        [name, own]: [&str; 2],
        x: &Activation,
        constant: &Constant,
        first: bool,
    ) -> Result<Activation, Refusal> {
        if matches!(op, "Min" | "Max") {
            let bound = constant.scalar().ok_or("wants one number")? as f32;
            if op == "Max"
                && let Some(length) = self.at_least(name, x, bound)
            {
                return Ok(length);
            }
            let function = match op {
                "Max" => clip(Some(bound), None),
                _ => clip(None, Some(bound)),
            };
            return self.apply(name, function, x);
        }
        let source = x;
        let (x, values) = match self.spread_over(name, x, constant)? {
            Spread::Channels(x, values) => (x, values),
            Spread::Value(x, value) => return self.with_value(op, [name, own], x, value, first),
        };
        let (one, zero) = (vec![1.0], vec![0.0]);
        let negative = || values.iter().map(|v| -v).collect();
        let number = match values[..] {
            [number] => Some(number),
            _ => None,
        };
        let (scale, shift) = match (op, first) {
            ("Add" | "Sum", _) => (one, values),
            ("Sub", false) => (one, negative()),
            ("Sub", true) => (vec![-1.0], values),
            ("Mul", _) => (values, zero),
            ("Div", false) => (values.iter().map(|v| 1.0 / v).collect(), zero),
            _ => return Err("divides by activations".into()),
        };
        let node = self.sketch.affine(name, x.node, scale, shift)?;
        if let (true, Some(number)) = (op == "Add", number) {
            self.sum_fact(source, number, node);
        }
        Ok(Activation { node, ..x })
    }

    /// A branch and a value that is another one for each pixel.
    fn with_value(
        &mut self,
        op: &str,
        [name, own]: [&str; 2],
        mut x: Activation,
        (shape, mut values): (network::Shape, Vec<f32>),
        first: bool,
    ) -> Result<Activation, Refusal> {
        match (op, first) {
            ("Add" | "Sum" | "Mul", _) => {}
            ("Sub", false) => values.iter_mut().for_each(|v| *v = -*v),
            ("Sub", true) => {
                let minus = format!("{name}.minus");
                x.node = self.sketch.affine(&minus, x.node, vec![-1.0], vec![0.0])?;
            }
            ("Div", false) => values.iter_mut().for_each(|v| *v = 1.0 / *v),
            _ => return Err("divides by activations".into()),
        }
        let role = role(&values);
        let value = self.sketch.parameter(own, shape, role, finite(values))?;
        let node = match op {
            "Mul" | "Div" => self.sketch.mul(name, x.node, value)?,
            _ => self.sketch.add(name, x.node, value)?,
        };
        Ok(Activation { node, ..x })
    }

    /// A constant as one value, or one per channel of the branch.
    fn per_channel(
        &mut self,
        name: &str,
        x: &Activation,
        constant: &Constant,
    ) -> Result<(Activation, Vec<f32>), Refusal> {
        match self.spread_over(name, x, constant)? {
            Spread::Channels(x, values) => Ok((x, values)),
            Spread::Value(..) => {
                let (shape, sizes) = (&constant.shape, self.sizes(x));
                Err(format!("a constant of {shape:?} on {sizes:?}").into())
            }
        }
    }

    /// A constant beside a branch, which may have to be rearranged for that.
    fn spread_over(
        &mut self,
        name: &str,
        x: &Activation,
        constant: &Constant,
    ) -> Result<Spread, Refusal> {
        let values: Vec<f32> = constant.to_f64().into_iter().map(|v| v as f32).collect();
        let sizes = self.sizes(x);
        let fail = || Refusal::from(format!("a constant of {:?} on {sizes:?}", constant.shape));
        self.spend(values.len())?;
        if values.len() == 1 && constant.shape.len() <= sizes.len() {
            return Ok(Spread::Channels(x.clone(), values));
        }
        // The constant may be the larger one of both.
        let rank = sizes.len().max(constant.shape.len());
        let mut other = vec![1; rank - constant.shape.len()];
        other.extend(&constant.shape);
        let mut all = vec![1; rank - sizes.len()];
        all.extend(&sizes);
        for (own, &other) in all.iter_mut().zip(&other) {
            match (*own, other) {
                (a, b) if a == b || b == 1 => {}
                (1, b) => *own = b,
                _ => return Err(fail()),
            }
        }
        let view = x.view.expanded(&all).ok_or_else(fail)?;
        let mut x = Activation { node: x.node, view };
        let wide: Vec<usize> = (0..rank).filter(|&d| other[d] != 1).collect();
        let shape = self.node_shape(&x);
        if let [dim] = wide[..]
            && x.view.covers(shape.len())
        {
            let channels = [Part::Walk {
                count: shape.channels,
                stride: 1,
            }];
            if joined(&x.view.dims[dim]) == channels {
                return Ok(Spread::Channels(x, values));
            }
            if rank == 2 && dim == 1 && x.view.batch_first(self.batch) {
                let node = self.vector(name, &x)?;
                return Ok(Spread::Channels(self.as_vector(node), values));
            }
        }
        // Tokens that lie in memory as one vector take values of their own, not a vector's.
        if !x.view.covers(shape.len()) || (wide.len() > 1 && shape.pixels() == 1) {
            x = self.row_major(&format!("{name}.row_major"), &x)?;
        }
        let shape = self.node_shape(&x);
        self.spend(shape.len())?;
        // The place of every element in memory, and in the constant.
        let mut strides = vec![1; rank];
        for d in (1..rank).rev() {
            strides[d - 1] = strides[d] * other[d];
        }
        let mut places = vec![(x.view.offset, 0)];
        for (d, dim) in x.view.dims.iter().enumerate() {
            let mut by = if other[d] == 1 { 0 } else { strides[d] };
            let counts = dim.iter().map(|part| part.count());
            by *= counts.product::<usize>();
            for part in dim {
                by /= part.count();
                let (count, stride) = match *part {
                    Part::Walk { count, stride } => (count, stride),
                    // Every image must find the same.
                    Part::Batch(count) if by > 0 => {
                        self.spend(places.len().saturating_mul(count))?;
                        (count, 0)
                    }
                    Part::Batch(_) => continue,
                };
                let next = places.iter().flat_map(|&(memory, own)| {
                    (0..count).map(move |i| (memory + i * stride, own + i * by))
                });
                places = next.collect();
            }
        }
        let mut full = vec![None; shape.len()];
        for (memory, own) in places {
            let earlier = full[memory].replace(values[own]);
            if earlier.is_some_and(|earlier| earlier.to_bits() != values[own].to_bits()) {
                return Err("a constant that differs between the images of a batch".into());
            }
        }
        let full = full.into_iter().map(Option::unwrap_or_default).collect();
        let (shape, full) = compressed(shape, full);
        if shape.pixels() == 1 {
            return Ok(Spread::Channels(x, full));
        }
        Ok(Spread::Value(x, (shape, full)))
    }
}

/// A constant beside a branch.
enum Spread {
    /// One value, or one a channel.
    Channels(Activation, Vec<f32>),
    /// A value of this shape, which spreads to that of the branch.
    Value(Activation, (network::Shape, Vec<f32>)),
}

/// A value without the axes along which it is the same.
fn compressed(shape: network::Shape, values: Vec<f32>) -> (network::Shape, Vec<f32>) {
    let (mut sizes, mut values) = ([shape.height, shape.width, shape.channels], values);
    for axis in 0..3 {
        let inner: usize = sizes[axis + 1..].iter().product();
        let turn = inner * sizes[axis];
        let same = values.chunks_exact(turn).all(|turn| {
            let mut rest = turn.chunks_exact(inner);
            rest.all(|part| part == &turn[..inner])
        });
        if same {
            let first = values
                .chunks_exact(turn)
                .flat_map(|turn| turn[..inner].to_vec());
            values = first.collect();
            sizes[axis] = 1;
        }
    }
    (network::Shape::new(sizes[0], sizes[1], sizes[2]), values)
}

/// The walks of `moved` in the order in which `fixed`, of the same sizes, lies in
/// memory; `None` where they cannot be cut alike.
fn along(fixed: &View, moved: &View) -> Option<Vec<Part>> {
    let mut pairs = vec![];
    for (a, b) in fixed.dims.iter().zip(&moved.dims) {
        let walks = |dim: &[Part]| -> Vec<(usize, usize)> {
            let walks = dim.iter().filter_map(|part| match *part {
                Part::Walk { count, stride } => Some((count, stride)),
                Part::Batch(_) => None,
            });
            walks.collect()
        };
        // From the fastest: cut the longer one of both.
        let (mut a, mut b) = (walks(&joined(a)), walks(&joined(b)));
        while let (Some(&mut (m, s)), Some(&mut (n, t))) = (a.last_mut(), b.last_mut()) {
            let count = m.min(n);
            if !m.is_multiple_of(count) || !n.is_multiple_of(count) {
                return None;
            }
            pairs.push((s, Part::Walk { count, stride: t }));
            for (list, size, stride) in [(&mut a, m, s), (&mut b, n, t)] {
                list.pop();
                if size > count {
                    list.push((size / count, stride * count));
                }
            }
        }
        if !a.is_empty() || !b.is_empty() {
            return None;
        }
    }
    pairs.sort_by_key(|&(stride, _)| std::cmp::Reverse(stride));
    Some(pairs.into_iter().map(|(_, part)| part).collect())
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
