//! Runs that were stopped end with the bytes of runs that were not, and damage
//! is noticed.

use std::path::Path;

use data::Dataset;
use network::architecture::{Task, build};
use network::{Model, Shape};
use train::methods::{Baseline, Heat, HeatParams, Start};
use train::{
    CHECKPOINT_FILE, EPOCHS_FILE, Leg, Run, Silent, TrainError, TrainObserver, Training, tidy,
    train,
};

use crate::common::{digits, on_the_cpu, pool};
use crate::runs::{StopAt, heat_params, run, start, training};

/// The table without its last column, the seconds.
fn table(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(EPOCHS_FILE)).unwrap();
    let cut = |line: &str| line.rsplit_once('\t').unwrap().0.to_owned();
    text.lines().map(cut).collect()
}

/// A baseline stopped after each of `stops` steps; its bytes and its table.
fn baseline(threads: usize, stops: &[u64]) -> (Vec<u8>, Vec<String>) {
    let (folder, data) = (tempfile::tempdir().unwrap(), digits());
    let (training, pool) = (training(2, 0.05), pool(threads));
    let load = on_the_cpu(&pool);
    let run = Run {
        test: Some(&data),
        ..run(folder.path(), &data, &training, &load)
    };
    // A new process knows nothing but the folder.
    let attempt = |observer: &mut dyn TrainObserver| {
        train(&start(), &mut Baseline::default(), &run, observer)
    };
    for &stop in stops {
        let stopped = attempt(&mut StopAt(stop));
        assert!(matches!(stopped, Err(TrainError::Stopped)), "at {stop}");
    }
    let model = attempt(&mut Silent).unwrap();
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
        let training = Training {
            hold_out,
            ..training(1, 0.05)
        };
        let pool = pool(1);
        let load = on_the_cpu(&pool);
        let run = run(folder.path(), data, &training, &load);
        let done = train(&start(), &mut Baseline::default(), &run, &mut Silent);
        done.map(|model| model.parameters)
    };
    let held_out = trained(&data, 437).unwrap();
    assert!(held_out == trained(&data.first(1000), 0).unwrap());
    assert!(held_out != trained(&data, 0).unwrap());
    let everything = trained(&data, data.len());
    assert!(matches!(everything, Err(TrainError::Setting(_))));
}

/// The same for two timesteps of heat smoothing; iterates on the way are kept.
fn heat(threads: usize, start_from: Start, stops: &[u64]) -> (Vec<u8>, Vec<u8>, Vec<String>) {
    let (folder, data) = (tempfile::tempdir().unwrap(), digits());
    let (training, pool) = (training(1, 0.02), pool(threads));
    let load = on_the_cpu(&pool);
    let run = run(folder.path(), &data, &training, &load);
    let attempt = |observer: &mut dyn TrainObserver| {
        let params = HeatParams {
            start: start_from,
            ..heat_params()
        };
        let mut heat = Heat::new(0.25, params)?;
        let v = train(&start(), &mut heat, &run, observer)?;
        tidy(folder.path(), &heat)?;
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

/// Found by killing and flipping at random: the first timestep's network was trained on
/// although one of its bits had changed.
#[test]
fn a_flipped_bit_of_an_iterate_is_noticed() {
    let (folder, data) = (tempfile::tempdir().unwrap(), digits());
    let (training, pool) = (training(1, 0.02), pool(1));
    let load = on_the_cpu(&pool);
    let run = run(folder.path(), &data, &training, &load);
    let attempt = |observer: &mut dyn TrainObserver| {
        let mut heat = Heat::new(0.25, heat_params())?;
        train(&start(), &mut heat, &run, observer)
    };
    // In the second timestep.
    assert!(matches!(attempt(&mut StopAt(17)), Err(TrainError::Stopped)));
    let file = folder.path().join(iterate_file(1));
    let whole = std::fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    std::fs::write(&file, flipped).unwrap();
    let Err(TrainError::Checkpoint { path, reason }) = attempt(&mut Silent) else {
        panic!("it was trained on");
    };
    assert!(
        path == file && reason.contains("bits have changed"),
        "{reason}"
    );
    std::fs::write(&file, whole).unwrap();
    attempt(&mut Silent).unwrap();
}

/// Name of the iterate `f^k`, from 1.
fn iterate_file(k: u32) -> String {
    let leg = Leg {
        number: k - 1,
        of: 2,
    };
    leg.model()
}

#[test]
fn iterates_are_removed_unless_they_are_to_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    let files = [1, 2].map(|k| folder.path().join(iterate_file(k)));
    for keep_iterates in [true, false, false] {
        let params = HeatParams {
            keep_iterates,
            ..heat_params()
        };
        if keep_iterates {
            files
                .iter()
                .for_each(|file| std::fs::write(file, "f").unwrap());
        }
        // Also where they have already gone.
        tidy(folder.path(), &Heat::new(0.25, params).unwrap()).unwrap();
        assert!(files.iter().all(|file| file.exists() == keep_iterates));
    }
}

/// A run that was stopped after 3 steps, and how it goes on.
fn resumed(
    change: impl Fn(&Path),
    lr: f64,
) -> (tempfile::TempDir, Vec<u8>, Result<Model, TrainError>) {
    let (folder, data) = (tempfile::tempdir().unwrap(), digits());
    let pool = pool(1);
    let load = on_the_cpu(&pool);
    let tame = training(1, 0.05);
    let tame = run(folder.path(), &data, &tame, &load);
    let stopped = train(&start(), &mut Baseline::default(), &tame, &mut StopAt(3));
    assert!(matches!(stopped, Err(TrainError::Stopped)));
    let checkpoint = folder.path().join(CHECKPOINT_FILE);
    let before = std::fs::read(&checkpoint).unwrap();
    change(&checkpoint);
    let wild = Training {
        clip: 0.0,
        ..training(1, lr)
    };
    let wild = run(folder.path(), &data, &wild, &load);
    let result = train(&start(), &mut Baseline::default(), &wild, &mut Silent);
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
    assert!(error.hint().unwrap().contains("lower the learning rate"));
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
