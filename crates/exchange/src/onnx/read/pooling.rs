//! Pooling over windows and over all pixels.

use network::{NodeId, Op, Padding, Shape, Window};

use super::layers::window;
use super::shapes::axis;
use super::view::{Part, View, joined};
use super::{Activation, Importer, Refusal, Site};

/// Padding at the bottom and on the right that makes room for the last, partial
/// windows of `ceil_mode`; a window that would start behind the image and its
/// own padding does not count.
fn ceil_padding(window: &Window, input: Shape) -> [usize; 2] {
    let p = window.padding;
    let extra = |axis: usize, size: usize, before: usize, after: usize| {
        let (kernel, stride) = (window.kernel[axis], window.stride[axis]);
        let reach = (kernel - 1) * window.dilation[axis] + 1;
        let padded = size + before + after;
        let mut steps = padded.saturating_sub(reach).div_ceil(stride);
        if steps * stride >= size + before {
            steps = steps.saturating_sub(1);
        }
        (steps * stride + reach).saturating_sub(padded)
    };
    [
        extra(0, input.height, p.top, p.bottom),
        extra(1, input.width, p.left, p.right),
    ]
}

/// Whether every window sees at least one pixel of the image along both axes: a
/// mean or maximum of padding alone is no number.
fn sees_image(window: &Window, input: Shape) -> bool {
    let p = window.padding;
    let along = |axis: usize, size: usize, before: usize, out: usize| {
        let (stride, dilation) = (window.stride[axis], window.dilation[axis]);
        // A window that starts inside sees its first tap.
        let sees = |start: usize| {
            let tap = before.saturating_sub(start).div_ceil(dilation);
            tap < window.kernel[axis] && start + tap * dilation < before + size
        };
        let outside = before.div_ceil(stride).min(out);
        (0..outside).chain([out - 1]).all(|o| sees(o * stride))
    };
    match window.output(input.height, input.width) {
        Some([height, width]) => {
            along(0, input.height, p.top, height) && along(1, input.width, p.left, width)
        }
        None => true,
    }
}

