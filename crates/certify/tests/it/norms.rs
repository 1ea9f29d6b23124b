//! Every noise, norm and mode against linear classifiers, whose distances are known.

use heatsmooth_certify::{Certify, Evidence, Select, Sides, Smoothing, StopRule, TopKRule};
use network::{Classify, Distribution};
use record::Norm;

use crate::common::{certify, image, linear, pixels};

/// Numbers of an image.
const PIXELS: usize = 4;
const LEVELS: u32 = 255;
const SIGMA: f64 = 0.25;
const NORMS: [Norm; 3] = [Norm::L1, Norm::L2, Norm::Linf];
const NOISES: [Distribution; 3] = [
    Distribution::Gaussian,
    Distribution::Uniform,
    Distribution::Laplace,
];

/// `w . (x - c)`, class 1 where it is positive. Under noise that is symmetric around 0
/// the smoothed classifier has the same boundary: for noise in single precision
/// because `w . eta` has its median at 0; for noise on the grid at c, because
/// rounding is symmetric around c, half a step off the grid in every pixel.
struct Oracle {
    w: Vec<f64>,
    c: Vec<f64>,
}

impl Oracle {
    fn new(seed: u64) -> Self {
        // Along an axis, with equal weights, or any.
        let drawn = pixels(1000 + seed, 2 * PIXELS);
        let weight = |i: usize| match seed % 3 {
            0 => f64::from(u8::from(i == seed as usize % PIXELS)),
            1 => [1.0, -1.0][(seed as usize >> i) % 2],
            _ => f64::from(drawn[i]) - 0.5,
        };
        let half = |x: f32| ((f64::from(x) * 127.0 + 64.0).floor() + 0.5) / f64::from(LEVELS);
        Self {
            w: (0..PIXELS).map(weight).collect(),
            c: drawn[PIXELS..].iter().map(|&x| half(x)).collect(),
        }
    }

    fn margin(&self, x: &[f32]) -> f64 {
        let terms = x.iter().zip(&self.c).zip(&self.w);
        terms.map(|((x, c), w)| w * (f64::from(*x) - c)).sum()
    }

    /// The exact distance to the boundary: the margin by the dual norm of w.
    fn distance(&self, x: &[f32], norm: Norm) -> f64 {
        let sizes = self.w.iter().map(|w| w.abs());
        let dual = match norm {
            Norm::L1 => sizes.fold(0.0, f64::max),
            Norm::L2 => sizes.map(|w| w * w).sum::<f64>().sqrt(),
            Norm::Linf => sizes.sum(),
        };
        self.margin(x).abs() / dual
    }

    /// With noise on the grid the classifier is rounded, and its boundary known only
    /// where it is a threshold of one pixel; else at c.
    fn farthest(&self, x: &[f32], norm: Norm, on_grid: bool) -> f64 {
        let one_pixel = self.w.iter().filter(|w| **w != 0.0).count() == 1;
        if one_pixel || !on_grid {
            return self.distance(x, norm);
        }
        let steps = x
            .iter()
            .zip(&self.c)
            .map(|(x, c)| (f64::from(*x) - c).abs());
        match norm {
            Norm::L1 => steps.sum(),
            Norm::L2 => steps.map(|s| s * s).sum::<f64>().sqrt(),
            Norm::Linf => steps.fold(0.0, f64::max),
        }
    }

    /// Logits 0 and 40 times the margin, and a third class that is never chosen, or,
    /// for certificates about the top 2, always.
    fn model(&self, third: f32) -> impl Classify + use<> {
        let steep: Vec<f32> = self.w.iter().map(|w| 40.0 * *w as f32).collect();
        let middle: f64 = self.w.iter().zip(&self.c).map(|(w, c)| 40.0 * w * c).sum();
        let zeros = vec![0.0; PIXELS];
        linear(
            vec![zeros.clone(), steep, zeros],
            vec![0.0, -middle as f32, third],
        )
    }
}

