//! SmoothAdv where it is another method, and what its inner attack does.

use attack::{AttackError, Averaged, Deterministic, PgdParams, Target, maximise};
use data::{Batch, OpenOptions, Split};
use network::architecture::{Task, build};
use network::{
    Differentiable, Gradients, GraphBuilder, Mode, Model, Noise, NoisyImage, Op, Parameters,
    Purpose, Reference, Shape,
};
use train::methods::{Baseline, Gaussian, InnerAttack, SmoothAdv, SmoothAdvParams};
use train::{Method, Position, Sgd, SgdParams, TrainError, loss};

const IMAGES: usize = 48;

fn batch() -> Batch {
    let digits = data::open("digits", Split::Train, &OpenOptions::default()).unwrap();
    let mut images = vec![0.0; IMAGES * 64];
    for (index, out) in images.chunks_exact_mut(64).enumerate() {
        digits.read(index, out).unwrap();
    }
    Batch {
        number: 0,
        indices: (0..IMAGES as u32).collect(),
        images,
        labels: digits.labels()[..IMAGES].to_vec(),
    }
}

fn position(epoch: u32) -> Position {
    Position {
        seed: 21,
        epoch,
        step: u64::from(epoch),
    }
}

/// Weights after some steps of a method on one batch, and what was measured.
fn fitted(
    model: &Model,
    method: &mut dyn Method<Reference<f32>>,
    steps: u32,
) -> (Reference<f32>, Vec<Vec<f64>>) {
    let batch = batch();
    let mut network = Reference::<f32>::new(model);
    let mut sgd = Sgd::new(&model.graph, SgdParams::default());
    let mut gradients = Gradients::zeros(&model.graph);
    let mut measured = Vec::new();
    for step in 0..steps {
        gradients.clear();
        let row = method.step(&mut network, &batch, position(step), &mut gradients);
        measured.push(row.unwrap());
        sgd.step(&model.graph, 0.1, &gradients, network.parameters_mut());
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
    let (network, measured) = fitted(&model, &mut Baseline, 40);
    assert!(measured.last().unwrap()[1] > 0.9, "{measured:?}");
    Model {
        parameters: network.parameters().clone(),
        ..model
    }
}

fn bits(parameters: &Parameters) -> Vec<u32> {
    parameters.iter().flatten().map(|v| v.to_bits()).collect()
}

#[test]
fn without_a_budget_it_is_gaussian_training_to_the_bit() {
    let params = SmoothAdvParams {
        eps: 0.0,
        ..SmoothAdvParams::new(0.25)
    };
    let mut smoothadv = SmoothAdv::new(params).unwrap();
    let (adversarial, measured) = fitted(&mlp(), &mut smoothadv, 4);
    let (gaussian, expected) = fitted(&mlp(), &mut Gaussian { sigma: 0.25 }, 4);
    assert_eq!(bits(adversarial.parameters()), bits(gaussian.parameters()));
    for (got, expected) in measured.iter().zip(expected) {
        assert_eq!(got[..2], expected);
        assert_eq!(got[2], 0.0);
    }
}

/// The first step's loss and perturbation.
fn first(model: &Model, epoch: u32, params: SmoothAdvParams) -> Vec<f64> {
    let mut network = Reference::<f32>::new(model);
    let mut gradients = Gradients::zeros(&model.graph);
    let mut method = SmoothAdv::new(params).unwrap();
    let measured = method.step(&mut network, &batch(), position(epoch), &mut gradients);
    measured.unwrap()
}

#[test]
fn the_inner_attack_raises_the_loss_within_its_budget() {
    let model = linear();
    for attack in [InnerAttack::Pgd, InnerAttack::Ddn] {
        for (sigma, samples) in [(0.0, 1), (0.25, 1), (0.25, 4)] {
            let params = |eps| SmoothAdvParams {
                samples,
                eps,
                attack,
                steps: 8,
                warmup_epochs: 4,
                ..SmoothAdvParams::new(sigma)
            };
            let clean = first(&model, 9, params(0.0));
            let weak = first(&model, 1, params(1.0));
            let strong = first(&model, 9, params(1.0));
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
    let (logits, _) = network.forward(images, Mode::Train);
    loss::cross_entropy(10, &logits, labels, &mut vec![0.0; logits.len()])
}

/// The loss is that of `x + p + eta_i` with the noises that were attacked, and
/// for `sigma = 0` that of `x + p` alone.
#[test]
fn it_trains_on_the_noises_that_it_attacked() {
    let (model, batch, epoch) = (mlp(), batch(), 2);
    let network = Reference::<f32>::new(&model);
    for (sigma, samples) in [(0.0, 1), (0.25, 3)] {
        let noise = Noise {
            seed: position(epoch).seed,
            purpose: Purpose::Training,
            sigma,
        };
        let first_sample = epoch * samples;
        let averaged = Averaged::new(&network, noise, samples).unwrap();
        let averaged = averaged.first_sample(first_sample).unwrap();
        let exact = Deterministic::new(&network);
        let target: &dyn Target = if sigma == 0.0 { &exact } else { &averaged };
        let pgd = PgdParams {
            steps: 4,
            eps: 0.5,
            stop_at_success: false,
            seed: noise.seed,
            ..PgdParams::default()
        };
        let points = attack::Batch::new(&batch.images, &batch.indices, &batch.labels);
        let perturbation = maximise(&pgd.check().unwrap(), target, &points).unwrap();
        let moved: Vec<f32> = batch
            .images
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
        let params = SmoothAdvParams {
            samples,
            warmup_epochs: 0,
            ..SmoothAdvParams::new(f64::from(sigma))
        };
        let got = first(&model, epoch, params);
        assert!((got[0] - expected).abs() < 1e-9, "{} {expected}", got[0]);
        assert!(got[2] > 0.4 && got[2] <= 0.5 + 1e-6);
    }
}

/// What the inner attack says about a batch reaches the user with its advice.
#[test]
fn refusals_of_the_inner_attack_keep_their_hints() {
    let model = mlp();
    let mut network = Reference::<f32>::new(&model);
    let mut gradients = Gradients::zeros(&model.graph);
    let mut batch = batch();
    batch.images[5] = 1.5;
    let mut method = SmoothAdv::new(SmoothAdvParams::new(0.25)).unwrap();
    let error = method.step(&mut network, &batch, position(0), &mut gradients);
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

#[test]
fn nonsense_is_refused_by_name() {
    let fine = SmoothAdvParams::new(0.25);
    fine.check().unwrap();
    let cases = [
        ("sigma", SmoothAdvParams::new(-0.1)),
        ("sigma", SmoothAdvParams::new(f64::NAN)),
        (
            "eps",
            SmoothAdvParams {
                eps: -1.0,
                ..fine.clone()
            },
        ),
        (
            "eps",
            SmoothAdvParams {
                eps: f64::INFINITY,
                ..fine.clone()
            },
        ),
        (
            "samples",
            SmoothAdvParams {
                samples: 0,
                ..fine.clone()
            },
        ),
        (
            "steps",
            SmoothAdvParams {
                steps: 0,
                ..fine.clone()
            },
        ),
        (
            "steps",
            SmoothAdvParams {
                steps: 0,
                eps: 0.0,
                ..fine.clone()
            },
        ),
        (
            "steps",
            SmoothAdvParams {
                steps: 1,
                attack: InnerAttack::Ddn,
                ..fine.clone()
            },
        ),
    ];
    for (wanted, params) in cases {
        match SmoothAdv::new(params.clone()) {
            Err(
                TrainError::Setting { name, .. }
                | TrainError::Attack(AttackError::Parameter { name, .. }),
            ) => assert_eq!(name, wanted),
            other => panic!("{params:?}: {other:?}"),
        }
    }
}
