//! Moving values without computing: reshape, transpose, slice, roll, spread.

use kernels::geometry::Shape;
use serde::{Deserialize, Serialize};

/// More axes than any network has.
const MOST_AXES: usize = 16;

/// Puts the elements of an image in other places; some may be left out, some
/// taken several times.
///
/// The input is seen as a tensor of `sizes`, the output as one of the `axes`'
/// counts, the last one fastest in both. The element of the output at `(i_0, i_1,
/// ...)` is that of the input whose place along dimension `d` is
///
/// ```text
/// (starts_d + sum over k of axes_k.steps_d * i_k) mod sizes_d
/// ```
///
/// One output axis can so walk along one dimension (a transposed tensor), along a
/// part of it (a slice, or every n-th), around its end (a roll), backwards, not at
/// all (a value that is repeated), several share a dimension (windows), or one axis
/// can walk along several (a diagonal).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rearrange {
    /// The input as a tensor.
    pub sizes: Vec<usize>,
    /// Place of the output's first element, along each dimension of the input.
    pub starts: Vec<usize>,
    /// The axes of the output.
    pub axes: Vec<Walk>,
    /// The output as an image.
    pub shape: Shape,
}

/// One axis of a rearranged tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Walk {
    /// Elements along it.
    pub count: usize,
    /// How far one step leads along each dimension of the input, below its size;
    /// backwards is forwards around the end.
    pub steps: Vec<usize>,
}

/// Where the elements come from, as runs of neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Elements of a run.
    pub length: usize,
    /// Place of each run in the input; the output has them one behind the other.
    pub offsets: Vec<u32>,
}

impl Rearrange {
    /// A tensor of these sizes as it is; to be changed by the methods below.
    pub fn of(sizes: &[usize]) -> Self {
        let walk = |k: usize| Walk {
            count: sizes[k],
            steps: (0..sizes.len())
                .map(|d| usize::from(d == k && sizes[d] > 1))
                .collect(),
        };
        Self {
            starts: vec![0; sizes.len()],
            axes: (0..sizes.len()).map(walk).collect(),
            shape: Shape::vector(sizes.iter().product()),
            sizes: sizes.to_vec(),
        }
    }

    /// Another shape, the order as it is.
    pub fn reshape(from: Shape, to: Shape) -> Self {
        Self::of(&[from.len()]).into_shape(to)
    }

    /// The axes in another order: axis `k` is what was `order[k]`.
    #[must_use]
    pub fn permuted(mut self, order: &[usize]) -> Self {
        self.axes = order.iter().map(|&k| self.axes[k].clone()).collect();
        self
    }

    /// Cuts an axis into pieces of `inner` elements: two axes.
    #[must_use]
    pub fn split(mut self, axis: usize, inner: usize) -> Self {
        let walk = &mut self.axes[axis];
        let outer = Walk {
            count: walk.count / inner,
            steps: (walk.steps.iter().zip(&self.sizes))
                .map(|(step, size)| step * inner % size.max(&1))
                .collect(),
        };
        walk.count = inner;
        self.axes.insert(axis, outer);
        self
    }

    /// `count` elements of an axis from `start` on, `step` apart.
    #[must_use]
    pub fn sliced(mut self, axis: usize, start: usize, count: usize, step: usize) -> Self {
        let walk = &mut self.axes[axis];
        for (d, size) in self.sizes.iter().enumerate() {
            let size = (*size).max(1);
            self.starts[d] = (self.starts[d] + start % size * walk.steps[d]) % size;
            walk.steps[d] = step % size * walk.steps[d] % size;
        }
        walk.count = count;
        self
    }

    /// A new axis in front of `axis` along which values repeat.
    #[must_use]
    pub fn repeated(mut self, axis: usize, count: usize) -> Self {
        let steps = vec![0; self.sizes.len()];
        self.axes.insert(axis, Walk { count, steps });
        self
    }

