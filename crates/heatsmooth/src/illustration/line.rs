//! The problem on the line: points, network, and how it is trained.

use std::sync::Arc;

use data::Dataset;
use network::{Activation, Executor, GraphBuilder, Model, ModelInfo, Op, Shape};
use settings::SettingError;
use train::methods::{Baseline, Heat, HeatParams};
use train::{AugmentChoice, Leg, Method, Run, Training};

use crate::device::Device;
use crate::error::Error;
use crate::observer::{Observer, TrainingRun};

/// The paper's n_T.
pub const TIMESTEPS: u32 = 5;
/// The classes; label k means the k-th.
pub const CLASSES: [&str; 2] = ["blue", "red"];
/// The line is [-END, END], the range of the one pixel: `x = 2 END pixel - END`.
pub const END: f64 = 1.25;
/// So many levels make x a whole number of hundredths.
const WHITE: u8 = 250;
/// Distance of the bumps, and their width.
const BUMP: f32 = 0.05;
/// The bumps go from here to its mirror image.
const FIRST_BUMP: f32 = -1.45;
/// How often a point is in its set, to make an epoch more than one step.
const COPIES: usize = 20;

/// What the user chose; sigma in units of x.
pub struct LineProblem {
    /// Noise level.
    pub sigma: f64,
    /// Scale of the gradient term.
    pub lambda: f64,
    /// Of everything random.
    pub seed: u64,
}

impl LineProblem {
    /// The noise level, in units of the pixel.
    pub fn sigma_in_pixels(&self) -> f64 {
        self.sigma / (2.0 * END)
    }

    /// Algorithm 1.
    pub fn heat(&self) -> HeatParams {
        HeatParams {
            lambda: self.lambda,
            timesteps: TIMESTEPS,
            fd_step: 0.01,
            noisy_share: 0.0,
            keep_iterates: true,
            ..HeatParams::default()
        }
    }

    /// Variance of the Gaussian whose average iterate k aims at:
    /// `2 lambda sigma^2 k/n_T`.
    pub fn variance(&self, k: u32) -> f64 {
        2.0 * self.lambda * self.sigma * self.sigma * f64::from(k) / f64::from(TIMESTEPS)
    }

    /// How f^0 is trained.
    pub fn first_training(&self) -> Training {
        Training {
            epochs: 30,
            batch_size: labelled().len(),
            lr: 0.2,
            weight_decay: 0.0,
            augment: AugmentChoice::None,
            checkpoint_seconds: 1e6,
            ..Training::default()
        }
    }

    /// How each timestep is trained.
    pub fn timestep_training(&self) -> Training {
        Training {
            epochs: 12,
            batch_size: usize::from(WHITE) + 1,
            lr: 0.3,
            clip: 1.0,
            ..self.first_training()
        }
    }
}

/// The labelled points, in hundredths, with their classes: blue left of about
/// -0.13, red right of it, and one red outlier amid the blue ones.
pub fn labelled() -> Vec<(i32, u32)> {
    let blue = (-125..=-45).step_by(5).chain([-24, -18]);
    let red = (0..=125).step_by(5).chain([-34, -8]);
    let mut points: Vec<(i32, u32)> = blue.map(|x| (x, 0)).chain(red.map(|x| (x, 1))).collect();
    points.sort_unstable();
    points
}

/// Points, in hundredths, as images of one pixel.
fn dataset(name: &str, points: &[(i32, u32)]) -> Result<Dataset, Error> {
    let all = || std::iter::repeat_n(points, COPIES).flatten();
    let labels = all().map(|&(_, label)| label).collect();
    let pixels = all().map(|&(x, _)| (x + 125) as u8).collect();
    Ok(Dataset::from_bytes(
        name,
        Shape::new(1, 1, 1),
        &CLASSES,
        labels,
        pixels,
        WHITE,
    )?)
}

