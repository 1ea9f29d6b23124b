//! Devices that vanish or run out of memory in the middle of a run: an error with a
//! hint, nothing lost, and the same command goes on to the same end.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use heatsmooth::measurements::Certified;
use heatsmooth::network::{
    Classify, Cpu, DeviceError, Executor, Gradients, Graph, Mode, Model, Noise, NoisyImage,
    Parameters, Precision, SgdStep, Shape, Tape, TrainingState,
};
use heatsmooth::{
    CertifyParams, DataSource, Device, Engine, Error, ImageChoice, ImageSource as _, Job,
    MethodChoice, ModelSource, Quiet, Smoothing, Split, SplitChoice, StartFrom, Subject, Training,
    fit, measure,
};

/// A device that does so many passes and then says what is wrong with it.
struct Failing {
    passes: Arc<AtomicI64>,
    error: DeviceError,
}

struct FailingNetwork {
    network: Cpu,
    passes: Arc<AtomicI64>,
    error: DeviceError,
}

impl Engine for Failing {
    fn name(&self) -> String {
        "a failing device".into()
    }

    fn load(&self, model: &Model) -> Result<Box<dyn Executor>, DeviceError> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        Ok(Box::new(FailingNetwork {
            network: Cpu::new(model, Arc::new(pool.unwrap())),
            passes: Arc::clone(&self.passes),
            error: self.error.clone(),
        }))
    }
}

impl FailingNetwork {
    fn pass(&self) -> Result<(), DeviceError> {
        match self.passes.fetch_sub(1, Ordering::Relaxed) {
            1.. => Ok(()),
            _ => Err(self.error.clone()),
        }
    }
}

impl Classify for FailingNetwork {
    fn input(&self) -> Shape {
        self.network.input()
    }

    fn classes(&self) -> usize {
        self.network.classes()
    }

    fn logits(&self, images: &[f32], logits: &mut [f32]) -> Result<(), DeviceError> {
        self.pass()?;
        self.network.logits(images, logits)
    }

    fn noisy_logits(
        &self,
        noise: &Noise,
        batch: &[NoisyImage<'_>],
        logits: &mut [f32],
    ) -> Result<(), DeviceError> {
        self.pass()?;
        self.network.noisy_logits(noise, batch, logits)
    }

    fn batch(&self) -> usize {
        64
    }
}

impl Executor for FailingNetwork {
    fn graph(&self) -> &Graph {
        self.network.graph()
    }

    fn forward(&self, images: &[f32], mode: Mode) -> Result<(Vec<f32>, Tape), DeviceError> {
        self.pass()?;
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

    fn taped_batch(&self) -> usize {
        self.network.taped_batch()
    }
}

fn cpu() -> Device {
    Device::cpu(Some(1)).unwrap()
}

fn lost() -> DeviceError {
    DeviceError::Failed {
        device: "gpu:0".into(),
        reason: "the device is lost".into(),
    }
}

fn failing(passes: i64, error: DeviceError) -> Device {
    let passes = Arc::new(AtomicI64::new(passes));
    cpu().with_accelerator(Arc::new(Failing { passes, error }))
}

fn train(folder: &Path, device: &Device) -> Result<Vec<u8>, Error> {
    let data = DataSource::named("digits").open(Split::Train, None)?;
    let training = Training {
        epochs: 2,
        lr: 0.02,
        checkpoint_seconds: 0.0,
        ..Training::default()
    };
    let start = StartFrom::Architecture {
        name: "mlp",
        normalise: None,
    };
    let job = Job {
        start,
        train: &data,
        test: None,
        training: &training,
        folder,
        seed: 3,
        device,
    };
    Ok(fit(MethodChoice::baseline(), &job, &mut Quiet)?
        .model
        .to_bytes())
}

#[test]
fn training_goes_on_where_the_device_vanished() {
    let folder = tempfile::tempdir().unwrap();
    let whole = train(&folder.path().join("whole"), &cpu()).unwrap();
    let parts = folder.path().join("parts");
    let error = train(&parts, &failing(15, lost())).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("gpu:0 failed: the device is lost"),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("another device"));
    assert!(train(&parts, &cpu()).unwrap() == whole);
}

/// The rows of a log of certificates: which image, label, answer and radius. The time is
/// another.
fn rows(run: &Path, log: &Path, device: &Device) -> Result<Vec<String>, Error> {
    let (model, data) = (ModelSource::new(run), DataSource::named("digits"));
    let (split, images) = (SplitChoice::default(), ImageChoice::first(8));
    let subject = Subject::open(&model, &data, &split, &images, device)?;
    let params = CertifyParams {
        n: 100,
        ..CertifyParams::default()
    };
    let certified = Certified::new(Smoothing::gaussian(0.25)?, params, 0)?;
    measure(&certified, &subject, log, &mut Quiet)?;
    let text = std::fs::read_to_string(log).unwrap();
    let cut = |line: &str| line.split('\t').take(5).collect::<Vec<_>>().join(" ");
    Ok(text.lines().map(cut).collect())
}

#[test]
fn a_log_goes_on_where_memory_ran_out() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &cpu()).unwrap();
    let rows = |log: &Path, device: &Device| rows(&run, log, device);
    let whole = rows(&folder.path().join("whole.tsv"), &cpu()).unwrap();
    let log = folder.path().join("parts.tsv");
    let error = DeviceError::OutOfMemory {
        device: "gpu:0".into(),
        reason: "no room for 1 GiB".into(),
    };
    let error = rows(&log, &failing(15, error)).unwrap_err();
    assert!(error.to_string().contains("out of memory"), "{error}");
    assert!(error.hint().unwrap().contains("smaller batch"));
    let kept = std::fs::read_to_string(&log).unwrap().lines().count();
    assert!(kept > 1 && kept < whole.len(), "{kept} lines");
    assert_eq!(rows(&log, &cpu()).unwrap(), whole);
}

