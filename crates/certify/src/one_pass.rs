//! The radius that one pass of a Gaussian average gives.

use network::logits::argmax;

use crate::statistics::normal_quantile;

/// `sigma * Phi^-1(p_(1))` for the probabilities of one pass; 0 where the largest
/// is at most 1/2.
///
/// If the probabilities are exactly those of an average over N(0, sigma^2 I), of
/// votes or of softmax outputs, the class keeps more than half of them for every
/// perturbation below this radius: `Phi^-1` of such an average is
/// 1/sigma-Lipschitz (Salman et al., appendix A). A trained v is only close to an
/// average; [`Calibrate`](crate::Calibrate) measures what may be promised.
///
/// It is finite: what is missing to 1 is summed from the other classes, which
/// keeps its digits where the largest probability rounds to 1.
pub fn one_pass_radius(sigma: f64, probabilities: &[f64]) -> f64 {
    if probabilities.is_empty() {
        return 0.0;
    }
    let first = argmax(probabilities);
    let others = probabilities.iter().enumerate();
    let rest: f64 = others
        .filter(|(class, _)| *class != first)
        .map(|(_, p)| p)
        .sum();
    if rest < 0.5 {
        -sigma * normal_quantile(rest.max(f64::MIN_POSITIVE))
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radius::cohen;
    use network::logits::softmax;

    #[test]
    fn it_is_cohens_radius_of_the_largest_probability() {
        for p in [0.5001, 0.6, 0.9, 0.999, 1.0 - 1e-9] {
            let found = one_pass_radius(0.25, &[0.25 * (1.0 - p), p, 0.75 * (1.0 - p)]);
            assert!((found - cohen(0.25, p)).abs() < 1e-6, "{p}: {found}");
        }
        assert_eq!(one_pass_radius(0.25, &[0.5, 0.5]), 0.0);
        assert_eq!(one_pass_radius(0.25, &[0.4, 0.3, 0.3]), 0.0);
    }

    #[test]
    fn it_is_finite_and_grows_where_the_probability_rounds_to_one() {
        let radius = |logit: f32| one_pass_radius(1.0, &softmax(&[0.0, logit]));
        let radii: Vec<f64> = [20.0, 60.0, 200.0, 700.0, 5000.0].map(radius).to_vec();
        assert!(radii.iter().all(|radius| radius.is_finite()), "{radii:?}");
        assert!(radii.is_sorted(), "{radii:?}");
        // Where erfc(x / sqrt(2)) / 2 = exp(-200), by bisection.
        assert!((radii[2] - 19.803_669_380_301).abs() < 1e-9, "{radii:?}");
    }
}
