//! Fidelity on a model whose Gaussian average is known: waves.
//!
//! `f_c(x) = a_c cos(k_c x + o_c)` averages to `exp(-s^2 k_c^2 / 2) f_c(x)` at noise s.

use std::ops::ControlFlow;

use heatsmooth_certify::{CertifyError, Fidelity, FidelityOutcome, FidelitySummary, fidelity_all};
use network::{Classify, Images};
use settings::SettingError;

use crate::common::{Function, image, threshold};

const SIGMA: f64 = 0.1;
/// (a, k, o): products k * SIGMA from 0.4 to 1.2.
const WAVES: [(f64, f64, f64); 4] = [
    (1.0, 4.0, 0.3),
    (0.7, 7.0, 1.9),
    (1.3, 9.0, 4.0),
    (0.9, 12.0, 5.5),
];

fn average(x: f64, level: f64) -> [f64; 4] {
    WAVES.map(|(a, k, o)| a * (-0.5 * (level * k).powi(2)).exp() * (k * x + o).cos())
}

/// The exact average of the waves at a level; level 0: the waves.
fn waves(level: f64) -> impl Classify {
    Function {
        pixels: 1,
        classes: 4,
        logits: move |x: &[f32], l: &mut [f32]| {
            for (l, value) in l.iter_mut().zip(average(f64::from(x[0]), level)) {
                *l = value as f32;
            }
        },
    }
}

fn images() -> impl Iterator<Item = Images> {
    (0..40).map(|i| image(i, 0, &[i as f32 / 39.0]))
}

fn measure(v: &impl Classify, plan: &Fidelity, batch: usize) -> Vec<FidelityOutcome> {
    let mut outcomes = Vec::new();
    fidelity_all(v, &waves(0.0), images(), plan, batch, &mut |outcome| {
        outcomes.push(outcome);
        ControlFlow::Continue(())
    })
    .unwrap();
    outcomes
}

fn summary(v: &impl Classify, plan: &Fidelity) -> FidelitySummary {
    let mut summary = FidelitySummary::new(plan);
    for outcome in measure(v, plan, 4096) {
        summary.add(&outcome);
    }
    summary
}

#[test]
fn distances_and_standard_errors_agree_with_the_closed_form() {
    let plan = Fidelity {
        samples: 2000,
        ..Fidelity::new(SIGMA)
    };
    for outcome in measure(&waves(SIGMA), &plan, 1000) {
        let x = f64::from(outcome.index) / 39.0;
        let (f, mean) = (average(x, 0.0), average(x, SIGMA));
        let at = outcome.at(SIGMA).unwrap();
        let exact: f64 = f
            .iter()
            .zip(mean)
            .map(|(a, b)| (a - b).powi(2))
            .sum::<f64>()
            .sqrt();
        // var a cos(k(x+eta)+o) = a^2 (1 + exp(-2 s^2 k^2) cos 2(kx+o)) / 2 - mean^2
        let variance: f64 = WAVES
            .iter()
            .zip(mean)
            .map(|((a, k, o), mean)| {
                let second = (-2.0 * (SIGMA * k).powi(2)).exp() * (2.0 * (k * x + o)).cos();
                0.5 * a * a * (1.0 + second) - mean * mean
            })
            .sum();
        let error = (variance / f64::from(plan.samples)).sqrt();
        assert!(
            (at.logits.standard_error / error - 1.0).abs() < 0.1,
            "{at:?} for {error}"
        );
        assert!(at.logits.v < 5.0 * error, "{at:?} for {error}");
        assert!(
            (at.logits.f - exact).abs() < 5.0 * error,
            "{at:?} for {exact}"
        );
        assert!(at.probabilities.standard_error > 0.0);
        // f itself is the average at level 0.
        let at_zero = outcome.at(0.0).unwrap();
        assert_eq!(
            (at_zero.logits.f, at_zero.logits.standard_error),
            (0.0, 0.0)
        );
        assert!(at_zero.logits.f_agrees && at_zero.probabilities.f_agrees);
        assert!((at_zero.logits.v - exact).abs() < 1e-6);
    }
}