/// The ways to certify.
fn modes(plan: &Certify) -> Vec<(&'static str, Certify)> {
    let clean = Certify {
        select: Select::Clean,
        ..plan.clone()
    };
    vec![
        ("votes", plan.clone()),
        ("clean", clean.clone()),
        (
            "both sides",
            Certify {
                sides: Sides::Both,
                ..clean.clone()
            },
        ),
        (
            "mean softmax",
            Certify {
                evidence: Evidence::MeanSoftmax,
                sides: Sides::Both,
                ..clean.clone()
            },
        ),
        (
            "anytime",
            Certify {
                anytime: Some(StopRule::Tolerance(0.05 * plan.smoothing.scale())),
                ..clean.clone()
            },
        ),
        (
            "anytime radius",
            Certify {
                anytime: Some(StopRule::Radius(0.2 * plan.smoothing.scale())),
                ..clean.clone()
            },
        ),
        (
            "label in top 2",
            Certify {
                top_k: 2,
                rule: TopKRule::Sound,
                ..clean
            },
        ),
    ]
}

/// Alpha is so small that of all certificates of this test not one may be wrong.
#[test]
fn no_certificate_is_above_the_exact_distance_in_any_norm_noise_or_mode() {
    let (mut certified, mut tightest) = (0, std::collections::BTreeMap::<String, f64>::new());
    for seed in 0..18 {
        let oracle = Oracle::new(seed);
        let on_grid = |x: &f32| (x * LEVELS as f32).round() / LEVELS as f32;
        let all: Vec<Vec<f32>> = (0..8)
            .map(|i| pixels(50 * seed + i, PIXELS).iter().map(on_grid).collect())
            .collect();
        for (noise, levels) in NOISES.iter().flat_map(|n| [(*n, None), (*n, Some(LEVELS))]) {
            for norm in NORMS {
                let smoothing = Smoothing::with(noise, SIGMA, levels).unwrap();
                let plan = Certify {
                    n0: 20,
                    n: 400,
                    alpha: 1e-6,
                    seed,
                    ..Certify::new(smoothing.in_norm(norm, PIXELS))
                };
                for (name, plan) in modes(&plan) {
                    let label = |x: &[f32]| usize::from(oracle.margin(x) > 0.0);
                    // The label's class, in the top 2 or not, is class 1.
                    let top_two = plan.top_k == 2;
                    let model = oracle.model(if top_two { 1e4 } else { -1e4 });
                    let used: Vec<&Vec<f32>> =
                        all.iter().filter(|x| !top_two || label(x) == 1).collect();
                    let images = used.iter().enumerate();
                    let images = images.map(|(i, x)| image(i as u32, label(x), x));
                    for (outcome, x) in certify(&model, images, &plan, 1000)
                        .unwrap()
                        .iter()
                        .zip(&used)
                    {
                        let found = &outcome.certificate;
                        let Some(class) = found.predict else { continue };
                        let distance = oracle.farthest(x, norm, levels.is_some());
                        let case = format!("{noise:?} {levels:?} {norm} {name}, seed {seed}");
                        assert_eq!(class, label(x), "{case}");
                        assert!(
                            found.radius <= distance,
                            "{case}: {} > {distance}",
                            found.radius
                        );
                        certified += 1;
                        let ratio = found.radius / oracle.distance(x, norm);
                        let best = tightest.entry(format!("{noise:?} {norm}")).or_default();
                        *best = best.max(ratio);
                    }
                }
            }
        }
    }
    println!("{certified} certificates; largest share of the distance: {tightest:?}");
    assert!(certified > 5000, "{certified}");
    // Where a theorem is tight for a linear classifier, radii come near the distance.
    for tight in [
        "Gaussian L1",
        "Gaussian L2",
        "Gaussian Linf",
        "Uniform L1",
        "Laplace L1",
    ] {
        assert!(tightest[tight] > 0.6, "{tight}: {}", tightest[tight]);
    }
}

#[test]
fn many_samples_bring_an_l1_radius_near_the_distance() {
    let oracle = Oracle::new(0);
    let model = oracle.model(-1e4);
    let mut x: Vec<f32> = oracle.c.iter().map(|c| *c as f32).collect();
    x[0] += 0.2;
    for noise in [Distribution::Uniform, Distribution::Laplace] {
        let plan = Certify {
            n: 40_000,
            select: Select::Clean,
            ..Certify::new(Smoothing::with(noise, SIGMA, None).unwrap())
        };
        assert_eq!(plan.smoothing.norm(), Norm::L1);
        let found = certify(&model, [image(0, 1, &x)], &plan, 4096).unwrap();
        let radius = found[0].certificate.radius;
        assert!(0.19 < radius && radius < 0.2, "{noise:?}: {radius}");
        // The comparators are certificates for Gaussian noise.
        assert!(found[0].certificate.lecuyer.is_nan());
    }
}
