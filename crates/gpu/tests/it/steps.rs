//! Steps of training and attacks are those of the CPU's executor, to 1e-4.

use std::ops::Range;

use attack::{Attack, Challenge, Ddn, DdnParams, Deterministic, Pgd, PgdParams, run};
use data::{OpenOptions, Split};
use network::architecture::{Task, build};
use network::{Cpu, DeviceError, Executor, Images, Load, Model, SgdStep};
use train::methods::{
    AdversarialParams, Average, AverageParams, Baseline, Gaussian, Heat, HeatParams,
    InnerAttackParams, NoiseDraws, SmoothAdv,
};
use train::{Leg, LegContext, Method, Position};

use crate::common::{executor, pool};

const MOST: f64 = 1e-4;

fn digits() -> Images {
    let digits = data::open("digits", Split::Train, &OpenOptions::default()).unwrap();
    digits.images(0..40).unwrap()
}

fn on_cpu(model: &Model) -> Result<Box<dyn Executor>, DeviceError> {
    Ok(Box::new(Cpu::new(model, pool(1))))
}

fn on_device(model: &Model) -> Result<Box<dyn Executor>, DeviceError> {
    Ok(executor(model))
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|v| v * v).sum::<f64>().sqrt()
}

/// What a method measures in some steps, and the parameters behind each.
fn steps(
    make: &dyn Fn() -> Box<dyn Method>,
    start: &Model,
    load: Load<'_>,
    positions: Range<u32>,
) -> (Vec<Vec<f64>>, Vec<Vec<f64>>, Model) {
    let (images, mut method) = (digits(), make());
    let stage = LegContext {
        load,
        images: &images,
        seed: 1,
    };
    let leg = Leg { number: 0, of: 1 };
    let student = method.begin(leg, start, &stage).unwrap();
    let mut network = load(&student).unwrap();
    let mut gradients = network.gradients().unwrap();
    let by = SgdStep {
        rate: 0.02,
        momentum: 0.9,
        weight_decay: 5e-4,
        clip: Some(1.0),
    };
    let (mut measured, mut parameters) = (vec![], vec![]);
    for step in positions {
        let position = Position {
            seed: 3,
            epoch: step,
            step: step.into(),
        };
        let row = method.step_alone(&mut *network, &images, position, &mut gradients);
        measured.push(row.unwrap());
        network.optimise(&by, &mut gradients).unwrap();
        let values = network.parameters().unwrap();
        parameters.push(values.iter().flatten().map(|&v| f64::from(v)).collect());
    }
    let trained = Model {
        parameters: network.parameters().unwrap(),
        ..student
    };
    (measured, parameters, trained)
}

/// A network that has learned a little on the CPU, so that its classes mean something.
fn trained() -> Model {
    let graph = build("smallcnn", &Task::new(digits().shape, 10)).unwrap();
    let start = Model::initialised(graph, 2, Default::default());
    let baseline = || Box::new(Baseline::default()) as Box<dyn Method>;
    let (measured, _, model) = steps(&baseline, &start, &on_cpu, 0..30);
    assert!(measured[29][1] > 0.8, "{measured:?}");
    model
}

fn check(name: &str, make: &dyn Fn() -> Box<dyn Method>) {
    check_from(&trained(), name, make, 0..3);
}

/// Both sides take the same steps from one start; returns where the CPU's end.
fn check_from(
    start: &Model,
    name: &str,
    make: &dyn Fn() -> Box<dyn Method>,
    positions: Range<u32>,
) -> Model {
    let (want, want_parameters, end) = steps(make, start, &on_cpu, positions.clone());
    let (got, got_parameters, _) = steps(make, start, &on_device, positions);
    for (step, (got, want)) in got.iter().zip(&want).enumerate() {
        for (got, want) in got.iter().zip(want) {
            let most = MOST * want.abs().max(1.0);
            assert!(
                (got - want).abs() < most,
                "{name}, step {step}: {got} {want}"
            );
        }
    }
    for (step, (got, want)) in got_parameters.iter().zip(&want_parameters).enumerate() {
        let apart = norm(got.iter().zip(want).map(|(g, w)| g - w)) / norm(want.iter().copied());
        assert!(
            apart < MOST,
            "{name}: parameters {apart} apart in step {step}"
        );
    }
    end
}

#[test]
fn steps_on_labels_are_those_of_the_cpu() {
    check("baseline", &|| Box::new(Baseline::default()));
    check("gaussian", &|| Box::new(Gaussian::new(0.25).unwrap()));
}

#[test]
fn heat_steps_are_those_of_the_cpu() {
    check("heat", &|| {
        let params = HeatParams {
            kappa: 2,
            ..HeatParams::default()
        };
        Box::new(Heat::new(0.25, params).unwrap())
    });
}

#[test]
fn average_steps_are_those_of_the_cpu() {
    check("average", &|| {
        let attack = InnerAttackParams::default();
        Box::new(Average::new(0.25, AverageParams::default(), attack).unwrap())
    });
}

/// Each step starts from the CPU's parameters: the attack inside follows gradients across
/// kinks, so what rounding moved in one step would grow in the next.
#[test]
fn smoothadv_steps_are_those_of_the_cpu() {
    let mut start = trained();
    for step in 0..3 {
        let make = || {
            let params = AdversarialParams {
                eps_warmup: 1,
                ..AdversarialParams::default()
            };
            let draws = NoiseDraws { samples: 2 };
            Box::new(SmoothAdv::new(0.25, draws, params).unwrap()) as Box<dyn Method>
        };
        start = check_from(&start, "smoothadv", &make, step..step + 1);
    }
}

#[test]
fn attacks_are_those_of_the_cpu() {
    let (model, images) = (trained(), digits());
    // Not rounded to grey levels: a pixel between two of them would jump.
    let ddn = DdnParams {
        levels: 0,
        ..DdnParams::default()
    };
    let attacks: [(&str, Box<dyn Attack>); 2] = [
        ("pgd", Box::new(Pgd::new(PgdParams::default(), 0).unwrap())),
        ("ddn", Box::new(Ddn::new(ddn, 0).unwrap())),
    ];
    for (name, attack) in attacks {
        let outcomes = |network: Box<dyn Executor>| {
            let target = Deterministic::new(&*network);
            run(&*attack, &target, &Challenge::new(&images), &mut |_| {}).unwrap()
        };
        let want = outcomes(on_cpu(&model).unwrap());
        let broken = want.iter().filter(|outcome| outcome.success()).count();
        assert!(broken > 20, "{name} breaks {broken}");
        for (got, want) in outcomes(on_device(&model).unwrap()).iter().zip(&want) {
            let what = format!("{name}, image {}: {got:?} {want:?}", want.index);
            assert_eq!(got.status, want.status, "{what}");
            assert_eq!(got.adv_predict, want.adv_predict, "{what}");
            assert!((got.last_l2 - want.last_l2).abs() < MOST, "{what}");
        }
    }
}
