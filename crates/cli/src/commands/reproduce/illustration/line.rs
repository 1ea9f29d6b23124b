//! The problem on the line: points, network, and how it is trained.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use data::{Augment, Dataset};
use network::{Activation, Cpu, Differentiable, GraphBuilder, Model, ModelInfo, Op, Shape};
use rayon::ThreadPool;
use train::methods::{Baseline, Fit, HeatParams, Scale, Start};
use train::{HeatRun, Leg, Observer, Plan, Progress, Run, Schedule, SgdParams, iterate_file};

use crate::progress::Meter;

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
pub struct Settings {
    /// Noise level.
    pub sigma: f64,
    /// Scale of the gradient term.
    pub lambda: f64,
    /// Of everything random.
    pub seed: u64,
}

impl Settings {
    /// Algorithm 1, in units of the pixel.
    pub fn heat(&self) -> HeatParams {
        HeatParams {
            sigma: self.sigma / (2.0 * END),
            lambda: self.lambda,
            timesteps: TIMESTEPS,
            kappa: 1,
            fd_step: 0.01,
            fit: Fit::L2,
            start: Start::Warm,
            scale: Scale::Unbiased,
            scale_free: true,
            noisy_share: 0.0,
        }
    }

    /// Variance of the Gaussian whose average iterate k aims at:
    /// `2 lambda sigma^2 k/n_T`.
    pub fn variance(&self, k: u32) -> f64 {
        2.0 * self.lambda * self.sigma * self.sigma * f64::from(k) / f64::from(TIMESTEPS)
    }

    /// How f^0 is trained.
    pub fn first_plan(&self) -> Plan {
        Plan {
            epochs: 30,
            batch_size: labelled().len(),
            lr: 0.2,
            schedule: Schedule::Cosine,
            warmup_epochs: 0.0,
            sgd: SgdParams {
                momentum: 0.9,
                weight_decay: 0.0,
                clip: None,
            },
            augment: Augment::None,
            hold_out: 0,
            seed: self.seed,
        }
    }

    /// How each timestep is trained.
    pub fn timestep_plan(&self) -> Plan {
        let first = self.first_plan();
        Plan {
            epochs: 12,
            batch_size: usize::from(WHITE) + 1,
            lr: 0.3,
            sgd: SgdParams {
                clip: Some(1.0),
                ..first.sgd
            },
            ..first
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
fn dataset(name: &str, points: &[(i32, u32)]) -> Result<Dataset> {
    let all = || std::iter::repeat_n(points, COPIES).flatten();
    let labels = all().map(|&(_, label)| label).collect();
    let pixels = all().map(|&(x, _)| (x + 125) as u8).collect();
    Ok(Dataset::from_bytes(
        name,
        [1, 1, 1],
        &CLASSES,
        labels,
        pixels,
        WHITE,
    )?)
}

/// One hidden layer of bumps `sech^2(u_j x + t_j)`, evenly spread, and two
/// logits that start at 0; `u`, `t` and the last layer are learned.
fn bumps(seed: u64) -> Result<Model> {
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
    let mut model = Model::initialised(graph.build()?, seed, info);
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
pub fn train(settings: &Settings, pool: Arc<ThreadPool>, quiet: bool) -> Result<Vec<Cpu>> {
    let labelled = dataset("line", &labelled())?;
    let everywhere: Vec<(i32, u32)> = (-125..=125).map(|x| (x, 0)).collect();
    let everywhere = dataset("line without labels", &everywhere)?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let run = |name: &str, train| Run {
        folder: folder.path().join(name),
        train,
        test: None,
        checkpoint_every: Duration::MAX,
        leg: Leg::ONLY,
    };
    let mut bar = Bar::new(quiet, "f0: steps");
    let mut model = bumps(settings.seed)?;
    let mut f = Cpu::new(&model, Arc::clone(&pool));
    let (plan, place) = (settings.first_plan(), run("f0", &labelled));
    train::train(&mut f, &mut Baseline, &plan, &place, &mut bar)?;
    bar.finish();
    model.parameters = f.parameters().clone();

    let mut bar = Bar::new(quiet, "f1 to f5: steps");
    let mut heat = HeatRun {
        params: settings.heat(),
        plan: settings.timestep_plan(),
        run: run("heat", &everywhere),
        keep_iterates: true,
    };
    let executor = |model: &Model| Cpu::new(model, Arc::clone(&pool));
    train::smooth(&model, &mut heat, executor, &mut bar)?;
    bar.finish();
    let iterates = (1..=TIMESTEPS).map(|k| read(&heat.run.folder.join(iterate_file(k))));
    let models = iterates.map(|model| Ok(executor(&model?)));
    std::iter::once(Ok(f)).chain(models).collect()
}

fn read(file: &Path) -> Result<Model> {
    Ok(Model::from_bytes(&network::file::read_bytes(file)?)?)
}

/// Shows the steps of a run.
struct Bar {
    quiet: bool,
    name: &'static str,
    meter: Option<Meter>,
}

impl Bar {
    fn new(quiet: bool, name: &'static str) -> Self {
        let meter = None;
        Self { quiet, name, meter }
    }

    fn finish(self) {
        if let Some(meter) = self.meter {
            meter.finish();
        }
    }
}

impl Observer for Bar {
    fn step(&mut self, progress: &Progress) -> ControlFlow<()> {
        let meter = self
            .meter
            .get_or_insert_with(|| Meter::new(self.quiet, self.name, progress.steps));
        meter.set(progress.step, || format!("loss {:.4}", progress.loss));
        ControlFlow::Continue(())
    }
}
