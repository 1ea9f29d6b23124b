//! Values in the layouts that operators want.

use network::{NodeId, Shape};

use super::view::{Part, View, joined, movement};
use super::{Activation, Importer, Refusal};

fn product(sizes: &[usize]) -> usize {
    sizes.iter().product()
}

impl Importer<'_> {
    /// The node that has the dimensions of a value, without the batch, in this order
    /// in memory; the value's own node if it is so already.
    pub(super) fn arranged(
        &mut self,
        name: &str,
        x: &Activation,
        order: &[usize],
        shape: Shape,
    ) -> Result<NodeId, Refusal> {
        let walks = x.view.permuted(order).walks();
        let own = self.node_shape(x);
        let whole = [Part::Walk {
            count: own.len(),
            stride: 1,
        }];
        if own == shape && x.view.offset == 0 && (own.len() == 1 || joined(&walks) == whole) {
            return Ok(x.node);
        }
        self.spend(order.len())?;
        let movement = movement(own.len(), x.view.offset, &walks, shape);
        Ok(self.sketch.rearranged(name, x.node, movement)?)
    }

    /// A value whose memory has the order of its dimensions: the last one are the
    /// channels, the one before the width, all others the height.
    pub(super) fn row_major(&mut self, name: &str, x: &Activation) -> Result<Activation, Refusal> {
        let sizes = self.inner_sizes(x);
        let rank = sizes.len();
        let last = |n: usize| rank.checked_sub(n).map_or(1, |d| sizes[d]);
        let height = product(&sizes[..rank.saturating_sub(2)]);
        let shape = Shape::new(height, last(2), last(1));
        let order: Vec<usize> = (0..rank).collect();
        let node = self.arranged(name, x, &order, shape)?;
        let view = View::row_major(&x.view.dims);
        Ok(Activation { node, view })
    }

    /// Sizes without the batch.
    pub(super) fn inner_sizes(&self, x: &Activation) -> Vec<usize> {
        let walks = |dim: &Vec<Part>| {
            let walks = dim.iter().filter(|part| matches!(part, Part::Walk { .. }));
            walks.map(|part| part.count()).product()
        };
        x.view.dims.iter().map(walks).collect()
    }

    /// The node of a value that must be `N x C x H x W`.
    pub(super) fn image(&mut self, name: &str, x: &Activation) -> Result<NodeId, Refusal> {
        let shape = self.node_shape(x);
        if x.view.is(&View::nchw(self.batch, shape)) {
            return Ok(x.node);
        }
        let sizes = self.sizes(x);
        let &[_, c, h, w] = &sizes[..] else {
            return Err(format!("wants N x C x H x W, got {sizes:?}").into());
        };
        if !x.view.batch_first(self.batch) {
            return Err(format!("{sizes:?} are not images of the batch").into());
        }
        self.arranged(&format!("{name}.image"), x, &[2, 3, 1], Shape::new(h, w, c))
    }

    /// A value whose last `count` dimensions are the channels of its node, all of them
    /// and nothing else; the other dimensions are pixels in any order.
    pub(super) fn channels_last(
        &mut self,
        name: &str,
        x: &Activation,
        count: usize,
    ) -> Result<Activation, Refusal> {
        let shape = self.node_shape(x);
        let rank = x.view.dims.len();
        let first = rank.checked_sub(count).ok_or("too few dimensions")?;
        if (first..rank).any(|d| x.view.has_batch(d)) {
            return Err("mixes the images of a batch".into());
        }
        let channels = joined(&x.view.dims[first..].concat());
        let whole = match shape.channels {
            1 => channels.is_empty(),
            count => channels == [Part::Walk { count, stride: 1 }],
        };
        if whole && x.view.covers(shape.len()) {
            return Ok(x.clone());
        }
        let sizes = self.inner_sizes(x);
        let (pixels, channels) = sizes.split_at(first);
        let (height, width) = match pixels {
            &[.., h, w] if pixels.len() == 3 => (product(&pixels[..1]) * h, w),
            pixels => (1, product(pixels)),
        };
        let shape = Shape::new(height, width, product(channels));
        let order: Vec<usize> = (0..rank).collect();
        let node = self.arranged(&format!("{name}.tokens"), x, &order, shape)?;
        let view = View::row_major(&x.view.dims);
        Ok(Activation { node, view })
    }

    /// What an operator on the channels of every pixel gave, seen as before, with
    /// `count` dimensions replaced by one.
    pub(super) fn pixelwise(&self, node: NodeId, x: &Activation, count: usize) -> Activation {
        let (from, to) = (
            self.node_shape(x).channels,
            self.sketch.shape(node).channels,
        );
        let first = x.view.dims.len() - count;
        let mut view = x.view.clone();
        for part in view.dims[..first].iter_mut().flatten() {
            if let Part::Walk { stride, .. } = part {
                *stride = *stride / from * to;
            }
        }
        view.dims.truncate(first);
        view.dims.push(match to {
            1 => vec![],
            count => vec![Part::Walk { count, stride: 1 }],
        });
        Activation { node, view }
    }

    /// The node of a value that must be `N x K`, flattened in PyTorch's order
    /// if it is not a vector yet; and where that differs from the value's own
    /// order, the place of each element in it.
    pub(super) fn vector_in_order(
        &mut self,
        name: &str,
        x: &Activation,
    ) -> Result<(NodeId, Option<Vec<usize>>), Refusal> {
        let shape = self.node_shape(x);
        if shape.pixels() > 1 && shape.channels > 1 && x.view.is(&View::vector(self.batch, shape)) {
            self.spend(shape.len())?;
            let mut order = Vec::with_capacity(shape.len());
            for c in 0..shape.channels {
                order.extend((0..shape.pixels()).map(|pixel| pixel * shape.channels + c));
            }
            return Ok((self.sketch.flatten(name, x.node)?, Some(order)));
        }
        Ok((self.vector(name, x)?, None))
    }

    /// The node of a value that must be `N x K`, as a vector.
    pub(super) fn vector(&mut self, name: &str, x: &Activation) -> Result<NodeId, Refusal> {
        let sizes = self.sizes(x);
        if sizes.len() != 2 || !x.view.batch_first(self.batch) {
            return Err(format!("wants N x K, got {sizes:?}").into());
        }
        let shape = self.node_shape(x);
        let [_, channels, height, width] = &View::nchw(self.batch, shape).dims[..] else {
            unreachable!("four dimensions")
        };
        let flat = joined(&[&channels[..], height, width].concat());
        if x.view.offset == 0 && joined(&x.view.dims[1]) == flat {
            return Ok(self.sketch.flatten(name, x.node)?);
        }
        self.arranged(&format!("{name}.vector"), x, &[1], Shape::vector(sizes[1]))
    }

    /// A vector of the batch.
    pub(super) fn as_vector(&self, node: NodeId) -> Activation {
        let view = View::vector(self.batch, self.sketch.shape(node));
        Activation { node, view }
    }

    /// Images of the batch.
    pub(super) fn as_image(&self, node: NodeId) -> Activation {
        let view = View::nchw(self.batch, self.sketch.shape(node));
        Activation { node, view }
    }
}
