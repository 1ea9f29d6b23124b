//! Several ranks, here threads, train as one process does, up to the order of sums.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};

use data::Dataset;
use network::architecture::{Task, build};
use network::{Alone, Collective, DeviceError, Model, ModelInfo, tree_sum};
use train::methods::{
    Average, AverageParams, Baseline, Gaussian, Heat, HeatParams, InnerAttack, InnerAttackParams,
    Norms, SmoothAdv,
};
use train::{
    EPOCHS_FILE, Method, RankNorms, Run, Silent, TrainError, TrainObserver, TrainProgress,
    Training, train,
};

use crate::common::{digits, on_the_cpu, pool};
use crate::runs::{StopAt, training};

/// Threads that share their values.
#[derive(Debug)]
struct Crew {
    rank: usize,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    barrier: Barrier,
    slots: Vec<Mutex<(Vec<f64>, Vec<u8>)>>,
}

impl Crew {
    fn of(size: usize) -> Vec<Arc<dyn Collective>> {
        let shared = Arc::new(Shared {
            barrier: Barrier::new(size),
            slots: (0..size).map(|_| Mutex::default()).collect(),
        });
        let member = |rank| {
            let shared = Arc::clone(&shared);
            Arc::new(Self { rank, shared }) as Arc<dyn Collective>
        };
        (0..size).map(member).collect()
    }
}

impl Collective for Crew {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.shared.slots.len()
    }

    fn sum(&self, values: &mut [f32]) -> Result<(), DeviceError> {
        let wide: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
        let all: Vec<f32> = self.gather(&wide)?.iter().map(|&v| v as f32).collect();
        tree_sum(all.chunks(values.len()).map(<[f32]>::to_vec), values);
        Ok(())
    }

    fn gather(&self, values: &[f64]) -> Result<Vec<f64>, DeviceError> {
        self.shared.slots[self.rank].lock().unwrap().0 = values.to_vec();
        self.shared.barrier.wait();
        let mut all = vec![];
        for slot in &self.shared.slots {
            let slot = slot.lock().unwrap();
            assert_eq!(slot.0.len(), values.len(), "all ranks give as many");
            all.extend_from_slice(&slot.0);
        }
        self.shared.barrier.wait();
        Ok(all)
    }

    fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<(), DeviceError> {
        if self.rank == 0 {
            self.shared.slots[0].lock().unwrap().1 = bytes.clone();
        }
        self.shared.barrier.wait();
        *bytes = self.shared.slots[0].lock().unwrap().1.clone();
        self.shared.barrier.wait();
        Ok(())
    }

    fn barrier(&self) -> Result<(), DeviceError> {
        self.shared.barrier.wait();
        Ok(())
    }
}

/// Keeps the loss of every step: the mean of its epoch so far.
#[derive(Default)]
struct Losses(Vec<f64>);

impl TrainObserver for Losses {
    fn step(&mut self, progress: &TrainProgress) -> ControlFlow<()> {
        self.0.push(progress.loss);
        ControlFlow::Continue(())
    }
}

/// A network with batch norms, one of them over single values.
fn start() -> Model {
    let graph = build("smallcnn", &Task::new(digits().shape(), 10)).unwrap();
    Model::initialised(graph, 5, ModelInfo::default())
}

type Make = fn() -> Box<dyn Method>;

struct Trial<'a> {
    folder: &'a Path,
    data: &'a Dataset,
    training: &'a Training,
    make: Make,
}

impl Trial<'_> {
    fn go(
        &self,
        ranks: Arc<dyn Collective>,
        observer: &mut dyn TrainObserver,
    ) -> Result<Model, TrainError> {
        let pool = pool(1);
        let load = on_the_cpu(&pool);
        // Only rank 0 has a folder that may be written.
        let folder = match ranks.rank() {
            0 => self.folder.to_path_buf(),
            _ => "/nowhere/at/all".into(),
        };
        let run = Run {
            folder: &folder,
            train: self.data,
            test: Some(self.data),
            training: self.training,
            seed: 3,
            load: &load,
            ranks,
        };
        train(&start(), &mut *(self.make)(), &run, observer)
    }

    /// The model, which all ranks agree on, and the losses as rank 0 sees them.
    fn on(&self, size: usize) -> (Model, Vec<f64>) {
        if size == 1 {
            let mut losses = Losses::default();
            let model = self.go(Arc::new(Alone), &mut losses).unwrap();
            return (model, losses.0);
        }
        let mut all = std::thread::scope(|scope| {
            let ranks = Crew::of(size).into_iter().map(|member| {
                scope.spawn(move || {
                    let mut losses = Losses::default();
                    (self.go(member, &mut losses).unwrap(), losses.0)
                })
            });
            let ranks: Vec<_> = ranks.collect();
            let ended = ranks.into_iter().map(|rank| rank.join().unwrap());
            ended.collect::<Vec<_>>()
        });
        for other in &all[1..] {
            assert!(
                other.0.parameters == all[0].0.parameters,
                "ranks drift apart"
            );
        }
        all.swap_remove(0)
    }
}

