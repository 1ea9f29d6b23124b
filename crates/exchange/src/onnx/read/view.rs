//! How an ONNX tensor lies over a node's activations.
//!
//! A node's activations lie in memory as height x width x channels. An ONNX tensor of
//! them is followed as a node, an offset, and for each of its dimensions the parts
//! that it consists of, the slowest first: walks of so many steps of so many
//! elements, or the batch. So NCHW is `[[batch], [C by 1], [H by W C], [W by C]]`, and
//! PyTorch's flattened vector has the last three as one dimension. Transposing,
//! cutting and repeating compute nothing; nor does reshaping, unless a walk would have
//! to be cut where it cannot.

use network::{Rearrange, Shape, Walk};

/// A part of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All images; nothing else, if there is one.
    Batch(usize),
    Walk {
        count: usize,
        stride: usize,
    },
}

impl Part {
    pub(super) fn count(self) -> usize {
        match self {
            Self::Batch(count) | Self::Walk { count, .. } => count,
        }
    }
}

/// Parts of each dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) offset: usize,
    pub(super) dims: Vec<Vec<Part>>,
}

fn walk(count: usize, stride: usize) -> Vec<Part> {
    match count {
        1 => vec![],
        _ => vec![Part::Walk { count, stride }],
    }
}

fn batch_of(count: usize) -> Vec<Part> {
    match count {
        1 => vec![],
        _ => vec![Part::Batch(count)],
    }
}

/// The same with walks joined that continue each other.
pub(super) fn joined(parts: &[Part]) -> Vec<Part> {
    let mut out: Vec<Part> = Vec::with_capacity(parts.len());
    for &part in parts {
        match (out.last_mut(), part) {
            (_, Part::Walk { count: 1, .. }) => {}
            (
                Some(Part::Walk { count, stride }),
                Part::Walk {
                    count: n,
                    stride: s,
                },
            ) if *stride == n * s => (*count, *stride) = (*count * n, s),
            _ => out.push(part),
        }
    }
    out
}

impl View {
    /// `N x C x H x W`.
    pub(super) fn nchw(batch: usize, shape: Shape) -> Self {
        let [h, w, c] = walks(shape);
        let dims = vec![batch_of(batch), c, h, w];
        Self { offset: 0, dims }
    }

    /// `N x H x W x C`.
    pub(super) fn nhwc(batch: usize, shape: Shape) -> Self {
        let [h, w, c] = walks(shape);
        let dims = vec![batch_of(batch), h, w, c];
        Self { offset: 0, dims }
    }

    /// `N x K`, in the order of the memory.
    pub(super) fn vector(batch: usize, shape: Shape) -> Self {
        let dims = vec![batch_of(batch), walk(shape.len(), 1)];
        Self { offset: 0, dims }
    }

    /// Values that lie in the order of these dimensions, of which the batch, if it is
    /// part of one, is no part of the memory.
    pub(super) fn row_major(dims: &[Vec<Part>]) -> Self {
        let mut stride = 1;
        let mut out: Vec<Vec<Part>> = dims.to_vec();
        for part in out.iter_mut().rev().flat_map(|dim| dim.iter_mut().rev()) {
            if let Part::Walk { count, stride: own } = part {
                *own = stride;
                stride *= *count;
            }
        }
        Self {
            offset: 0,
            dims: out,
        }
    }

    /// ONNX's sizes, batch included.
    pub(super) fn sizes(&self) -> Vec<usize> {
        let product = |parts: &Vec<Part>| parts.iter().map(|part| part.count()).product();
        self.dims.iter().map(product).collect()
    }

    /// The same elements in the same dimensions.
    pub(super) fn is(&self, other: &View) -> bool {
        self.offset == other.offset
            && self.dims.len() == other.dims.len()
            && self
                .dims
                .iter()
                .zip(&other.dims)
                .all(|(a, b)| joined(a) == joined(b))
    }

    /// Whether the first dimension is the batch and nothing else.
    pub(super) fn batch_first(&self, batch: usize) -> bool {
        self.dims
            .first()
            .is_some_and(|dim| joined(dim) == batch_of(batch))
    }

    /// Whether the batch is part of a dimension.
    pub(super) fn has_batch(&self, dim: usize) -> bool {
        self.dims[dim]
            .iter()
            .any(|part| matches!(part, Part::Batch(_)))
    }

    /// All walks, in order.
    pub(super) fn walks(&self) -> Vec<Part> {
        let parts = self.dims.iter().flatten().copied();
        parts
            .filter(|part| matches!(part, Part::Walk { .. }))
            .collect()
    }

    /// Whether every element of the memory is there once.
    pub(super) fn covers(&self, len: usize) -> bool {
        let walks = self.walks();
        let still = |part: &Part| matches!(part, Part::Walk { stride: 0, .. });
        let count: usize = walks.iter().map(|part| part.count()).product();
        self.offset == 0 && count == len && !walks.iter().any(still)
    }

    pub(super) fn permuted(&self, order: &[usize]) -> Self {
        Self {
            offset: self.offset,
            dims: order.iter().map(|&d| self.dims[d].clone()).collect(),
        }
    }

