//! Warnings about networks, and attacks that misbehave.

use std::cell::Cell;

use attack::checks::{self, AttackWarning};
use attack::{
    Attack, AttackError, AttackKind, Attempt, Challenge, Ddn, DdnParams, Deterministic, Evaluation,
    Judgement, Pgd, PgdParams, Target, Visit, run,
};
use network::{Images, Shape};

use crate::common::{images_for, linear_network, random_image, small_network};

/// A real network, spoilt.
struct Spoilt<'a> {
    inner: Deterministic<'a>,
    calls: Cell<u32>,
    spoil: fn(&mut Evaluation, u32),
    outputs: Option<f32>,
}

impl Target for Spoilt<'_> {
    fn input(&self) -> Shape {
        self.inner.input()
    }

    fn classes(&self) -> usize {
        self.inner.classes()
    }

    fn judge(&self, points: &Images, step: u32) -> Result<Judgement, AttackError> {
        self.inner.judge(points, step)
    }

    fn evaluate(&self, points: &Images, step: u32) -> Result<Evaluation, AttackError> {
        let mut evaluation = self.inner.evaluate(points, step)?;
        self.calls.set(self.calls.get() + 1);
        (self.spoil)(&mut evaluation, self.calls.get());
        Ok(evaluation)
    }

    fn outputs(&self, images: &[f32]) -> Result<Vec<f32>, AttackError> {
        let outputs = self.inner.outputs(images)?;
        Ok(match self.outputs {
            Some(value) => vec![value; outputs.len()],
            None => outputs,
        })
    }
}

fn warnings(spoil: fn(&mut Evaluation, u32), outputs: Option<f32>) -> Vec<AttackWarning> {
    let network = small_network(2);
    let pixels: Vec<f32> = (0..3).flat_map(|i| random_image(2, i, 50)).collect();
    let target = Spoilt {
        inner: Deterministic::new(&network),
        calls: Cell::new(0),
        spoil,
        outputs,
    };
    let images = images_for(&network, &pixels, &[0, 1, 2], &[0, 1, 2]);
    checks::before(&target, &Challenge::new(&images)).unwrap()
}

#[test]
fn a_sound_network_gets_no_warning() {
    assert_eq!(warnings(|_, _| {}, None), []);
}

#[test]
fn each_fault_is_named() {
    let random = warnings(|e, call| e.judgement.losses[1] += f64::from(call), None);
    assert_eq!(random, [AttackWarning::Random { images: 1, of: 3 }]);
    let zero = warnings(|e, _| e.gradient[50..].fill(0.0), None);
    assert_eq!(zero, [AttackWarning::ZeroGradient { images: 2, of: 3 }]);
    let infinite = warnings(|e, _| e.gradient[7] = f32::NAN, None);
    assert_eq!(
        infinite,
        [AttackWarning::GradientNotFinite { images: 1, of: 3 }]
    );
    let softmax = warnings(|_, _| {}, Some(0.2));
    assert_eq!(softmax, [AttackWarning::Probabilities]);
    for warning in [random, zero, infinite, softmax].concat() {
        let text = warning.to_string();
        let advice = text.rsplit(": ").next().unwrap();
        assert!(advice.len() > 20 && advice.len() < text.len(), "{text}");
    }
}

/// Weights that overflow are an error, not a successful attack.
#[test]
fn logits_that_are_not_finite_are_an_error() {
    let weights = vec![vec![f32::MAX; 4], vec![0.0; 4]];
    let network = linear_network(2, &weights, &[0.0, 0.0]);
    let images = images_for(&network, &[1.0; 4], &[17], &[0]);
    let target = Deterministic::new(&network);
    let error = checks::before(&target, &Challenge::new(&images)).unwrap_err();
    assert_eq!(error, AttackError::NotFinite { index: 17 });
    assert!(error.hint().unwrap().contains("diverged"));
}

/// An attack without gradient still ends: random directions, legal images.
#[test]
fn a_constant_network_survives() {
    let network = linear_network(2, &[vec![0.0; 4], vec![0.0; 4]], &[1.0, 0.0]);
    let target = Deterministic::new(&network);
    let images = images_for(&network, &[0.2, 0.4, 0.6, 0.8], &[0], &[0]);
    let challenge = Challenge::new(&images);
    let pgd = Pgd::new(PgdParams::default(), 0).unwrap();
    let ddn = Ddn::new(DdnParams::default(), 0).unwrap();
    for attack in [&pgd as &dyn Attack, &ddn] {
        let outcome = &run(attack, &target, &challenge, &mut |_| {}).unwrap()[0];
        assert!(!outcome.success());
        assert_eq!(outcome.l2, None);
    }
    let warnings = checks::before(&target, &challenge).unwrap();
    let zero = AttackWarning::ZeroGradient { images: 1, of: 1 };
    assert!(warnings.contains(&zero));
}

/// Gives back whatever it is told to.
struct Liar {
    image: Vec<f32>,
    count: usize,
}

impl Attack for Liar {
    fn name(&self) -> &'static str {
        "liar"
    }

    fn kind(&self) -> AttackKind {
        AttackKind::FixedBudget { eps: 0.5 }
    }

    fn perturb(
        &self,
        _: &dyn Target,
        _: &Challenge<'_>,
        _: &mut dyn FnMut(&Visit<'_>),
    ) -> Result<Vec<Attempt>, AttackError> {
        let attempt = Attempt {
            image: self.image.clone(),
            steps: 1,
            at_floor: false,
        };
        Ok(vec![attempt; self.count])
    }
}

#[test]
fn attacks_are_not_trusted() {
    let network = linear_network(1, &[vec![1.0], vec![0.0]], &[0.0, 0.5]);
    let target = Deterministic::new(&network);
    let images = images_for(&network, &[0.9], &[4], &[0]);
    let challenge = Challenge::new(&images);
    let told = |image: Vec<f32>, count| {
        let liar = Liar { image, count };
        run(&liar, &target, &challenge, &mut |_| {}).map_err(|e| e.to_string())
    };
    let broken = |reason: &str| Err(format!("the attack `liar` is broken: image 4 {reason}"));
    assert_eq!(told(vec![1.2], 1), broken("has a pixel 1.2 outside [0, 1]"));
    assert_eq!(
        told(vec![f32::NAN], 1),
        broken("has a pixel NaN outside [0, 1]")
    );
    let far = told(vec![0.3], 1).unwrap_err();
    assert!(far.contains("more than the budget 0.5"), "{far}");
    assert_eq!(told(vec![0.3; 2], 1), broken("has 2 pixels, not 1"));
    assert_eq!(told(vec![0.9], 2), broken("and the rest gave 2 attempts"));
    // A claim of success counts for nothing.
    assert!(!told(vec![0.7], 1).unwrap()[0].success());
    assert!(told(vec![0.45], 1).unwrap()[0].success());
}
