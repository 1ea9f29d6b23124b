//! Counter-based randomness: every draw is a pure function of
//! (seed, purpose, epoch, index), so threads, batch sizes and restarts cannot
//! change a result.
//!
//! The words of the generator's counter (see [`kernels::random`]) are
//!
//! | word | holds |
//! |---|---|
//! | 0 | block number within the stream: 4 draws of 32 bits each |
//! | 1 | index (of the image) |
//! | 2 | epoch, low 32 bits |
//! | 3 | purpose in the high 8 bits, epoch's bits 32 to 55 below |

use kernels::random::{Purpose, key, philox4x32};

/// A stream of random numbers: a pure function of (seed, purpose, epoch,
/// index) and of how many numbers were drawn before.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    key: [u32; 2],
    counter: [u32; 4],
    block: [u32; 4],
    used: usize,
}

impl Stream {
    /// The stream of an image (or whatever `index` counts) in an epoch. Of
    /// `epoch`, 56 bits count.
    pub fn new(seed: u64, purpose: Purpose, epoch: u64, index: u32) -> Self {
        let high = (epoch >> 32) as u32 & 0x00FF_FFFF;
        Self {
            key: key(seed),
            counter: [0, index, epoch as u32, purpose as u32 | high],
            block: [0; 4],
            used: 4,
        }
    }

    /// 32 uniform bits. A stream repeats after 2^34 draws.
    pub fn bits(&mut self) -> u32 {
        if self.used == 4 {
            self.block = philox4x32(self.counter, self.key);
            self.counter[0] = self.counter[0].wrapping_add(1);
            self.used = 0;
        }
        self.used += 1;
        self.block[self.used - 1]
    }

    /// Uniform in 0..`bound`, without bias (Lemire, 2019); 0 when `bound` is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        loop {
            let product = u64::from(self.bits()) * u64::from(bound);
            // The low word says how far into its slot the draw fell; slots
            // that are one draw longer than the others are cut there.
            if product as u32 >= bound.wrapping_neg().checked_rem(bound).unwrap_or(0) {
                return (product >> 32) as u32;
            }
        }
    }

    /// Uniform in [0, 1), a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        let high = u64::from(self.bits()) << 32;
        let bits = high | u64::from(self.bits());
        (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in [`low`, `high`).
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// True with probability 1/2.
    pub fn coin(&mut self) -> bool {
        self.bits() >> 31 == 1
    }
}

/// The order of `len` images in an epoch: a permutation of 0..`len` as a pure
/// function of (seed, epoch), drawn with the Fisher-Yates shuffle.
pub fn permutation(len: usize, seed: u64, epoch: u64) -> Vec<u32> {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    let mut order: Vec<u32> = (0..len).collect();
    let mut stream = Stream::new(seed, Purpose::Shuffle, epoch, 0);
    for last in (1..len).rev() {
        let chosen = stream.below(last + 1);
        order.swap(last as usize, chosen as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stream_starts_with_the_block_of_its_counter() {
        let mut stream = Stream::new(0x299f_31d0_a409_3822, Purpose::Augment, 7 << 32 | 5, 9);
        let expected = philox4x32([0, 9, 5, 2 << 24 | 7], [0xa409_3822, 0x299f_31d0]);
        assert_eq!([(); 4].map(|()| stream.bits()), expected);
    }

    /// Pinned so that a change of the order, which would change every
    /// trained model, cannot go unnoticed.
    #[test]
    fn the_order_of_an_epoch_is_pinned() {
        assert_eq!(permutation(10, 0, 0), PINNED_ORDER);
    }
    const PINNED_ORDER: [u32; 10] = [7, 0, 2, 4, 8, 9, 6, 3, 1, 5];

    #[test]
    fn bounded_draws_are_uniform() {
        // 60,000 draws over 6 slots: each count is binomial with standard
        // deviation 91; 6.5 of them are missed with probability 1e-10.
        let mut stream = Stream::new(1, Purpose::Augment, 0, 0);
        let mut counts = [0i32; 6];
        for _ in 0..60_000 {
            counts[stream.below(6) as usize] += 1;
        }
        assert!(
            counts.iter().all(|c| (c - 10_000).abs() < 600),
            "{counts:?}"
        );
    }

    #[test]
    fn degenerate_bounds_are_harmless() {
        let mut stream = Stream::new(1, Purpose::Augment, 0, 0);
        assert_eq!((stream.below(0), stream.below(1)), (0, 0));
        assert_eq!(permutation(0, 3, 4), Vec::<u32>::new());
        assert_eq!(permutation(1, 3, 4), [0]);
    }

    proptest! {
        #[test]
        fn permutations_are_permutations(len in 0usize..500, seed: u64, epoch: u64) {
            let mut order = permutation(len, seed, epoch);
            prop_assert_eq!(&order, &permutation(len, seed, epoch));
            order.sort_unstable();
            prop_assert!(order.iter().copied().eq(0..len as u32));
        }

        #[test]
        fn epochs_and_seeds_differ(seed: u64, epoch in 0u64..1 << 55) {
            let order = permutation(100, seed, epoch);
            prop_assert_ne!(&order, &permutation(100, seed, epoch + 1));
            prop_assert_ne!(&order, &permutation(100, seed.wrapping_add(1), epoch));
        }

        #[test]
        fn draws_stay_in_range(seed: u64, bound in 1u32.., low in -9.0..9.0f64, span in 0.0..9.0f64) {
            let mut stream = Stream::new(seed, Purpose::Augment, 0, 0);
            prop_assert!(stream.below(bound) < bound);
            let draw = stream.uniform(low, low + span);
            prop_assert!(low <= draw && draw <= low + span);
        }
    }
}
