//! Intervals of real values against functions whose smoothed range is known.

use std::ops::ControlFlow;

use heatsmooth_certify::statistics::{
    binomial_upper_tail, normal_cdf, normal_quantile, quantile_rank,
};
use heatsmooth_certify::{
    CertifiedInterval, CertifyError, IntervalParams, IntervalPlan, Smoothing, interval_all,
    lipschitz,
};
use network::{Classify, Images};
use proptest::prelude::*;

use crate::common::{Function, gaussian, image, linear, pixels};

fn plan(sigma: f64, eps: f64, n: u32, alpha: f64, seed: u64) -> IntervalPlan {
    let params = IntervalParams {
        eps: Some(eps),
        ..IntervalParams::default()
    };
    params.plan(gaussian(sigma), (n, alpha), seed).unwrap()
}

fn intervals(
    model: &impl Classify,
    images: impl IntoIterator<Item = Images>,
    plan: &IntervalPlan,
) -> Result<Vec<Vec<CertifiedInterval>>, CertifyError> {
    let mut found = Vec::new();
    interval_all(
        model,
        images,
        plan,
        512,
        &mut |outcome: heatsmooth_certify::IntervalOutcome| {
            found.push(outcome.outputs);
            ControlFlow::Continue(())
        },
    )?;
    Ok(found)
}

/// A linear function of noise is Gaussian, and its smoothed median moves by exactly
/// `eps * ||w||` both ways. What order statistics of this rank give on average is within
/// 5 % from 1.03 to 2.03 sigma; at 1 sigma it is 5.1 %, and no rank closer to the quantile
/// has level alpha.
#[test]
fn a_linear_function_is_certified_within_five_percent() {
    let sigma = 0.25;
    let weights: Vec<f32> = pixels(3, 64).iter().map(|w| 4.0 * w - 2.0).collect();
    let norm = weights
        .iter()
        .map(|&w| f64::from(w).powi(2))
        .sum::<f64>()
        .sqrt();
    let model = linear(vec![weights.clone()], vec![-1.5]);
    for (ratio, most) in [(1.0, 1.0515), (1.1, 1.05), (1.5, 1.05), (2.0, 1.05)] {
        let eps = ratio * sigma;
        let rank = quantile_rank(10_000, normal_cdf(-ratio), 0.0005);
        let expected = -normal_quantile(rank as f64 / 10_001.0) / ratio;
        assert!(expected <= most, "eps = {ratio} sigma: {expected}");
        let plan = plan(sigma, eps, 10_000, 0.001, 5);
        let images = (0..12).map(|index| image(index, 0, &pixels(100 + u64::from(index), 64)));
        let found = intervals(&model, images, &plan).unwrap();
        let mut widths = 0.0;
        for own in found.iter().map(|outputs| outputs[0]) {
            let exact = [own.value - eps * norm, own.value + eps * norm];
            assert!(
                own.lower <= exact[0] && own.upper >= exact[1],
                "{own:?} {exact:?}"
            );
            assert!((own.centre - own.value).abs() < 0.1 * sigma * norm);
            widths += (own.upper - own.lower) / (2.0 * eps * norm) / found.len() as f64;
        }
        println!("eps = {ratio} sigma: {widths:.4} of the exact width");
        // Three standard errors of twelve images.
        let off = (widths - expected).abs();
        assert!(off < 0.01, "eps = {ratio} sigma: {widths}, not {expected}");
    }
}

/// Both ends together fail on no more than alpha of the images, and the bound is not
/// far from that: it is exact for continuous outputs.
#[test]
fn intervals_fail_as_often_as_they_may() {
    let (sigma, eps, n, alpha, images) = (0.5, 0.5, 200, 0.05, 40_000u32);
    let model = linear(vec![vec![1.0]], vec![0.0]);
    let plan = plan(sigma, eps, n, alpha, 11);
    let all = (0..images).map(|index| image(index, 0, &[0.5]));
    let found = intervals(&model, all, &plan).unwrap();
    let fails = |own: &CertifiedInterval| own.lower > 0.5 - eps || own.upper < 0.5 + eps;
    let failed = found.iter().filter(|outputs| fails(&outputs[0])).count() as u64;
    // What order statistics of this rank fail with, exactly.
    let q = normal_cdf(-eps / sigma);
    let rank = quantile_rank(n.into(), q, alpha / 2.0);
    let rate = 2.0 * binomial_upper_tail(u64::from(n) - rank + 1, n.into(), 1.0 - q);
    assert!(rate <= alpha && rate > 0.6 * alpha, "{rate}");
    println!("{failed} of {images} failed; alpha {alpha}, exactly {rate}");
    assert!(
        binomial_upper_tail(failed, images.into(), rate) > 1e-9,
        "{failed}"
    );
    let fewer = binomial_upper_tail(u64::from(images) - failed, images.into(), 1.0 - rate);
    assert!(fewer > 1e-9, "{failed}");
}

