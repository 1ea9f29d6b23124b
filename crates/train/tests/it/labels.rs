//! No label has any influence on heat smoothing.

use data::{Loader, LoaderOptions};
use network::architecture::{Task, build};
use network::{Executor, Model, Parameters, Reference, Shape};
use train::methods::{Fit, Heat, HeatParams, Scale, Start};
use train::{Method, Position};

use crate::common::{begin, by_plain_loops, digits, sgd};

/// Weights after a few steps, and all that was measured; `label` changes labels.
fn smoothed(fit: Fit, label: impl Fn(u32) -> u32) -> (Parameters, Vec<Vec<f64>>) {
    let digits = digits();
    let graph = build("mlp", &Task::new(Shape::new(8, 8, 1), 10)).unwrap();
    let teacher = Model::initialised(graph, 1, Default::default());
    let mut student = Reference::<f32>::new(&teacher);
    let params = HeatParams {
        lambda: 5.0,
        timesteps: 1,
        kappa: 2,
        fd_step: 0.1,
        fit,
        start: Start::Warm,
        scale: Scale::Unbiased,
        scale_free: true,
        noisy_share: 0.5,
        keep_iterates: false,
    };
    let options = LoaderOptions::training(64, &digits, 2, 0);
    let images = digits.images(0..64).unwrap();
    let mut heat = Heat::new(0.25, params).unwrap();
    begin(&mut heat, &teacher, &by_plain_loops, &images);
    let mut gradients = student.gradients().unwrap();
    let mut measured = Vec::new();
    for (step, batch) in Loader::new(&digits, options).unwrap().take(4).enumerate() {
        let mut batch = batch.unwrap();
        batch.labels.iter_mut().for_each(|y| *y = label(*y));
        let position = Position {
            seed: 7,
            epoch: 0,
            step: step as u64,
        };
        measured.push(
            heat.step_alone(&mut student, &batch, position, &mut gradients)
                .unwrap(),
        );
        student.optimise(&sgd(0.01), &mut gradients).unwrap();
    }
    (student.parameters().unwrap(), measured)
}

#[test]
fn shuffled_labels_give_the_same_bytes() {
    for fit in [Fit::L2, Fit::Kl, Fit::L2Prob] {
        let (parameters, measured) = smoothed(fit, |y| y);
        let (shuffled, other) = smoothed(fit, |y| (3 * y + 1) % 10);
        let bits =
            |p: &Parameters| -> Vec<u32> { p.iter().flatten().map(|v| v.to_bits()).collect() };
        assert_eq!(bits(&parameters), bits(&shuffled), "{fit:?}");
        // Only the accuracy, the last column, is about labels.
        let accuracy = |m: &[Vec<f64>]| -> Vec<f64> { m.iter().map(|row| row[5]).collect() };
        assert_ne!(accuracy(&measured), accuracy(&other));
        for (a, b) in measured.iter().zip(&other) {
            assert_eq!(a[..5], b[..5]);
        }
    }
}
