//! Two-sided and mean-softmax certificates against closed forms.

use heatsmooth_certify::statistics::{clopper_pearson_lower, clopper_pearson_upper, normal_cdf};
use heatsmooth_certify::{Certify, CertifyParams, Evidence, Select, Sides, StopRule};
use record::{About, Guarantee};

use crate::common::{certify, gaussian, image, linear, pixels, threshold};

fn plan(evidence: Evidence, sides: Sides) -> Certify {
    Certify {
        n: 4000,
        select: Select::Clean,
        evidence,
        sides,
        ..Certify::new(gaussian(0.25))
    }
}

/// Softmax of a steep linear model is a step, so its mean is the share of votes, and
/// both smoothed classifiers are robust exactly up to the distance.
#[test]
fn no_radius_exceeds_the_distance_of_a_step_and_most_come_close() {
    let steep = linear(vec![vec![0.0], vec![1e5]], vec![0.0, -5e4]);
    let distances: Vec<f64> = (1..=9).map(|i| 0.05 * f64::from(i)).collect();
    for evidence in [Evidence::Votes, Evidence::MeanSoftmax] {
        for sides in [Sides::One, Sides::Both] {
            let plan = plan(evidence, sides);
            let images = (0..)
                .zip(&distances)
                .map(|(i, d)| image(i, 1, &[(0.5 + d) as f32]));
            for (outcome, distance) in certify(&steep, images, &plan, 1000)
                .unwrap()
                .iter()
                .zip(&distances)
            {
                let certificate = &outcome.certificate;
                assert!(
                    certificate.radius <= *distance,
                    "{evidence} {sides} {distance}"
                );
                assert!(certificate.p_lower + certificate.p_upper <= 1.0);
                // Up to 1.8 sigma; beyond, n is too small for the distance.
                if (0.1..0.4).contains(distance) {
                    assert!(
                        certificate.radius > 0.75 * distance,
                        "{evidence} {certificate:?}"
                    );
                    assert!(outcome.correct);
                }
            }
        }
    }
}

#[test]
fn two_sided_bounds_are_clopper_and_pearsons() {
    // Ten classes, one a little ahead: no half of the votes.
    let weights: Vec<Vec<f32>> = (0..10)
        .map(|c| pixels(c + 1, 12).iter().map(|w| 4.0 * (w - 0.5)).collect())
        .collect();
    let model = linear(weights, vec![0.0; 10]);
    let plan = plan(Evidence::Votes, Sides::Both);
    let images = (0..40).map(|i| image(i, 0, &pixels(u64::from(i) + 900, 12)));
    let mut below_half = 0;
    for outcome in certify(&model, images, &plan, 1000).unwrap() {
        let c = &outcome.certificate;
        let lower = clopper_pearson_lower(c.n_a.into(), c.n.into(), plan.alpha / 2.0);
        assert_eq!(c.p_lower, lower);
        let none = clopper_pearson_upper(0, c.n.into(), plan.alpha / 18.0);
        assert!(none <= c.p_upper && c.p_upper <= 1.0 - lower, "{c:?}");
        assert!(c.lecuyer.is_nan() && c.li.is_nan());
        below_half += u32::from(c.predict.is_some() && c.p_lower < 0.5 && c.radius > 0.0);
    }
    assert!(below_half > 0, "{below_half}");
}

/// Softmax of a gentle slope is far from its votes: the mean is what it is.
#[test]
fn mean_bounds_hold_the_mean() {
    let slope = 2.0_f32;
    let model = linear(vec![vec![0.0], vec![slope]], vec![0.0, -0.5 * slope]);
    for sides in [Sides::One, Sides::Both] {
        let plan = plan(Evidence::MeanSoftmax, sides);
        for x in [0.7_f32, 0.9, 1.0] {
            let outcome = &certify(&model, [image(0, 1, &[x])], &plan, 1000).unwrap()[0];
            // E 1/(1 + exp(-slope (x + eta - 1/2))), by the trapezoid rule.
            let steps = 4000;
            let mean: f64 = (0..=steps)
                .map(|i| -8.0 + 16.0 * f64::from(i) / f64::from(steps))
                .map(|z| {
                    let at = f64::from(slope) * (f64::from(x) - 0.5 + 0.25 * z);
                    let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
                    density / (1.0 + (-at).exp()) * 16.0 / f64::from(steps)
                })
                .sum();
            let c = &outcome.certificate;
            assert!(c.p_lower < mean && mean - c.p_lower < 0.01, "{c:?} {mean}");
            assert!(
                c.p_upper > 1.0 - mean && c.p_upper - (1.0 - mean) < 0.01,
                "{c:?}"
            );
            assert_eq!(c.predict, Some(1));
            // The votes would say far more.
            let votes = normal_cdf((f64::from(x) - 0.5) / 0.25);
            assert!(votes > mean + 0.1);
        }
    }
}

#[test]
fn what_is_promised_and_what_does_not_go_together() {
    let params = CertifyParams {
        certificate: Evidence::MeanSoftmax,
        ..CertifyParams::default()
    };
    let means = params.plan(gaussian(0.25), 0).unwrap();
    assert_eq!(means.sides, Sides::Both);
    let Guarantee::SoundSmoothed { about, .. } = means.guarantee() else {
        panic!("a certificate");
    };
    assert_eq!(about, About::MeanSoftmax);
    let model = threshold(0.5);
    for (plan, message) in [
        (
            Certify {
                anytime: Some(StopRule::Tolerance(0.1)),
                ..means.clone()
            },
            "certificate is `mean-softmax`, expected votes, for anytime certificates",
        ),
        (
            Certify {
                anytime: Some(StopRule::Radius(0.1)),
                evidence: Evidence::Votes,
                ..means.clone()
            },
            "sides is `both`, expected one, for anytime certificates",
        ),
        (
            Certify { n: 5, ..means },
            "n = 5 samples can never certify anything at alpha = 0.001: ",
        ),
    ] {
        let error = plan.check(&model).unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
    }
}
