//! Functions of one or two variables, learned by heat steps.

use std::sync::Arc;

use network::{
    Activation, Classify, Cpu, DeviceError, Executor, GraphBuilder, Images, Model, Op, SgdStep,
    Shape,
};
use train::methods::{Fit, Heat, HeatParams, Scale, Start};
use train::{Leg, LegContext, Method, Position, Schedule};

use crate::common::{Around, Wrapped, on_the_cpu, pool};

/// A function that is known exactly.
pub type Function = fn(&[f32]) -> f64;

/// A network in whose place a known function is the first teacher: its first
/// logit, all others being 0.
struct Known {
    network: Cpu,
    function: Function,
}

impl Around for Known {
    fn network(&self) -> &dyn Executor {
        &self.network
    }

    fn network_mut(&mut self) -> &mut dyn Executor {
        &mut self.network
    }

    fn logits(&self, images: &[f32], logits: &mut [f32]) -> Result<(), DeviceError> {
        let points = images.chunks_exact(self.network.input().len());
        logits.fill(0.0);
        let first = logits.chunks_exact_mut(self.network.classes());
        first
            .zip(points)
            .for_each(|(z, x)| z[0] = (self.function)(x) as f32);
        Ok(())
    }
}

/// `v(x) = b + sum_j c_j prod_a sech^2(u_ja . x + t_ja)`: bumps on a regular
/// grid of `side` places along every axis of the box [-0.6, 0.6]^axes, with
/// `c = 0`. All of `b, c, u, t` are learned.
pub fn bumps(axes: usize, side: usize) -> Model {
    let features = side.pow(axes as u32);
    let mut graph = GraphBuilder::new(Shape::vector(axes));
    let mut product = None;
    for axis in 0..axes {
        let linear = Op::Linear {
            out_features: features,
            bias: true,
        };
        graph.add(format!("axis{axis}"), linear, &[0]);
        let tanh = graph.then(format!("tanh{axis}"), Op::Activation(Activation::Tanh));
        graph.add(format!("square{axis}"), Op::Mul, &[tanh, tanh]);
        let (scale, shift) = (vec![-1.0], vec![1.0]);
        let bump = graph.then(format!("bump{axis}"), Op::Affine { scale, shift });
        product = Some(match product {
            Some(others) => graph.add(format!("product{axis}"), Op::Mul, &[others, bump]),
            None => bump,
        });
    }
    let (out_features, bias) = (1, true);
    graph.then("sum", Op::Linear { out_features, bias });
    let mut model = Model::initialised(graph.build().unwrap(), 0, Default::default());
    let distance = 1.2 / (side - 1) as f32;
    let names: Vec<String> = (model.graph.parameters().iter().map(|s| s.name.clone())).collect();
    for (name, values) in names.iter().zip(model.parameters.iter_mut()) {
        values.fill(0.0);
        for axis in 0..axes {
            let place = |j: usize| (j / side.pow(axis as u32) % side) as f32 * distance - 0.6;
            if *name == format!("axis{axis}.weight") {
                (0..features).for_each(|j| values[j * axes + axis] = 1.0 / distance);
            } else if *name == format!("axis{axis}.bias") {
                (0..features).for_each(|j| values[j] = -place(j) / distance);
            }
        }
    }
    model
}

/// Midpoints of `side` equal intervals along every axis of [-1/2, 1/2]^axes.
pub fn grid(axes: usize, side: usize) -> Vec<f32> {
    let middle = |i: usize| (i as f32 + 0.5) / side as f32 - 0.5;
    let points = 0..side.pow(axes as u32);
    points
        .flat_map(|j| (0..axes).map(move |axis| middle(j / side.pow(axis as u32) % side)))
        .collect()
}

/// A batch of all points, with labels that mean nothing.
pub fn batch(points: &[f32], axes: usize) -> Images {
    let count = points.len() / axes;
    Images {
        shape: Shape::vector(axes),
        indices: (0..count as u32).collect(),
        pixels: points.to_vec(),
        labels: vec![0; count],
        values: vec![],
    }
}

/// Settings that differ from test to test, and those that do not.
pub fn params(lambda: f64, timesteps: u32) -> HeatParams {
    HeatParams {
        lambda,
        timesteps,
        kappa: 2,
        fd_step: 0.01,
        fit: Fit::L2,
        start: Start::Reinit,
        scale: Scale::Unbiased,
        scale_free: false,
        noisy_share: 0.0,
        keep_iterates: false,
    }
}

