//! On a linear network the distance to the boundary is known exactly.

use attack::{
    Attack, AttackDistances, AttackOutcome, AttackSummary, Averaged, Challenge, Ddn, DdnParams,
    Deterministic, Pgd, PgdParams, Status, Target, checks, run,
};
use network::{Images, Noise, Purpose, Reference};

use crate::common::{images_for, linear_network, random};

const SIDE: usize = 12;
const PIXELS: usize = SIDE * SIDE;
const IMAGES: u32 = 8;

struct Problem {
    network: Reference<f64>,
    images: Images,
    /// Exact distance of each image to the nearest other class.
    distances: Vec<f64>,
    /// Exact distance of each image to the half space in which a class beats
    /// the label; 0 for the label itself.
    half_spaces: Vec<Vec<f64>>,
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    let products = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b));
    products.sum()
}

/// Images well inside [0, 1], so that no bound binds, about `.7 * size` away
/// from other classes.
fn problem(seed: u64, size: f32, classes: usize) -> Problem {
    let weights: Vec<Vec<f32>> = (0..classes as u32)
        .map(|c| random(seed, 100 + c, PIXELS))
        .collect();
    let (mut pixels, mut labels) = (vec![], vec![]);
    let (mut distances, mut half_spaces) = (vec![], vec![]);
    for i in 0..IMAGES {
        let label = i as usize % classes;
        // About `size` along the label's weights, plus a little noise.
        let image: Vec<f32> = random(seed, i, PIXELS)
            .iter()
            .zip(&weights[label])
            .map(|(z, w)| 0.5 + 0.01 * z + size / SIDE as f32 * w)
            .collect();
        let half_space = |c: usize| {
            if c == label {
                return 0.0;
            }
            let gap: Vec<f32> = weights[label]
                .iter()
                .zip(&weights[c])
                .map(|(a, b)| a - b)
                .collect();
            let centred: Vec<f32> = image.iter().map(|x| x - 0.5).collect();
            dot(&gap, &centred) / dot(&gap, &gap).sqrt()
        };
        let own: Vec<f64> = (0..classes).map(half_space).collect();
        let others = (0..classes).filter(|&c| c != label).map(|c| own[c]);
        let nearest = others.fold(f64::INFINITY, f64::min);
        assert!(nearest > 0.0);
        distances.push(nearest);
        half_spaces.push(own);
        labels.push(label as u32);
        pixels.extend(image);
    }
    // Logits 20 W (x - 1/2): sharp, so that the loss looks at the nearest class.
    let weights: Vec<Vec<f32>> = weights
        .iter()
        .map(|w| w.iter().map(|w| 20.0 * w).collect())
        .collect();
    let bias: Vec<f32> = weights
        .iter()
        .map(|w| -0.5 * w.iter().sum::<f32>())
        .collect();
    let network = linear_network(SIDE, &weights, &bias);
    let indices: Vec<u32> = (0..IMAGES).collect();
    Problem {
        images: images_for(&network, &pixels, &indices, &labels),
        network,
        distances,
        half_spaces,
    }
}

impl Problem {
    fn challenge(&self) -> Challenge<'_> {
        Challenge::new(&self.images)
    }

    fn run(&self, attack: &dyn Attack) -> Vec<AttackOutcome> {
        let target = Deterministic::new(&self.network);
        run(attack, &target, &self.challenge(), &mut |_| {}).unwrap()
    }
}

#[test]
fn ddn_finds_the_exact_distance() {
    for (seed, classes) in [(0, 2), (1, 2), (2, 4), (3, 4), (4, 4)] {
        let problem = problem(seed, 1.4, classes);
        let params = DdnParams {
            steps: 300,
            ..DdnParams::default()
        };
        let outcomes = problem.run(&Ddn::new(params, 0).unwrap());
        let mut nearest = 0;
        for (i, outcome) in outcomes.iter().enumerate() {
            assert_eq!(outcome.status, Status::Broken);
            // Each class has a local minimum; mostly it is the global one.
            let exact = problem.half_spaces[i][outcome.adv_predict as usize];
            let ratio = outcome.l2.unwrap() / exact;
            assert!((1.0 - 1e-6..1.01).contains(&ratio), "{ratio} of {exact}");
            assert!(outcome.l2.unwrap() < 1.05 * problem.distances[i]);
            nearest += usize::from(exact == problem.distances[i]);
        }
        assert!(
            nearest >= if classes == 2 { 8 } else { 6 },
            "{nearest} of 8"
        );
    }
}

