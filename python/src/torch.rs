//! PyTorch as a device: a module serves the verbs through calls of Python.
//!
//! The Python side is `heatsmooth/torch.py`: an `Engine` that makes networks of
//! modules, and a `Network` with one method for each verb. Arrays go there and back as
//! flat NumPy arrays in the order NHWC.

use std::sync::{Arc, Mutex, PoisonError};

use heatsmooth::Engine;
use heatsmooth::network::{
    Classify, Collective, DeviceError, Distribution, Executor, Gradients, Graph, HostGradients,
    Mode, Model, Noise, NoiseKind, NoisyImage, NormSharing, Parameters, SgdStep, Shape, Tape,
    TrainingState,
};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rayon::prelude::*;

use crate::watch::Watch;

type Floats<'py> = Bound<'py, PyArray1<f32>>;

/// PyTorch, with the modules that the caller gave.
pub struct Torch {
    engine: Py<PyAny>,
    name: String,
    watch: Arc<Watch>,
}

impl Torch {
    /// From the Python side's engine; exceptions of modules go to `watch`.
    pub fn new(engine: &Bound<'_, PyAny>, watch: Arc<Watch>) -> PyResult<Self> {
        Ok(Self {
            name: engine.getattr("description")?.extract()?,
            engine: engine.clone().unbind(),
            watch,
        })
    }
}

/// Keeps the exception for the caller, and tells the library that the device failed.
fn failed(py: Python<'_>, watch: &Watch, error: PyErr) -> DeviceError {
    let reason = error.to_string();
    let device = "torch".to_owned();
    let memory = error
        .get_type(py)
        .name()
        .is_ok_and(|name| name == "OutOfMemoryError");
    watch.fail(error);
    match memory {
        true => DeviceError::OutOfMemory { device, reason },
        false => DeviceError::Failed { device, reason },
    }
}

impl Engine for Torch {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn load(&self, model: &Model) -> Result<Box<dyn Executor>, DeviceError> {
        let network = model.graph.foreign().map_or("", |(_, network)| network);
        Python::attach(|py| {
            let make = || -> PyResult<Network> {
                let values = arrays(py, model.parameters.iter())?;
                let object = self
                    .engine
                    .bind(py)
                    .call_method1("load", (network, values))?;
                Ok(Network {
                    on_host: object.getattr("on_host")?.extract()?,
                    batch: object.getattr("batch")?.extract()?,
                    taped_batch: object.getattr("taped_batch")?.extract()?,
                    object: object.unbind(),
                    graph: model.graph.clone(),
                    watch: Arc::clone(&self.watch),
                    velocity: Mutex::new(false),
                })
            };
            match make() {
                Ok(network) => Ok(Box::new(network) as Box<dyn Executor>),
                Err(error) => Err(failed(py, &self.watch, error)),
            }
        })
    }
}

/// A module that serves the verbs.
struct Network {
    object: Py<PyAny>,
    graph: Graph,
    watch: Arc<Watch>,
    /// Its memory is the CPU's: noise is drawn by our kernels.
    on_host: bool,
    batch: usize,
    taped_batch: usize,
    /// Whether there are velocities yet.
    velocity: Mutex<bool>,
}

/// What a module keeps for backward passes.
struct TorchTape {
    object: Py<PyAny>,
    images: usize,
}

/// Gradients on the module's device.
struct TorchGradients(Py<PyAny>);

impl Network {
    fn call<T>(
        &self,
        work: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> Result<T, DeviceError> {
        Python::attach(|py| {
            let result = work(self.object.bind(py));
            result.map_err(|error| failed(py, &self.watch, error))
        })
    }

    fn count(&self, pixels: usize) -> Result<usize, DeviceError> {
        let len = self.input().len();
        length("pixels", pixels / len * len, pixels)?;
        Ok(pixels / len)
    }

    /// Pixels that Python takes over without a copy, to logits.
    fn classify(&self, images: Vec<f32>, logits: &mut [f32]) -> Result<(), DeviceError> {
        let count = self.count(images.len())?;
        length("logits", count * self.classes(), logits.len())?;
        self.call(|object| {
            let images = PyArray1::from_vec(object.py(), images);
            copy(&object.call_method1("logits", (images,))?, logits)
        })
    }
}

fn length(what: &'static str, expected: usize, got: usize) -> Result<(), DeviceError> {
    match expected == got {
        true => Ok(()),
        false => Err(DeviceError::Length {
            what,
            expected,
            got,
        }),
    }
}

fn arrays<'py, 'a>(
    py: Python<'py>,
    values: impl ExactSizeIterator<Item = &'a [f32]>,
) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, values.map(|values| PyArray1::from_slice(py, values)))
}

