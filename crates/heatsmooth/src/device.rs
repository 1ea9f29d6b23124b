//! Where networks run.

use std::sync::Arc;

use network::{Alone, Collective, Cpu, DeviceError, Executor, Isa, Model};
use rayon::ThreadPool;
use record::Versions;
use settings::SettingError;

use crate::error::Error;

/// No machine has more cores that are worth a thread each.
const MOST_THREADS: usize = 1024;

/// Another program that evaluates its own networks
/// ([`Graph::foreign`](network::Graph::foreign)): PyTorch, from Python.
pub trait Engine: Send + Sync {
    /// What computes, for records: program, version, device, precision.
    fn name(&self) -> String;

    /// Makes a network of its own with the parameters of this model.
    ///
    /// # Errors
    /// A network that it does not know; a device without room for it.
    fn load(&self, model: &Model) -> Result<Box<dyn Executor>, DeviceError>;
}

/// Where networks run, chosen at run time. Cloning is cheap: clones share the
/// threads.
#[derive(Clone)]
pub struct Device {
    pool: Arc<ThreadPool>,
    engine: Option<Arc<dyn Engine>>,
    ranks: Arc<dyn Collective>,
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

    /// A device by its name: `cpu`.
    ///
    /// # Errors
    /// A name that this build does not know.
    pub fn named(name: &str, threads: Option<usize>) -> Result<Self, Error> {
        match name {
            "cpu" => Self::cpu(threads),
            _ if name == "gpu" || name.starts_with("gpu:") => Err(Error::refused(
                format!("this build runs on the CPU only, not on {name}"),
                "leave the device out, or say cpu",
            )),
            _ => Err(SettingError::value("device", name, "cpu").into()),
        }
    }

    /// Puts a model on the device.
    ///
    /// # Errors
    /// A device without room for it; a network of another program that is not here.
    pub fn load(&self, model: &Model) -> Result<Box<dyn Executor>, DeviceError> {
        match (model.graph.foreign(), &self.engine) {
            (None, _) => Ok(Box::new(Cpu::new(model, Arc::clone(&self.pool)))),
            (Some(_), Some(engine)) => engine.load(model),
            (Some((program, network)), None) => Err(DeviceError::OtherProgram {
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
            isa: match &self.engine {
                Some(engine) => format!("{own}; {}", engine.name()),
                None => own.into(),
            },
            threads: self.threads(),
        }
    }
}
