use proptest::prelude::*;

use super::*;
use crate::random::philox4x32;

struct Words {
    counter: [u32; 4],
    key: [u32; 2],
}

impl Kernel for Words {
    type Output = [u32; 4];
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> [u32; 4] {
        philox(s, self.counter.map(|c| s.splat_u32(c)), self.key).map(|r| {
            let mut lanes = vec![0.0; S::LANES];
            s.write(&mut lanes, s.float_from_bits(r));
            assert!(lanes.iter().all(|l| l.to_bits() == lanes[0].to_bits()));
            lanes[0].to_bits()
        })
    }
}

proptest! {
    #[test]
    fn words_are_those_of_the_reference(counter: [u32; 4], key: [u32; 2]) {
        let want = philox4x32(counter, key);
        for isa in Isa::available() {
            prop_assert_eq!(isa.dispatch(Words { counter, key }), want, "{}", isa);
        }
    }
}

const KEY: NoiseKey = NoiseKey {
    seed: 0x0123_4567_89AB_CDEF,
    purpose: Purpose::Estimation,
    image: 77,
    sample: 5,
};

fn draw(isa: Isa, key: NoiseKey, len: usize) -> Vec<f32> {
    draw_of(Distribution::Gaussian, isa, key, len)
}

fn draw_of(distribution: Distribution, isa: Isa, key: NoiseKey, len: usize) -> Vec<f32> {
    let mut out = vec![f32::NAN; len];
    add_noise(isa, key, (distribution, 1.0), &vec![0.0; len], &mut out);
    out
}

/// The formula of the module's documentation, in f64.
fn exact(key: NoiseKey, i: usize) -> f64 {
    let counter = [(i / 4) as u32, key.sample, key.image, key.purpose as u32];
    let r = philox4x32(counter, random::key(key.seed));
    let pair = i % 4 / 2 * 2;
    let u = |r: u32| (f64::from(r) + 0.5) / 4_294_967_296.0;
    let (radius, angle) = (
        (-2.0 * u(r[pair]).ln()).sqrt(),
        2.0 * std::f64::consts::PI * u(r[pair + 1]),
    );
    radius
        * if i.is_multiple_of(2) {
            angle.cos()
        } else {
            angle.sin()
        }
}

#[test]
fn follows_the_formula() {
    for isa in Isa::available() {
        for (i, &z) in draw(isa, KEY, 4000).iter().enumerate() {
            let want = exact(KEY, i);
            assert!((f64::from(z) - want).abs() < 2e-6, "{isa} {i}: {z} {want}");
        }
    }
}

struct Functions {
    r: u32,
}

impl Kernel for Functions {
    type Output = [f32; 3];
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> [f32; 3] {
        let (sin, cos) = sin_cos(s, s.splat_u32(self.r));
        let log = ln_over_2_32(s, s.splat(self.r as f32 + 0.5));
        [sin, cos, log].map(|v| {
            let mut lanes = vec![0.0; S::LANES];
            s.write(&mut lanes, v);
            lanes[0]
        })
    }
}

/// Every exponent and every quadrant border.
#[test]
fn logarithm_and_sine_to_single_precision() {
    let mut words = vec![0, 1, 2, 3, u32::MAX, u32::MAX - 1];
    words.extend((0..8).map(|q| q << 29));
    words.extend((1..8).flat_map(|q| [(q << 29) - 1, (q << 29) + 1]));
    words.extend((0..100_000u32).map(|i| i.wrapping_mul(2_654_435_761) >> (i % 31)));
    for isa in Isa::available() {
        for &r in &words {
            let [sin, cos, log] = isa.dispatch(Functions { r }).map(f64::from);
            let angle = 2.0 * std::f64::consts::PI * (f64::from(r) + 0.5) / 4_294_967_296.0;
            assert!((sin - angle.sin()).abs() < 1.5e-7, "{isa} sin {r}");
            assert!((cos - angle.cos()).abs() < 1.5e-7, "{isa} cos {r}");
            let want = (f64::from(r as f32 + 0.5) / 4_294_967_296.0).ln();
            assert!(
                (log - want).abs() <= 2e-7 * want.abs(),
                "{isa} ln {r}: {log} {want}"
            );
        }
    }
}

#[test]
fn the_other_distributions_follow_their_formulas() {
    use Distribution::{Laplace, Uniform};
    for isa in Isa::available() {
        for distribution in [Uniform, Laplace] {
            for (i, &z) in draw_of(distribution, isa, KEY, 4003).iter().enumerate() {
                let counter = [(i / 4) as u32, KEY.sample, KEY.image, KEY.purpose as u32];
                let r = philox4x32(counter, random::key(KEY.seed))[i % 4];
                let want = match distribution {
                    Uniform => 3f64.sqrt() * (f64::from(r.cast_signed()) + 0.5) / 2f64.powi(31),
                    _ => {
                        let odd = f64::from((r << 1) | 1) / 2f64.powi(32);
                        let sign = if r >> 31 == 1 { -1.0 } else { 1.0 };
                        -sign * odd.ln() / 2f64.sqrt()
                    }
                };
                let error = (f64::from(z) - want).abs();
                assert!(error < 2e-6, "{isa} {distribution:?} {i}: {z} {want}");
            }
        }
    }
}

