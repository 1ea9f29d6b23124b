//! Runs that were stopped end with the bytes of runs that were not, and damage
//! is noticed.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use data::{Augment, Dataset, OpenOptions, Split};
use network::architecture::{Task, build};
use network::{Cpu, Differentiable, Model, Shape};
use rayon::ThreadPool;
use train::methods::{Baseline, Fit, HeatParams, Scale, Start};
use train::{
    CHECKPOINT_FILE, EPOCHS_FILE, HeatRun, Leg, Observer, Plan, Progress, Run, Schedule, SgdParams,
    Silent, TrainError, iterate_file, smooth, train,
};

/// Stops when the whole run has done this many steps.
struct StopAt(u64);

impl Observer for StopAt {
    fn step(&mut self, progress: &Progress) -> ControlFlow<()> {
        if progress.step == self.0 {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

fn digits() -> Dataset {
    data::open("digits", Split::Train, &OpenOptions::default()).unwrap()
}

fn start() -> Model {
    let graph = build("mlp", &Task::new(Shape::new(8, 8, 1), 10)).unwrap();
    Model::initialised(graph, 3, Default::default())
}

fn pool(threads: usize) -> Arc<ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    Arc::new(pool.unwrap())
}

fn plan(epochs: u32, lr: f64) -> Plan {
    Plan {
        epochs,
        batch_size: 128,
        lr,
        schedule: Schedule::Cosine,
        warmup_epochs: 0.5,
        sgd: SgdParams {
            clip: Some(1.0),
            ..SgdParams::default()
        },
        augment: Augment::CropFlip {
            padding: 1,
            flip: false,
        },
        hold_out: 0,
        seed: 11,
    }
}

fn run<'a>(folder: &Path, data: &'a Dataset, test: Option<&'a Dataset>) -> Run<'a> {
    Run {
        folder: folder.into(),
        train: data,
        test,
        checkpoint_every: Duration::from_secs(3600),
        leg: Leg::ONLY,
    }
}

/// The table without its last column, the seconds.
fn table(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(EPOCHS_FILE)).unwrap();
    let cut = |line: &str| line.rsplit_once('\t').unwrap().0.to_owned();
    text.lines().map(cut).collect()
}

/// A baseline stopped after each of `stops` steps; its bytes and its table.
fn baseline(threads: usize, stops: &[u64]) -> (Vec<u8>, Vec<String>) {
    let (folder, data) = (tempfile::tempdir().unwrap(), digits());
    let run = run(folder.path(), &data, Some(&data));
    let pool = pool(threads);
    let attempt = |observer: &mut dyn Observer| {
        // A new process knows nothing but the folder.
        let mut network = Cpu::new(&start(), Arc::clone(&pool));
        let done = train(&mut network, &mut Baseline, &plan(2, 0.05), &run, observer);
        done.map(|()| network)
    };
    for &stop in stops {
        let stopped = attempt(&mut StopAt(stop));
        assert!(matches!(stopped, Err(TrainError::Stopped)), "at {stop}");
    }
    let network = attempt(&mut Silent).unwrap();
    let mut model = start();
    model.parameters = network.parameters().clone();
    (model.to_bytes(), table(folder.path()))
}

/// 1437 images are 12 batches: stops within epochs and at their ends.
#[test]
fn a_stopped_baseline_ends_with_the_same_bytes() {
    let whole = baseline(1, &[]);
    assert_eq!(whole.1.len(), 3);
    assert_ne!(whole.0, start().to_bytes());
    for (threads, stops) in [
        (1, &[1, 12, 13][..]),
        (2, &[][..]),
        (2, &[5, 6, 23, 24][..]),
    ] {
        assert!(baseline(threads, stops) == whole, "{threads} {stops:?}");
    }
}

#[test]
fn images_that_are_held_out_are_not_trained_on() {
    let data = digits();
    let trained = |data: &Dataset, hold_out: usize| {
        let folder = tempfile::tempdir().unwrap();
        let mut network = Cpu::new(&start(), pool(1));
        let plan = Plan {
            hold_out,
            ..plan(1, 0.05)
        };
        let run = run(folder.path(), data, None);
        let done = train(&mut network, &mut Baseline, &plan, &run, &mut Silent);
        done.map(|()| network.parameters().clone())
    };
    let held_out = trained(&data, 437).unwrap();
    assert!(held_out == trained(&data.first(1000), 0).unwrap());
    assert!(held_out != trained(&data, 0).unwrap());
    let everything = trained(&data, data.len());
    assert!(matches!(everything, Err(TrainError::Setting { .. })));
}

fn heat_params() -> HeatParams {
    HeatParams {
        sigma: 0.25,
        lambda: 1.0,
        timesteps: 2,
        kappa: 1,
        fd_step: 0.1,
        fit: Fit::L2,
        start: Start::Warm,
        scale: Scale::Unbiased,
        scale_free: true,
        noisy_share: 0.25,
    }
}

/// The same for two timesteps of heat smoothing; iterates on the way are kept.
fn heat(threads: usize, start_from: Start, stops: &[u64]) -> (Vec<u8>, Vec<u8>, Vec<String>) {
    let (folder, data) = (tempfile::tempdir().unwrap(), digits());
    let pool = pool(threads);
    let attempt = |observer: &mut dyn Observer| {
        let mut heat = HeatRun {
            params: HeatParams {
                start: start_from,
                ..heat_params()
            },
            plan: plan(1, 0.02),
            run: run(folder.path(), &data, None),
            keep_iterates: true,
        };
        let make = |model: &Model| Cpu::new(model, Arc::clone(&pool));
        let v = smooth(&start(), &mut heat, make, observer)?;
        heat.tidy()?;
        Ok(v)
    };
    for &stop in stops {
        let stopped: Result<Model, TrainError> = attempt(&mut StopAt(stop));
        assert!(matches!(stopped, Err(TrainError::Stopped)), "at {stop}");
    }
    let v = attempt(&mut Silent).unwrap().to_bytes();
    let iterate = |k| std::fs::read(folder.path().join(iterate_file(k))).unwrap();
    assert!(iterate(2) == v);
    (v, iterate(1), table(folder.path()))
}

#[test]
fn stopped_smoothing_ends_with_the_same_bytes() {
    for start_from in [Start::Warm, Start::Reinit] {
        let whole = heat(2, start_from, &[]);
        assert_eq!(whole.2.len(), 3);
        assert_ne!(whole.0, whole.1);
        // In the first timestep, at its last step, in the second one.
        for (threads, stops) in [(1, &[3, 12, 17][..]), (2, &[7, 13, 24][..])] {
            let stopped = heat(threads, start_from, stops);
            assert!(stopped == whole, "{start_from:?} {threads} {stops:?}");
        }
    }
}

/// A run that was stopped after 3 steps, and how it goes on.
fn resumed(
    change: impl Fn(&Path),
    lr: f64,
) -> (tempfile::TempDir, Vec<u8>, Result<(), TrainError>) {
    let (folder, data) = (tempfile::tempdir().unwrap(), digits());
    let run = run(folder.path(), &data, None);
    let pool = pool(1);
    let mut network = Cpu::new(&start(), Arc::clone(&pool));
    let mut baseline = Baseline;
    let stopped = train(
        &mut network,
        &mut baseline,
        &plan(1, 0.05),
        &run,
        &mut StopAt(3),
    );
    assert!(matches!(stopped, Err(TrainError::Stopped)));
    let checkpoint = folder.path().join(CHECKPOINT_FILE);
    let before = std::fs::read(&checkpoint).unwrap();
    change(&checkpoint);
    let mut network = Cpu::new(&start(), pool);
    let mut wild = plan(1, lr);
    wild.sgd.clip = None;
    let result = train(&mut network, &mut baseline, &wild, &run, &mut Silent);
    (folder, before, result)
}

#[test]
fn a_loss_that_is_not_finite_names_the_step_and_keeps_the_checkpoint() {
    let (folder, before, result) = resumed(|_| {}, 1e38);
    let error = result.unwrap_err();
    let TrainError::NotFinite { step, epoch, .. } = error else {
        panic!("{error}");
    };
    assert!((4..12).contains(&step) && epoch == 1, "{error}");
    assert!(
        error
            .to_string()
            .contains(&format!("at step {step} (epoch 1)"))
    );
    assert!(error.hint().unwrap().contains("--lr"));
    let after = std::fs::read(folder.path().join(CHECKPOINT_FILE)).unwrap();
    assert!(after == before);
}

#[test]
fn a_damaged_checkpoint_is_refused_with_its_path() {
    let cut = |share: f64| {
        move |path: &Path| {
            let bytes = std::fs::read(path).unwrap();
            let len = (share * bytes.len() as f64) as usize;
            std::fs::write(path, &bytes[..len]).unwrap();
        }
    };
    let header = |path: &Path| {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[20] ^= 0xff;
        std::fs::write(path, bytes).unwrap();
    };
    let other = |path: &Path| {
        let graph = build("smallcnn", &Task::new(Shape::new(8, 8, 1), 10)).unwrap();
        let model = Model::initialised(graph, 3, Default::default());
        std::fs::write(path, model.to_bytes()).unwrap();
    };
    let damages: [&dyn Fn(&Path); 6] = [
        &cut(0.0),
        &cut(0.001),
        &cut(0.5),
        &cut(0.9999),
        &header,
        &other,
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let (folder, _, result) = resumed(damage, 0.05);
        match result {
            Err(TrainError::Checkpoint { path, .. }) => {
                assert_eq!(path, folder.path().join(CHECKPOINT_FILE));
            }
            other => panic!("damage {number}: {other:?}"),
        }
    }
}

#[test]
fn a_diverging_student_is_noticed() {
    let data = digits();
    for (lr, clip) in [(30.0, Some(1.0)), (1e3, None), (1e30, None)] {
        let folder = tempfile::tempdir().unwrap();
        let mut plan = plan(8, lr);
        plan.sgd.clip = clip;
        plan.warmup_epochs = 0.0;
        plan.schedule = Schedule::Constant;
        let mut heat = HeatRun {
            params: heat_params(),
            plan,
            run: run(folder.path(), &data, None),
            keep_iterates: false,
        };
        let pool = pool(2);
        let make = |model: &Model| Cpu::new(model, Arc::clone(&pool));
        let error = smooth(&start(), &mut heat, make, &mut Silent).unwrap_err();
        let noticed = matches!(
            error,
            TrainError::Diverged { .. } | TrainError::NotFinite { .. }
        );
        assert!(noticed, "{lr}: {error}");
        assert!(error.hint().unwrap().contains("--lr"), "{lr}");
    }
}
