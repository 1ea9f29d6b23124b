//! SmoothAdv where it is another method, and what its inner attack does.

use attack::{AttackError, Averaged, Challenge, Deterministic, Pgd, PgdParams, Target, maximise};
use network::architecture::{Task, build};
use network::{
    Executor, GraphBuilder, Images, Mode, Model, Noise, NoisyImage, Op, Parameters, Purpose,
    Reference, Shape,
};
use settings::SettingError;
use train::methods::{AdversarialParams, Baseline, Gaussian, InnerAttack, NoiseDraws, SmoothAdv};
use train::{Method, Position, TrainError, loss};

use crate::common::{digits, sgd};

const IMAGES: usize = 48;

fn batch() -> Images {
    digits().images(0..IMAGES as u32).unwrap()
}

fn position(epoch: u32) -> Position {
    Position {
        seed: 21,
        epoch,
        step: u64::from(epoch),
    }
}

/// Weights after some steps of a method on one batch, and what was measured.
fn fitted(model: &Model, method: &mut dyn Method, steps: u32) -> (Reference<f32>, Vec<Vec<f64>>) {
    let batch = batch();
    let mut network = Reference::<f32>::new(model);
    let mut gradients = network.gradients().unwrap();
    let mut measured = Vec::new();
    for step in 0..steps {
        let row = method.step_alone(&mut network, &batch, position(step), &mut gradients);
        measured.push(row.unwrap());
        network.optimise(&sgd(0.1), &mut gradients).unwrap();
    }
    (network, measured)
}

/// With batch norm, so that train and eval mode differ.
fn mlp() -> Model {
    let graph = build("mlp", &Task::new(Shape::new(8, 8, 1), 10)).unwrap();
    Model::initialised(graph, 4, Default::default())
}

/// A trained linear classifier: train and eval mode are the same.
fn linear() -> Model {
    let mut graph = GraphBuilder::new(Shape::new(8, 8, 1));
    graph.then("flatten", Op::Flatten);
    let (out_features, bias) = (10, true);
    graph.then("linear", Op::Linear { out_features, bias });
    let model = Model::initialised(graph.build().unwrap(), 4, Default::default());
    let (network, measured) = fitted(&model, &mut Baseline::default(), 40);
    assert!(measured.last().unwrap()[1] > 0.9, "{measured:?}");
    Model {
        parameters: network.parameters().unwrap(),
        ..model
    }
}

fn smoothadv(
    sigma: f64,
    samples: u32,
    params: AdversarialParams,
) -> Result<SmoothAdv, SettingError> {
    SmoothAdv::new(sigma, NoiseDraws { samples }, params)
}

fn bits(network: &Reference<f32>) -> Vec<u32> {
    let parameters: Parameters = network.parameters().unwrap();
    parameters.iter().flatten().map(|v| v.to_bits()).collect()
}

#[test]
fn without_a_budget_it_is_gaussian_training_to_the_bit() {
    let params = AdversarialParams {
        eps: 0.0,
        ..AdversarialParams::default()
    };
    let mut smoothadv = smoothadv(0.25, 1, params).unwrap();
    let (adversarial, measured) = fitted(&mlp(), &mut smoothadv, 4);
    let (gaussian, expected) = fitted(&mlp(), &mut Gaussian::new(0.25).unwrap(), 4);
    assert_eq!(bits(&adversarial), bits(&gaussian));
    for (got, expected) in measured.iter().zip(expected) {
        assert_eq!(got[..2], expected);
        assert_eq!(got[2], 0.0);
    }
}

/// The first step's loss and perturbation.
fn first(model: &Model, epoch: u32, mut method: SmoothAdv) -> Vec<f64> {
    let mut network = Reference::<f32>::new(model);
    let mut gradients = network.gradients().unwrap();
    let measured = method.step_alone(&mut network, &batch(), position(epoch), &mut gradients);
    measured.unwrap()
}

#[test]
fn the_inner_attack_raises_the_loss_within_its_budget() {
    let model = linear();
    for attack in [InnerAttack::Pgd, InnerAttack::Ddn] {
        for (sigma, samples) in [(0.0, 1), (0.25, 1), (0.25, 4)] {
            let method = |eps| {
                let params = AdversarialParams {
                    eps,
                    attack,
                    attack_steps: 8,
                    eps_warmup: 4,
                };
                smoothadv(sigma, samples, params).unwrap()
            };
            let clean = first(&model, 9, method(0.0));
            let weak = first(&model, 1, method(1.0));
            let strong = first(&model, 9, method(1.0));
            let what = format!("{attack:?}, sigma {sigma}, m {samples}: {clean:?} {strong:?}");
            assert!(strong[0] > 1.3 * clean[0] && strong[1] < clean[1], "{what}");
            assert!(strong[2] > 0.2 && strong[2] <= 1.0 + 1e-6, "{what}");
            // In the second of four warm-up epochs, half the budget.
            assert!(weak[2] > 0.05 && weak[2] <= 0.5 + 1e-6, "{weak:?}");
        }
    }
}

