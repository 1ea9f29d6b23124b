//! Operators that move values: reshaping, padding, joining.

use network::{NodeId, Op, Padding, Shape};

use super::shapes::{Slices, axis, permutation, squeezed, target_shape, unsqueezed};
use super::view::{Part, View};
use super::{Activation, Importer, Refusal, Site, Value};
use crate::onnx::constant::Constant;
use crate::onnx::proto::data_type;

impl Importer<'_> {
    /// The shape of a value as a constant.
    pub(super) fn shape(&mut self, site: &Site<'_>) -> Result<Value, Refusal> {
        let sizes = self.sizes(site.activation(0)?);
        let ends = ["start", "end"].map(|name| site.attributes.int(name));
        let range = (ends[0].unwrap_or(0), ends[1].unwrap_or(i64::MAX), 1);
        let (start, count, _) = Slices::resolve(range, sizes.len())?;
        let part = sizes[start..start + count].iter().map(|&d| d as i64);
        Ok(Value::Constant(Constant::ints(part.collect()).into()))
    }

    pub(super) fn cast(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let to = site.attributes.int("to").unwrap_or(0);
        let floats = [
            data_type::FLOAT,
            data_type::FLOAT16,
            data_type::DOUBLE,
            data_type::BFLOAT16,
        ];
        if !floats.iter().any(|&kind| i64::from(kind) == to) {
            return Err("activations stay floats".into());
        }
        Ok(site.activation(0)?.clone())
    }

    /// Reshape, Flatten, Squeeze and Unsqueeze: another view of the same node, if it
    /// can be seen so.
    pub(super) fn reshape(&mut self, op: &str, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?;
        let sizes = self.sizes(x);
        let axes = match site.constant(1)? {
            Some(axes) => axes.as_ints(),
            None => site.attributes.ints("axes"),
        };
        let wanted = match op {
            "Flatten" => {
                let axis = site.attributes.axis("axis", 1, sizes.len() + 1)?;
                let (a, b) = sizes.split_at(axis);
                vec![a.iter().product(), b.iter().product()]
            }
            "Squeeze" => squeezed(&sizes, axes)?,
            "Unsqueeze" => unsqueezed(&sizes, axes.ok_or("no axes")?)?,
            _ => {
                let zeros = site.attributes.int("allowzero") != Some(1);
                target_shape(&sizes, axes.ok_or("no constant shape")?, zeros)?
            }
        };
        let x = x.clone();
        self.seen_as(&site.name, &x, &wanted)
    }

    /// The same elements in dimensions of other sizes; a copy where they cannot be seen so.
    pub(super) fn seen_as(
        &mut self,
        name: &str,
        x: &Activation,
        wanted: &[usize],
    ) -> Result<Activation, Refusal> {
        if let Some(view) = x.view.reshaped(wanted) {
            let node = x.node;
            return Ok(Activation { node, view });
        }
        let sizes = self.sizes(x);
        let x = self.row_major(&format!("{name}.row_major"), x)?;
        let view = x.view.reshaped(wanted);
        let view = view.ok_or_else(|| format!("cannot make {wanted:?} of {sizes:?}"))?;
        Ok(Activation { view, ..x })
    }

    pub(super) fn transpose(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?;
        let perm = permutation(site.attributes.ints("perm"), x.view.dims.len())?;
        let (node, view) = (x.node, x.view.permuted(&perm));
        Ok(Activation { node, view })
    }

    pub(super) fn expand(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?;
        let own = self.sizes(x);
        let wanted = site.constant(1)?.and_then(Constant::as_ints);
        let wanted = wanted.ok_or("no constant shape")?;
        // 1 keeps a dimension as it is.
        let missing = wanted.len().checked_sub(own.len());
        let missing = missing.ok_or("fewer dimensions than before")?;
        let size = |(d, &size): (usize, &i64)| {
            let own = d.checked_sub(missing).map_or(1, |d| own[d]);
            usize::try_from(size).map(|size| if size == 1 { own } else { size })
        };
        let sizes: Result<Vec<usize>, _> = wanted.iter().enumerate().map(size).collect();
        let sizes = sizes.map_err(|_| Refusal::from("an absurd shape"))?;
        let view = x.view.expanded(&sizes);
        let view = view.ok_or_else(|| format!("cannot spread {own:?} to {sizes:?}"))?;
        let node = x.node;
        Ok(Activation { node, view })
    }

    /// Elements at constant places: one, or several at equal distances.
    pub(super) fn gather(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?.clone();
        let sizes = self.sizes(&x);
        let along = axis(site.attributes.int("axis").unwrap_or(0), sizes.len())?;
        let indices = site.constant(1)?.ok_or("no constant places")?;
        let list = indices.as_ints().ok_or("places that are no integers")?;
        let list = list.iter().map(|&i| axis(i, sizes[along]));
        let list: Vec<usize> = list.collect::<Result<_, Refusal>>()?;
        let step = match list[..] {
            [first, second, ..] if second > first => second - first,
            [_] => 1,
            _ => return Err("picks elements in no order".into()),
        };
        if list.windows(2).any(|pair| pair[0] + step != pair[1]) {
            return Err("picks elements in no order".into());
        }
        let shape = indices.shape.clone();
        let x = self.cut(&site.name, &x, along, (list[0], list.len(), step))?;
        // The places' own dimensions stand where that one was.
        let wanted = [&sizes[..along], &shape, &sizes[along + 1..]].concat();
        self.seen_as(&site.name, &x, &wanted)
    }

    /// Part of a dimension: first element, number, distance.
    fn cut(
        &mut self,
        name: &str,
        x: &Activation,
        along: usize,
        (first, count, step): (usize, usize, usize),
    ) -> Result<Activation, Refusal> {
        if (first, count, step) == (0, self.sizes(x)[along], 1) {
            return Ok(x.clone());
        }
        if count == 0 {
            return Err("nothing is left".into());
        }
        if x.view.has_batch(along) {
            return Err("takes some images of a batch".into());
        }
        if let Some(view) = x.view.sliced(along, first, count, step) {
            let node = x.node;
            return Ok(Activation { node, view });
        }
        let x = self.row_major(&format!("{name}.row_major"), x)?;
        let view = x.view.sliced(along, first, count, step);
        let view = view.ok_or("takes a part that is not every n-th")?;
        Ok(Activation { view, ..x })
    }

    /// Parts one behind the other.
    pub(super) fn split(&mut self, site: &Site<'_>) -> Result<Vec<Activation>, Refusal> {
        let x = site.activation(0)?.clone();
        let sizes = self.sizes(&x);
        let along = axis(site.attributes.int("axis").unwrap_or(0), sizes.len())?;
        let given = match site.constant(1)? {
            Some(parts) => parts.as_ints(),
            None => site.attributes.ints("split"),
        };
        let counts = part_sizes(given, sizes[along], site.proto.output.len())?;
        let mut first = 0;
        let mut parts = Vec::with_capacity(counts.len());
        for count in counts {
            parts.push(self.cut(&site.name, &x, along, (first, count, 1))?);
            first += count;
        }
        Ok(parts)
    }

    /// Parts of dimensions; every n-th row and column of an image is an operator.
    pub(super) fn slice(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let mut x = site.activation(0)?.clone();
        let sizes = self.sizes(&x);
        let slices = Slices::new(&site.attributes, &site.constants(), self.opset)?;
        let mut stride = [1, 1];
        let shape = self.node_shape(&x);
        let usual = [View::nchw(self.batch, shape), View::nhwc(self.batch, shape)];
        let layout = usual.iter().position(|view| x.view.is(view));
        let mut cuts = vec![];
        for &(along, start, end, step) in &slices.0 {
            let along = axis(along, sizes.len())?;
            let (first, count, step) = Slices::resolve((start, end, step), sizes[along])?;
            let step = usize::try_from(step).map_err(|_| "goes backwards")?;
            if (first, count, step) == (0, sizes[along], 1) {
                continue;
            }
            // Where height and width are in N x C x H x W and N x H x W x C.
            let place = layout.and_then(|layout| along.checked_sub(2 - layout));
            let whole = first == 0 && step > 1 && count == sizes[along].div_ceil(step);
            match place {
                Some(place @ 0..2) if whole => stride[place] = step,
                _ => cuts.push((along, (first, count, step))),
            }
        }
        if stride != [1, 1] {
            let op = Op::Subsample { stride };
            x.node = self.sketch.layer(&site.name, op, x.node, vec![])?;
            let shape = self.node_shape(&x);
            x.view = match layout {
                Some(0) => View::nchw(self.batch, shape),
                _ => View::nhwc(self.batch, shape),
            };
        }
        for (along, cut) in cuts {
            x = self.cut(&site.name, &x, along, cut)?;
        }
        Ok(x)
    }

    /// Zeros around the image and the channels.
    pub(super) fn pad(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?;
        let rank = x.view.dims.len();
        if !matches!(site.attributes.text("mode"), None | Some("constant")) {
            return Err("only zeros are padded".into());
        }
        let value = match self.opset {
            ..11 => site.attributes.float("value").map(f64::from),
            _ => site.constant(2)?.and_then(Constant::scalar),
        };
        if value.is_some_and(|value| value != 0.0) {
            return Err("only zeros are padded".into());
        }
        let pads = match self.opset {
            ..11 => site.attributes.ints("pads"),
            _ => site.constant(1)?.and_then(Constant::as_ints),
        };
        let pads = pads.ok_or("no constant pads")?;
        let axes: Vec<usize> = match site.constant(3)?.and_then(Constant::as_ints) {
            Some(axes) => {
                let axes = axes.iter().map(|&a| axis(a, rank));
                axes.collect::<Result<_, Refusal>>()?
            }
            None => (0..rank).collect(),
        };
        if pads.len() != 2 * axes.len() {
            return Err(format!("{} pads for {} axes", pads.len(), axes.len()).into());
        }
        let mut around = vec![[0, 0]; rank];
        for (i, &along) in axes.iter().enumerate() {
            let size = |value: i64| {
                let size = usize::try_from(value).ok();
                size.ok_or_else(|| format!("a padding of {value}"))
            };
            around[along] = [size(pads[i])?, size(pads[i + axes.len()])?];
        }
        if around.iter().all(|pad| *pad == [0, 0]) {
            return Ok(x.clone());
        }
        if rank > 4 || !x.view.batch_first(self.batch) || around[0] != [0, 0] {
            return Err(format!("cannot pad {:?}", self.sizes(x)).into());
        }
        let x = x.clone();
        let first = rank == 4 && !x.view.is(&View::nhwc(self.batch, self.node_shape(&x)));
        let (node, [h, w, c]) = match (first, rank) {
            (true, _) => (self.image(&site.name, &x)?, [2, 3, 1]),
            // Dimensions that are missing have one element.
            _ => {
                let x = self.row_major(&site.name, &x)?;
                (
                    x.node,
                    [rank.wrapping_sub(3), rank.wrapping_sub(2), rank - 1],
                )
            }
        };
        let of = |dim: usize| match dim {
            0 => [0, 0],
            dim => around.get(dim).copied().unwrap_or_default(),
        };
        let [[top, bottom], [left, right], channels] = [h, w, c].map(of);
        let padding = Padding {
            top,
            left,
            bottom,
            right,
        };
        let op = Op::Pad { padding, channels };
        let node = self.sketch.layer(&site.name, op, node, vec![])?;
        if first {
            return Ok(self.as_image(node));
        }
        let mut view = View::nhwc(self.batch, self.sketch.shape(node));
        view.dims.drain(1..5 - rank);
        Ok(Activation { node, view })
    }

    /// Channels of several images, or several vectors; anything else as rows.
    pub(super) fn concat(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let mut inputs = Vec::with_capacity(site.inputs.len());
        for (index, input) in site.inputs.iter().enumerate() {
            inputs.push(match input {
                Some(Value::Activation(x)) => x.clone(),
                Some(Value::Constant(constant)) => {
                    self.constant_value(&site.value_name(index, &format!("part{index}")), constant)?
                }
                _ => return Err(format!("input {index} is missing").into()),
            });
        }
        let first = &inputs[0];
        let rank = first.view.dims.len();
        let along = axis(site.attributes.int("axis").unwrap_or(1), rank)?;
        if inputs
            .iter()
            .any(|x| x.view.dims.len() != rank || x.view.has_batch(along))
        {
            return Err("joins batches, or inputs of different dimensions".into());
        }
        let sizes: Vec<Vec<usize>> = inputs.iter().map(|x| self.inner_sizes(x)).collect();
        let fits = |own: &Vec<usize>| (0..rank).all(|d| d == along || own[d] == sizes[0][d]);
        if !sizes.iter().all(fits) {
            return Err(format!("inputs of different sizes {sizes:?}").into());
        }
        if rank == 2 && along == 1 && first.view.batch_first(self.batch) {
            let mut nodes = Vec::with_capacity(inputs.len());
            for input in &inputs {
                nodes.push(self.vector(&site.name, input)?);
            }
            let node = self.sketch.concat(&site.name, &nodes)?;
            return Ok(self.as_vector(node));
        }
        let all = |view: fn(usize, Shape) -> View| {
            let mut inputs = inputs.iter();
            inputs.all(|x| x.view.is(&view(self.batch, self.node_shape(x))))
        };
        let nodes: Vec<NodeId> = inputs.iter().map(|x| x.node).collect();
        if rank == 4 && along == 1 && all(View::nchw) {
            let node = self.sketch.concat(&site.name, &nodes)?;
            return Ok(self.as_image(node));
        }
        if rank == 4 && along == 3 && all(View::nhwc) {
            let node = self.sketch.concat(&site.name, &nodes)?;
            let view = View::nhwc(self.batch, self.sketch.shape(node));
            return Ok(Activation { node, view });
        }
        // Rows of all that comes before that dimension.
        let order: Vec<usize> = (0..rank).collect();
        let rows = sizes[0][..along].iter().product();
        let mut nodes = Vec::with_capacity(inputs.len());
        for (index, (x, own)) in inputs.iter().zip(&sizes).enumerate() {
            let shape = Shape::new(1, rows, own[along..].iter().product());
            nodes.push(self.arranged(&format!("{}.rows{index}", site.name), x, &order, shape)?);
        }
        let node = self.sketch.concat(&site.name, &nodes)?;
        let mut dims = first.view.dims.clone();
        let count = sizes.iter().map(|own| own[along]).sum();
        dims[along] = vec![Part::Walk { count, stride: 0 }];
        let view = View::row_major(&dims);
        let name = format!("{}.joined", site.name);
        self.row_major(&name, &Activation { node, view })
    }
}

/// Sizes of the parts of a dimension: as given, or equal ones.
pub(super) fn part_sizes(
    given: Option<&[i64]>,
    size: usize,
    parts: usize,
) -> Result<Vec<usize>, Refusal> {
    let each = size.div_ceil(parts.max(1));
    let sizes: Vec<usize> = match given {
        Some(given) => {
            let sizes: Result<_, _> = given.iter().map(|&n| usize::try_from(n)).collect();
            sizes.map_err(|_| Refusal::from("a part of negative size"))?
        }
        None => (0..parts)
            .map(|i| each.min(size.saturating_sub(i * each)))
            .collect(),
    };
    let total = sizes.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
    if total != Some(size) || sizes.contains(&0) || sizes.len() < parts {
        return Err(format!("parts {sizes:?} of {size}").into());
    }
    Ok(sizes)
}
