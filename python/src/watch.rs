//! While the library works: progress for Python, and Ctrl-C.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use heatsmooth::network::{
    Classify, Collective, DeviceError, Executor, Gradients, Graph, Mode, Noise, NoisyImage,
    NormSharing, Parameters, SgdStep, Shape, Tape, TrainingState,
};
use heatsmooth::{Error, Observer};
use pyo3::prelude::*;

use crate::errors::raise;

/// Between two looks at signals, and between two reports of progress.
const EVERY: Duration = Duration::from_millis(100);

/// An exception that waits until the library has come to a clean stop.
#[derive(Default)]
pub struct Watch {
    pending: Mutex<Option<PyErr>>,
    looked: Mutex<Option<Instant>>,
}

impl Watch {
    /// Keeps an exception; the first one counts.
    pub fn fail(&self, error: PyErr) {
        let mut pending = lock(&self.pending);
        pending.get_or_insert(error);
    }

    /// Whether to stop: an exception waits, or the user has pressed Ctrl-C.
    pub fn stops(&self) -> bool {
        if lock(&self.pending).is_some() {
            return true;
        }
        let mut looked = lock(&self.looked);
        if looked.is_some_and(|at| at.elapsed() < EVERY) {
            return false;
        }
        *looked = Some(Instant::now());
        drop(looked);
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => false,
            Err(error) => {
                self.fail(error);
                true
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the library without Python's lock; an exception that came up in between is
/// raised afterwards.
pub fn run<T: Send>(
    py: Python<'_>,
    watch: &Watch,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    let result = py.detach(work);
    match lock(&watch.pending).take() {
        Some(error) => Err(error),
        None => result.map_err(|error| raise(py, &error)),
    }
}

/// Tells a Python object how far the work is: `begin(what, total, done)`,
/// `progress(done, note)`, `end()`, `note(text)` and `warning(text)`.
pub struct Progress {
    to: Py<PyAny>,
    watch: Arc<Watch>,
    told: Instant,
    last: Option<(u64, String)>,
}

impl Progress {
    /// Reports to `to`, and stops when `watch` says so.
    pub fn new(to: Py<PyAny>, watch: Arc<Watch>) -> Self {
        Self {
            to,
            watch,
            told: Instant::now(),
            last: None,
        }
    }

    /// Calls a method of the Python object; its exception ends the work.
    fn call(&self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>) {
        if let Err(error) = Python::attach(|py| call(self.to.bind(py))) {
            self.watch.fail(error);
        }
    }

    fn tell(&self, name: &str, text: &str) {
        self.call(|to| to.call_method1(name, (text,)).map(drop));
    }
}

impl Observer for Progress {
    fn begin(&mut self, what: &str, total: u64, done: u64) {
        self.call(|to| to.call_method1("begin", (what, total, done)).map(drop));
        self.last = None;
    }

    fn progress(&mut self, done: u64, note: &dyn Fn() -> String) -> ControlFlow<()> {
        if self.told.elapsed() >= EVERY {
            self.told = Instant::now();
            self.last = None;
            self.call(|to| to.call_method1("progress", (done, note())).map(drop));
        } else {
            self.last = Some((done, note()));
        }
        match self.watch.stops() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn end(&mut self) {
        let last = self.last.take();
        self.call(|to| {
            if let Some(last) = last {
                to.call_method1("progress", last)?;
            }
            to.call_method0("end").map(drop)
        });
    }

    fn epoch(&mut self, text: &str) {
        self.tell("note", text);
    }

    fn note(&mut self, text: &str) {
        self.tell("note", text);
    }

    fn warning(&mut self, text: &str) {
        self.tell("warning", text);
    }
}

/// A network whose passes stop at Ctrl-C: an image may take minutes.
pub struct Interruptible {
    network: Box<dyn Executor>,
    watch: Arc<Watch>,
}

impl Interruptible {
    /// The same network.
    pub fn around(network: Box<dyn Executor>, watch: Arc<Watch>) -> Box<dyn Executor> {
        Box::new(Self { network, watch })
    }

    fn go_on(&self) -> Result<(), DeviceError> {
        match self.watch.stops() {
            false => Ok(()),
            true => Err(DeviceError::Failed {
                device: "Python".into(),
                reason: "stopped on request".into(),
            }),
        }
    }
}

impl Classify for Interruptible {
    fn input(&self) -> Shape {
        self.network.input()
    }

    fn classes(&self) -> usize {
        self.network.classes()
    }

    fn logits(&self, images: &[f32], logits: &mut [f32]) -> Result<(), DeviceError> {
        self.go_on()?;
        self.network.logits(images, logits)
    }

    fn noisy_logits(
        &self,
        noise: &Noise,
        batch: &[NoisyImage<'_>],
        logits: &mut [f32],
    ) -> Result<(), DeviceError> {
        self.go_on()?;
        self.network.noisy_logits(noise, batch, logits)
    }

    fn batch(&self) -> usize {
        self.network.batch()
    }
}

impl Executor for Interruptible {
    fn graph(&self) -> &Graph {
        self.network.graph()
    }

    fn forward(&self, images: &[f32], mode: Mode) -> Result<(Vec<f32>, Tape), DeviceError> {
        self.go_on()?;
        self.network.forward(images, mode)
    }

    fn input_gradient(&self, tape: &Tape, cotangent: &[f32]) -> Result<Vec<f32>, DeviceError> {
        self.network.input_gradient(tape, cotangent)
    }

    fn parameter_gradient(
        &self,
        tape: &Tape,
        cotangent: &[f32],
        gradients: &mut Gradients,
    ) -> Result<(), DeviceError> {
        self.network.parameter_gradient(tape, cotangent, gradients)
    }

    fn gradients(&self) -> Result<Gradients, DeviceError> {
        self.network.gradients()
    }

    fn update_running_statistics(&mut self, tape: &Tape) -> Result<(), DeviceError> {
        self.network.update_running_statistics(tape)
    }

    fn optimise(&mut self, step: &SgdStep, gradients: &mut Gradients) -> Result<f64, DeviceError> {
        self.network.optimise(step, gradients)
    }

    fn parameters(&self) -> Result<Parameters, DeviceError> {
        self.network.parameters()
    }

    fn state(&self) -> Result<TrainingState, DeviceError> {
        self.network.state()
    }

    fn restore(&mut self, state: TrainingState) -> Result<(), DeviceError> {
        self.network.restore(state)
    }

    fn noisy(&self, noise: &Noise, batch: &[NoisyImage<'_>]) -> Result<Vec<f32>, DeviceError> {
        self.network.noisy(noise, batch)
    }

    fn share_norms(&mut self, sharing: NormSharing) -> Result<(), DeviceError> {
        self.network.share_norms(sharing)
    }

    fn sum_gradients(
        &self,
        gradients: &mut Gradients,
        ranks: &dyn Collective,
    ) -> Result<(), DeviceError> {
        self.network.sum_gradients(gradients, ranks)
    }

    fn taped_batch(&self) -> usize {
        self.network.taped_batch()
    }
}