/// Heat smoothing of `f`: values of the last student at the points.
pub fn smooth(
    f: Function,
    model: Model,
    (sigma, params): (f64, HeatParams),
    points: &[f32],
    schedule: (u32, f64),
) -> Vec<f64> {
    let mut heat = Heat::new(sigma, params).unwrap();
    let v = learned(f, model, &mut heat, points, schedule);
    outputs(&v, points)
}

/// All legs of a method whose first teacher is `f`, each of `steps` full-batch
/// steps of SGD; every student but the first starts from its teacher. The last
/// student.
pub fn learned(
    f: Function,
    mut model: Model,
    method: &mut dyn Method,
    points: &[f32],
    (steps, rate): (u32, f64),
) -> Model {
    let batch = batch(points, model.graph.input().len());
    let pool = pool(1);
    let function = |model: &Model| {
        let network = Cpu::new(model, Arc::clone(&pool));
        let known = Known {
            network,
            function: f,
        };
        Ok(Box::new(Wrapped(known)) as Box<dyn Executor>)
    };
    let network = on_the_cpu(&pool);
    for number in 0..method.legs() {
        let of = method.legs();
        let stage = LegContext {
            load: if number == 0 { &function } else { &network },
            images: &batch,
            seed: 1,
        };
        method.begin(Leg { number, of }, &model, &stage).unwrap();
        let mut student = Cpu::new(&model, Arc::clone(&pool));
        let mut gradients = student.gradients().unwrap();
        for step in 0..steps {
            let position = Position {
                seed: 1,
                epoch: number * steps + step,
                step: u64::from(step),
            };
            let measured = method.step_alone(&mut student, &batch, position, &mut gradients);
            measured.unwrap();
            let rate = rate * Schedule::Cosine.factor(f64::from(step), f64::from(steps));
            let sgd = SgdStep {
                rate: rate as f32,
                momentum: 0.9,
                weight_decay: 0.0,
                clip: Some(1.0),
            };
            student.optimise(&sgd, &mut gradients).unwrap();
        }
        model.parameters = student.parameters().unwrap();
    }
    model
}

/// A network's outputs at the points.
pub fn outputs(model: &Model, points: &[f32]) -> Vec<f64> {
    let network = Cpu::new(model, pool(1));
    let count = points.len() / network.input().len();
    let mut values = vec![0.0; count * network.classes()];
    network.logits(points, &mut values).unwrap();
    values.into_iter().map(f64::from).collect()
}

/// `f * N(0, sigma^2)` at the points, by the trapezoidal rule over +-6 sigma: its
/// error is far below that of any fit.
pub fn average(f: Function, sigma: f64, points: &[f32], axes: usize) -> Vec<f64> {
    const HALF: i32 = 12;
    let nodes: Vec<(f64, f64)> = (-HALF..=HALF)
        .map(|i| f64::from(i) * 6.0 / f64::from(HALF))
        .map(|z| (sigma * z, (-0.5 * z * z).exp()))
        .collect();
    let total: f64 = nodes.iter().map(|(_, weight)| weight).sum();
    let all = nodes.len().pow(axes as u32);
    let at = |x: &[f32]| {
        let mut moved = x.to_vec();
        let mut sum = 0.0;
        for j in 0..all {
            let mut weight = 1.0;
            for (axis, moved) in moved.iter_mut().enumerate() {
                let (shift, w) = nodes[j / nodes.len().pow(axis as u32) % nodes.len()];
                *moved = (f64::from(x[axis]) + shift) as f32;
                weight *= w / total;
            }
            sum += weight * f(&moved);
        }
        sum
    };
    points.chunks_exact(axes).map(at).collect()
}

/// Root mean square of the difference.
pub fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let squares = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b));
    (squares.sum::<f64>() / a.len() as f64).sqrt()
}

/// The `s` for which `f * N(0, s^2)` is closest to `v`, by golden sections of
/// `[low, high]`.
pub fn effective_sigma(
    f: Function,
    v: &[f64],
    points: &[f32],
    axes: usize,
    range: [f64; 2],
) -> f64 {
    let far = |s: f64| distance(v, &average(f, s, points, axes));
    let [mut low, mut high] = range;
    let section = (5f64.sqrt() - 1.0) / 2.0;
    while high - low > 3e-3 * high {
        let (a, b) = (high - section * (high - low), low + section * (high - low));
        if far(a) < far(b) {
            high = b;
        } else {
            low = a;
        }
    }
    (low + high) / 2.0
}