    /// With dimensions of other sizes; `None` where a part would have to be cut.
    pub(super) fn reshaped(&self, sizes: &[usize]) -> Option<Self> {
        let all: Vec<Part> = self.dims.concat();
        let mut parts = joined(&all).into_iter();
        let mut left = None;
        let mut dims = Vec::with_capacity(sizes.len());
        for &wanted in sizes {
            let (mut dim, mut rest) = (Vec::new(), wanted);
            while rest > 1 {
                let part = left.take().or_else(|| parts.next())?;
                match part {
                    part if rest.is_multiple_of(part.count()) => {
                        rest /= part.count();
                        dim.push(part);
                    }
                    Part::Walk { count, stride } if count.is_multiple_of(rest) => {
                        let inner = count / rest;
                        let (count, by) = (rest, inner * stride);
                        dim.push(Part::Walk { count, stride: by });
                        left = Some(Part::Walk {
                            count: inner,
                            stride,
                        });
                        rest = 1;
                    }
                    _ => return None,
                }
            }
            dims.push(dim);
        }
        if left.is_some() || parts.next().is_some() {
            return None;
        }
        let offset = self.offset;
        Some(Self { offset, dims })
    }

    /// `count` elements of a dimension from `start` on, `step` apart; `None` where its
    /// parts make that no walk.
    pub(super) fn sliced(
        &self,
        dim: usize,
        start: usize,
        count: usize,
        step: usize,
    ) -> Option<Self> {
        let mut view = self.clone();
        let parts = joined(&self.dims[dim]);
        let mut rest = start;
        if count == 1 {
            for part in parts.iter().rev() {
                let Part::Walk { count, stride } = *part else {
                    return None;
                };
                view.offset += rest % count * stride;
                rest /= count;
            }
            view.dims[dim] = vec![];
            return Some(view);
        }
        let [Part::Walk { stride, .. }] = parts[..] else {
            return None;
        };
        view.offset += start * stride;
        view.dims[dim] = walk(count, stride * step);
        Some(view)
    }

    /// Repeats dimensions of one element to these sizes, new ones in front.
    pub(super) fn expanded(&self, sizes: &[usize]) -> Option<Self> {
        let missing = sizes.len().checked_sub(self.dims.len())?;
        let mut dims = vec![vec![]; missing];
        dims.extend(self.dims.clone());
        let own = self.sizes();
        for (d, &size) in sizes.iter().enumerate() {
            let have = d.checked_sub(missing).map_or(1, |d| own[d]);
            match (have, size) {
                (have, size) if have == size => {}
                (1, count) => dims[d] = vec![Part::Walk { count, stride: 0 }],
                _ => return None,
            }
        }
        let offset = self.offset;
        Some(Self { offset, dims })
    }
}

/// Height, width and channels of a shape as walks.
fn walks(shape: Shape) -> [Vec<Part>; 3] {
    [
        walk(shape.height, shape.width * shape.channels),
        walk(shape.width, shape.channels),
        walk(shape.channels, 1),
    ]
}

/// The movement that puts these walks over `len` elements into their order.
pub(super) fn movement(len: usize, offset: usize, walks: &[Part], shape: Shape) -> Rearrange {
    let walks = joined(walks);
    let stride = |part: &Part| match part {
        Part::Walk { stride, .. } => *stride,
        Part::Batch(_) => 0,
    };
    // Sizes between the strides, if each divides the next.
    let mut strides: Vec<usize> = walks.iter().map(stride).filter(|&s| s > 0).collect();
    strides.push(1);
    strides.sort_unstable();
    strides.dedup();
    let ends = strides.iter().skip(1).copied().chain([len]);
    let sizes: Option<Vec<usize>> = strides
        .iter()
        .zip(ends)
        .map(|(&s, end)| end.is_multiple_of(s).then_some(end / s))
        .collect();
    let fits = |sizes: &Vec<usize>| {
        walks.iter().all(
            |part| match strides.iter().position(|&s| s == stride(part)) {
                Some(d) => offset / strides[d] % sizes[d] + part.count() <= sizes[d],
                None => true,
            },
        )
    };
    let Some(mut sizes) = sizes.filter(fits) else {
        let axis = |part: &Part| Walk {
            count: part.count(),
            steps: vec![stride(part)],
        };
        return Rearrange {
            sizes: vec![len],
            starts: vec![offset],
            axes: walks.iter().map(axis).collect(),
            shape,
        };
    };
    // The slowest first.
    let (rank, mut starts) = (sizes.len(), vec![]);
    for (d, &s) in strides.iter().enumerate() {
        starts.push(offset / s % sizes[d]);
    }
    sizes.reverse();
    starts.reverse();
    let axis = |part: &Part| {
        let along = strides.iter().position(|&s| s == stride(part));
        let along = along.map(|d| rank - 1 - d);
        let steps = (0..rank).map(|d| usize::from(Some(d) == along && sizes[d] > 1));
        Walk {
            count: part.count(),
            steps: steps.collect(),
        }
    };
    let axes = walks.iter().map(axis).collect();
    Rearrange {
        sizes,
        starts,
        axes,
        shape,
    }
}
