//! Exact noise: what floating point makes of certificates, and what it does not.

use std::ops::ControlFlow;

use heatsmooth_certify::statistics::{binomial_upper_tail, normal_cdf};
use heatsmooth_certify::{
    Certify, CertifyError, NoiseChoice, Predict, Prediction, Select, Smoothing, predict_all,
};
use network::Classify;

use crate::common::{Function, certify, gaussian, image, pixels, threshold};

const PIXELS: usize = 256;
const SIGMA: f64 = 0.3;
/// The clean pixel, just above 1/4: floats below are twice as fine.
const GREY: f32 = 64.0 / 255.0;

/// Whether `GREY + SIGMA z`, in single precision, is `y` for some float z.
fn reachable(y: f32) -> bool {
    let sigma = SIGMA as f32;
    let z = ((f64::from(y) - f64::from(GREY)) / f64::from(sigma)) as f32;
    let near = [z, z.next_up(), z.next_down()];
    near.iter()
        .any(|z| sigma.mul_add(*z, GREY) == y || sigma * z + GREY == y)
}

/// A classifier that looks at rounding, after Voracek and Hein (ICLR 2023): class 0
/// if every pixel near 0, where floats are finer than the noise is, can come from
/// grey.
fn looks_at_rounding() -> impl Classify {
    Function {
        pixels: PIXELS,
        classes: 2,
        logits: |x: &[f32], logits: &mut [f32]| {
            let mut small = x.iter().filter(|y| y.abs() < 0.0625);
            let grey = small.all(|y| reachable(*y));
            logits.copy_from_slice(if grey { &[1.0, 0.0] } else { &[0.0, 1.0] });
        },
    }
}

/// The certificate of a grey image, and the smoothed classifier's class for every
/// pixel one step darker.
fn certified_and_moved(smoothing: Smoothing) -> (Option<usize>, f64, Option<usize>) {
    let model = looks_at_rounding();
    let plan = Certify {
        n: 1000,
        ..Certify::new(smoothing.clone())
    };
    let outcomes = certify(&model, [image(0, 0, &[GREY; PIXELS])], &plan, 256).unwrap();
    let certificate = &outcomes[0].certificate;
    let mut class = None;
    let moved = image(1, 0, &[63.0 / 255.0; PIXELS]);
    predict_all(
        &model,
        [moved],
        &Predict::new(smoothing),
        256,
        &mut |vote: Prediction| {
            class = vote.predict;
            ControlFlow::Continue(())
        },
    )
    .unwrap();
    (certificate.predict, certificate.radius, class)
}

#[test]
fn a_classifier_that_looks_at_rounding_gets_a_false_certificate_from_float_noise_only() {
    let distance = (PIXELS as f64).sqrt() / 255.0;
    let (class, radius, moved) = certified_and_moved(gaussian(SIGMA));
    println!("float: class {class:?}, radius {radius}, at {distance}: {moved:?}");
    // Certified nearly ten times as far as the smoothed classifier changes.
    assert_eq!((class, moved), (Some(0), Some(1)));
    assert!(radius > 9.0 * distance, "{radius}");

    let (class, radius, moved) = certified_and_moved(Smoothing::exact(SIGMA, 255).unwrap());
    println!("exact: class {class:?}, radius {radius}, at {distance}: {moved:?}");
    assert!(radius > distance && class.is_some(), "{class:?} {radius}");
    assert_eq!(class, moved);
}

