//! Simulations over synthetic images with fixed seeds.

use super::*;
use crate::smoothing::Smoothing;

/// Steele, Lea and Flood's SplitMix64: fast, and independent of the crate's noise.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

const ALPHA: f64 = 0.01;
const IMAGES: u32 = 200_000;

fn plan(evidence: Evidence, sides: Sides, n: u32) -> Certify {
    Certify {
        n,
        alpha: ALPHA,
        evidence,
        sides,
        ..Certify::new(Smoothing::gaussian(1.0).unwrap())
    }
}

/// Whether a certificate says more than the classes' true values allow: a wrong
/// class, or a radius beyond the true one.
fn too_much(plan: &Certify, truth: &[f64], (lower, upper): (f64, f64)) -> bool {
    let best_other = truth[1..].iter().copied().fold(0.0, f64::max);
    let upper = upper.min(1.0 - lower);
    let certified = plan.smoothing.radius_between(lower, upper);
    let true_radius = plan.smoothing.radius_between(truth[0], best_other);
    lower > upper && (truth[0] <= best_other || certified > true_radius)
}

/// Three and five classes, most of them where mistakes are easiest: the first
/// two equal, or all others equal.
fn shares(image: u32, random: &mut Random) -> Vec<f64> {
    match image % 4 {
        0 => vec![0.45, 0.45, 0.1],
        1 => vec![0.4, 0.15, 0.15, 0.15, 0.15],
        2 => vec![0.9, 0.05, 0.05],
        _ => {
            let weights: Vec<f64> = (0..4).map(|_| random.uniform()).collect();
            let sum: f64 = weights.iter().sum();
            weights.iter().map(|weight| weight / sum).collect()
        }
    }
}

fn drawn(shares: &[f64], random: &mut Random) -> usize {
    let mut left = random.uniform();
    let below = shares.iter().position(|share| {
        left -= share;
        left < 0.0
    });
    below.unwrap_or(shares.len() - 1)
}

#[test]
fn at_most_alpha_of_200_000_two_sided_certificates_say_too_much() {
    let plan = plan(Evidence::Votes, Sides::Both, 120);
    let mut random = Random(5);
    let (mut wrong, mut gained) = (0, 0);
    for image in 0..IMAGES {
        let shares = shares(image, &mut random);
        let mut votes = vec![0; shares.len()];
        for _ in 0..plan.n {
            votes[drawn(&shares, &mut random)] += 1;
        }
        let hits = votes[0];
        let bounds =
            Tally::Votes(votes).bounds(&plan, &Watch::new(&plan, 0.5, 0.0), 0, (hits, plan.n));
        wrong += u32::from(too_much(&plan, &shares, bounds));
        gained += u32::from(bounds.0 > bounds.1 && bounds.0 < 0.5);
    }
    println!("{wrong} of {IMAGES} say too much; {gained} below one half are certified");
    assert!(f64::from(wrong) <= ALPHA * f64::from(IMAGES), "{wrong}");
    assert!(wrong > 0 && gained > 5000, "{wrong} {gained}");
}

/// Probabilities that swing between two vectors, so that means and spreads differ.
#[test]
fn at_most_alpha_of_200_000_mean_certificates_say_too_much() {
    for sides in [Sides::One, Sides::Both] {
        let plan = plan(Evidence::MeanSoftmax, sides, 60);
        let mut random = Random(6);
        let (mut wrong, mut certified) = (0, 0);
        for image in 0..IMAGES / 2 {
            let shares = shares(image, &mut random);
            let swing = [0.0, 0.3, 1.0][image as usize % 3];
            let mut tally = Tally::new(&plan, 0, shares.len());
            for _ in 0..plan.n {
                // Of mean `shares`: with `swing` 1 a single class has everything.
                let class = drawn(&shares, &mut random);
                let Tally::Means(means) = &mut tally else {
                    panic!("means are gathered");
                };
                for (c, mean) in means.iter_mut().enumerate() {
                    let vote = f64::from(u8::from(c == class));
                    if let Some(mean) = mean {
                        mean.add((1.0 - swing) * shares[c] + swing * vote);
                    }
                }
            }
            let bounds = tally.bounds(&plan, &Watch::new(&plan, 0.5, 0.0), 0, (0, plan.n));
            wrong += u32::from(too_much(&plan, &shares, bounds));
            certified += u32::from(bounds.0 > bounds.1.min(1.0 - bounds.0));
        }
        println!(
            "{sides}: {wrong} of {} say too much, {certified} certified",
            IMAGES / 2
        );
        assert!(f64::from(wrong) <= ALPHA * f64::from(IMAGES / 2), "{wrong}");
        assert!(certified > IMAGES / 10, "{certified}");
    }
}

#[test]
fn both_sides_help_where_many_classes_share_the_rest() {
    let votes = vec![480, 60, 60, 60, 60, 60, 60, 60, 60, 40];
    let both = plan(Evidence::Votes, Sides::Both, 1000);
    let (lower, upper) =
        Tally::Votes(votes).bounds(&both, &Watch::new(&both, 0.5, 0.0), 0, (480, 1000));
    assert!(lower < 0.5 && upper < 0.12, "{lower} {upper}");
    assert!(both.smoothing.radius_between(lower, upper) > 0.4);
    let one = plan(Evidence::Votes, Sides::One, 1000);
    let (lower, upper) = Tally::Hits.bounds(&one, &Watch::new(&one, 0.5, 0.0), 0, (480, 1000));
    assert_eq!(
        one.smoothing.radius_between(lower, upper.min(1.0 - lower)),
        0.0
    );
}
