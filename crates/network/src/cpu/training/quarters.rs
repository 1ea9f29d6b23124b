//! Quarters of a batch: what makes one, two and four ranks give the same bits.
//!
//! Sums over a batch are made within each quarter first, then over the quarters in a fixed
//! order. Two ranks have two quarters of it each and four have one, so that all of them
//! make the same sums. Other numbers of ranks cut each rank's own images into quarters.

use std::ops::Range;

use crate::graph::Graph;
use crate::parameters::HostGradients;

/// Quarters, if there is one rank.
const QUARTERS: usize = 4;
/// How often a quarter is halved into shares, which threads take: as a rule, and at most.
const HALVED: u32 = 2;
const MOST_HALVED: u32 = 4;
/// Images that make a share worth its own sums: beyond the rule, none has fewer.
const FULL: usize = 8;

/// Into how many quarters each of some ranks cuts its images.
pub(super) fn quarters(ranks: usize) -> usize {
    match ranks {
        2 | 4 => QUARTERS / ranks,
        _ => QUARTERS,
    }
}

/// The images of each share, with the quarter that it belongs to: a split that depends on
/// the batch and the network only, so that sums over it do not depend on the number of
/// threads. No share is empty, but a quarter may be; a part of a quarter has at least
/// `least` images. A batch of up to 128 images has at most 16 shares, larger ones have more:
/// as many threads find work.
pub(super) fn shares(images: usize, quarters: usize, least: usize) -> Vec<(usize, Range<usize>)> {
    // Halved again and again, the parts of a part are those of the whole: a rank need not
    // know how large the whole is.
    let mut parts = vec![(0, 0..images)];
    while parts.len() < quarters {
        let halves = parts.into_iter().flat_map(|(_, part)| halves(part));
        parts = halves.enumerate().collect();
    }
    for times in 0..MOST_HALVED {
        let least = if times < HALVED {
            least
        } else {
            least.max(FULL)
        };
        let halves = parts.into_iter().flat_map(|(quarter, part)| {
            let parts = match part.len() < 2 * least {
                true => vec![part],
                false => halves(part).to_vec(),
            };
            parts.into_iter().map(move |part| (quarter, part))
        });
        parts = halves.collect();
    }
    parts.retain(|(_, part)| !part.is_empty());
    parts
}

fn halves(part: Range<usize>) -> [Range<usize>; 2] {
    let middle = part.start + part.len() / 2;
    [part.start..middle, middle..part.end]
}

/// Gradients of all parameters, added up for each quarter by itself.
#[derive(Debug, Default)]
pub(in crate::cpu) struct QuarterGradients {
    /// As many as there were in any pass so far.
    quarters: Vec<HostGradients>,
}

impl QuarterGradients {
    /// The gradients of so many quarters, to be added to.
    pub(super) fn first(&mut self, count: usize, graph: &Graph) -> &mut [HostGradients] {
        while self.quarters.len() < count {
            self.quarters.push(HostGradients::zeros(graph));
        }
        &mut self.quarters[..count]
    }

    /// The sum over the quarters, neighbours first, which then stands in the first one;
    /// the others are 0.
    pub fn sum(&mut self, graph: &Graph) -> &mut HostGradients {
        let count = self.quarters.len();
        for distance in [1, 2] {
            for to in (0..count.saturating_sub(distance)).step_by(2 * distance) {
                let (left, right) = self.quarters.split_at_mut(to + distance);
                for (sum, more) in left[to].iter_mut().zip(right[0].iter_mut()) {
                    for (sum, more) in sum.iter_mut().zip(more) {
                        *sum += std::mem::take(more);
                    }
                }
            }
        }
        &mut self.first(1, graph)[0]
    }

    /// The same as a copy.
    pub fn read(&self, graph: &Graph) -> HostGradients {
        let mut copy = Self {
            quarters: self.quarters.clone(),
        };
        copy.sum(graph).clone()
    }

    /// Puts values in the place of all that was added.
    pub fn write(&mut self, values: HostGradients) {
        self.quarters = vec![values];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_batches_have_work_for_more_threads() {
        let count = |images, least| shares(images, quarters(1), least).len();
        assert_eq!([16, 100, 128].map(|images| count(images, 1)), [16, 16, 16]);
        assert_eq!(
            [256, 512, 4096].map(|images| count(images, 1)),
            [32, 64, 64]
        );
        assert_eq!([256, 512].map(|images| count(images, 16)), [16, 32]);
    }

    #[test]
    fn ranks_have_the_shares_of_one_process() {
        let sizes = (0..150).chain([255, 256, 400, 512, 1000, 4096]);
        for (images, least) in sizes.flat_map(|images| [(images, 1), (images, 4), (images, 12)]) {
            let whole = shares(images, quarters(1), least);
            let ends = whole.iter().map(|(_, share)| share.len()).sum::<usize>();
            assert_eq!(ends, images);
            assert!(whole.windows(2).all(|two| two[0].1.end == two[1].1.start));
            for ranks in [2, 4] {
                let own = quarters(ranks);
                let parts = (0..ranks).flat_map(|rank| {
                    // As minibatches are shared.
                    let first = rank * images / ranks;
                    let count = (rank + 1) * images / ranks - first;
                    let moved = move |(quarter, share): (usize, Range<usize>)| {
                        let images = share.start + first..share.end + first;
                        (quarter + rank * own, images)
                    };
                    shares(count, own, least).into_iter().map(moved)
                });
                assert_eq!(
                    parts.collect::<Vec<_>>(),
                    whole,
                    "{images} images, {ranks} ranks"
                );
            }
        }
    }
}
