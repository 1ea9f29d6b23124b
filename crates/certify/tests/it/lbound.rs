//! The L-bound against its formula, quadrature, and exact distances.

use std::f64::consts::FRAC_PI_2;
use std::ops::ControlFlow;

use heatsmooth_certify::statistics::normal_cdf;
use heatsmooth_certify::{Bound, LBound, LBoundSummary, lbound_all};
use network::{Classify, Images};

use crate::common::{Function, gaussian, image, linear, threshold};

fn bounds(
    model: &impl Classify,
    images: impl IntoIterator<Item = Images>,
    plan: &LBound,
    batch: usize,
) -> Vec<Bound> {
    let mut bounds = Vec::new();
    lbound_all(model, images, plan, batch, &mut |bound| {
        bounds.push(bound);
        ControlFlow::Continue(())
    })
    .unwrap();
    bounds
}

/// A model whose logits are ln of the pixels, so that softmax gives the pixels back
/// where they sum to 1.
fn logarithms() -> impl Classify {
    Function {
        pixels: 4,
        classes: 4,
        logits: |x: &[f32], l: &mut [f32]| {
            for (l, x) in l.iter_mut().zip(x) {
                *l = x.ln();
            }
        },
    }
}

#[test]
fn the_deterministic_bound_is_the_formula() {
    let p = [0.125, 0.5, 0.0625, 0.3125];
    let of = |label, top_k| {
        let plan = LBound {
            top_k,
            ..LBound::new(gaussian(0.25))
        };
        bounds(&logarithms(), [image(0, label, &p)], &plan, 16).remove(0)
    };
    let scale = 0.25 * FRAC_PI_2.sqrt();
    for (label, top_k, p_label, p_other, correct) in [
        (1, 1, 0.5, 0.3125, true),
        (3, 1, 0.3125, 0.5, false),
        (1, 2, 0.5, 0.125, true),
        (3, 2, 0.3125, 0.125, true),
        (0, 2, 0.125, 0.3125, false),
        (0, 3, 0.125, 0.0625, true),
    ] {
        let bound = of(label, top_k);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-7;
        assert!(
            close(bound.p_label, p_label) && close(bound.p_other, p_other),
            "{bound:?}"
        );
        assert!(
            close(bound.radius, scale * (p_label - p_other)),
            "{bound:?}"
        );
        assert_eq!(
            (bound.correct, bound.predict, bound.label),
            (correct, 1, label)
        );
    }
}

/// softmax of a steep linear model is a step, its Gaussian average Phi(d/sigma), and
/// the bound of that is below the exact distance d.
#[test]
fn the_averaged_bound_of_a_step_is_below_the_distance() {
    let steep = linear(vec![vec![0.0], vec![1e4]], vec![0.0, -5e3]);
    let plan = LBound {
        samples: 20_000,
        ..LBound::new(gaussian(0.2))
    };
    let distances: Vec<f64> = (1..10).map(|i| 0.05 * f64::from(i)).collect();
    let images = distances
        .iter()
        .enumerate()
        .map(|(i, d)| image(i as u32, 1, &[(0.5 + d) as f32]));
    for (bound, distance) in bounds(&steep, images, &plan, 3000).iter().zip(&distances) {
        let p = normal_cdf(distance / plan.smoothing.sigma());
        // Six standard errors.
        let error = 6.0 * (p * (1.0 - p) / f64::from(plan.samples)).sqrt();
        assert!((bound.p_label - p).abs() < error, "{bound:?}, p = {p}");
        assert!(bound.radius < *distance, "{bound:?}");
        // The probit bound is the distance itself, up to the error of p.
        let slope = (-0.5 * (distance / 0.2).powi(2)).exp() / std::f64::consts::TAU.sqrt();
        let close = 0.2 * error / slope * 1.5;
        assert!((bound.probit - distance).abs() < close, "{bound:?} {close}");
        assert!(bound.probit > bound.radius);
        assert!(bound.radius > 0.0 && bound.correct);
    }
}

/// Phi^-1 of probabilities near 0 and 1, from SciPy's `norm.ppf` and `norm.isf`.
#[test]
fn the_probit_bound_keeps_its_digits_near_certainty() {
    // softmax(0, z): p_0 = 1/(1 + e^z)
    for (z, quantile) in [
        (1.0_f32, 0.616_017_692_672_450_5),
        (5.0, 2.473_339_222_797_829_3),
        (30.0, 7.357_666_815_008_763),
        (60.0, 10.649_592_384_805_446),
    ] {
        let two = linear(vec![vec![0.0], vec![0.0]], vec![0.0, z]);
        let plan = LBound::new(gaussian(0.25));
        for (label, sign) in [(1, 1.0), (0, -1.0)] {
            let found = bounds(&two, [image(0, label, &[0.5])], &plan, 8)[0].probit;
            let want = sign * 0.25 * quantile;
            assert!((found / want - 1.0).abs() < 1e-9, "{z}: {found} {want}");
        }
    }
}

#[test]
fn the_average_does_not_depend_on_the_batch() {
    let plan = LBound {
        samples: 37,
        ..LBound::new(gaussian(0.2))
    };
    let images = || (0..20).map(|i| image(i, 1, &[i as f32 / 20.0]));
    let timeless = |bounds: Vec<Bound>| -> Vec<Bound> {
        bounds
            .into_iter()
            .map(|bound| Bound {
                seconds: 0.0,
                ..bound
            })
            .collect()
    };
    let expected = timeless(bounds(&threshold(0.5), images(), &plan, 1000));
    for batch in [1, 10, 64] {
        assert_eq!(
            timeless(bounds(&threshold(0.5), images(), &plan, batch)),
            expected
        );
    }
}

#[test]
fn the_summary_gives_the_papers_figure_and_the_one_over_all_images() {
    let summary = LBoundSummary::of([0.4, -0.3, 0.1, 0.2, 0.0, 0.5]);
    assert_eq!((summary.positive_images, summary.images), (4, 6));
    let (positive, all) = (summary.positive.unwrap(), summary.all.unwrap());
    assert!((positive.median - 0.3).abs() < 1e-15 && (positive.mean - 0.3).abs() < 1e-15);
    assert!((all.median - 0.15).abs() < 1e-15 && (all.mean - 0.2).abs() < 1e-15);
    assert_eq!(LBoundSummary::of([]).all, None);
    assert_eq!(LBoundSummary::of([-1.0]).positive, None);
}

#[test]
fn plans_that_make_no_sense_are_refused() {
    let ten_classes = linear(vec![vec![0.0]; 10], vec![0.0; 10]);
    LBound {
        top_k: 10,
        ..LBound::new(gaussian(0.1))
    }
    .check(&ten_classes)
    .unwrap_err();
    LBound {
        top_k: 0,
        ..LBound::new(gaussian(0.1))
    }
    .check(&ten_classes)
    .unwrap_err();
}
