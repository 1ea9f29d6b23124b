//! CLEVER where the distance is known, and what it must not depend on.

use std::ops::ControlFlow;

use heatsmooth_certify::{CleverOutcome, CleverParams, clever_all};
use network::{Executor, GraphBuilder, Images, Model, ModelInfo, Op, Parameters, Reference, Shape};
use record::Norm;

use crate::common::pixels;

const SIDE: usize = 3;

fn linear_layer(out_features: usize) -> Op {
    Op::Linear {
        out_features,
        bias: true,
    }
}

/// `W x + b` with four classes.
fn linear_network(seed: u64) -> (Vec<Vec<f64>>, Reference<f32>) {
    let rows: Vec<Vec<f32>> = (0..4)
        .map(|class| pixels(40 + 4 * seed + class, SIDE * SIDE))
        .collect();
    let mut graph = GraphBuilder::new(Shape::new(SIDE, SIDE, 1));
    graph.then("flatten", Op::Flatten);
    graph.then("linear", linear_layer(4));
    let graph = graph.build().unwrap();
    let parameters = Parameters::new(&graph, vec![rows.concat(), vec![0.0; 4]]);
    let info = ModelInfo::default();
    let wide = |row: &Vec<f32>| row.iter().map(|w| f64::from(*w)).collect();
    let weights = rows.iter().map(wide).collect();
    let network = Reference::new(&Model {
        graph,
        parameters,
        info,
    });
    (weights, network)
}

fn images(count: u64) -> Images {
    let mut images = Images::new(Shape::new(SIDE, SIDE, 1));
    for i in 0..count {
        images.push(i as u32, 0, &pixels(9 + i, SIDE * SIDE));
    }
    images
}

fn estimate(
    network: &dyn Executor,
    (norm, seed): (Norm, u64),
    params: &CleverParams,
    target: Option<usize>,
    images: impl IntoIterator<Item = Images>,
) -> Vec<CleverOutcome> {
    let plan = params.plan(norm, seed).unwrap();
    let mut outcomes = Vec::new();
    let mut observer = |outcome: CleverOutcome| {
        outcomes.push(outcome);
        ControlFlow::Continue(())
    };
    clever_all(network, images, &plan, &|_, _| target, &mut observer).unwrap();
    outcomes
}

const FEW: CleverParams = CleverParams {
    batches: 6,
    samples: 5,
    radius: None,
    runner_ups: 9,
};

/// The gradient of a linear classifier is the same everywhere, so the estimate is
/// the exact distance.
#[test]
fn the_score_of_a_linear_classifier_is_its_distance() {
    for seed in 0..4 {
        let (weights, network) = linear_network(seed);
        let params = CleverParams {
            radius: Some(9.0),
            ..FEW
        };
        for (norm, target) in [
            (Norm::L2, None),
            (Norm::Linf, None),
            (Norm::L2, Some(2)),
            (Norm::Linf, Some(2)),
        ] {
            let all = images(6);
            let found = estimate(&network, (norm, seed), &params, target, [all.clone()]);
            for (place, outcome) in found.iter().enumerate() {
                let x = all.image(place);
                let logit = |class: usize| -> f64 {
                    let terms = weights[class].iter().zip(x);
                    terms.map(|(w, x)| w * f64::from(*x)).sum()
                };
                let c = outcome.predict;
                let distance = |j: usize| {
                    let slopes = weights[c].iter().zip(&weights[j]).map(|(a, b)| a - b);
                    let dual = match norm {
                        Norm::Linf => slopes.map(f64::abs).sum::<f64>(),
                        _ => slopes.map(|s| s * s).sum::<f64>().sqrt(),
                    };
                    (logit(c) - logit(j)) / dual
                };
                let others = (0..4).filter(|j| *j != c);
                let want = match target {
                    Some(target) if target == c => 0.0,
                    Some(target) => distance(target),
                    None => others.map(distance).fold(f64::INFINITY, f64::min),
                };
                let error = (outcome.score - want).abs();
                assert!(error < 1e-5 * want.max(1e-2), "{norm} {outcome:?}: {want}");
            }
        }
    }
}

#[test]
fn no_score_is_beyond_the_ball() {
    let (_, network) = linear_network(1);
    let params = CleverParams {
        radius: Some(1e-4),
        ..FEW
    };
    for outcome in estimate(&network, (Norm::L2, 0), &params, None, [images(5)]) {
        assert!(outcome.score <= 1e-4, "{outcome:?}");
    }
}

/// On a network that bends, the estimate is a function of the seed, and more points
/// find larger slopes.
#[test]
fn estimates_depend_on_seed_and_image_alone() {
    let mut graph = GraphBuilder::new(Shape::new(SIDE, SIDE, 1));
    graph.then("flatten", Op::Flatten);
    graph.then("first", linear_layer(16));
    graph.then("relu", Op::RELU);
    graph.then("second", linear_layer(3));
    let graph = graph.build().unwrap();
    let network = Reference::<f32>::new(&Model::initialised(graph, 3, ModelInfo::default()));
    let scores = |seed, batches, images: Vec<Images>| -> Vec<f64> {
        let params = CleverParams { batches, ..FEW };
        let found = estimate(&network, (Norm::L2, seed), &params, None, images);
        found.iter().map(|outcome| outcome.score).collect()
    };
    let all = images(4);
    let singly: Vec<Images> = (0..4).map(|place| all.select(&[place])).collect();
    assert_eq!(scores(1, 6, vec![all.clone()]), scores(1, 6, singly));
    assert_ne!(
        scores(1, 6, vec![all.clone()]),
        scores(2, 6, vec![all.clone()])
    );
    for score in scores(1, 40, vec![all]) {
        assert!(score > 0.0 && score.is_finite());
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (params, name) in [
        (CleverParams { batches: 1, ..FEW }, "batches"),
        (CleverParams { samples: 0, ..FEW }, "samples"),
        (
            CleverParams {
                radius: Some(-1.0),
                ..FEW
            },
            "radius",
        ),
        (
            CleverParams {
                runner_ups: 0,
                ..FEW
            },
            "runner-ups",
        ),
    ] {
        assert_eq!(params.plan(Norm::L2, 0).unwrap_err().name(), name);
    }
    assert_eq!(FEW.plan(Norm::L1, 0).unwrap_err().name(), "norm");
}