/// Copies a flat array of Python's.
fn copy(from: &Bound<'_, PyAny>, to: &mut [f32]) -> PyResult<()> {
    let from: PyReadonlyArray1<'_, f32> = from.extract()?;
    let from = from.as_slice()?;
    if from.len() != to.len() {
        let (got, expected) = (from.len(), to.len());
        let message = format!("the module gave {got} values, expected {expected}");
        return Err(pyo3::exceptions::PyValueError::new_err(message));
    }
    to.copy_from_slice(from);
    Ok(())
}

fn vector(from: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
    let from: PyReadonlyArray1<'_, f32> = from.extract()?;
    Ok(from.as_slice()?.to_vec())
}

/// Noisy copies, drawn by our kernels on the threads of rayon.
fn draw(noise: &Noise, batch: &[NoisyImage<'_>], len: usize) -> Vec<f32> {
    let keys = batch.iter().flat_map(|noisy| {
        (0..noisy.count as u32).map(move |copy| (noisy, noisy.first_sample + copy))
    });
    let keys: Vec<_> = keys.collect();
    let mut images = vec![0.0; keys.len() * len];
    let copies = images.par_chunks_exact_mut(len).zip(&keys);
    copies.for_each(|(out, (noisy, sample))| noise.add(noisy.image, *sample, noisy.pixels, out));
    images
}

/// The noise in numbers, for a program that draws it elsewhere; none for a noise that
/// only our kernels draw.
fn described<'py>(py: Python<'py>, noise: &Noise) -> PyResult<Option<Bound<'py, PyDict>>> {
    let all = PyDict::new(py);
    all.set_item("seed", noise.seed)?;
    all.set_item("purpose", noise.purpose as u32)?;
    match &noise.kind {
        NoiseKind::Float {
            distribution: Distribution::Gaussian,
            sigma,
        } => all.set_item("sigma", *sigma)?,
        NoiseKind::Float { .. } => return Ok(None),
        NoiseKind::Grid(table) => {
            let words = |half: usize| -> Vec<u32> {
                table.columns().iter().map(|column| column[half]).collect()
            };
            all.set_item("levels", table.levels())?;
            all.set_item("bits", table.bits())?;
            all.set_item("thresholds", PyArray1::from_vec(py, words(0)))?;
            all.set_item("integers", PyArray1::from_vec(py, words(1)))?;
            all.set_item("low", PyArray1::from_slice(py, table.low_words()))?;
        }
    }
    Ok(Some(all))
}