/// The probability of a threshold on the grid is a sum of exact probabilities.
#[test]
fn counts_agree_with_the_law_on_the_grid() {
    let boundary = 0.6;
    let model = threshold(boundary);
    for levels in [255_u32, 16] {
        let plan = Certify {
            n: 20_000,
            select: Select::Clean,
            ..Certify::new(Smoothing::exact(SIGMA, levels).unwrap())
        };
        let all: Vec<f32> = (0..=levels)
            .step_by(levels as usize / 15)
            .map(|k| k as f32 / levels as f32)
            .collect();
        let images = (0..).zip(&all).map(|(i, x)| image(i, 0, &[*x]));
        let outcomes = certify(&model, images, &plan, 4096).unwrap();
        for (outcome, x) in outcomes.iter().zip(&all) {
            // The first grid point above the boundary starts half a step before.
            let step = (f64::from(boundary) * f64::from(levels)).floor() + 0.5;
            let p_one = normal_cdf((f64::from(*x) - step / f64::from(levels)) / SIGMA);
            let p = if outcome.clean == 1 {
                p_one
            } else {
                1.0 - p_one
            };
            let (hits, n) = (outcome.certificate.n_a.into(), plan.n.into());
            assert!(
                binomial_upper_tail(hits, n, p) > 1e-9,
                "{x}: {hits} for {p}"
            );
            assert!(
                binomial_upper_tail(n - hits, n, 1.0 - p) > 1e-9,
                "{x}: {hits}"
            );
        }
    }
}

#[test]
fn what_the_draw_may_be_off_is_taken_off_the_bound() {
    let model = threshold(0.5);
    let certified = |smoothing| {
        let plan = Certify {
            select: Select::Clean,
            ..Certify::new(smoothing)
        };
        let outcomes = certify(&model, [image(0, 1, &[1.0])], &plan, 4096).unwrap();
        outcomes[0].certificate.clone()
    };
    let exact = Smoothing::exact(0.08, 255).unwrap();
    let loss = exact.total_variation(1);
    assert!(0.0 < loss && loss < 1e-12, "{loss}");
    assert_eq!(exact.total_variation(3072), 3072.0 * loss);
    let (float, exact) = (certified(gaussian(0.08)), certified(exact));
    assert_eq!((float.n_a, exact.n_a), (10_000, 10_000));
    assert_eq!(exact.p_lower, float.p_lower - loss);
    assert!(exact.radius < float.radius);
}

#[test]
fn images_off_the_grid_are_refused() {
    let model = threshold(0.5);
    let exact = Smoothing::exact(SIGMA, 255).unwrap();
    let plan = Certify::new(exact.clone());
    let error = certify(&model, [image(7, 0, &[0.5])], &plan, 64).unwrap_err();
    assert_eq!(
        error.to_string(),
        "image 7 has the value 0.5 at position 0, not a multiple of 1/255"
    );
    assert!(error.hint().unwrap().contains("float"));
    for byte in 0..=255_u8 {
        let pixel = f32::from(byte) / 255.0;
        certify(
            &model,
            [image(7, 0, &[pixel])],
            &Certify {
                n0: 1,
                n: 10,
                ..plan.clone()
            },
            64,
        )
        .unwrap();
    }
    let off = pixels(3, 1);
    let vote = predict_all(
        &model,
        [image(1, 0, &off)],
        &Predict::new(exact),
        64,
        &mut |_| ControlFlow::Continue(()),
    );
    assert!(matches!(vote, Err(CertifyError::OffGrid { .. })));
}

#[test]
fn noise_is_exact_wherever_it_can_be_unless_chosen() {
    let chosen = |choice, levels| Smoothing::chosen(choice, SIGMA, levels);
    let exact = Smoothing::exact(SIGMA, 16).unwrap();
    assert_eq!(chosen(None, Some(16)).unwrap(), exact);
    assert_eq!(chosen(Some(NoiseChoice::Exact), Some(16)).unwrap(), exact);
    assert_eq!(chosen(None, None).unwrap(), gaussian(SIGMA));
    let float = chosen(Some(NoiseChoice::Float), Some(16)).unwrap();
    assert_eq!(float, gaussian(SIGMA));
    let error = chosen(Some(NoiseChoice::Exact), None).unwrap_err();
    assert_eq!(error, CertifyError::NoGrid);
}