    /// The output as an image of this shape.
    #[must_use]
    pub fn into_shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// Why this does not fit an input, if it does not.
    pub(crate) fn check(&self, input: Shape) -> Result<(), String> {
        if self.sizes.len() > MOST_AXES || self.axes.len() > MOST_AXES {
            return Err(format!("more than {MOST_AXES} axes"));
        }
        if product(self.sizes.iter().copied()) != Some(input.len()) {
            return Err(format!("{:?} is not the size of {input}", self.sizes));
        }
        let (height, width) = (self.shape.height, self.shape.width);
        let output = product([height, width, self.shape.channels].into_iter());
        if output.is_none() || product(self.axes.iter().map(|a| a.count)) != output {
            return Err(format!("its axes do not make up {}", self.shape));
        }
        let inside = |places: &[usize]| {
            let pairs = places.iter().zip(&self.sizes);
            places.len() == self.sizes.len() && pairs.into_iter().all(|(p, s)| p < s)
        };
        if !inside(&self.starts) || !self.axes.iter().all(|walk| inside(&walk.steps)) {
            return Err("a start or step is not inside the input".into());
        }
        Ok(())
    }

    /// Calls `visit` with the place of every element of the output in the input, in
    /// order.
    pub fn places(&self, mut visit: impl FnMut(usize)) {
        let rank = self.sizes.len();
        let mut strides = vec![1; rank];
        for d in (1..rank).rev() {
            strides[d - 1] = strides[d] * self.sizes[d];
        }
        // Places along each dimension at every axis' current turn.
        let mut turns = self.starts.repeat(self.axes.len() + 1);
        let mut counters = vec![0; self.axes.len()];
        loop {
            let at = &turns[self.axes.len() * rank..];
            visit(at.iter().zip(&strides).map(|(p, s)| p * s).sum());
            let mut axis = self.axes.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                counters[axis] += 1;
                if counters[axis] < self.axes[axis].count {
                    break;
                }
                counters[axis] = 0;
            }
            let steps = &self.axes[axis].steps;
            for d in 0..rank {
                let place = &mut turns[(axis + 1) * rank + d];
                *place = (*place + steps[d]) % self.sizes[d];
            }
            // The faster axes start again from here.
            for faster in axis + 2..=self.axes.len() {
                turns.copy_within((axis + 1) * rank..(axis + 2) * rank, faster * rank);
            }
        }
    }

    /// The places as the longest runs that all elements fall into.
    pub fn runs(&self) -> Runs {
        let (mut length, mut at, mut last) = (self.shape.len(), 0, None);
        self.places(|place| {
            if last.is_some_and(|last| last + 1 != place) {
                length = gcd(length, at);
            }
            (last, at) = (Some(place), at + 1);
        });
        let mut offsets = Vec::with_capacity(self.shape.len() / length);
        let mut at = 0;
        self.places(|place| {
            if at % length == 0 {
                offsets.push(place as u32);
            }
            at += 1;
        });
        Runs { length, offsets }
    }

    /// Whether the elements stay in their order: only the shape is another.
    pub fn keeps_order(&self, input: Shape) -> bool {
        input.len() == self.shape.len() && self.runs().length == input.len()
    }
}