/// The images of a batch and the numbers of their copies, for Python.
fn spread<'py>(
    py: Python<'py>,
    noise: &Noise,
    batch: &[NoisyImage<'_>],
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(all) = described(py, noise)? else {
        return Ok(None);
    };
    let pixels: Vec<f32> = batch
        .iter()
        .flat_map(|noisy| noisy.pixels.iter().copied())
        .collect();
    let list = |of: fn(&NoisyImage<'_>) -> u32| batch.iter().map(of).collect::<Vec<u32>>();
    all.set_item("pixels", PyArray1::from_vec(py, pixels))?;
    all.set_item("images", list(|noisy| noisy.image))?;
    all.set_item("first_samples", list(|noisy| noisy.first_sample))?;
    all.set_item("counts", list(|noisy| noisy.count as u32))?;
    Ok(Some(all))
}

impl Classify for Network {
    fn input(&self) -> Shape {
        self.graph.input()
    }

    fn classes(&self) -> usize {
        self.graph.classes()
    }

    fn logits(&self, images: &[f32], logits: &mut [f32]) -> Result<(), DeviceError> {
        self.classify(images.to_vec(), logits)
    }

    fn noisy_logits(
        &self,
        noise: &Noise,
        batch: &[NoisyImage<'_>],
        logits: &mut [f32],
    ) -> Result<(), DeviceError> {
        if !self.on_host {
            let done = self.call(|object| {
                let Some(all) = spread(object.py(), noise, batch)? else {
                    return Ok(false);
                };
                copy(&object.call_method1("noisy_logits", (all,))?, logits)?;
                Ok(true)
            })?;
            if done {
                return Ok(());
            }
        }
        self.classify(draw(noise, batch, self.input().len()), logits)
    }

    fn batch(&self) -> usize {
        self.batch
    }
}

impl Executor for Network {
    fn graph(&self) -> &Graph {
        &self.graph
    }

    fn forward(&self, images: &[f32], mode: Mode) -> Result<(Vec<f32>, Tape), DeviceError> {
        let count = self.count(images.len())?;
        let expected = count * self.classes();
        let (logits, object) = self.call(|object| {
            let images = PyArray1::from_slice(object.py(), images);
            let arguments = (images, mode == Mode::Train);
            let (logits, tape): (Bound<'_, PyAny>, Py<PyAny>) =
                object.call_method1("forward", arguments)?.extract()?;
            Ok((vector(&logits)?, tape))
        })?;
        length("logits", expected, logits.len())?;
        let tape = TorchTape {
            object,
            images: count,
        };
        Ok((logits, Tape::new(tape)))
    }

    fn input_gradient(&self, tape: &Tape, cotangent: &[f32]) -> Result<Vec<f32>, DeviceError> {
        let tape: &TorchTape = tape.of()?;
        length("cotangent", tape.images * self.classes(), cotangent.len())?;
        self.call(|object| {
            let py = object.py();
            let cotangent = PyArray1::from_slice(py, cotangent);
            let arguments = (tape.object.bind(py), cotangent);
            vector(&object.call_method1("input_gradient", arguments)?)
        })
    }

    fn parameter_gradient(
        &self,
        tape: &Tape,
        cotangent: &[f32],
        gradients: &mut Gradients,
    ) -> Result<(), DeviceError> {
        let tape: &TorchTape = tape.of()?;
        let gradients: &mut TorchGradients = gradients.of_mut()?;
        length("cotangent", tape.images * self.classes(), cotangent.len())?;
        self.call(|object| {
            let py = object.py();
            let cotangent = PyArray1::from_slice(py, cotangent);
            let arguments = (tape.object.bind(py), cotangent, gradients.0.bind(py));
            object
                .call_method1("parameter_gradient", arguments)
                .map(drop)
        })
    }

    fn gradients(&self) -> Result<Gradients, DeviceError> {
        let made = self.call(|object| Ok(object.call_method0("gradients")?.unbind()))?;
        Ok(Gradients::new(TorchGradients(made)))
    }

    fn update_running_statistics(&mut self, tape: &Tape) -> Result<(), DeviceError> {
        let tape: &TorchTape = tape.of()?;
        self.call(|object| {
            let tape = tape.object.bind(object.py());
            object
                .call_method1("update_running_statistics", (tape,))
                .map(drop)
        })
    }

    fn optimise(&mut self, step: &SgdStep, gradients: &mut Gradients) -> Result<f64, DeviceError> {
        let gradients: &mut TorchGradients = gradients.of_mut()?;
        *self.velocity.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.call(|object| {
            let gradients = gradients.0.bind(object.py());
            let SgdStep {
                rate,
                momentum,
                weight_decay,
                clip,
            } = *step;
            let arguments = (rate, momentum, weight_decay, clip, gradients);
            object.call_method1("optimise", arguments)?.extract()
        })
    }

    fn parameters(&self) -> Result<Parameters, DeviceError> {
        let values = self.call(|object| vectors(&object.call_method0("parameters")?))?;
        self.fitting(values)
    }

    fn state(&self) -> Result<TrainingState, DeviceError> {
        let mut velocity = HostGradients::zeros(&self.graph);
        let moved = *self.velocity.lock().unwrap_or_else(PoisonError::into_inner);
        if moved {
            let found = self.call(|object| vectors(&object.call_method0("velocities")?))?;
            for (velocity, found) in velocity.iter_mut().zip(found) {
                length("velocity", velocity.len(), found.len())?;
                velocity.copy_from_slice(&found);
            }
        }
        Ok(TrainingState {
            parameters: self.parameters()?,
            velocity,
        })
    }

    fn restore(&mut self, state: TrainingState) -> Result<(), DeviceError> {
        *self.velocity.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.call(|object| {
            let py = object.py();
            let parameters = arrays(py, state.parameters.iter())?;
            let velocity = arrays(py, state.velocity.iter())?;
            object
                .call_method1("restore", (parameters, velocity))
                .map(drop)
        })
    }

    fn noisy(&self, noise: &Noise, batch: &[NoisyImage<'_>]) -> Result<Vec<f32>, DeviceError> {
        // Wherever the module lives: the copies are wanted here.
        Ok(draw(noise, batch, self.input().len()))
    }

    fn share_norms(&mut self, sharing: NormSharing) -> Result<(), DeviceError> {
        let shared = match sharing {
            NormSharing::Alone => "nothing",
            NormSharing::Statistics(_) => "statistics",
            NormSharing::Running(_) => "running",
        };
        self.call(|object| object.call_method1("share_norms", (shared,)).map(drop))
    }

    fn sum_gradients(
        &self,
        gradients: &mut Gradients,
        _: &dyn Collective,
    ) -> Result<(), DeviceError> {
        // The engine was given the same ranks: gradients stay on their device.
        let gradients: &mut TorchGradients = gradients.of_mut()?;
        self.call(|object| {
            let gradients = gradients.0.bind(object.py());
            object.call_method1("sum_gradients", (gradients,)).map(drop)
        })
    }

    fn taped_batch(&self) -> usize {
        self.taped_batch
    }
}

impl Network {
    fn fitting(&self, values: Vec<Vec<f32>>) -> Result<Parameters, DeviceError> {
        let specs = self.graph.parameters();
        length("parameters", specs.len(), values.len())?;
        for (values, spec) in values.iter().zip(specs) {
            length("a parameter", spec.len(), values.len())?;
        }
        Ok(Parameters::new(&self.graph, values))
    }
}

fn vectors(list: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<f32>>> {
    list.try_iter()?.map(|array| vector(&array?)).collect()
}

/// The noisy copies that our kernels draw, for tests of programs that draw their own:
/// `seed`, `purpose`, image and sample numbers as the library counts them.
#[pyfunction]
#[pyo3(signature = (pixels, image, first_sample, count, sigma, seed, levels = None))]
#[expect(
    clippy::too_many_arguments,
    reason = "one for each keyword of Python's"
)]
pub fn noisy_copies<'py>(
    py: Python<'py>,
    pixels: PyReadonlyArray1<'py, f32>,
    image: u32,
    first_sample: u32,
    count: usize,
    sigma: f64,
    seed: u64,
    levels: Option<u32>,
) -> PyResult<(Floats<'py>, Bound<'py, PyDict>)> {
    let raise = |error: heatsmooth::certify::CertifyError| crate::errors::raise(py, &error.into());
    let smoothing = match levels {
        Some(levels) => heatsmooth::Smoothing::exact(sigma, levels),
        None => heatsmooth::Smoothing::gaussian(sigma),
    };
    let noise = smoothing.map_err(raise)?;
    let noise = noise.noise(seed, heatsmooth::network::Purpose::Estimation);
    let pixels = pixels.as_slice()?;
    let batch = [NoisyImage {
        pixels,
        image,
        first_sample,
        count,
    }];
    let copies = draw(&noise, &batch, pixels.len());
    let described = spread(py, &noise, &batch)?.unwrap_or_else(|| PyDict::new(py));
    Ok((PyArray1::from_vec(py, copies), described))
}
