//! Stages: steps that run image by image without a word between threads.
//!
//! A stage ends where something over the whole batch must be known: the
//! statistics of a batch norm, or the sums of its backward pass. Within a stage
//! a few images at a time go through all steps, so that what one step writes
//! the next one finds in the cache.

use kernels::geometry::Shape;

/// Floats of the largest activation that a few images may have together.
const GROUP: usize = 1 << 14;
/// Pixels that should share a reading of the weights.
const PIXELS: usize = 512;

/// Images that go through a step together: many where they are small, since
/// packed weights are read once for all of them.
pub(super) fn group_size(shapes: impl IntoIterator<Item = Shape>) -> usize {
    let largest = shapes.into_iter().max_by_key(Shape::len);
    let wish = |shape: Shape| (GROUP / shape.len()).max(PIXELS / shape.pixels());
    largest.map_or(1, wish).clamp(1, 16)
}

/// Steps between two barriers.
#[derive(Clone, Debug)]
pub(super) struct Stage<S> {
    /// Images that go through the steps together.
    pub group: usize,
    pub steps: Vec<S>,
}

/// Collects steps into stages.
#[derive(Debug)]
pub(super) struct Stages<S> {
    pub list: Vec<Stage<S>>,
}

impl<S> Stages<S> {
    pub fn new() -> Self {
        Self { list: vec![] }
    }

    /// Adds a step for `group` images at a time. A step that prefers another
    /// group size starts a stage of its own, as one behind a barrier does.
    pub fn push(&mut self, step: S, group: usize, barrier: bool) {
        match self.list.last_mut() {
            Some(stage) if !barrier && stage.group == group => stage.steps.push(step),
            _ => self.list.push(Stage {
                group,
                steps: vec![step],
            }),
        }
    }
}