#[test]
fn targeted_ddn_never_beats_the_half_space() {
    let problem = problem(1, 1.4, 4);
    let targets: Vec<u32> = problem.images.labels.iter().map(|y| (y + 1) % 4).collect();
    let params = DdnParams {
        steps: 300,
        ..DdnParams::default()
    };
    let ddn = Ddn::new(params, 0).unwrap();
    let challenge = problem.challenge().targeted(&targets);
    let target = Deterministic::new(&problem.network);
    let outcomes = run(&ddn, &target, &challenge, &mut |_| {}).unwrap();
    for (i, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.status, Status::Broken);
        assert_eq!(Some(outcome.adv_predict), outcome.target);
        let bound = problem.half_spaces[i][targets[i] as usize];
        assert!(outcome.l2.unwrap() > bound - 1e-6);
    }
}

/// One class as target of all images: those of that class are no failures.
#[test]
fn images_of_the_target_class_are_left_out() {
    let problem = problem(1, 1.4, 4);
    let class = problem.images.labels[2];
    let targets = vec![class; problem.images.len()];
    let challenge = problem.challenge().targeted(&targets);
    let target = Deterministic::new(&problem.network);
    let ddn = Ddn::new(DdnParams::default(), 0).unwrap();
    let outcomes = run(&ddn, &target, &challenge, &mut |visit| {
        let at = problem
            .images
            .indices
            .iter()
            .position(|&i| i == visit.index);
        assert_ne!(problem.images.labels[at.unwrap()], class);
    })
    .unwrap();
    for outcome in &outcomes {
        let left_out = outcome.status == Status::LeftOut;
        assert_eq!(left_out, outcome.label == class);
        assert!(!left_out || (outcome.l2.is_none() && !outcome.success()));
    }
    let own = problem
        .images
        .labels
        .iter()
        .filter(|&&y| y == class)
        .count();
    let summary = AttackSummary::new(&outcomes);
    assert_eq!((summary.images, summary.left_out), (8, own));
    assert_eq!(summary.broken + summary.failed, 8 - own);
    let paper = AttackDistances::paper_convention(&outcomes).unwrap();
    let all: f64 = outcomes.iter().map(|o| o.last_l2).sum();
    assert!((paper.mean - all / (8 - own) as f64).abs() < 1e-12);
}

#[test]
fn pgd_never_succeeds_below_the_distance_and_does_above() {
    for seed in 0..5 {
        let problem = problem(seed, 1.2, 4);
        let nearest = problem.distances.iter().copied().fold(f64::MAX, f64::min);
        let furthest = problem.distances.iter().copied().fold(0.0, f64::max);
        for (eps, status) in [
            (0.999 * nearest, Status::Failed),
            (1.05 * furthest, Status::Broken),
        ] {
            let params = PgdParams {
                eps,
                steps: 100,
                ..PgdParams::default()
            };
            for outcome in problem.run(&Pgd::new(params, 0).unwrap()) {
                assert_eq!(outcome.status, status);
                assert!(outcome.last_l2 <= eps);
                if status == Status::Failed {
                    assert_eq!((outcome.l2, outcome.linf), (None, None));
                    assert!(outcome.last_l2 > 0.999 * eps);
                }
            }
        }
    }
}

