use proptest::prelude::*;

use super::*;
use crate::random::Purpose;

const KEY: NoiseKey = NoiseKey {
    seed: 0x0123_4567_89AB_CDEF,
    purpose: Purpose::Estimation,
    image: 77,
    sample: 5,
};

/// Weights in these proportions, the last one taking what rounding leaves.
fn weights(shares: &[u64]) -> Vec<u64> {
    let sum: u128 = shares.iter().map(|&share| u128::from(share)).sum();
    let scaled = shares
        .iter()
        .map(|&share| ((u128::from(share) << 64) / sum) as u64);
    let mut weights: Vec<u64> = scaled.collect();
    let rest: u64 = weights[1..].iter().fold(0, |sum, w| sum.wrapping_add(*w));
    weights[0] = 0_u64.wrapping_sub(rest);
    weights
}

/// How much of 2^64 each integer has in a table.
fn masses(noise: &GridNoise, first: i32, count: usize) -> Vec<u128> {
    let mut masses = vec![0; count];
    let capacity = 1_u128 << (64 - noise.bits);
    for ([high, packed], low) in noise.columns.iter().zip(&noise.low) {
        let threshold = u128::from(*high) << 32 | u128::from(*low);
        for (half, mass) in [(*packed, threshold), (packed >> 16, capacity - threshold)] {
            let integer = i32::from((half as u16).cast_signed());
            masses[(integer - first) as usize] += mass;
        }
    }
    masses
}

proptest! {
    #[test]
    fn a_table_keeps_every_weight(
        shares in prop::collection::vec(0..u64::MAX, 2..300),
        first in -200..200_i32,
    ) {
        prop_assume!(shares.iter().filter(|share| **share > 0).count() > 1);
        let weights = weights(&shares);
        let noise = GridNoise::new(255, first, &weights);
        let want: Vec<u128> = weights.iter().map(|&weight| weight.into()).collect();
        prop_assert_eq!(masses(&noise, first, weights.len()), want);
    }
}

/// About the shape of a bell, from -40 to 40.
fn bell() -> GridNoise {
    let share = |j: i64| (1e18 / (1.0 + (j * j) as f64 / 9.0).powi(4)) as u64;
    GridNoise::new(
        255,
        -40,
        &weights(&(-40..=40).map(share).collect::<Vec<_>>()),
    )
}

fn draw(isa: Isa, key: NoiseKey, noise: &GridNoise, len: usize) -> Vec<f32> {
    let mut out = vec![f32::NAN; len];
    add_grid_noise(isa, key, noise, &vec![0.0; len], &mut out);
    out
}

#[test]
fn every_instruction_set_draws_the_integers_of_the_reference() {
    let noise = bell();
    let len = 5000;
    let x: Vec<f32> = (0..len).map(|i| (i * 7919 % 256) as f32 / 255.0).collect();
    for isa in Isa::available() {
        for end in (0..70).chain([len]) {
            let mut out = vec![f32::NAN; end];
            add_grid_noise(isa, KEY, &noise, &x[..end], &mut out);
            for (i, out) in out.iter().enumerate() {
                let grid = (i * 7919 % 256) as i32 + integer_at(KEY, &noise, i);
                assert_eq!(*out, grid as f32 / 255.0, "{isa} {i}");
            }
        }
    }
}

/// A table whose thresholds are the very words that are drawn: the lower 32 bits
/// decide, and they come from a counter of their own.
#[test]
fn equal_words_are_decided_by_further_bits() {
    let len = 64;
    let words = |further: u32| {
        let counter = move |i: usize| [(i / 4) as u32, KEY.sample, KEY.image, 2 | further];
        let key = random::key(KEY.seed);
        move |i: usize| philox4x32(counter(i), key)[i % 4]
    };
    let (high, low) = (words(0), words(1 << 31));
    for pixel in 0..len {
        for (add, want) in [(0, -3), (1, 5)] {
            let mut noise = bell();
            let column = (high(pixel) >> (32 - noise.bits)) as usize;
            let integers = u32::from(5_u16) | u32::from((-3_i16).cast_unsigned()) << 16;
            noise.columns[column] = [high(pixel) & noise.mask(), integers];
            // Own if the further word is below the threshold's low word.
            noise.low[column] = low(pixel) + add;
            for isa in Isa::available() {
                let found = draw(isa, KEY, &noise, len);
                assert_eq!(found[pixel], want as f32 / 255.0, "{isa} {pixel}");
                let others = (0..len).map(|i| integer_at(KEY, &noise, i) as f32 / 255.0);
                assert_eq!(found, others.collect::<Vec<_>>(), "{isa} {pixel}");
            }
        }
    }
}

#[test]
fn an_integer_depends_on_key_and_index_alone() {
    let noise = bell();
    let one = draw(Isa::detect(), KEY, &noise, 1000);
    for other in [
        NoiseKey { seed: 1, ..KEY },
        NoiseKey {
            purpose: Purpose::Selection,
            ..KEY
        },
        NoiseKey { image: 1, ..KEY },
        NoiseKey { sample: 1, ..KEY },
    ] {
        let equal = draw(Isa::detect(), other, &noise, 1000)
            .iter()
            .zip(&one)
            .filter(|(a, b)| a == b)
            .count();
        // Two integers of the bell are equal by chance in less than a third.
        assert!(equal < 500, "{other:?}: {equal}");
    }
}

#[test]
#[should_panic(expected = "the weights make no probability")]
fn weights_must_sum_up() {
    GridNoise::new(255, 0, &[1, 2, 3]);
}
