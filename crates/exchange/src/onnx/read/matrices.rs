//! Products of matrices of which neither is a layer's weight.

use network::{Role, Shape};

use super::view::{Part, View};
use super::{Activation, Importer, Refusal, Site, Value};
use crate::onnx::constant::Constant;

impl Importer<'_> {
    /// `a b` along the last two dimensions, the others in pairs.
    pub(super) fn product(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let [a, b] = [0, 1].map(|index| self.factor(site, index));
        let (a, b) = (a?, b?);
        let (first, second) = (a.view.sizes(), b.view.sizes());
        if first.len() < 2 || second.len() < 2 {
            return Err(format!("multiplies {first:?} by {second:?}").into());
        }
        let rank = first.len().max(second.len());
        // The dimensions before the last two, as both have them.
        let lead = |sizes: &[usize]| {
            let mut lead = vec![1; rank - sizes.len()];
            lead.extend(&sizes[..sizes.len() - 2]);
            lead
        };
        let common: Vec<usize> = (lead(&first).iter().zip(lead(&second)))
            .map(|(&a, b)| a.max(b))
            .collect();
        let matrices = |x: &Activation, sizes: &[usize]| {
            let sizes = [&common[..], &sizes[sizes.len() - 2..]].concat();
            let view = x.view.expanded(&sizes)?;
            Some(Activation { node: x.node, view })
        };
        let fail = || format!("cannot multiply {first:?} by {second:?}");
        let a = matrices(&a, &first).ok_or_else(fail)?;
        let b = matrices(&b, &second).ok_or_else(fail)?;
        self.multiply(&site.name, &a, &b)
    }

    /// A factor; a constant becomes a value of the network's own.
    pub(super) fn factor(&mut self, site: &Site<'_>, index: usize) -> Result<Activation, Refusal> {
        match site.inputs.get(index) {
            Some(Some(Value::Activation(x))) => Ok(x.clone()),
            Some(Some(Value::Constant(constant))) => {
                let constant = constant.clone();
                self.constant_value(&site.value_name(index, "factor"), &constant)
            }
            _ => Err(format!("input {index} is missing").into()),
        }
    }

    /// A constant as a value of the network's own, the same for every image.
    pub(super) fn constant_value(
        &mut self,
        name: &str,
        constant: &Constant,
    ) -> Result<Activation, Refusal> {
        let values = constant.as_floats().ok_or("integers instead of floats")?;
        let mut sizes = constant.shape.clone();
        // Repeated for each image of the batch: once is enough.
        let mut len = values.len();
        if self.batch > 1 && sizes.first() == Some(&self.batch) {
            len /= self.batch;
            if values.chunks_exact(len).any(|each| each != &values[..len]) {
                return Err("a constant that differs between the images of a batch".into());
            }
            sizes[0] = 1;
        }
        self.spend(len)?;
        let walk = |&count: &usize| match count {
            1 => vec![],
            count => vec![Part::Walk { count, stride: 0 }],
        };
        let dims: Vec<Vec<Part>> = sizes.iter().map(walk).collect();
        let rank = sizes.len();
        let last = |n: usize| rank.checked_sub(n).map_or(1, |d| sizes[d]);
        let height = sizes[..rank.saturating_sub(2)].iter().product();
        let shape = Shape::new(height, last(2), last(1));
        let values = values[..len].to_vec();
        let node = self
            .sketch
            .parameter(name, shape, role(&values), finite(values))?;
        let mut view = View::row_major(&dims);
        if self.batch > 1 && constant.shape.first() == Some(&self.batch) {
            view.dims[0] = vec![Part::Batch(self.batch)];
        }
        Ok(Activation { node, view })
    }

    /// Matrices of the same leading dimensions.
    pub(super) fn multiply(
        &mut self,
        name: &str,
        a: &Activation,
        b: &Activation,
    ) -> Result<Activation, Refusal> {
        let rank = a.view.dims.len();
        if [rank - 2, rank - 1]
            .iter()
            .any(|&d| a.view.has_batch(d) || b.view.has_batch(d))
        {
            return Err("mixes the images of a batch".into());
        }
        let left = self.row_major(&format!("{name}.left"), a)?;
        // Which way the second lies in memory already.
        let stride = |dim: &[Part]| match dim.last() {
            Some(Part::Walk { stride, .. }) => *stride,
            _ => usize::MAX,
        };
        let transposed = stride(&b.view.dims[rank - 2]) < stride(&b.view.dims[rank - 1]);
        let mut b = b.clone();
        if transposed {
            b.view.dims.swap(rank - 2, rank - 1);
        }
        let right = self.row_major(&format!("{name}.right"), &b)?;
        let node = self
            .sketch
            .mat_mul(name, transposed, left.node, right.node)?;
        let mut dims = left.view.dims;
        let columns = if transposed { rank - 2 } else { rank - 1 };
        dims[rank - 1] = b.view.dims[columns].clone();
        let view = View::row_major(&dims);
        Ok(Activation { node, view })
    }

    /// A sum of products over shared indices of two factors.
    pub(super) fn einsum(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let text = site.attributes.text("equation").unwrap_or_default();
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let fail = || {
            Refusal::from(format!(
                "the equation `{text}` is no product of two matrices"
            ))
        };
        let (inputs, output) = text.split_once("->").ok_or_else(fail)?;
        let (first, second) = inputs.split_once(',').ok_or_else(fail)?;
        let (a, b) = (self.factor(site, 0)?, self.factor(site, 1)?);
        let labels = |text: &str| text.chars().collect::<Vec<char>>();
        let (first, second, output) = (labels(first), labels(second), labels(output));
        if [&first, &second, &output].iter().any(|l| l.contains(&'.'))
            || first.len() != a.view.dims.len()
            || second.len() != b.view.dims.len()
        {
            return Err(fail());
        }
        let pick = |list: &[char], wanted: &dyn Fn(&char) -> bool| -> Vec<char> {
            list.iter().copied().filter(|c| wanted(c)).collect()
        };
        let shared = pick(&output, &|c| first.contains(c) && second.contains(c));
        let summed = pick(&first, &|c| second.contains(c) && !output.contains(c));
        let rows = pick(&output, &|c| first.contains(c) && !second.contains(c));
        let columns = pick(&output, &|c| second.contains(c) && !first.contains(c));
        let counted = shared.len() + rows.len() + columns.len() == output.len()
            && shared.len() + rows.len() + summed.len() == first.len()
            && shared.len() + columns.len() + summed.len() == second.len();
        if !counted || summed.is_empty() {
            return Err(fail());
        }
        let turned = |x: &Activation, own: &[char], parts: [&[char]; 2]| {
            let place = |c: &char| own.iter().position(|o| o == c).unwrap_or_default();
            let dims = |list: &[char]| -> Vec<Vec<Part>> {
                list.iter().map(|c| x.view.dims[place(c)].clone()).collect()
            };
            let mut view = x.view.clone();
            view.dims = dims(&shared);
            view.dims.extend(parts.map(|part| dims(part).concat()));
            Activation { node: x.node, view }
        };
        let left = turned(&a, &first, [&rows, &summed]);
        let right = turned(&b, &second, [&summed, &columns]);
        let mut product = self.multiply(&site.name, &left, &right)?;
        let size = |c: &char| match first.iter().position(|o| o == c) {
            Some(d) => a.view.sizes()[d],
            None => b.view.sizes()[second.iter().position(|o| o == c).unwrap_or_default()],
        };
        let order = [&shared[..], &rows, &columns].concat();
        let sizes: Vec<usize> = order.iter().map(size).collect();
        let view = product.view.reshaped(&sizes).ok_or_else(fail)?;
        let place = |c: &char| order.iter().position(|o| o == c).unwrap_or_default();
        let back: Vec<usize> = output.iter().map(place).collect();
        product.view = view.permuted(&back);
        Ok(product)
    }
}

/// How a constant is kept: a mask of two values is not learned.
pub(super) fn role(values: &[f32]) -> Role {
    let other = values.iter().find(|&&v| v != values[0]);
    match other {
        Some(&other) if values.iter().all(|&v| v == values[0] || v == other) => Role::Constant,
        None => Role::Constant,
        Some(_) => Role::Embedding,
    }
}

/// What masks write as infinite, as a number that is large enough.
pub(super) fn finite(values: Vec<f32>) -> Vec<f32> {
    let bounded = |v: f32| {
        if v.is_infinite() {
            v.signum() * 1e30
        } else {
            v
        }
    };
    values.into_iter().map(bounded).collect()
}