/// Of positive numbers, if they and it are so.
fn product(mut list: impl Iterator<Item = usize>) -> Option<usize> {
    list.try_fold(1usize, |n, d| n.checked_mul(d).filter(|&n| n > 0))
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Runs {
    /// Moves the elements of one image.
    pub fn copy<T: Copy>(&self, x: &[T], y: &mut [T]) {
        for (y, &from) in y.chunks_exact_mut(self.length).zip(&self.offsets) {
            y.copy_from_slice(&x[from as usize..][..self.length]);
        }
    }

    /// Adds the elements of `dy` to where they came from.
    pub fn add_back<T: Copy + std::ops::AddAssign>(&self, dy: &[T], dx: &mut [T]) {
        for (dy, &to) in dy.chunks_exact(self.length).zip(&self.offsets) {
            let dx = &mut dx[to as usize..][..self.length];
            dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx += dy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(r: &Rearrange) -> Vec<usize> {
        let x: Vec<usize> = (0..r.sizes.iter().product()).collect();
        let mut y = vec![usize::MAX; r.shape.len()];
        r.check(Shape::vector(x.len())).unwrap();
        r.runs().copy(&x, &mut y);
        let mut each = vec![];
        r.places(|place| each.push(place));
        assert_eq!(each, y);
        y
    }

    #[test]
    fn the_usual_movements() {
        let transposed = Rearrange::of(&[2, 3]).permuted(&[1, 0]);
        assert_eq!(moved(&transposed), [0, 3, 1, 4, 2, 5]);
        assert_eq!(transposed.runs().length, 1);
        let rolled = Rearrange::of(&[5]).sliced(0, 3, 5, 1);
        assert_eq!(moved(&rolled), [3, 4, 0, 1, 2]);
        let backwards = Rearrange::of(&[4]).sliced(0, 3, 4, 3);
        assert_eq!(moved(&backwards), [3, 2, 1, 0]);
        let second = Rearrange::of(&[6]).sliced(0, 1, 2, 3);
        assert_eq!(moved(&second.into_shape(Shape::vector(2))), [1, 4]);
        let twice = Rearrange::of(&[2]).repeated(1, 2);
        assert_eq!(moved(&twice.into_shape(Shape::vector(4))), [0, 0, 1, 1]);
        // Windows of 2x2, and back.
        let windows = Rearrange::of(&[2, 4, 1])
            .split(1, 2)
            .permuted(&[1, 0, 2, 3]);
        assert_eq!(moved(&windows), [0, 1, 4, 5, 2, 3, 6, 7]);
        assert_eq!(windows.runs().length, 2);
        // Differences of places: row i of the result is 1 + i - j.
        let relative = Rearrange {
            sizes: vec![3],
            starts: vec![1],
            axes: vec![
                Walk {
                    count: 2,
                    steps: vec![1],
                },
                Walk {
                    count: 2,
                    steps: vec![2],
                },
            ],
            shape: Shape::vector(4),
        };
        assert_eq!(moved(&relative), [1, 0, 2, 1]);
        let same = Rearrange::reshape(Shape::new(2, 3, 4), Shape::new(6, 2, 2));
        assert!(same.keeps_order(Shape::new(2, 3, 4)));
        assert!(!rolled.keeps_order(Shape::vector(5)));
    }

    #[test]
    fn gradients_go_back_where_values_came_from() {
        let runs = Rearrange::of(&[3])
            .repeated(0, 2)
            .into_shape(Shape::new(2, 1, 3))
            .runs();
        assert_eq!(runs.length, 3);
        let mut dx = [0.5, 0.5, 0.5];
        runs.add_back(&[1.0, 2.0, 3.0, 10.0, 20.0, 30.0], &mut dx);
        assert_eq!(dx, [11.5, 22.5, 33.5]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let good = Rearrange::of(&[2, 3]);
        let input = Shape::vector(6);
        assert_eq!(good.check(input), Ok(()));
        assert!(good.check(Shape::vector(5)).is_err());
        for change in [
            |r: &mut Rearrange| r.starts[0] = 2,
            |r: &mut Rearrange| r.axes[1].steps[1] = 3,
            |r: &mut Rearrange| r.axes[1].count = 2,
            |r: &mut Rearrange| r.axes[1].steps.clear(),
            |r: &mut Rearrange| r.starts.push(0),
            |r: &mut Rearrange| r.shape = Shape::new(usize::MAX, 2, 3),
            |r: &mut Rearrange| r.axes[0].count = usize::MAX,
            |r: &mut Rearrange| r.sizes = vec![usize::MAX, 6],
            |r: &mut Rearrange| (r.axes, r.shape) = (vec![], Shape::vector(0)),
        ] {
            let mut bad = good.clone();
            change(&mut bad);
            assert!(bad.check(input).is_err(), "{bad:?}");
        }
    }
}