fn methods() -> Vec<(&'static str, Make)> {
    vec![
        ("baseline", || Box::new(Baseline::default())),
        ("gaussian", || Box::new(Gaussian::new(0.25).unwrap())),
        ("smoothadv", || {
            let (draws, params) = Default::default();
            Box::new(SmoothAdv::new(0.25, draws, params).unwrap())
        }),
        ("heat", || {
            let params = HeatParams {
                kappa: 2,
                ..HeatParams::default()
            };
            Box::new(Heat::new(0.25, params).unwrap())
        }),
        ("average", || {
            let params = AverageParams {
                mixed_share: 0.4,
                norms: Some(Norms::Batch),
                lambda: 0.5,
                ..AverageParams::default()
            };
            let attack = InnerAttackParams {
                attack: Some(InnerAttack::Pgd),
                // More than what noise leaves: noisy inputs are attacked, too.
                attack_share: Some(0.6),
                ..InnerAttackParams::default()
            };
            Box::new(Average::new(0.25, params, attack).unwrap())
        }),
    ]
}

/// Batches of 95 images, which no number of ranks divides, and a last one of 2, which
/// is too small to be shared.
fn settings() -> Training {
    Training {
        batch_size: 95,
        warmup_epochs: 0.0,
        ..training(1, 0.01)
    }
}

#[test]
fn ranks_change_only_the_order_of_sums() {
    let data = digits().first(287);
    let training = settings();
    for (name, make) in methods() {
        let on = |size: usize| {
            let folder = tempfile::tempdir().unwrap();
            let trial = Trial {
                folder: folder.path(),
                data: &data,
                training: &training,
                make,
            };
            let (model, losses) = trial.on(size);
            let table = std::fs::read_to_string(folder.path().join(EPOCHS_FILE)).unwrap();
            assert_eq!(table.lines().count(), 2);
            (model, losses)
        };
        let alone = on(1);
        assert_eq!(alone.1.len(), 4);
        for size in [2, 3, 4] {
            let ranks = on(size);
            let same = ranks.0.parameters == alone.0.parameters;
            assert!(same || size == 3, "{name}, {size} ranks: other bits");
            for (step, (a, b)) in alone.1.iter().zip(&ranks.1).enumerate() {
                let off = (a - b).abs() / a.abs().max(1.0);
                assert!(off < 1e-5, "{name}, {size} ranks, step {step}: {a} {b}");
            }
            let values = alone.0.parameters.iter().zip(ranks.0.parameters.iter());
            let furthest = values
                .flat_map(|(a, b)| a.iter().zip(b))
                .map(|(a, b)| (a - b).abs() / a.abs().max(1.0))
                .fold(0.0, f32::max);
            assert!(furthest < 1e-4, "{name}, {size} ranks: {furthest}");
        }
    }
}

#[test]
fn norms_of_each_rank_are_another_training_that_all_ranks_agree_on() {
    let data = digits().first(287);
    let per_rank = Training {
        rank_norms: RankNorms::PerRank,
        ..settings()
    };
    let on = |training: &Training, size| {
        let folder = tempfile::tempdir().unwrap();
        let trial = Trial {
            folder: folder.path(),
            data: &data,
            training,
            make: || Box::new(Baseline::default()),
        };
        trial.on(size)
    };
    let own = on(&per_rank, 2);
    assert!(own == on(&per_rank, 2), "the same ranks, the same bits");
    let apart = |a: &[f64], b: &[f64]| {
        let each = a.iter().zip(b).map(|(a, b)| (a - b).abs());
        each.fold(0.0, f64::max)
    };
    let shared = on(&settings(), 2);
    assert!(apart(&own.1, &shared.1) > 1e-4);
    // A single rank's own images are all of them.
    assert!(on(&per_rank, 1).0.parameters == on(&settings(), 1).0.parameters);
}

#[test]
fn a_run_goes_on_with_another_number_of_ranks() {
    let data = digits().first(287);
    let training = Training {
        epochs: 2,
        ..settings()
    };
    let heat: Make = || Box::new(Heat::new(0.25, HeatParams::default()).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let trial = |folder| Trial {
        folder,
        data: &data,
        training: &training,
        make: heat,
    };
    let here = trial(folder.path());
    // Three ranks stop, since rank 1 is asked to, in the middle of the first epoch.
    std::thread::scope(|scope| {
        for member in Crew::of(3) {
            let here = &here;
            scope.spawn(move || {
                let stopped = match member.rank() {
                    1 => here.go(member, &mut StopAt(2)),
                    _ => here.go(member, &mut Silent),
                };
                assert!(matches!(stopped, Err(TrainError::Stopped)));
            });
        }
    });
    let went_on = here.on(2);
    assert_eq!(went_on.1.len(), 6, "two of eight steps were done before");
    let whole = tempfile::tempdir().unwrap();
    let alone = trial(whole.path()).on(1);
    let last = |losses: &[f64]| *losses.last().unwrap();
    let (a, b) = (last(&alone.1), last(&went_on.1));
    assert!((a - b).abs() < 1e-4 * a.abs(), "{a} {b}");
}

#[test]
fn batches_that_are_too_small_for_the_ranks_are_refused() {
    let (data, folder) = (digits().first(100), tempfile::tempdir().unwrap());
    let training = Training {
        batch_size: 5,
        ..settings()
    };
    let trial = Trial {
        folder: folder.path(),
        data: &data,
        training: &training,
        make: || Box::new(Baseline::default()),
    };
    for member in Crew::of(3) {
        let error = trial.go(member, &mut Silent).unwrap_err();
        assert!(error.to_string().contains("at least 6"), "{error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
