//! The memory of a heat step does not grow with kappa: tapes are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use network::architecture::{Task, build};
use network::{DeviceError, Executor, Images, Model, Noise, Purpose, Reference, Shape, Tape};
use train::methods::{Fit, Heat, HeatParams, Scale, Start};
use train::{Method, Position};

use crate::common::{Around, Wrapped, begin};

/// Tapes: how many live, the most that ever did, and how many there were.
#[derive(Default)]
struct Tapes {
    live: AtomicUsize,
    peak: AtomicUsize,
    total: AtomicUsize,
}

/// A network whose tapes are counted.
struct Counting {
    network: Reference<f32>,
    tapes: Arc<Tapes>,
}

struct CountedTape {
    tape: Tape,
    tapes: Arc<Tapes>,
}

impl Drop for CountedTape {
    fn drop(&mut self) {
        self.tapes.live.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Around for Counting {
    fn network(&self) -> &dyn Executor {
        &self.network
    }

    fn network_mut(&mut self) -> &mut dyn Executor {
        &mut self.network
    }

    fn keep(&self, tape: Tape) -> Tape {
        let live = self.tapes.live.fetch_add(1, Ordering::Relaxed) + 1;
        self.tapes.peak.fetch_max(live, Ordering::Relaxed);
        self.tapes.total.fetch_add(1, Ordering::Relaxed);
        let tapes = Arc::clone(&self.tapes);
        Tape::new(CountedTape { tape, tapes })
    }

    fn kept<'a>(&self, tape: &'a Tape) -> Result<&'a Tape, DeviceError> {
        Ok(&tape.of::<CountedTape>()?.tape)
    }
}

fn params(kappa: u32) -> HeatParams {
    HeatParams {
        lambda: 5.0,
        timesteps: 1,
        kappa,
        fd_step: 0.1,
        fit: Fit::L2,
        start: Start::Warm,
        scale: Scale::Unbiased,
        scale_free: true,
        noisy_share: 0.0,
        keep_iterates: false,
    }
}

/// One clean student pass and one for each projection, two tapes at a time.
#[test]
fn two_tapes_are_alive_whatever_kappa() {
    let graph = build("mlp", &Task::new(Shape::new(8, 8, 1), 10)).unwrap();
    let model = Model::initialised(graph, 1, Default::default());
    let noise = Noise::gaussian(0, Purpose::Bench, 0.3);
    let batch = Images {
        shape: Shape::new(8, 8, 1),
        indices: (0..8).collect(),
        pixels: noise.draw(0, 0, 8 * 64),
        labels: vec![0; 8],
        values: vec![],
    };
    for kappa in [1, 20] {
        let tapes = Arc::new(Tapes::default());
        let make = |model: &Model| {
            Wrapped(Counting {
                network: Reference::new(model),
                tapes: Arc::clone(&tapes),
            })
        };
        let load =
            |model: &Model| -> Result<Box<dyn Executor>, DeviceError> { Ok(Box::new(make(model))) };
        let mut student = make(&model);
        let mut heat = Heat::new(0.25, params(kappa)).unwrap();
        begin(&mut heat, &model, &load, &batch);
        let mut gradients = student.gradients().unwrap();
        let position = Position {
            seed: 0,
            epoch: 0,
            step: 0,
        };
        heat.step_alone(&mut student, &batch, position, &mut gradients)
            .unwrap();
        assert_eq!(tapes.total.load(Ordering::Relaxed), 1 + kappa as usize);
        assert_eq!(tapes.peak.load(Ordering::Relaxed), 2);
        assert_eq!(tapes.live.load(Ordering::Relaxed), 0);
    }
}
