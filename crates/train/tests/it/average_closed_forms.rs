//! Averages that are known exactly, in 1, 2 and 3072 dimensions. The points lie
//! on a line or in a plane, as images lie on a thin set: nearly all of the noise
//! points away from it.

use network::logits::softmax;
use network::{Activation, Distribution, GraphBuilder, Model, Op, Shape};
use train::methods::{
    Average, AverageOf, AverageParams, Heat, HeatParams, InnerAttackParams, TrainingNoise,
};

use crate::functions::{Function, distance, learned, outputs, params};

const SIGMA: f64 = 0.1;
/// Relative to the exact average.
const TOLERANCE: f64 = 0.02;

fn averaging(target: AverageOf, draws: u32) -> Average {
    averaging_over(SIGMA, target, draws)
}

fn averaging_over(noise: impl Into<TrainingNoise>, target: AverageOf, draws: u32) -> Average {
    let params = AverageParams {
        target,
        draws,
        noisy_share: 0.0,
        mixed_share: 0.0,
        ..AverageParams::default()
    };
    Average::new(noise, params, InnerAttackParams::default()).unwrap()
}

/// Points along the diagonal of the unit cube, `t` times `(1, ..., 1)/sqrt(d)`
/// with `t` from -1/2 to 1/2.
fn diagonal(axes: usize) -> Vec<f32> {
    const POINTS: usize = 33;
    let length = 1.0 / (axes as f32).sqrt();
    let t = (0..POINTS).map(|i| i as f32 / (POINTS - 1) as f32 - 0.5);
    t.flat_map(|t| std::iter::repeat_n(t * length, axes))
        .collect()
}

/// The coordinate along the diagonal.
fn along(x: &[f32]) -> f64 {
    let sum: f64 = x.iter().map(|&x| f64::from(x)).sum();
    sum / (x.len() as f64).sqrt()
}

/// `v(x) = b + sum_j c_j phi(u_j . x + t_j)`, with the `u_j` along the diagonal.
fn features(axes: usize, outputs: usize, count: usize) -> Model {
    let mut graph = GraphBuilder::new(Shape::vector(axes));
    let (out_features, bias) = (count, true);
    graph.then("inner", Op::Linear { out_features, bias });
    graph.then("tanh", Op::Activation(Activation::Tanh));
    let (out_features, bias) = (outputs, true);
    graph.then("outer", Op::Linear { out_features, bias });
    let mut model = Model::initialised(graph.build().unwrap(), 0, Default::default());
    let steepness = 6.0;
    let length = steepness / (axes as f32).sqrt();
    model.parameters.get_mut(0).fill(length);
    let places = model.parameters.get_mut(1).iter_mut().enumerate();
    places.for_each(|(j, b)| *b = steepness * (0.6 - 1.2 * j as f32 / (count - 1) as f32));
    model.parameters.get_mut(2).fill(0.0);
    model.parameters.get_mut(3).fill(0.0);
    model
}

/// Relative distance of v from the exact average at the points.
fn relative(v: &[f64], exact: &[f64]) -> f64 {
    distance(v, exact) / distance(exact, &vec![0.0; exact.len()])
}

#[test]
fn a_linear_function_is_its_own_average() {
    for axes in [1, 2, 3072] {
        let points = diagonal(axes);
        let f: Function = |x| 3.0 * along(x) + 1.0;
        let mut average = averaging(AverageOf::Logits, 4);
        let v = learned(f, features(axes, 1, 8), &mut average, &points, (400, 0.05));
        let exact: Vec<f64> = points.chunks_exact(axes).map(f).collect();
        let far = relative(&outputs(&v, &points), &exact);
        assert!(far < TOLERANCE, "{axes} axes: {far}");
    }
}