/// Mean cross-entropy of images in train mode.
fn cross_entropy(network: &Reference<f32>, images: &[f32], labels: &[u32]) -> f64 {
    let (logits, _) = network.forward(images, Mode::Train).unwrap();
    loss::cross_entropy(
        10,
        &logits,
        (labels, labels.len()),
        &mut vec![0.0; logits.len()],
    )
}

/// The loss is that of `x + p + eta_i` with the noises that were attacked, and
/// for `sigma = 0` that of `x + p` alone.
#[test]
fn it_trains_on_the_noises_that_it_attacked() {
    let (model, batch, epoch) = (mlp(), batch(), 2);
    let network = Reference::<f32>::new(&model);
    for (sigma, samples) in [(0.0, 1), (0.25, 3)] {
        let noise = Noise::gaussian(position(epoch).seed, Purpose::Training, sigma);
        let first_sample = epoch * samples;
        let averaged = Averaged::new(&network, noise.clone(), samples).unwrap();
        let averaged = averaged.first_sample(first_sample).unwrap();
        let exact = Deterministic::new(&network);
        let target: &dyn Target = if sigma == 0.0 { &exact } else { &averaged };
        let pgd = PgdParams {
            steps: 4,
            eps: 0.5,
            ..PgdParams::default()
        };
        let pgd = Pgd::new(pgd, noise.seed).unwrap().without_stopping();
        let perturbation = maximise(&pgd, target, &Challenge::new(&batch)).unwrap();
        let moved: Vec<f32> = batch
            .pixels
            .iter()
            .zip(&perturbation)
            .map(|(x, p)| x + p)
            .collect();
        let mut copies = Vec::new();
        for (pixels, &image) in moved.chunks_exact(64).zip(&batch.indices) {
            copies.extend(noise.copies(&[NoisyImage {
                pixels,
                image,
                first_sample,
                count: samples as usize,
            }]));
        }
        let labels: Vec<u32> = (0..IMAGES * samples as usize)
            .map(|i| batch.labels[i / samples as usize])
            .collect();
        let expected = cross_entropy(&network, &copies, &labels);
        let params = AdversarialParams {
            eps_warmup: 0,
            ..AdversarialParams::default()
        };
        let got = first(&model, epoch, smoothadv(sigma, samples, params).unwrap());
        assert!((got[0] - expected).abs() < 1e-9, "{} {expected}", got[0]);
        assert!(got[2] > 0.4 && got[2] <= 0.5 + 1e-6);
    }
}

/// What the inner attack says about a batch reaches the user with its advice.
#[test]
fn refusals_of_the_inner_attack_keep_their_hints() {
    let model = mlp();
    let mut network = Reference::<f32>::new(&model);
    let mut gradients = network.gradients().unwrap();
    let mut batch = batch();
    batch.pixels[5] = 1.5;
    let mut method = smoothadv(0.25, 1, AdversarialParams::default()).unwrap();
    let error = method.step_alone(&mut network, &batch, position(0), &mut gradients);
    let error = error.unwrap_err();
    assert!(matches!(
        error,
        TrainError::Attack(AttackError::Pixel { .. })
    ));
    assert!(
        error
            .to_string()
            .contains("expected pixels in [0, 1], got 1.5")
    );
    assert!(error.hint().unwrap().contains("scaled to [0, 1]"));
}

/// Without noise it is ordinary adversarial training, to the bit.
#[test]
fn without_noise_one_copy_is_attacked() {
    let params = AdversarialParams {
        eps_warmup: 0,
        ..AdversarialParams::default()
    };
    let (plain, measured) = fitted(
        &mlp(),
        &mut SmoothAdv::without_noise(params.clone()).unwrap(),
        3,
    );
    let (zero, expected) = fitted(&mlp(), &mut smoothadv(0.0, 1, params).unwrap(), 3);
    assert_eq!(bits(&plain), bits(&zero));
    assert_eq!(measured, expected);
}

#[test]
fn nonsense_is_refused_by_name() {
    let fine = AdversarialParams::default();
    smoothadv(0.25, 1, fine.clone()).unwrap();
    let with_eps = |eps| AdversarialParams {
        eps,
        ..fine.clone()
    };
    let with_steps = |attack_steps| AdversarialParams {
        attack_steps,
        ..fine.clone()
    };
    let ddn = AdversarialParams {
        attack: InnerAttack::Ddn,
        ..with_steps(1)
    };
    let no_steps = AdversarialParams {
        eps: 0.0,
        ..with_steps(0)
    };
    let cases = [
        ("sigma", smoothadv(-0.1, 1, fine.clone())),
        ("sigma", smoothadv(f64::NAN, 1, fine.clone())),
        ("eps", smoothadv(0.25, 1, with_eps(-1.0))),
        ("eps", smoothadv(0.25, 1, with_eps(f64::INFINITY))),
        ("samples", smoothadv(0.25, 0, fine.clone())),
        ("attack-steps", smoothadv(0.25, 1, with_steps(0))),
        ("attack-steps", smoothadv(0.25, 1, no_steps)),
        ("attack-steps", smoothadv(0.25, 1, ddn)),
    ];
    for (wanted, refused) in cases {
        let error = refused.unwrap_err();
        assert!(matches!(error, SettingError::Value { .. }), "{error}");
        assert_eq!(error.name(), wanted);
    }
}