#[test]
fn the_exact_average_closes_the_gap_and_f_itself_none_of_it() {
    let plan = Fidelity {
        samples: 500,
        ..Fidelity::new(SIGMA)
    };
    let exact = summary(&waves(SIGMA), &plan);
    assert_eq!(exact.images(), 40);
    let logits = exact.logits().unwrap();
    assert!(logits.closed > 0.98, "{logits:?}");
    assert!(
        logits.v_agreement > 0.95 && logits.f_agreement < logits.v_agreement,
        "{logits:?}"
    );

    let none = summary(&waves(0.0), &plan);
    for closeness in [none.logits().unwrap(), none.probabilities().unwrap()] {
        assert!(closeness.closed.abs() < 1e-12, "{closeness:?}");
        let effective = closeness.effective_sigma.unwrap();
        assert!(effective.sigma < 0.1 * SIGMA, "{effective:?}");
    }

    let half = summary(&waves(0.5 * SIGMA), &plan).logits().unwrap();
    assert!((0.1..0.9).contains(&half.closed), "{half:?}");
}

/// What the paper's lambda = 5 aims at is sqrt(10) sigma.
#[test]
fn the_effective_sigma_is_found_to_five_percent() {
    let plan = Fidelity {
        samples: 400,
        ..Fidelity::new(SIGMA)
    };
    for factor in [0.4, 0.5, 0.7, 1.0, 1.4, 2.0, 10.0_f64.sqrt()] {
        let level = factor * SIGMA;
        let summary = summary(&waves(level), &plan);
        let effective = summary.logits().unwrap().effective_sigma.unwrap();
        println!("{level:.3}: {effective:?}");
        assert!(
            (effective.sigma / level - 1.0).abs() < 0.05,
            "{effective:?} for {level}"
        );
        assert!(!effective.at_edge);
    }
    let beyond = summary(&waves(6.0 * SIGMA), &plan)
        .logits()
        .unwrap()
        .effective_sigma
        .unwrap();
    assert!(beyond.sigma > 3.0 * SIGMA, "{beyond:?}");
}

#[test]
fn results_do_not_depend_on_the_batch() {
    let plan = Fidelity {
        samples: 50,
        ..Fidelity::new(SIGMA)
    };
    let timeless = |outcomes: Vec<FidelityOutcome>| -> Vec<FidelityOutcome> {
        let timeless = |outcome| FidelityOutcome {
            seconds: 0.0,
            ..outcome
        };
        outcomes.into_iter().map(timeless).collect()
    };
    let expected = timeless(measure(&waves(SIGMA), &plan, 4096));
    for batch in [1, 33] {
        assert_eq!(timeless(measure(&waves(SIGMA), &plan, batch)), expected);
    }
    let levels: Vec<f64> = expected[0].levels.iter().map(|at| at.sigma).collect();
    assert!(levels.is_sorted() && levels.len() == 12);
}

#[test]
fn plans_and_networks_that_do_not_fit_are_refused() {
    assert_eq!(
        Fidelity {
            samples: 1,
            ..Fidelity::new(SIGMA)
        }
        .check(),
        Err(CertifyError::Setting(SettingError::value(
            "samples",
            1,
            "at least 2"
        )))
    );
    Fidelity {
        levels: vec![-0.1],
        ..Fidelity::new(SIGMA)
    }
    .check()
    .unwrap_err();
    Fidelity::new(0.0).check().unwrap_err();
    let other = threshold(0.5);
    let refused = fidelity_all(
        &other,
        &waves(0.0),
        images(),
        &Fidelity::new(SIGMA),
        64,
        &mut |_: FidelityOutcome| ControlFlow::Continue(()),
    );
    assert!(matches!(refused, Err(CertifyError::Networks { .. })));
    // No images: no summary.
    assert_eq!(FidelitySummary::new(&Fidelity::new(SIGMA)).logits(), None);
}