/// `E |x + eta|^2 = |x|^2 + d sigma^2`: what averaging adds tells its sigma. The
/// heat penalty sees the slope along the line alone, and adds next to nothing.
#[test]
fn a_quadratic_function_rises_by_its_noise() {
    for axes in [1, 2, 3072] {
        let points = diagonal(axes);
        let f: Function = |x| x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        let f_at: Vec<f64> = points.chunks_exact(axes).map(f).collect();
        let exact: Vec<f64> = (f_at.iter())
            .map(|f| f + axes as f64 * SIGMA * SIGMA)
            .collect();
        let rise = |v: &[f64]| {
            let sum: f64 = v.iter().zip(&f_at).map(|(v, f)| v - f).sum();
            sum / f_at.len() as f64 / axes as f64
        };
        let mut average = averaging(AverageOf::Logits, 16);
        let steps = if axes < 3072 { 4000 } else { 600 };
        let schedule = (steps, 0.05);
        let v = learned(f, features(axes, 1, 8), &mut average, &points, schedule);
        let v = outputs(&v, &points);
        let far = relative(&v, &exact);
        assert!(far < TOLERANCE, "{axes} axes: {far}");
        let sigma = rise(&v).max(0.0).sqrt();
        assert!((sigma / SIGMA - 1.0).abs() < TOLERANCE, "{axes}: {sigma}");
        if axes == 3072 {
            let heat = HeatParams {
                scale_free: true,
                ..params(0.5, 1)
            };
            let mut heat = Heat::new(SIGMA, heat).unwrap();
            let v = learned(f, features(axes, 1, 8), &mut heat, &points, (600, 0.05));
            let sigma = rise(&outputs(&v, &points)).abs().sqrt();
            assert!(sigma < 0.2 * SIGMA, "heat: {sigma}");
        }
    }
}

/// The vote share of a step is `Phi(t / sigma)`, `t` the distance to the step:
/// randomized smoothing's radius in one pass.
#[test]
fn the_votes_of_a_step_are_a_normal_distribution() {
    for axes in [1, 2, 3072] {
        let points = diagonal(axes);
        let f: Function = |x| along(x).signum();
        let mut average = averaging(AverageOf::Votes, 16);
        let v = learned(f, features(axes, 2, 12), &mut average, &points, (600, 0.5));
        let z: Vec<f32> = outputs(&v, &points).iter().map(|&z| z as f32).collect();
        let share: Vec<f64> = z.chunks_exact(2).map(|z| softmax(z)[0]).collect();
        let exact = |sigma: f64| -> Vec<f64> {
            let t = points.chunks_exact(axes).map(along);
            t.map(|t| normal(t / sigma)).collect()
        };
        let far = distance(&share, &exact(SIGMA));
        assert!(far < TOLERANCE, "{axes} axes: {far}");
        let levels = (1..400).map(|i| f64::from(i) * 5e-4);
        let fits = |s: &f64| distance(&share, &exact(*s));
        let best = levels.min_by(|a, b| fits(a).total_cmp(&fits(b))).unwrap();
        assert!((best / SIGMA - 1.0).abs() < TOLERANCE, "{axes}: {best}");
    }
}

/// On the line the vote share of a step is the distribution function of the noise,
/// whatever its distribution; another one of the same sigma fits worse.
#[test]
fn the_votes_of_a_step_are_the_distribution_of_the_noise() {
    let uniform = |t: f64| (0.5 + t / (2.0 * 3f64.sqrt() * SIGMA)).clamp(0.0, 1.0);
    let laplace = |t: f64| {
        let tail = 0.5 * (-t.abs() * 2f64.sqrt() / SIGMA).exp();
        if t > 0.0 { 1.0 - tail } else { tail }
    };
    let points = diagonal(1);
    let at = |law: &dyn Fn(f64) -> f64| -> Vec<f64> {
        points.iter().map(|&t| law(f64::from(t))).collect()
    };
    let laws = [at(&uniform), at(&laplace)];
    let noises = [Distribution::Uniform, Distribution::Laplace];
    for (own, distribution) in noises.into_iter().enumerate() {
        let noise = TrainingNoise {
            distribution,
            sigma: SIGMA,
        };
        let f: Function = |x| along(x).signum();
        let mut average = averaging_over(noise, AverageOf::Votes, 16);
        let v = learned(f, features(1, 2, 12), &mut average, &points, (600, 0.5));
        let z: Vec<f32> = outputs(&v, &points).iter().map(|&z| z as f32).collect();
        let share: Vec<f64> = z.chunks_exact(2).map(|z| softmax(z)[0]).collect();
        let far = distance(&share, &laws[own]);
        assert!(far < TOLERANCE, "{distribution}: {far}");
        assert!(far < distance(&share, &laws[1 - own]), "{distribution}");
    }
}

/// `Phi(z)`, by Simpson's rule from 0.
fn normal(z: f64) -> f64 {
    const STEPS: i32 = 200;
    let density = |t: f64| (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let h = z / f64::from(STEPS);
    let weight = |i: i32| match i {
        0 | STEPS => 1.0,
        i if i % 2 == 1 => 4.0,
        _ => 2.0,
    };
    let sum: f64 = (0..=STEPS)
        .map(|i| weight(i) * density(f64::from(i) * h))
        .sum();
    0.5 + sum * h / 3.0
}
