//! A student that diverges is noticed, also in a run that is stopped on the way.

use train::methods::Heat;
use train::{Schedule, Silent, TrainError, TrainObserver, Training, train};

use crate::common::{digits, on_the_cpu, pool};
use crate::runs::{StopAt, heat_params, run, start, training};

/// The error of a student that diverges, in a run that was stopped after each of
/// `stops` steps.
fn divergence(training: &Training, stops: &[u64]) -> TrainError {
    let (folder, data) = (tempfile::tempdir().unwrap(), digits());
    let pool = pool(2);
    let load = on_the_cpu(&pool);
    let run = run(folder.path(), &data, training, &load);
    let attempt = |observer: &mut dyn TrainObserver| {
        let mut heat = Heat::new(0.25, heat_params()).unwrap();
        train(&start(), &mut heat, &run, observer).unwrap_err()
    };
    for &stop in stops {
        let stopped = attempt(&mut StopAt(stop));
        assert!(matches!(stopped, TrainError::Stopped), "{stopped}");
    }
    attempt(&mut Silent)
}

#[test]
fn a_diverging_student_is_noticed() {
    for (lr, clip) in [(30.0, 1.0), (1e3, 0.0), (1e30, 0.0)] {
        let training = Training {
            clip,
            warmup_epochs: 0.0,
            schedule: Schedule::Constant,
            ..training(8, lr)
        };
        let error = divergence(&training, &[]);
        let noticed = matches!(
            error,
            TrainError::Diverged { .. } | TrainError::NotFinite { .. }
        );
        assert!(noticed, "{lr}: {error}");
        let hint = error.hint().unwrap();
        assert!(hint.contains("lower the learning rate"), "{lr}: {hint}");
    }
}

/// Steps are judged by windows of 25. Neither a stop within a window nor one
/// between two makes a run forget what it has seen; epochs have 12 steps.
#[test]
fn a_stopped_run_diverges_where_one_that_was_not_does() {
    let rising = Schedule::Piecewise {
        epochs: vec![2],
        factor: 3e4,
    };
    for (lr, schedule, window, what) in [
        (30.0, Schedule::Constant, 1, "student and teacher agree on"),
        (1e-3, rising, 2, "the loss rose from"),
    ] {
        let training = Training {
            warmup_epochs: 0.0,
            schedule,
            ..training(8, lr)
        };
        let error = divergence(&training, &[]);
        assert!(error.to_string().contains(what), "{error}");
        let TrainError::Diverged { step, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(step, 25 * window - 1);
        for stops in [&[10][..], &[5, 12, 24], &[step]] {
            let stopped = divergence(&training, stops);
            assert_eq!(stopped.to_string(), error.to_string(), "{stops:?}");
        }
    }
}
