//! Simulations over binomial counts with fixed seeds.

use super::*;
use crate::smoothing::Smoothing;
use crate::statistics::normal_cdf;

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

    fn hits(&mut self, count: u32, p: f64) -> u32 {
        (0..count).map(|_| u32::from(self.uniform() < p)).sum()
    }
}

fn plan(n0: u32, n: u32, alpha: f64, rule: StopRule) -> Certify {
    Certify {
        n0,
        n,
        alpha,
        pilot: Some(rule),
        ..Certify::new(Smoothing::gaussian(1.0).unwrap())
    }
}

/// What is counted for each number of first votes.
fn choices(plan: &Certify) -> Vec<u32> {
    let pilot = Pilot::new(plan, 0.0).unwrap();
    (0..=plan.n0).map(|votes| pilot.samples(votes)).collect()
}

/// Most images are where mistakes are easiest: a hair from the radius in question, or
/// at no radius at all.
#[test]
fn at_most_alpha_of_200_000_certificates_with_a_pilot_are_wrong() {
    let (alpha, images) = (0.01, 200_000);
    let edge = normal_cdf(0.5);
    let mut random = Random(1);
    for rule in [StopRule::Radius(0.5), StopRule::Tolerance(0.05)] {
        let plan = plan(30, 400, alpha, rule);
        let choices = choices(&plan);
        let (mut wrong, mut certified) = (0, 0);
        for image in 0..images / 2 {
            let p = match image % 4 {
                0 => edge - 1e-9,
                1 => edge + 1e-9,
                2 => 0.5,
                _ => random.uniform(),
            };
            let n = choices[random.hits(plan.n0, p) as usize];
            let hits = random.hits(n, p);
            let lower = clopper_pearson_lower(hits.into(), n.into(), alpha);
            wrong += u32::from(lower > p);
            certified += u32::from(lower > 0.5);
        }
        println!("{rule:?}: {wrong} wrong, {certified} certified");
        assert!(f64::from(wrong) <= alpha * f64::from(images / 2), "{wrong}");
        assert!(wrong > 100 && certified > 10_000, "{wrong} {certified}");
    }
}

/// Against n = 10,000 for everyone, on radii spread up to 4 sigma and a quarter of images
/// that no n certifies: a fraction of the samples, nearly all of the certificates.
#[test]
fn a_pilot_saves_samples_and_loses_few_certificates() {
    for (goal, least) in [(0.5, 4.0), (1.0, 3.0), (2.0, 2.0)] {
        let plan = plan(100, 10_000, 0.001, StopRule::Radius(goal));
        let choices = choices(&plan);
        let mut random = Random(2);
        let (mut samples, mut certified, mut fixed) = (0, 0, 0);
        let images = 4000;
        for image in 0..images {
            let p = match image % 4 {
                0 => 0.5 * random.uniform(),
                _ => normal_cdf(4.0 * random.uniform()),
            };
            let n = choices[random.hits(plan.n0, p) as usize];
            samples += n + plan.n0;
            let reached = |n: u32, hits: u32| {
                let lower = clopper_pearson_lower(hits.into(), n.into(), plan.alpha);
                reaches(&plan, goal, lower)
            };
            certified += u32::from(reached(n, random.hits(n, p)));
            fixed += u32::from(reached(plan.n, (p * f64::from(plan.n)).round() as u32));
        }
        let saving = f64::from(plan.n) * f64::from(images) / f64::from(samples);
        println!("R = {goal}: {saving:.1} times fewer, {certified} certified for {fixed}");
        assert!(saving >= least, "{saving}");
        let kept = f64::from(certified) / f64::from(fixed);
        assert!(kept >= 0.93, "{kept}");
    }
}

#[test]
fn hopeless_images_get_no_samples_and_sure_ones_few() {
    let decided = choices(&plan(100, 100_000, 0.001, StopRule::Radius(0.5)));
    assert!(decided[..50].iter().all(|&n| n == 0), "{decided:?}");
    assert!(decided[100] <= 200, "{decided:?}");
    // The nearer to the edge, the more.
    let edge = (100.0 * normal_cdf(0.5)) as usize;
    assert!(decided[edge] > 10 * decided[95], "{decided:?}");
    let measured = choices(&plan(100, 100_000, 0.001, StopRule::Tolerance(0.02)));
    assert!(measured[..35].iter().all(|&n| n == 0), "{measured:?}");
    assert!(measured[60] < measured[100], "{measured:?}");
    // A smaller tolerance takes more.
    let finer = choices(&plan(100, 100_000, 0.001, StopRule::Tolerance(0.01)));
    let all = measured.iter().zip(&finer);
    assert!(all.into_iter().all(|(coarse, fine)| coarse <= fine));
}