/// Two outputs, one of them far from continuous: all ends together keep alpha.
#[test]
fn several_outputs_share_alpha() {
    let (sigma, eps, n, alpha, images) = (0.5, 0.25, 100, 0.1, 20_000u32);
    let model = Function {
        pixels: 1,
        classes: 2,
        logits: |x: &[f32], out: &mut [f32]| {
            out[0] = -x[0];
            out[1] = if x[0] > 0.4 { 1.0 } else { 0.0 };
        },
    };
    let plan = plan(sigma, eps, n, alpha, 2);
    let all = (0..images).map(|index| image(index, 0, &[0.5]));
    let found = intervals(&model, all, &plan).unwrap();
    // Medians within eps: -0.75 to -0.25, and 0 or 1 on both sides of 0.4.
    let fails = |own: &[CertifiedInterval]| {
        own[0].lower > -0.75 || own[0].upper < -0.25 || own[1].lower > 0.0 || own[1].upper < 1.0
    };
    let failed = found.iter().filter(|own| fails(own)).count() as u64;
    assert!(
        binomial_upper_tail(failed, images.into(), alpha) > 1e-9,
        "{failed}"
    );
    assert!(failed > 0, "alpha is never used");
}

/// `(z - c)^2` under noise: `P(<= y) = Phi((c + sqrt y - x)/sigma) - Phi((c - sqrt y - x)/sigma)`.
#[test]
fn a_quadratic_function_stays_in_its_interval() {
    let (sigma, eps, c) = (0.2, 0.3, 0.4f64);
    let model = Function {
        pixels: 1,
        classes: 1,
        logits: |x: &[f32], out: &mut [f32]| out[0] = (x[0] - 0.4) * (x[0] - 0.4),
    };
    let quantile = |x: f64, q: f64| {
        let (mut low, mut high) = (0.0, 9.0);
        for _ in 0..80 {
            let y: f64 = 0.5 * (low + high);
            let p = normal_cdf((c + y.sqrt() - x) / sigma) - normal_cdf((c - y.sqrt() - x) / sigma);
            if p < q { low = y } else { high = y }
        }
        0.5 * (low + high)
    };
    for (index, x) in [0.0, 0.25, 0.4, 0.7, 1.0].into_iter().enumerate() {
        for seed in 0..4 {
            let plan = plan(sigma, eps, 10_000, 0.001, seed);
            let one = image(index as u32, 0, &[x as f32]);
            let own = intervals(&model, [one], &plan).unwrap()[0][0];
            // The medians of all perturbed images, and the quantiles that bound them.
            let moved =
                (0..=200).map(|k| quantile(x - eps + 2.0 * eps * f64::from(k) / 200.0, 0.5));
            let (least, most) = moved.fold((f64::MAX, 0.0f64), |(l, m), y| (l.min(y), m.max(y)));
            assert!(
                own.lower <= least && most <= own.upper,
                "{x}: {own:?} {least} {most}"
            );
            let q = normal_cdf(-eps / sigma);
            let exact = [quantile(x, q), quantile(x, 1.0 - q)];
            let width = exact[1] - exact[0];
            assert!(
                (own.upper - own.lower) / width < 1.15,
                "{x}: {own:?} {exact:?}"
            );
        }
    }
}

/// The mean of a step is Phi, which the probit bound follows exactly; the Lipschitz
/// constant is looser.
#[test]
fn the_mean_of_a_step_moves_along_phi() {
    let (sigma, eps) = (0.3, 0.2);
    let model = Function {
        pixels: 1,
        classes: 1,
        logits: |x: &[f32], out: &mut [f32]| out[0] = if x[0] > 0.35 { 90.0 } else { -90.0 },
    };
    let params = IntervalParams {
        eps: Some(eps),
        low: Some(-1.0),
        high: Some(3.0),
    };
    for seed in 0..6 {
        let plan = params.plan(gaussian(sigma), (10_000, 0.001), seed).unwrap();
        let own = intervals(&model, [image(0, 0, &[0.5])], &plan).unwrap()[0][0];
        let mean = |x: f64| -1.0 + 4.0 * normal_cdf((x - 0.35) / sigma);
        let exact = [mean(0.5 - eps), mean(0.5 + eps)];
        assert!(
            own.lower <= exact[0] && exact[1] <= own.upper,
            "{own:?} {exact:?}"
        );
        assert!(
            own.upper - own.lower < 1.1 * (exact[1] - exact[0]),
            "{own:?} {exact:?}"
        );
        let far = lipschitz(sigma, -1.0, 3.0) * eps;
        assert!(exact[0] > mean(0.5) - far && exact[1] < mean(0.5) + far);
        assert!((own.centre - mean(0.5)).abs() < 0.1);
    }
    assert!(plan_is_refused(
        IntervalParams {
            low: None,
            ..params.clone()
        },
        "low"
    ));
    assert!(plan_is_refused(
        IntervalParams {
            high: Some(-2.0),
            ..params
        },
        "low"
    ));
}

