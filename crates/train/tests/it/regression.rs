//! Real values: squared errors and averages do not depend on their scale.

use std::sync::Arc;

use network::{
    Cpu, Executor, GraphBuilder, Images, Model, ModelInfo, Op, SgdStep, Shape, TaskKind,
};
use train::methods::{
    Average, AverageOf, AverageParams, Baseline, Fit, Gaussian, Heat, HeatParams, InnerAttackParams,
};
use train::{Leg, LegContext, Method, Position, Schedule};

use crate::common::{on_the_cpu, pool};
use crate::functions::{batch, grid, outputs};

/// The units of the two outputs.
const UNITS: [f32; 2] = [0.075, 75.0];

/// `y_k = unit_k * (a_k x^2 + b_k)` of one pixel.
fn squares(a: f32, b: f32) -> Model {
    let mut graph = GraphBuilder::new(Shape::vector(1));
    graph.add("square", Op::Mul, &[0, 0]);
    let (out_features, bias) = (2, true);
    graph.then("linear", Op::Linear { out_features, bias });
    let (scale, shift) = (UNITS.to_vec(), vec![0.0, 0.0]);
    graph.then("values", Op::Affine { scale, shift });
    let info = ModelInfo {
        task: TaskKind::Regression,
        ..ModelInfo::default()
    };
    let mut model = Model::initialised(graph.build().unwrap(), 0, info);
    model.parameters.get_mut(0).fill(a);
    model.parameters.get_mut(1).fill(b);
    model
}

/// Full-batch steps of a method; what the last one measured, and the student.
fn fitted(
    model: &Model,
    method: &mut dyn Method,
    images: &Images,
    (steps, rate): (u32, f64),
) -> (Vec<f64>, Model) {
    let pool = pool(1);
    let stage = LegContext {
        load: &on_the_cpu(&pool),
        images,
        seed: 3,
    };
    let start = method
        .begin(Leg { number: 0, of: 1 }, model, &stage)
        .unwrap();
    let mut student = Cpu::new(&start, Arc::clone(&pool));
    let mut gradients = student.gradients().unwrap();
    let mut measured = vec![];
    for step in 0..steps {
        let position = Position {
            seed: 3,
            epoch: step,
            step: u64::from(step),
        };
        measured = method
            .step_alone(&mut student, images, position, &mut gradients)
            .unwrap();
        let rate = rate * Schedule::Cosine.factor(f64::from(step), f64::from(steps));
        let sgd = SgdStep {
            rate: rate as f32,
            momentum: 0.9,
            weight_decay: 0.0,
            clip: Some(1.0),
        };
        student.optimise(&sgd, &mut gradients).unwrap();
    }
    let parameters = student.parameters().unwrap();
    let model = Model {
        parameters,
        ..start
    };
    (measured, model)
}

#[test]
fn squared_errors_are_learned_in_any_unit() {
    let points = grid(1, 33);
    let mut images = batch(&points, 1);
    let exact = squares(13.0, -0.5);
    images.values = outputs(&exact, &points).iter().map(|&y| y as f32).collect();
    let noisy = &mut Gaussian::new(0.02).unwrap() as &mut dyn Method;
    for (method, most) in [
        (&mut Baseline::default() as &mut dyn Method, 0.02),
        (noisy, 0.2),
    ] {
        assert_eq!(method.value_columns(), Ok(&["loss"][..]));
        let (measured, v) = fitted(&squares(0.0, 0.0), method, &images, (700, 0.3));
        assert!(measured.len() == 1 && measured[0] < most, "{measured:?}");
        let pairs = outputs(&v, &points)
            .into_iter()
            .zip(outputs(&exact, &points));
        for (at, (v, exact)) in pairs.enumerate() {
            let off = (v - exact).abs() / f64::from(UNITS[at % 2]);
            assert!(off < most, "output {}: {v} for {exact}", at % 2);
        }
    }
}

/// `E (x + eta)^2 = x^2 + sigma^2`, in both units.
#[test]
fn averages_are_learned_in_any_unit() {
    let points = grid(1, 33);
    let images = batch(&points, 1);
    let f = squares(13.0, 0.0);
    let sigma = 0.2;
    let params = AverageParams {
        target: AverageOf::Logits,
        draws: 16,
        noisy_share: 0.0,
        ..AverageParams::default()
    };
    let mut average = Average::new(sigma, params, InnerAttackParams::default()).unwrap();
    let (measured, v) = fitted(&f, &mut average, &images, (500, 0.1));
    assert_eq!(measured.len(), average.value_columns().unwrap().len());
    let pairs = outputs(&v, &points).into_iter().zip(outputs(&f, &points));
    for (at, (v, f)) in pairs.enumerate() {
        let exact = 13.0 * f64::from(UNITS[at % 2]) * sigma * sigma;
        assert!(
            ((v - f) / exact - 1.0).abs() < 0.1,
            "output {}: {}",
            at % 2,
            v - f
        );
    }
}

#[test]
fn what_is_about_classes_says_so() {
    let attack = InnerAttackParams {
        attack: Some(train::methods::InnerAttack::Pgd),
        ..InnerAttackParams::default()
    };
    let heat = |fit| {
        let params = HeatParams {
            fit,
            ..HeatParams::default()
        };
        Heat::new(0.1, params).unwrap()
    };
    assert!(heat(Fit::L2).value_columns().is_ok());
    assert!(heat(Fit::Kl).value_columns().is_err());
    assert!(
        heat(Fit::L2)
            .attacked(attack.clone())
            .unwrap()
            .value_columns()
            .is_err()
    );
    for (target, attack, fits) in [
        (AverageOf::Logits, InnerAttackParams::default(), true),
        (AverageOf::Votes, InnerAttackParams::default(), false),
        (AverageOf::Logits, attack, false),
    ] {
        let params = AverageParams {
            target,
            ..AverageParams::default()
        };
        let average = Average::new(0.1, params, attack).unwrap();
        assert_eq!(average.value_columns().is_ok(), fits);
    }
}
