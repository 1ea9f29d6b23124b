//! Which images of a data set a log covers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Every `step`-th image of `start..end`, or one shard of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// First image.
    pub start: u64,
    /// One past the last image.
    pub end: u64,
    /// Every `step`-th image from `start` on (1: all).
    pub step: u64,
    /// The part of these images this log covers; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
}

/// Part `index` of `count`, counted from 1: every `count`-th selected image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// From 1 to `count`.
    pub index: u64,
    /// Number of shards.
    pub count: u64,
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl Selection {
    /// All images of a data set of `len`.
    pub fn all(len: u64) -> Self {
        Self {
            start: 0,
            end: len,
            step: 1,
            shard: None,
        }
    }

    /// How many images.
    pub fn len(&self) -> u64 {
        let (first, stride) = self.first_and_stride();
        match first {
            Some(first) if first < self.end => (self.end - first - 1) / stride + 1,
            _ => 0,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The images, ascending. Shards take turns (I, I+N, I+2N, ... of the
    /// selected images), so that each has an equal share of easy and hard ones.
    pub fn indices(&self) -> impl Iterator<Item = u64> + use<> {
        let (first, stride) = self.first_and_stride();
        let end = self.end;
        std::iter::successors(first, move |index| index.checked_add(stride))
            .take_while(move |&index| index < end)
    }

    fn first_and_stride(&self) -> (Option<u64>, u64) {
        let step = self.step.max(1);
        let (offset, count) = match self.shard {
            Some(Shard { index, count }) => (index.saturating_sub(1), count.max(1)),
            None => (0, 1),
        };
        let first = offset
            .checked_mul(step)
            .and_then(|skip| self.start.checked_add(skip));
        (first, step.saturating_mul(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn takes_turns() {
        let selection = Selection {
            start: 3,
            end: 20,
            step: 5,
            shard: None,
        };
        assert_eq!(selection.indices().collect::<Vec<_>>(), [3, 8, 13, 18]);
        let shard = |index| Selection {
            shard: Some(Shard { index, count: 3 }),
            ..selection
        };
        assert_eq!(shard(1).indices().collect::<Vec<_>>(), [3, 18]);
        assert_eq!(shard(2).indices().collect::<Vec<_>>(), [8]);
        assert_eq!(shard(3).indices().collect::<Vec<_>>(), [13]);
    }

    proptest! {
        #[test]
        fn shards_make_up_the_whole(start in 0u64..50, len in 0u64..200, step in 1u64..7, count in 1u64..9) {
            let whole = Selection { start, end: start + len, step, shard: None };
            let mut parts: Vec<u64> = (1..=count)
                .flat_map(|index| Selection { shard: Some(Shard { index, count }), ..whole }.indices())
                .collect();
            let whole_len = whole.len();
            prop_assert_eq!(parts.len() as u64, whole_len);
            parts.sort_unstable();
            prop_assert_eq!(parts, whole.indices().collect::<Vec<_>>());
        }
    }
}
