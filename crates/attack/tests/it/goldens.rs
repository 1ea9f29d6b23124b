//! Every step of PGD and DDN against PyTorch (`goldens/generate.py`): network,
//! average over 4 noises, targeted, top-2.

use attack::{Attack, Averaged, Challenge, Ddn, DdnParams, Deterministic, Pgd, PgdParams, Target};
use network::{Images, Noise, Purpose, Reference};
use serde::Deserialize;

use crate::common::{images_for, model, small_graph};

#[derive(Deserialize)]
struct Golden {
    seed: u64,
    sigma: f64,
    weights: std::collections::HashMap<String, Vec<f32>>,
    images: Vec<Vec<f32>>,
    indices: Vec<u32>,
    labels: Vec<u32>,
    targets: Vec<u32>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    attack: String,
    steps: u32,
    #[serde(default)]
    eps: f64,
    #[serde(default)]
    stop_at_success: bool,
    #[serde(default)]
    levels: Option<u32>,
    targeted: bool,
    top_k: usize,
    samples: u32,
    trajectories: Vec<Trajectory>,
}

#[derive(Deserialize)]
struct Trajectory {
    steps: u32,
    /// Norm of the perturbation, and `sum_i cos(i + 1) * pixel_i`.
    #[serde(rename = "final")]
    last: [f64; 2],
    /// Loss, the two numbers, success (1 or 0); step by step.
    visits: Vec<[f64; 4]>,
}

fn numbers(image: &[f32], adversarial: &[f32]) -> [f64; 2] {
    let pairs = image.iter().zip(adversarial);
    let square: f64 = pairs
        .map(|(&x, &a)| (f64::from(a) - f64::from(x)).powi(2))
        .sum();
    let dots = adversarial.iter().enumerate();
    let dot = dots.map(|(i, &a)| (i as f64 + 1.0).cos() * f64::from(a));
    [square.sqrt(), dot.sum()]
}

fn close(what: &str, wanted: f64, got: f64) {
    assert!((wanted - got).abs() < 2e-5, "{what}: {wanted} {got}");
}

#[test]
fn trajectories_match_pytorch() {
    let golden: Golden =
        serde_json::from_str(include_str!("../goldens/trajectories.json")).unwrap();
    let graph = small_graph();
    let values = graph.parameters().iter();
    let values = values.map(|p| golden.weights[&p.name].clone()).collect();
    let network = Reference::<f64>::new(&model(graph, values));
    let pixels = golden.images.concat();
    let images = images_for(&network, &pixels, &golden.indices, &golden.labels);
    for case in &golden.cases {
        check(&golden, case, &network, &images);
    }
}

fn check(golden: &Golden, case: &Case, network: &Reference<f64>, images: &Images) {
    let mut challenge = Challenge::new(images).top_k(case.top_k);
    if case.targeted {
        challenge = challenge.targeted(&golden.targets);
    }
    let deterministic = Deterministic::new(network);
    let noise = Noise::gaussian(golden.seed, Purpose::Prediction, golden.sigma);
    let averaged = Averaged::new(network, noise, case.samples.max(1)).unwrap();
    let target: &dyn Target = match case.samples {
        0 => &deterministic,
        _ => &averaged,
    };
    let attack: Box<dyn Attack> = match case.attack.as_str() {
        "pgd" => {
            let params = PgdParams {
                steps: case.steps,
                eps: case.eps,
                ..PgdParams::default()
            };
            let pgd = Pgd::new(params, 0).unwrap();
            Box::new(if case.stop_at_success {
                pgd
            } else {
                pgd.without_stopping()
            })
        }
        _ => {
            let params = DdnParams {
                steps: case.steps,
                levels: case.levels.unwrap_or(0),
                ..DdnParams::default()
            };
            Box::new(Ddn::new(params, 0).unwrap())
        }
    };

    let mut seen = vec![0; golden.indices.len()];
    let name = format!("{} with {} noises", case.attack, case.samples);
    let attempts = attack.perturb(target, &challenge, &mut |visit| {
        let i = golden.indices.iter().position(|&x| x == visit.index);
        let i = i.unwrap();
        seen[i] += 1;
        assert_eq!(seen[i], visit.step as usize);
        let what = format!("{name}, image {}, step {}", visit.index, visit.step);
        let [loss, l2, dot, success] = case.trajectories[i].visits[seen[i] - 1];
        let got = numbers(images.image(i), visit.image);
        close(&what, loss, visit.loss);
        close(&what, l2, got[0]);
        close(&what, dot, got[1]);
        assert_eq!(visit.success, success == 1.0, "{what}");
    });
    for (i, attempt) in attempts.unwrap().iter().enumerate() {
        let trajectory = &case.trajectories[i];
        assert_eq!(seen[i], trajectory.visits.len(), "{name}, image {i}");
        assert_eq!(attempt.steps, trajectory.steps, "{name}, image {i}");
        let got = numbers(images.image(i), &attempt.image);
        close(&name, trajectory.last[0], got[0]);
        close(&name, trajectory.last[1], got[1]);
    }
}