fn plan_is_refused(params: IntervalParams, name: &str) -> bool {
    let refused = params.plan(gaussian(0.5), (100, 0.001), 0);
    refused.is_err_and(|error| error.name() == name)
}

/// Exact noise on the grid gives what float noise gives, and its own words.
#[test]
fn exact_noise_certifies_the_same_intervals() {
    let model = linear(vec![vec![1.0, -2.0, 0.5]], vec![0.0]);
    let float = plan(0.25, 0.25, 4000, 0.001, 7);
    let exact = IntervalPlan {
        smoothing: Smoothing::exact(0.25, 255).unwrap(),
        ..float.clone()
    };
    let one = || image(0, 0, &[51.0 / 255.0, 1.0, 0.0]);
    let [a, b] = [&float, &exact].map(|plan| intervals(&model, [one()], plan).unwrap()[0][0]);
    assert!(
        ((b.upper - b.lower) / (a.upper - a.lower) - 1.0).abs() < 0.06,
        "{a:?} {b:?}"
    );
    assert!(
        exact
            .guarantee()
            .to_string()
            .contains("proven for what is computed")
    );
    let off = intervals(&model, [image(0, 0, &[0.3, 0.1, 0.0])], &exact);
    assert!(matches!(off, Err(CertifyError::OffGrid { .. })));
}

#[test]
fn nonsense_is_refused() {
    let model = linear(vec![vec![1.0]], vec![0.0]);
    let refused = |plan: IntervalPlan| {
        let error = plan.check(&model).unwrap_err();
        assert!(error.hint().is_some() || !error.to_string().is_empty());
        error.to_string()
    };
    let usual = plan(0.25, 0.25, 1000, 0.001, 0);
    assert!(
        refused(IntervalPlan {
            eps: 0.0,
            ..usual.clone()
        })
        .contains("eps")
    );
    assert!(
        refused(IntervalPlan {
            eps: f64::NAN,
            ..usual.clone()
        })
        .contains("eps")
    );
    assert!(
        refused(IntervalPlan {
            alpha: 1.0,
            ..usual.clone()
        })
        .contains("alpha")
    );
    assert!(
        refused(IntervalPlan {
            n: 0,
            ..usual.clone()
        })
        .contains("n is")
    );
    // The smallest of n draws must be below the quantile with confidence.
    let few = refused(IntervalPlan {
        eps: 0.75,
        n: 1000,
        ..usual.clone()
    });
    let needed = (0.0005f64.ln() / (1.0 - normal_cdf(-3.0)).ln()).ceil();
    assert!(few.contains(&format!("{needed} are needed")), "{few}");
    let enough = IntervalPlan {
        eps: 0.75,
        n: needed as u32,
        ..usual.clone()
    };
    assert!(enough.check(&model).is_ok());
    let model = Function {
        pixels: 1,
        classes: 1,
        logits: |_: &[f32], out: &mut [f32]| out[0] = f32::NAN,
    };
    let output = intervals(&model, [image(0, 0, &[0.5])], &usual);
    assert!(matches!(output, Err(CertifyError::Output { image: 0 })));
}

/// SciPy: `int(scipy.stats.binom.ppf(alpha, n, q))` for these (n, q, alpha).
#[test]
fn ranks_agree_with_scipy() {
    for (n, q, alpha, rank) in RANKS {
        assert_eq!(quantile_rank(n, q, alpha), rank, "{n} {q} {alpha}");
    }
    assert_eq!(quantile_rank(10, 0.0, 0.5), 0);
    assert_eq!(quantile_rank(10, 1.0, 0.01), 10);
    assert!((normal_quantile(0.15865525393145707) + 1.0).abs() < 1e-12);
}

proptest! {
    #[test]
    fn a_rank_is_the_largest_that_fails_rarely(n in 1u64..2000, q in 0.0f64..1.0, alpha in 1e-6f64..0.5) {
        let rank = quantile_rank(n, q, alpha);
        let fails = |i: u64| binomial_upper_tail(n - i + 1, n, 1.0 - q);
        prop_assert!(rank == 0 || fails(rank) <= alpha);
        prop_assert!(rank == n || fails(rank + 1) > alpha);
    }
}

const RANKS: [(u64, f64, f64, u64); 10] = [
    (10, 0.5, 0.05, 2),
    (100, 0.1, 0.025, 5),
    (1000, 0.15865525393145707, 0.0005, 122),
    (10000, 0.15865525393145707, 0.0005, 1467),
    (10000, 0.06680720126885807, 0.0005, 587),
    (10000, 0.02275013194817921, 0.0005, 180),
    (100000, 0.0013498980316300933, 0.0005, 98),
    (100000, 0.460172162722971, 1e-06, 45268),
    (1000000, 0.3, 1e-09, 297254),
    (50, 0.01, 0.01, 0),
];
