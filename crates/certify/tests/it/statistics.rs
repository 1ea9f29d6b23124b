//! The statistics against goldens with 17 digits (goldens/generate.py), to 1e-9
//! relative, and against their definitions.

use certify::statistics::{
    ConfidenceSequence, MeanBound, binomial_test, binomial_upper_tail, clopper_pearson_lower,
    clopper_pearson_upper, high_probability_accuracy, normal_cdf, normal_quantile,
};
use heatsmooth_certify as certify;
use proptest::prelude::*;

const TOLERANCE: f64 = 1e-9;

fn golden(text: &str) -> impl Iterator<Item = Vec<f64>> + '_ {
    text.lines().skip(1).map(|line| {
        line.split('\t')
            .map(|cell| cell.parse().expect("a number"))
            .collect()
    })
}

#[track_caller]
fn assert_close(got: f64, want: f64, what: &[f64]) -> f64 {
    if want == 0.0 || want == 1.0 {
        assert!((got - want).abs() < 1e-15, "{what:?}: {got} for {want}");
        return 0.0;
    }
    let error = (got / want - 1.0).abs();
    assert!(
        error <= TOLERANCE,
        "{what:?}: {got} for {want}, off by {error:e}"
    );
    error
}

#[test]
fn clopper_pearson_agrees_with_its_definition_up_to_a_million() {
    let (mut rows, mut worst) = (0, 0.0_f64);
    for row in golden(include_str!("../goldens/clopper_pearson.tsv")) {
        let (a, n, alpha) = (row[0] as u64, row[1] as u64, row[2]);
        worst = worst.max(assert_close(
            clopper_pearson_lower(a, n, alpha),
            row[3],
            &row,
        ));
        worst = worst.max(assert_close(
            clopper_pearson_upper(a, n, alpha),
            row[4],
            &row,
        ));
        rows += 1;
    }
    assert_eq!(rows, 350);
    println!("worst relative error {worst:e}");
}

#[test]
fn confidence_sequence_agrees_with_its_definition_up_to_a_million() {
    let (mut rows, mut worst) = (0, 0.0_f64);
    for row in golden(include_str!("../goldens/confidence_sequence.tsv")) {
        let (a, n) = (row[0] as u64, row[1] as u64);
        let interval = ConfidenceSequence::new(row[2]).interval(a, n);
        worst = worst.max(assert_close(interval.lower, row[3], &row));
        worst = worst.max(assert_close(interval.upper, row[4], &row));
        rows += 1;
    }
    assert_eq!(rows, 350);
    println!("worst relative error {worst:e}");
}

#[test]
fn binomial_test_agrees_with_its_definition_up_to_a_million() {
    let mut worst = 0.0_f64;
    for row in golden(include_str!("../goldens/binomial_test.tsv")) {
        let (k, n) = (row[0] as u64, row[1] as u64);
        worst = worst.max(assert_close(binomial_test(k, n), row[2], &row));
        assert_eq!(binomial_test(k, n), binomial_test(n - k, n));
    }
    println!("worst relative error {worst:e}");
}

#[test]
fn the_mean_bound_agrees_with_its_definition() {
    let mut rows = 0;
    for row in golden(include_str!("../goldens/mean_bound.tsv")) {
        let (n, factor) = (row[0] as u32, row[2] as u64);
        let mut bound = MeanBound::new(n, row[1]);
        for t in 1..=u64::from(n) {
            bound.add(((t * t * factor % 1009) as f64 / 1008.0).powf(row[3]));
        }
        assert_close(bound.lower(), row[4], &row);
        assert_close(bound.upper(), row[5], &row);
        rows += 1;
    }
    assert_eq!(rows, 48);
}

#[test]
fn normal_quantile_agrees_with_its_definition_and_inverts_the_cdf() {
    let mut worst = 0.0_f64;
    for row in golden(include_str!("../goldens/normal_quantile.tsv")) {
        worst = worst.max(assert_close(normal_quantile(row[0]), row[1], &row));
        assert!((normal_cdf(row[1]) / row[0] - 1.0).abs() < 1e-11, "{row:?}");
    }
    println!("worst relative error {worst:e}");
    assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
    assert_eq!(normal_quantile(1.0), f64::INFINITY);
}

#[test]
fn high_probability_accuracy_is_cohens_formula() {
    // 0.7 - 0.001 - sqrt(0.001 * 0.999 * ln 1000 / 500) - ln 1000 / 1500
    let bound = high_probability_accuracy(0.7, 500, 0.001, 0.001);
    assert!((bound - 0.690_679_766_551).abs() < 1e-9, "{bound}");
    assert_eq!(high_probability_accuracy(0.001, 10, 0.001, 0.001), 0.0);
    assert_eq!(high_probability_accuracy(1.0, 0, 0.001, 0.001), 0.0);
}

/// Hits, draws and failure probability.
fn counts() -> impl Strategy<Value = (u64, u64, f64)> {
    (1..2_000_000_u64, 1e-9..0.999_f64).prop_flat_map(|(n, alpha)| (0..=n, Just(n), Just(alpha)))
}

proptest! {
    #[test]
    fn the_tail_at_the_bound_is_alpha((a, n, alpha) in counts()) {
        prop_assume!(a > 0);
        let lower = clopper_pearson_lower(a, n, alpha);
        prop_assume!(lower < 1.0);
        let tail = binomial_upper_tail(a, n, lower);
        prop_assert!((tail / alpha - 1.0).abs() < 1e-8, "{tail} for {alpha}");
    }

    #[test]
    fn bounds_are_ordered((a, n, alpha) in counts()) {
        let sequence = ConfidenceSequence::new(alpha).interval(a, n);
        let share = a as f64 / n as f64;
        prop_assert!(0.0 <= sequence.lower && sequence.lower <= share);
        prop_assert!(share <= sequence.upper && sequence.upper <= 1.0);
        // What holds at every n is wider than what holds at one n.
        prop_assert!(sequence.lower <= clopper_pearson_lower(a, n, alpha) + 1e-12);
        prop_assert!(sequence.upper >= clopper_pearson_upper(a, n, alpha) - 1e-12);
    }

    #[test]
    fn more_hits_raise_the_bounds((a, n, alpha) in counts()) {
        prop_assume!(a < n);
        prop_assert!(clopper_pearson_lower(a, n, alpha) < clopper_pearson_lower(a + 1, n, alpha));
        let sequence = ConfidenceSequence::new(alpha);
        prop_assert!(sequence.lower(a, n) < sequence.lower(a + 1, n));
    }
}