/// Two devices share the passes of a measurement; what they measure is the same. They do
/// not train, and if one of them vanishes, the log goes on later.
#[test]
fn two_devices_certify_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    train(&run, &cpu()).unwrap();
    let two = |passes: [i64; 2]| {
        let left = passes.map(|passes| Arc::new(AtomicI64::new(passes)));
        let engines = left.each_ref().map(|passes| {
            let passes = Arc::clone(passes);
            Arc::new(Failing {
                passes,
                error: lost(),
            }) as Arc<dyn Engine>
        });
        (left, cpu().with_accelerators(engines.into()))
    };
    let whole = rows(&run, &folder.path().join("one.tsv"), &cpu()).unwrap();
    let (left, device) = two([1000, 1000]);
    let name = device.versions().isa;
    assert!(
        name.ends_with("; a failing device; a failing device"),
        "{name}"
    );
    let shared = rows(&run, &folder.path().join("two.tsv"), &device).unwrap();
    assert_eq!(shared, whole);
    let [first, second] = left.map(|left| 1000 - left.load(Ordering::Relaxed));
    assert!(
        second > 0 && (first - second).abs() <= 1,
        "{first} {second} passes"
    );

    let error = train(&folder.path().join("other"), &device).err().unwrap();
    assert!(error.to_string().contains("only one trains"), "{error}");

    let log = folder.path().join("lost.tsv");
    let error = rows(&run, &log, &two([1000, 5]).1).unwrap_err();
    assert!(error.to_string().contains("the device is lost"), "{error}");
    assert_eq!(rows(&run, &log, &cpu()).unwrap(), whole);
}

#[test]
fn devices_that_are_not_there_are_refused() {
    for name in ["gpu:", "gpu:x", "gpu:0,", "tpu", "cpu:1", "GPU"] {
        let error = Device::named(name, Some(1)).err().expect(name);
        assert!(
            error.hint().is_some() || error.to_string().contains("device"),
            "{error}"
        );
    }
    if !Device::HAS_GPUS {
        let error = Device::named("gpu:1", Some(1)).err().unwrap();
        assert!(error.hint().unwrap().contains("docs/gpu.md"), "{error}");
    }
    assert_eq!(Device::list().unwrap()[0].device, "cpu");
    assert!(cpu().with_precision(Precision::F32).is_ok());
    let error = cpu().with_precision(Precision::F16).err().unwrap();
    assert!(error.to_string().contains("f16"), "{error}");
}
