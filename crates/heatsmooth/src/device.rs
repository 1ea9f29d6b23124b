//! Where networks run.

#[cfg(feature = "accelerated")]
mod accelerators;
mod several;

use std::sync::Arc;

use network::{Alone, Collective, Cpu, DeviceError, Executor, Isa, Model, Precision};
use rayon::ThreadPool;
use record::Versions;
use serde::Serialize;
use settings::SettingError;

use crate::error::Error;

/// No machine has more cores that are worth a thread each.
const MOST_THREADS: usize = 1024;

/// Something besides our own kernels that evaluates networks: another program with its
/// own ([`Graph::foreign`](network::Graph::foreign): PyTorch, from Python), or a GPU
/// with ours.
pub trait Engine: Send + Sync {
    /// What computes, for records: program, version, device, precision.
    fn name(&self) -> String;

    /// Makes a network of its own with the parameters of this model.
    ///
    /// # Errors
    /// A network that it does not know; a device without room for it.
    fn load(&self, model: &Model) -> Result<Box<dyn Executor>, DeviceError>;

    /// The same with passes in another precision, if it has it.
    fn in_precision(&self, _: Precision) -> Option<Arc<dyn Engine>> {
        None
    }
}

/// What there is to run networks on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceInfo {
    /// The name that chooses it: `cpu`, `gpu:0`.
    pub device: String,
    /// As it calls itself.
    pub name: String,
    /// What computes there: instructions or driver.
    pub driver: String,
    /// Bytes of memory, where it is known.
    pub memory: Option<u64>,
    /// Precisions that passes can have.
    pub precisions: Vec<&'static str>,
}

/// Where networks run, chosen at run time. Cloning is cheap: clones share the
/// threads.
#[derive(Clone)]
pub struct Device {
    pool: Arc<ThreadPool>,
    /// For networks of another program.
    engine: Option<Arc<dyn Engine>>,
    ranks: Arc<dyn Collective>,
    /// For our own, in the place of the CPU's kernels.
    accelerator: Option<Arc<dyn Engine>>,
    precision: Precision,
}