impl Importer<'_> {
    /// The window of a pooling node, and what `ceil_mode` adds to it.
    fn pool_window(&self, site: &Site<'_>, x: NodeId) -> Result<(Window, [usize; 2]), Refusal> {
        let kernel = site
            .attributes
            .pair("kernel_shape")?
            .ok_or("no kernel_shape")?;
        let shape = self.sketch.shape(x);
        let window = window(&site.attributes, kernel, shape)?;
        let extra = match site.attributes.int("ceil_mode") {
            Some(1) => ceil_padding(&window, shape),
            _ => [0, 0],
        };
        Ok((window, extra))
    }

    pub(super) fn max_pool(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = self.image(&site.name, site.activation(0)?)?;
        let (mut window, extra) = self.pool_window(site, x)?;
        // Padding never wins, so more of it changes nothing.
        window.padding.bottom += extra[0];
        window.padding.right += extra[1];
        let node = self
            .sketch
            .layer(&site.name, Op::MaxPool { window }, x, vec![])?;
        Ok(self.as_image(node))
    }

    pub(super) fn average_pool(&mut self, site: &Site<'_>) -> Result<Activation, Refusal> {
        let mut x = self.image(&site.name, site.activation(0)?)?;
        let (mut window, extra) = self.pool_window(site, x)?;
        let mut count_padding = site.attributes.int("count_include_pad") == Some(1);
        if extra != [0, 0] {
            // What ceil_mode adds never counts: make the padding that does
            // part of the image.
            if count_padding && window.padding != Padding::default() {
                let pad = Op::Pad {
                    padding: std::mem::take(&mut window.padding),
                    channels: [0, 0],
                };
                x = self
                    .sketch
                    .layer(&format!("{}.pad", site.name), pad, x, vec![])?;
            }
            count_padding = false;
            window.padding.bottom += extra[0];
            window.padding.right += extra[1];
        }
        if !count_padding && !sees_image(&window, self.sketch.shape(x)) {
            return Err("a window sees nothing but padding".into());
        }
        let op = Op::AveragePool {
            window,
            count_padding,
        };
        let node = self.sketch.layer(&site.name, op, x, vec![])?;
        Ok(self.as_image(node))
    }

    /// Mean or maximum of all pixels; keeps the dimensions.
    pub(super) fn global_pool(&mut self, op: &str, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = self.image(&site.name, site.activation(0)?)?;
        let node = self.over_pixels(op, &site.name, x)?;
        Ok(self.as_image(node))
    }

    fn over_pixels(&mut self, op: &str, name: &str, x: NodeId) -> Result<NodeId, Refusal> {
        let shape = self.sketch.shape(x);
        if matches!(op, "GlobalMaxPool" | "ReduceMax") {
            let window = Window {
                kernel: [shape.height, shape.width],
                ..Window::square(1, 1, 0)
            };
            return Ok(self.sketch.layer(name, Op::MaxPool { window }, x, vec![])?);
        }
        let mean = self.sketch.layer(name, Op::GlobalAveragePool, x, vec![])?;
        if op == "ReduceSum" {
            let pixels = shape.pixels() as f32;
            let name = format!("{name}.sum");
            return Ok(self.sketch.affine(&name, mean, vec![pixels], vec![0.0])?);
        }
        Ok(mean)
    }

    /// Mean, sum or maximum over the pixels, in any layout.
    pub(super) fn reduce(&mut self, op: &str, site: &Site<'_>) -> Result<Activation, Refusal> {
        let x = site.activation(0)?;
        let axes = match site.constant(1)? {
            Some(axes) => axes.as_ints(),
            None => site.attributes.ints("axes"),
        };
        let axes = axes.ok_or("reduces everything, the batch included")?;
        let keep = site.attributes.int("keepdims") != Some(0);
        let (x, axes) = (x.clone(), axes.to_vec());
        self.reduced(op, &site.name, &x, &axes, keep)
    }

    /// Reduces some dimensions.
    pub(super) fn reduced(
        &mut self,
        op: &str,
        name: &str,
        x: &Activation,
        axes: &[i64],
        keep: bool,
    ) -> Result<Activation, Refusal> {
        let rank = x.view.dims.len();
        let mut gone = vec![false; rank];
        for &a in axes {
            gone[axis(a, rank)?] = true;
        }
        if (0..rank).any(|d| gone[d] && x.view.has_batch(d)) {
            return Err("reduces the batch".into());
        }
        let of = |wanted: bool| (0..rank).filter(|&d| gone[d] == wanted).collect::<Vec<_>>();
        let (reduced, kept) = (of(true), of(false));
        let shape = self.node_shape(x);
        let channels = joined(&x.view.permuted(&kept).walks());
        let own = match shape.channels {
            1 => channels.is_empty(),
            count => channels == [Part::Walk { count, stride: 1 }],
        };
        let node = if own && x.view.covers(shape.len()) {
            x.node
        } else {
            // What is reduced as pixels, what is kept as channels.
            let sizes = self.inner_sizes(x);
            let product = |dims: &[usize]| dims.iter().map(|&d| sizes[d]).product();
            let shape = Shape::new(1, product(&reduced), product(&kept));
            let order = [&reduced[..], &kept].concat();
            self.arranged(&format!("{name}.pixels"), x, &order, shape)?
        };
        let node = self.over_pixels(op, name, node)?;
        let mut dims = x.view.dims.clone();
        reduced.iter().for_each(|&d| dims[d].clear());
        let view = View::row_major(&dims);
        self.reduction_fact(op, x, &reduced, node, view.clone());
        let view = if keep { view } else { view.permuted(&kept) };
        Ok(Activation { node, view })
    }
}