/// One hidden layer of bumps `sech^2(u_j x + t_j)`, evenly spread, and two
/// logits that start at 0; `u`, `t` and the last layer are learned.
fn bumps(seed: u64) -> Result<Model, Error> {
    let count = (-2.0 * FIRST_BUMP / BUMP).round() as usize + 1;
    let linear = |out_features| Op::Linear {
        out_features,
        bias: true,
    };
    let affine = |scale, shift| Op::Affine {
        scale: vec![scale],
        shift: vec![shift],
    };
    let mut graph = GraphBuilder::new(Shape::new(1, 1, 1));
    graph.then("x", affine(2.0 * END as f32, -END as f32));
    graph.then("places", linear(count));
    let tanh = graph.then("tanh", Op::Activation(Activation::Tanh));
    graph.add("square", Op::Mul, &[tanh, tanh]);
    graph.then("bumps", affine(-1.0, 1.0));
    graph.then("logits", linear(CLASSES.len()));
    let info = ModelInfo {
        classes: CLASSES.map(str::to_owned).to_vec(),
        method: Some("baseline".into()),
        ..ModelInfo::default()
    };
    let mut model = Model::initialised(graph.build().map_err(impossible)?, seed, info);
    let specs = model.graph.parameters().iter();
    let names: Vec<String> = specs.map(|spec| spec.name.clone()).collect();
    for (name, values) in names.iter().zip(model.parameters.iter_mut()) {
        match name.as_str() {
            "places.weight" => values.fill(1.0 / BUMP),
            "places.bias" => {
                let place = |j: usize| FIRST_BUMP + j as f32 * BUMP;
                (0..count).for_each(|j| values[j] = -place(j) / BUMP);
            }
            _ => values.fill(0.0),
        }
    }
    Ok(model)
}

/// Trains f^0 by cross-entropy on the labelled points, then smooths it: f^0, f^1,
/// ..., ready to run. Smoothing needs no labels, so it is done on all 251 points.
pub fn train(
    settings: &LineProblem,
    device: &Device,
    observer: &mut dyn Observer,
) -> Result<Vec<Box<dyn Executor>>, Error> {
    let labelled = dataset("line", &labelled())?;
    let everywhere: Vec<(i32, u32)> = (-125..=125).map(|x| (x, 0)).collect();
    let everywhere = dataset("line without labels", &everywhere)?;
    let folder = tempfile::tempdir().map_err(|error| {
        let message = format!("cannot make a temporary folder: {error}");
        Error::refused(message, "make room in the folder of temporary files")
    })?;
    let mut go = |start: &Model, method: &mut dyn Method, name: &str, training: &Training| {
        let run = Run {
            folder: &folder.path().join(name),
            train: if name == "f0" { &labelled } else { &everywhere },
            test: None,
            training,
            seed: settings.seed,
            load: &|model| device.load(model),
            ranks: Arc::new(network::Alone),
        };
        let mut told = TrainingRun::new(observer);
        let trained = train::train(start, method, &run, &mut told);
        told.finish();
        trained
    };
    let start = bumps(settings.seed)?;
    let f = go(
        &start,
        &mut Baseline::default(),
        "f0",
        &settings.first_training(),
    )?;
    let mut heat = Heat::new(settings.sigma_in_pixels(), settings.heat())?;
    go(&f, &mut heat, "heat", &settings.timestep_training())?;
    let mut models = vec![f];
    for number in 0..TIMESTEPS {
        let leg = Leg {
            number,
            of: TIMESTEPS,
        };
        let file = folder.path().join("heat").join(leg.model());
        models.push(Model::from_bytes(&network::file::read_bytes(&file)?)?);
    }
    models.iter().map(|model| Ok(device.load(model)?)).collect()
}

/// A mistake of this program, not of its user.
fn impossible(error: impl std::fmt::Display) -> Error {
    SettingError::value("the network on the line", error, "one that can be built").into()
}
