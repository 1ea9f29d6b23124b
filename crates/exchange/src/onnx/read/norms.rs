//! Layer, group and instance norms, and softmax.

use network::{Op, Shape};

use super::layers::layer_name;
use super::shapes::axis;
use super::{Activation, Importer, Refusal, Site};

impl Importer<'_> {
    /// The optional factors and offsets of a norm.
    fn factors(&mut self, site: &Site<'_>, channels: usize) -> Result<Vec<Vec<f32>>, Refusal> {
        let mut values = vec![];
        for index in 1..3 {
            if site.constant(index)?.is_none() {
                continue;
            }
            let own = site.weight(index)?.as_floats().unwrap_or_default();
            if own.len() != channels {
                return Err(format!("{} factors for {channels} channels", own.len()).into());
            }
            self.spend(own.len())?;
            values.push(own.to_vec());
        }
        Ok(values)
    }

    pub(super) fn layer_norm(&mut self, op: &str, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?;
        let rank = x.view.dims.len();
        let first = axis(site.attributes.int("axis").unwrap_or(-1), rank)?;
        let name = layer_name(site, 1);
        let count = rank - first;
        let x = self.channels_last(&name, x, count)?;
        let values = self.factors(site, self.node_shape(&x).channels)?;
        let layer = Op::LayerNorm {
            groups: 1,
            over_pixels: false,
            centred: op == "LayerNormalization",
            epsilon: site.attributes.float("epsilon").unwrap_or(1e-5),
            scale: !values.is_empty(),
            shift: values.len() > 1,
        };
        let node = self.sketch.layer(&name, layer, x.node, values)?;
        Ok(Activation { node, ..x })
    }

    pub(super) fn group_norm(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let name = layer_name(site, 1);
        let x = self.image(&name, site.activation(0)?)?;
        let groups = site.attributes.int("num_groups").unwrap_or(0);
        let groups = usize::try_from(groups).unwrap_or(0);
        let channels = self.sketch.shape(x).channels;
        let values = self.factors(site, channels)?;
        let layer = Op::LayerNorm {
            groups,
            over_pixels: true,
            centred: true,
            epsilon: site.attributes.float("epsilon").unwrap_or(1e-5),
            scale: !values.is_empty(),
            shift: values.len() > 1,
        };
        let node = self.sketch.layer(&name, layer, x, values)?;
        Ok(self.as_image(node))
    }

    /// Each channel over all its pixels; torch's older exporter writes group norms so.
    pub(super) fn instance_norm(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?.clone();
        let name = layer_name(site, 1);
        let sizes = self.sizes(&x);
        if sizes.len() < 3 || !x.view.batch_first(self.batch) {
            return Err(format!("wants N x C x pixels, got {sizes:?}").into());
        }
        let values = self.factors(site, sizes[1])?;
        let epsilon = site.attributes.float("epsilon").unwrap_or(1e-5);
        let norm = |groups, factors: bool| Op::LayerNorm {
            groups,
            over_pixels: true,
            centred: true,
            epsilon,
            scale: factors,
            shift: factors,
        };
        let mut neutral = values.iter().zip([1.0, 0.0]);
        let neutral = neutral.all(|(v, one)| v.iter().all(|&v| v == one));
        // Groups of the channels of an image, whatever the order within a group.
        let shape = self.node_shape(&x);
        let group = x.view.dims[1].clone();
        let width = shape.channels / sizes[1].max(1);
        let whole = sizes[1] * width == shape.channels && x.view.covers(shape.len());
        let own = [super::view::Part::Walk {
            count: sizes[1],
            stride: width,
        }];
        if neutral && whole && super::view::joined(&group) == own {
            let node = self
                .sketch
                .layer(&name, norm(sizes[1], false), x.node, vec![])?;
            return Ok(Activation { node, ..x });
        }
        let mut order: Vec<usize> = (2..sizes.len()).collect();
        order.push(1);
        let pixels = sizes[2..].iter().product();
        let shape = Shape::new(1, pixels, sizes[1]);
        let node = self.arranged(&format!("{name}.pixels"), &x, &order, shape)?;
        let node = self
            .sketch
            .layer(&name, norm(sizes[1], true), node, values)?;
        let mut view = super::view::View::row_major(&x.view.permuted(&order).dims);
        let channels = view.dims.pop().unwrap_or_default();
        view.dims.insert(0, channels);
        view.dims.insert(0, x.view.dims[0].clone());
        Ok(Activation { node, view })
    }

    pub(super) fn softmax(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?.clone();
        let rank = x.view.dims.len();
        let (default, merged) = if self.opset < 13 {
            (1, true)
        } else {
            (-1, false)
        };
        let along = axis(site.attributes.int("axis").unwrap_or(default), rank)?;
        let sizes = self.sizes(&x);
        if merged && sizes[along + 1..].iter().any(|&size| size > 1) {
            return Err("takes several dimensions together".into());
        }
        self.softmax_along(&site.name, &x, along)
    }

    /// Softmax along one dimension.
    pub(super) fn softmax_along(
        &mut self,
        name: &str,
        x: &Activation,
        along: usize,
    ) -> Result<Activation, Refusal> {
        // That dimension last, and back.
        let rank = x.view.dims.len();
        let mut order: Vec<usize> = (0..rank).collect();
        order.push(along);
        order.remove(along);
        let turned = Activation {
            node: x.node,
            view: x.view.permuted(&order),
        };
        let turned = self.channels_last(name, &turned, 1)?;
        let node = self.sketch.layer(name, Op::Softmax, turned.node, vec![])?;
        let mut view = turned.view;
        let channels = view.dims.pop().unwrap_or_default();
        view.dims.insert(along, channels);
        Ok(Activation { node, view })
    }
}
