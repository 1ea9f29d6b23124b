//! Counter-based random numbers: a draw is a pure function of its counter, so
//! threads, batch sizes, shards and restarts cannot change a result.
//!
//! The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as
//! easy as 1, 2, 3", 2011). Its key is the seed. The last word of its counter
//! says what the draw is for: see [`Purpose`]. The other words count within the
//! purpose. For one seed the generator maps different counters to different
//! results, so two purposes never share a draw.

/// What random numbers are drawn for: draws for different purposes are
/// independent.
///
/// The value is the last word of the counter. It is part of every result that
/// was ever drawn, so it never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Purpose {
    /// Choosing a class (n0 samples).
    Selection = 1,
    /// Estimating its probability (n samples).
    Estimation = 2,
    /// The stochastic model's prediction, attack and L-bound.
    Prediction = 3,
    /// Training on noisy images.
    Training = 4,
    /// Random projections of the heat penalty.
    Projection = 5,
    /// Fresh weights.
    Weights = 6,
    /// Random directions and starts of attacks.
    Attack = 7,
    /// The Monte-Carlo average of fidelity.
    Fidelity = 8,
    /// Measuring speed.
    Bench = 9,
    /// The teacher's noise in averaging.
    Averaging = 10,
    /// Mixtures of two images.
    Mixture = 11,
    /// Points around an image at which gradients are looked at: directions.
    Ball = 12,
    /// The same: how far from the image.
    Shell = 13,
    /// What noise at the input becomes inside a network.
    Widths = 14,
    /// The order of the images in an epoch. The low 24 bits of the word are
    /// free for the epoch.
    Shuffle = 1 << 24,
    /// Crops, flips and shifts. The low 24 bits of the word are free for the
    /// epoch.
    Augment = 2 << 24,
}

/// Added to the last word of a counter: 32 further bits of the same draw, for the
/// few draws that need them. No purpose has this bit.
pub(crate) const FURTHER: u32 = 1 << 31;

/// The factors of a round.
pub(crate) const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What a round adds to the key.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// The generator's key of a seed.
pub fn key(seed: u64) -> [u32; 2] {
    [seed as u32, (seed >> 32) as u32]
}

/// The key of the next round.
#[inline(always)]
pub(crate) fn next_key(key: [u32; 2]) -> [u32; 2] {
    [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])]
}

/// Ten rounds of Philox4x32: maps a counter to four random words under a key.
///
/// This is the plain version, and the reference of the vectors of
/// [`crate::noise`].
pub fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    let wide = |a: u32, b: u32| {
        let product = u64::from(a) * u64::from(b);
        ((product >> 32) as u32, product as u32)
    };
    for _ in 0..10 {
        let (high_a, low_a) = wide(counter[0], MULTIPLIERS[0]);
        let (high_b, low_b) = wide(counter[2], MULTIPLIERS[1]);
        counter = [
            high_b ^ counter[1] ^ key[0],
            low_b,
            high_a ^ counter[3] ^ key[1],
            low_a,
        ];
        key = next_key(key);
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers of the Random123 distribution (`kat_vectors`).
    #[test]
    fn philox_gives_the_published_answers() {
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let cases = [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                pi,
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, want) in cases {
            assert_eq!(philox4x32(counter, key), want);
        }
    }
}