impl Device {
    /// The CPU, with this number of threads or one for each core. Results do not
    /// depend on it.
    ///
    /// # Errors
    /// A number of threads that makes no sense, or that the system refuses.
    pub fn cpu(threads: Option<usize>) -> Result<Self, Error> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.unwrap_or_else(cores);
        if !(1..=MOST_THREADS).contains(&threads) {
            let expected = format!("1 to {MOST_THREADS}, or none for all cores");
            return Err(SettingError::value("threads", threads, expected).into());
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| {
            Error::refused(
                format!("cannot start {threads} threads: {error}"),
                "ask for fewer threads",
            )
        })?;
        Ok(Self {
            pool: Arc::new(pool),
            engine: None,
            ranks: Arc::new(Alone),
            accelerator: None,
            precision: Precision::F32,
        })
    }

    /// The same, with another program for its own networks.
    #[must_use]
    pub fn with_engine(self, engine: Arc<dyn Engine>) -> Self {
        Self {
            engine: Some(engine),
            ..self
        }
    }

    /// The same as one of several processes that train together: each calls the same
    /// functions, and only rank 0 writes and reports.
    #[must_use]
    pub fn with_ranks(self, ranks: Arc<dyn Collective>) -> Self {
        Self { ranks, ..self }
    }

    /// The processes that train together.
    pub fn ranks(&self) -> &Arc<dyn Collective> {
        &self.ranks
    }

    /// Whether this process writes: a single one, or rank 0.
    pub(crate) fn writes(&self) -> bool {
        self.ranks.rank() == 0
    }

    /// The same, with our own networks on something else than the CPU.
    #[must_use]
    pub fn with_accelerator(self, accelerator: Arc<dyn Engine>) -> Self {
        Self {
            accelerator: Some(accelerator),
            ..self
        }
    }

    /// The same with several of them, which share the passes of measurements: each
    /// gets a part of the images or noisy copies. None trains; without any, the CPU
    /// stays.
    #[must_use]
    pub fn with_accelerators(self, accelerators: Vec<Arc<dyn Engine>>) -> Self {
        Self {
            accelerator: several::Several::joined(accelerators),
            ..self
        }
    }

    /// The same, with passes that keep nothing in another precision.
    ///
    /// # Errors
    /// A device that computes in single precision only.
    pub fn with_precision(self, precision: Precision) -> Result<Self, Error> {
        if precision == self.precision {
            return Ok(self);
        }
        let accelerator = self.accelerator.as_ref();
        let Some(accelerator) = accelerator.and_then(|a| a.in_precision(precision)) else {
            return Err(Error::refused(
                format!("this device does not compute in {}", precision.name()),
                "take f32, or a GPU that has it: `heatsmooth devices` lists them",
            ));
        };
        Ok(Self {
            accelerator: Some(accelerator),
            precision,
            ..self
        })
    }

    /// A device by its name: `cpu`, `gpu`, `gpu:1`, or several as `gpu:0,1`.
    ///
    /// # Errors
    /// A name that this build does not know; a GPU that is not there.
    pub fn named(name: &str, threads: Option<usize>) -> Result<Self, Error> {
        match name {
            "cpu" => Self::cpu(threads),
            "flex" => flex(Self::cpu(threads)?),
            "gpu" => gpu(Self::cpu(threads)?, name, "0"),
            _ => match name.strip_prefix("gpu:") {
                Some(which) => gpu(Self::cpu(threads)?, name, which),
                None => Err(SettingError::value("device", name, "cpu, gpu, or gpu:N").into()),
            },
        }
    }

    /// What there is to run networks on: the CPU, and the GPUs that this build finds.
    ///
    /// # Errors
    /// A driver that fails.
    pub fn list() -> Result<Vec<DeviceInfo>, Error> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        #[cfg_attr(
            not(feature = "accelerated"),
            expect(unused_mut, reason = "nothing else")
        )]
        let mut list = vec![DeviceInfo {
            device: "cpu".into(),
            name: format!("CPU, {cores} threads"),
            driver: Isa::detect().name().into(),
            memory: None,
            precisions: vec![Precision::F32.name()],
        }];
        #[cfg(feature = "flex")]
        list.push(DeviceInfo {
            device: "flex".into(),
            name: "burn on the CPU, for tests".into(),
            driver: "flex".into(),
            memory: None,
            precisions: Precision::ALL.map(Precision::name).into(),
        });
        #[cfg(feature = "cube")]
        list.extend(accelerators::list()?);
        Ok(list)
    }

    /// This build can use GPUs.
    pub const HAS_GPUS: bool = cfg!(feature = "cube");

    /// What passes that keep nothing compute in.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Puts a model on the device.
    ///
    /// # Errors
    /// A device without room for it; a network of another program that is not here.
    pub fn load(&self, model: &Model) -> Result<Box<dyn Executor>, DeviceError> {
        match (model.graph.foreign(), &self.engine, &self.accelerator) {
            (None, _, Some(accelerator)) => accelerator.load(model),
            (None, _, None) => Ok(Box::new(Cpu::new(model, Arc::clone(&self.pool)))),
            (Some(_), Some(engine), _) => engine.load(model),
            (Some((program, network)), None, _) => Err(DeviceError::OtherProgram {
                program: program.into(),
                network: network.into(),
            }),
        }
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// What computes, for records.
    pub fn versions(&self) -> Versions {
        let own = Isa::detect().name();
        Versions {
            program: env!("CARGO_PKG_VERSION").into(),
            isa: match self.accelerator.as_ref().or(self.engine.as_ref()) {
                Some(engine) => format!("{own}; {}", engine.name()),
                None => own.into(),
            },
            threads: self.threads(),
        }
    }
}

/// Burn's backend for the CPU, for tests of the GPU's program.
#[cfg(feature = "flex")]
#[expect(clippy::unnecessary_wraps, reason = "other builds refuse")]
fn flex(device: Device) -> Result<Device, Error> {
    Ok(device.with_accelerator(accelerators::flex()))
}

#[cfg(not(feature = "flex"))]
fn flex(_: Device) -> Result<Device, Error> {
    Err(Error::refused(
        "this build does not have flex, burn's backend for the CPU",
        "it tests the GPU's program without a GPU, and is not fast: leave the device out, or \
         build with the feature flex (docs/gpu.md)",
    ))
}

/// The GPUs that a name like `gpu:0,1` means.
#[cfg(feature = "cube")]
fn gpu(device: Device, name: &str, which: &str) -> Result<Device, Error> {
    let numbers: Option<Vec<usize>> = which.split(',').map(|number| number.parse().ok()).collect();
    let mut numbers = numbers
        .ok_or_else(|| SettingError::value("device", name, "gpu, gpu:N, or several as gpu:0,1"))?;
    numbers.sort_unstable();
    numbers.dedup();
    Ok(device.with_accelerators(accelerators::gpus(&numbers)?))
}

#[cfg(not(feature = "cube"))]
fn gpu(_: Device, name: &str, _: &str) -> Result<Device, Error> {
    Err(Error::refused(
        format!("this build does not have GPUs, and so not {name}"),
        "leave the device out, or build with the feature gpu (Vulkan, Metal, DirectX 12), cuda or \
         rocm, as `cargo build --release -p heatsmooth-cli --features gpu` (docs/gpu.md)",
    ))
}
