use super::*;
use crate::statistics::normal_cdf;

/// (noise, levels, sigma, j, P(J > j) in units of 2^-64), from
/// tests/goldens/grid.py.
fn goldens() -> Vec<(Distribution, u32, f64, usize, f64)> {
    let text = include_str!("../../tests/goldens/grid_tails.tsv");
    let number = |cell: &str| cell.parse::<f64>().expect("a number");
    let row = |line: &str| {
        let (noise, cells) = line.split_once('\t').expect("columns");
        let noise = match noise {
            "gaussian" => Distribution::Gaussian,
            "uniform" => Distribution::Uniform,
            _ => Distribution::Laplace,
        };
        let cells: Vec<f64> = cells.split('\t').map(number).collect();
        (
            noise,
            cells[0] as u32,
            cells[1],
            cells[2] as usize,
            cells[3],
        )
    };
    text.lines().skip(1).map(row).collect()
}

#[test]
fn tails_are_within_the_error_that_is_claimed() {
    let goldens = goldens();
    assert_eq!(goldens.len(), 345);
    for (noise, levels, sigma, j, want) in goldens {
        let law = GridLaw::new(noise, sigma, levels).unwrap();
        let got = law.tails.get(j).map_or(0.0, |&units| units as f64);
        // Six roundings, more where the argument's rounding is amplified; a uniform
        // tail is a difference of numbers up to 1.
        let limit = match noise {
            Distribution::Uniform => 4e-16 * WHOLE,
            _ => 1e-14 * want + 0.5,
        };
        assert!(
            (got - want).abs() <= limit,
            "{noise:?} {levels} {sigma} {j}: {got} {want}"
        );
        assert!((got - want).abs() <= law.error * WHOLE);
    }
}

#[test]
fn the_error_is_negligible_at_usual_levels() {
    use Distribution::{Gaussian, Laplace, Uniform};
    for (levels, sigma, most) in [(255, 0.1, 1e-13), (255, 1.0, 1e-12), (16, 0.25, 2e-14)] {
        for noise in [Gaussian, Uniform, Laplace] {
            let law = GridLaw::new(noise, sigma, levels).unwrap();
            let error = law.error;
            assert!(0.0 < error && error < most, "{noise:?} {sigma}: {error}");
        }
    }
}

/// Nearly normal: the variance is sigma^2 plus that of rounding, 1/(12 levels^2).
#[test]
fn weights_have_the_moments_of_rounded_noise() {
    for (levels, sigma) in [(255, 0.1), (16, 0.25), (255, 0.01)] {
        let law = GridLaw::new(Distribution::Gaussian, sigma, levels).unwrap();
        let side = (1..law.tails.len()).map(|j| {
            let p = (law.tails[j - 1] - law.tails[j]) as f64 / WHOLE;
            p * (j * j) as f64
        });
        let variance = 2.0 * side.sum::<f64>() / f64::from(levels * levels);
        let want = sigma * sigma + 1.0 / (12.0 * f64::from(levels * levels));
        assert!((variance / want - 1.0).abs() < 1e-9, "{variance} {want}");
    }
}

#[test]
fn levels_without_noise_and_with_too_much_are_refused() {
    use Distribution::{Gaussian, Laplace, Uniform};
    for (law, few, little, much, many) in [
        (Gaussian, 1e-4, 0.0003, 13.0, 20.0),
        (Uniform, 0.0011, 0.0012, 74.0, 75.0),
        (Laplace, 6e-5, 6.4e-5, 3.9, 4.1),
    ] {
        for sigma in [few, many] {
            let error = GridLaw::new(law, sigma, 255).unwrap_err();
            assert!(error.to_string().contains("multiples of 1/255"), "{error}");
        }
        for sigma in [little, much] {
            GridLaw::new(law, sigma, 255).unwrap().table(255);
        }
    }
}

/// 2^22 integers against their probabilities: a chi-square over all integers that
/// are expected ten times or more, and both tails, at limits of 1e-9.
#[test]
fn integers_have_their_probabilities() {
    use crate::statistics::binomial_upper_tail;
    use network::{Noise, NoiseKind, Purpose};

    use Distribution::{Gaussian, Laplace, Uniform};
    for (law, levels, sigma) in [
        (Gaussian, 255_u32, 0.1),
        (Gaussian, 16, 0.25),
        (Uniform, 255, 0.1),
        (Laplace, 255, 0.1),
    ] {
        let table = GridLaw::new(law, sigma, levels).unwrap().table(levels);
        let noise = Noise {
            seed: 11,
            purpose: Purpose::Estimation,
            kind: NoiseKind::Grid(std::sync::Arc::new(table)),
        };
        let (images, len) = (1024_u32, 4096_usize);
        let mut counts = std::collections::BTreeMap::<i32, u64>::new();
        let (zeros, mut copy) = (vec![0.0; len], vec![0.0; len]);
        for image in 0..images {
            noise.add(image, image % 7, &zeros, &mut copy);
            for pixel in &copy {
                let integer = pixel * levels as f32;
                assert!((integer - integer.round()).abs() < 1e-3);
                *counts.entry(integer.round() as i32).or_default() += 1;
            }
        }
        let n = u64::from(images) * len as u64;
        let edge = |j: i32| f64::from(2 * j + 1) / (2.0 * f64::from(levels) * sigma);
        let cdf = |z: f64| match law {
            Gaussian => normal_cdf(z),
            Uniform => (0.5 + z / (2.0 * 3f64.sqrt())).clamp(0.0, 1.0),
            Laplace if z > 0.0 => 1.0 - 0.5 * (-z * 2f64.sqrt()).exp(),
            Laplace => 0.5 * (z * 2f64.sqrt()).exp(),
        };
        let p = |j: i32| {
            // On the side where nothing cancels.
            let j = -j.abs();
            cdf(edge(j)) - cdf(edge(j - 1))
        };
        let (mut statistic, mut bins) = (0.0_f64, 0.0_f64);
        let mut reach = 0;
        while n as f64 * p(reach + 1) >= 10.0 {
            reach += 1;
        }
        for j in -reach..=reach {
            let (expected, seen) = (n as f64 * p(j), counts.get(&j).copied().unwrap_or(0));
            statistic += (seen as f64 - expected).powi(2) / expected;
            bins += 1.0;
        }
        // Wilson and Hilferty's quantile at 1e-9 (six standard deviations).
        let third = 2.0 / (9.0 * bins);
        let most = bins * (1.0 - third + 6.0 * third.sqrt()).powi(3);
        assert!(statistic < most, "{law:?} {levels}: {statistic} of {bins}");
        println!("{law:?} {levels} {sigma}: {statistic:.1} for {bins} integers");
        for in_sigmas in [3.0, 4.0, 4.5] {
            let from = (in_sigmas * f64::from(levels) * sigma) as i32;
            let tail = cdf(-edge(from - 1));
            for side in [-1, 1] {
                let beyond = counts.iter().filter(|(j, _)| *j * side >= from);
                let seen: u64 = beyond.map(|(_, count)| count).sum();
                let either = [
                    binomial_upper_tail(seen, n, tail),
                    binomial_upper_tail(n - seen, n, 1.0 - tail),
                ];
                assert!(either.iter().all(|p| *p > 1e-9), "{from} {side}: {seen}");
            }
        }
    }
}
