//! How an ONNX tensor lies over a node's activations.
//!
//! An ONNX tensor of `N x d1 x d2 ...` is followed as a node, whose activations
//! are height x width x channels, and for each of its dimensions behind the
//! batch the axes that it consists of, the slowest first. So NCHW is
//! `[[C], [H], [W]]`, NHWC is `[[H], [W], [C]]`, and PyTorch's flattened vector
//! is `[[C, H, W]]`; transposing and reshaping compute nothing.

use network::Shape;

/// An axis of a node's activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    Channel,
    Height,
    Width,
}

use Axis::{Channel, Height, Width};

/// Axes of each dimension behind the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View(pub(super) Vec<Vec<Axis>>);

pub(super) fn size(shape: Shape, axis: Axis) -> usize {
    match axis {
        Channel => shape.channels,
        Height => shape.height,
        Width => shape.width,
    }
}

/// Axes of more than one element.
pub(super) fn long(shape: Shape, axes: &[Axis]) -> Vec<Axis> {
    let axes = axes.iter().copied();
    axes.filter(|&axis| size(shape, axis) > 1).collect()
}

impl View {
    /// `N x C x H x W`.
    pub(super) fn nchw() -> Self {
        Self(vec![vec![Channel], vec![Height], vec![Width]])
    }

    /// `N x H x W x C`.
    pub(super) fn nhwc() -> Self {
        Self(vec![vec![Height], vec![Width], vec![Channel]])
    }

    /// `N x C`.
    pub(super) fn vector() -> Self {
        Self(vec![vec![Channel]])
    }

    /// Sizes of the dimensions behind the batch.
    pub(super) fn sizes(&self, shape: Shape) -> Vec<usize> {
        let product = |axes: &Vec<Axis>| axes.iter().map(|&axis| size(shape, axis)).product();
        self.0.iter().map(product).collect()
    }

    /// The same up to axes of one element.
    pub(super) fn is(&self, other: &View, shape: Shape) -> bool {
        self.0.len() == other.0.len()
            && (self.0.iter().zip(&other.0)).all(|(a, b)| long(shape, a) == long(shape, b))
    }

    /// Gives axes of one element back their usual places, where operators that
    /// make them longer will look for them.
    pub(super) fn settled(self, shape: Shape) -> Self {
        let usual = [Self::nchw(), Self::nhwc(), Self::vector()];
        let found = usual.into_iter().find(|view| self.is(view, shape));
        found.unwrap_or(self)
    }

    /// The view with dimensions of other sizes behind the batch; `None` where
    /// an axis would have to be cut.
    pub(super) fn reshaped(&self, shape: Shape, sizes: &[usize]) -> Option<Self> {
        let mut axes = long(shape, &self.0.concat()).into_iter();
        let mut dims = Vec::with_capacity(sizes.len());
        for &wanted in sizes {
            let (mut dim, mut product) = (Vec::new(), 1);
            while product < wanted {
                let axis = axes.next()?;
                product *= size(shape, axis);
                dim.push(axis);
            }
            if product != wanted {
                return None;
            }
            dims.push(dim);
        }
        if axes.next().is_some() {
            return None;
        }
        Some(Self(dims).settled(shape))
    }

    /// For every element of PyTorch's flattened order its place in the order of
    /// these axes, or `None` if the orders are the same.
    pub(super) fn order(shape: Shape, axes: &[Axis]) -> Option<Vec<usize>> {
        if long(shape, axes) == long(shape, &[Channel, Height, Width]) {
            return None;
        }
        let stride = |axis: Axis| {
            let place = axes.iter().position(|&a| a == axis);
            let inner = place.map_or(&[][..], |place| &axes[place + 1..]);
            inner.iter().map(|&a| size(shape, a)).product::<usize>()
        };
        let (c, h, w) = (stride(Channel), stride(Height), stride(Width));
        let mut order = Vec::with_capacity(shape.len());
        for channel in 0..shape.channels {
            for y in 0..shape.height {
                for x in 0..shape.width {
                    order.push(channel * c + y * h + x * w);
                }
            }
        }
        Some(order)
    }
}