/// The Kolmogorov-Smirnov distance of 2^18 numbers is below its 1e-9 quantile, and
/// moments are within six standard errors.
#[test]
fn the_other_distributions_have_their_moments_and_their_law() {
    use Distribution::{Laplace, Uniform};
    let n = 1 << 18;
    let count = f64::from(n);
    // Fourth and eighth moments at variance 1.
    for (distribution, fourth, eighth) in [(Uniform, 9.0 / 5.0, 9.0), (Laplace, 6.0, 2520.0)] {
        let z = draw_of(distribution, Isa::detect(), KEY, n as usize);
        let mut z: Vec<f64> = z.into_iter().map(f64::from).collect();
        let moment = |p: i32| z.iter().map(|z| z.powi(p)).sum::<f64>() / count;
        let limit = |variance: f64| 6.0 * (variance / count).sqrt();
        assert!(moment(1).abs() < limit(1.0), "{distribution:?}");
        assert!((moment(2) - 1.0).abs() < limit(fourth - 1.0));
        assert!((moment(4) - fourth).abs() < limit(eighth - fourth * fourth));
        let cdf = |z: f64| match distribution {
            Uniform => (0.5 + z / (2.0 * 3f64.sqrt())).clamp(0.0, 1.0),
            _ => {
                let tail = 0.5 * (-z.abs() * 2f64.sqrt()).exp();
                if z > 0.0 { 1.0 - tail } else { tail }
            }
        };
        z.sort_by(f64::total_cmp);
        let distance = |(i, &z): (usize, &f64)| (cdf(z) - (i as f64 + 0.5) / count).abs();
        let distance = z.iter().enumerate().map(distance).fold(0.0, f64::max);
        let limit = (2e9_f64.ln() / (2.0 * count)).sqrt();
        assert!(distance < limit, "{distribution:?}: {distance}");
    }
}

#[test]
fn an_element_depends_on_key_and_index_alone() {
    for isa in Isa::available() {
        let long = draw(isa, KEY, 100);
        for len in 0..100 {
            assert_eq!(draw(isa, KEY, len), long[..len], "{isa}");
        }
        for other in [
            NoiseKey { seed: 1, ..KEY },
            NoiseKey {
                seed: KEY.seed ^ 1 << 40,
                ..KEY
            },
            NoiseKey {
                purpose: Purpose::Selection,
                ..KEY
            },
            NoiseKey { image: 1, ..KEY },
            NoiseKey { sample: 1, ..KEY },
        ] {
            let shared = draw(isa, other, 100)
                .iter()
                .zip(&long)
                .filter(|(a, b)| a == b)
                .count();
            assert_eq!(shared, 0, "{isa} {other:?}");
        }
    }
}

/// `Phi`, by its series around 0 (|x| < 6).
fn normal_cdf(x: f64) -> f64 {
    let (mut term, mut sum, mut k) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() && k < 1000.0 {
        term *= x * x / (2.0 * k + 1.0);
        sum += term;
        k += 1.0;
    }
    0.5 + sum * (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Moments, tails and the Kolmogorov-Smirnov distance of 2^20 numbers. The
/// limits are six standard errors, for the distance its 1e-9 quantile.
#[test]
fn is_standard_normal() {
    let n = 1 << 20;
    let mut z: Vec<f64> = draw(Isa::detect(), KEY, n)
        .into_iter()
        .map(f64::from)
        .collect();
    let count = n as f64;
    let moment = |p: i32| z.iter().map(|z| z.powi(p)).sum::<f64>() / count;
    // Variances of z, z^2, z^3, z^4: 1, 2, 15, 96.
    for (p, mean, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
        let limit = 6.0 * (variance / count).sqrt();
        assert!(
            (moment(p) - mean).abs() < limit,
            "moment {p}: {}",
            moment(p)
        );
    }
    let neighbours = z.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / count;
    assert!(neighbours.abs() < 6.0 / count.sqrt());
    for bound in [2.0, 3.0, 4.0] {
        let p = 2.0 * (1.0 - normal_cdf(bound));
        let seen = z.iter().filter(|z| z.abs() > bound).count() as f64;
        assert!(
            (seen - count * p).abs() < 6.0 * (count * p).sqrt() + 1.0,
            "{bound}: {seen}"
        );
    }
    z.sort_by(f64::total_cmp);
    let distance = z
        .iter()
        .enumerate()
        .map(|(i, &z)| (normal_cdf(z) - (i as f64 + 0.5) / count).abs())
        .fold(0.0, f64::max);
    // 2 exp(-2 n d^2) = 1e-9.
    assert!(
        distance < (2e9_f64.ln() / (2.0 * count)).sqrt(),
        "{distance}"
    );
}