/// Without a bound the norm only shrinks: 20 steps cannot go below .417.
#[test]
fn results_on_the_floor_are_noticed() {
    let near = problem(3, 0.3, 4);
    let ddn = Ddn::new(DdnParams::default(), 0).unwrap();
    let outcomes = near.run(&ddn);
    assert!(near.distances.iter().all(|&d| d < 0.3));
    assert!(outcomes.iter().all(|o| o.at_floor));
    assert!(
        outcomes
            .iter()
            .all(|o| (o.l2.unwrap() - 0.417).abs() < 0.01)
    );
    let warnings = checks::after(&ddn, &outcomes);
    let expected = "8 of 8 distances are the smallest that this number of steps allows (0.417, \
                    before rounding to grey levels), the true ones are smaller: take more steps";
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].to_string(), expected);

    let outcomes = problem(3, 1.4, 4).run(&ddn);
    assert!(outcomes.iter().all(|o| !o.at_floor));
    assert_eq!(checks::after(&ddn, &outcomes), []);
}

/// Averaging a linear network over symmetric noise leaves its boundary, up to
/// the luck of the draw: many noises in several passes.
#[test]
fn averages_of_many_noises_work_too() {
    let problem = problem(2, 1.2, 4);
    let noise = Noise::gaussian(5, Purpose::Prediction, 0.25);
    let averaged = || Averaged::new(&problem.network, noise.clone(), 300).unwrap();
    let (fixed, fresh) = (averaged(), averaged().fresh());
    let ddn = Ddn::new(DdnParams::default(), 0).unwrap();
    for target in [&fixed as &dyn Target, &fresh] {
        let outcomes = run(&ddn, target, &problem.challenge(), &mut |_| {}).unwrap();
        for (outcome, &exact) in outcomes.iter().zip(&problem.distances) {
            let ratio = outcome.last_l2 / exact;
            assert!((0.9..1.15).contains(&ratio), "{ratio} of {exact}");
        }
    }
}

#[test]
fn a_summary_keeps_failures_apart() {
    let problem = problem(4, 1.2, 4);
    let mut sorted = problem.distances.clone();
    sorted.sort_by(f64::total_cmp);
    // Two images are already wrong; of the rest some are out of reach.
    let mut images = problem.images.clone();
    for i in [0, 5] {
        images.labels[i] = (images.labels[i] + 1) % 4;
    }
    let params = PgdParams {
        eps: (sorted[3] + sorted[4]) / 2.0,
        steps: 60,
        ..PgdParams::default()
    };
    let pgd = Pgd::new(params, 0).unwrap();
    let target = Deterministic::new(&problem.network);
    let outcomes = run(&pgd, &target, &Challenge::new(&images), &mut |_| {}).unwrap();
    let summary = AttackSummary::new(&outcomes);
    assert_eq!((summary.images, summary.already_wrong), (8, 2));
    assert!(summary.broken > 0 && summary.failed > 0);
    assert_eq!(summary.broken + summary.failed, 6);
    let rate = summary.broken as f64 / 6.0;
    assert_eq!(summary.success_rate, Some(rate));
    let broken = outcomes.iter().filter(|o| o.status == Status::Broken);
    let l2: Vec<f64> = broken.map(|o| o.l2.unwrap()).collect();
    let mean = l2.iter().sum::<f64>() / l2.len() as f64;
    assert!((summary.distances.unwrap().mean - mean).abs() < 1e-12);

    for i in [0, 5] {
        let outcome = &outcomes[i];
        assert_eq!(outcome.status, Status::AlreadyWrong);
        assert_eq!((outcome.l2, outcome.linf), (Some(0.0), Some(0.0)));
        assert_eq!((outcome.steps, outcome.success()), (0, true));
        assert!(!outcome.clean_correct);
        assert_eq!(outcome.image, problem.images.image(i));
    }
    let paper = AttackDistances::paper_convention(&outcomes).unwrap();
    let all: f64 = outcomes.iter().map(|o| o.last_l2).sum();
    assert!((paper.mean - all / 8.0).abs() < 1e-12);
    assert!(paper.mean > summary.distances.unwrap().mean * 0.5);
    assert_eq!(AttackSummary::new(&[]).success_rate, None);
    assert_eq!(AttackDistances::paper_convention(&[]), None);
}
