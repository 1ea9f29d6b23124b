//! Whether a single image is faster on one thread or on all.
//!
//! Cut up, each layer of a small network takes microseconds, and the threads wait for
//! each other after it. Whether that pays depends on the network and on how long the
//! processor's cores take to see each other's writes, which differs by a factor of
//! five between machines: so both ways are tried with the first images. The logits are
//! the same.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Images that are tried in each way, the first of which does not count: memory is new.
const TRIED: usize = 8;

/// What the first images took.
#[derive(Debug)]
pub(super) struct Alone {
    started: AtomicUsize,
    /// Shortest time in nanoseconds on one thread, and cut up among all.
    fastest: [AtomicU64; 2],
}

impl Default for Alone {
    fn default() -> Self {
        Self {
            started: AtomicUsize::new(0),
            fastest: [AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)],
        }
    }
}

impl Alone {
    /// Runs one image; `pass` is told whether to cut it up among the threads.
    pub fn run(&self, pass: impl FnOnce(bool)) {
        if self.started.load(Relaxed) >= 2 * TRIED {
            pass(self.split_is_faster());
            return;
        }
        let image = self.started.fetch_add(1, Relaxed);
        let way = image % 2;
        let start = Instant::now();
        pass(way == 1);
        if image >= 2 {
            let time = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.fastest[way].fetch_min(time, Relaxed);
        }
    }

    fn split_is_faster(&self) -> bool {
        self.fastest[1].load(Relaxed) < self.fastest[0].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Which ways `images` images go when one thread or all of them take a while.
    fn ways(images: usize, slow: bool) -> Vec<bool> {
        let alone = Alone::default();
        let mut ways = Vec::new();
        for _ in 0..images {
            alone.run(|split| {
                ways.push(split);
                if split == slow {
                    std::thread::sleep(Duration::from_millis(3));
                }
            });
        }
        ways
    }

    #[test]
    fn the_faster_way_is_kept() {
        for slow in [false, true] {
            let ways = ways(2 * TRIED + 3, slow);
            let tried = ways[..2 * TRIED].iter().filter(|&&split| split).count();
            assert_eq!(tried, TRIED);
            assert_eq!(ways[2 * TRIED..], [!slow; 3]);
        }
    }
}
