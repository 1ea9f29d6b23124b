//! Where networks run.

use std::sync::Arc;

use network::{Cpu, DeviceError, Executor, Isa, Model};
use rayon::ThreadPool;
use record::Versions;
use settings::SettingError;

use crate::error::Error;

/// No machine has more cores that are worth a thread each.
const MOST_THREADS: usize = 1024;

/// Where networks run, chosen at run time. Cloning is cheap: clones share the
/// threads.
#[derive(Clone, Debug)]
pub struct Device {
    pool: Arc<ThreadPool>,
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
        })
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
    /// A device without room for it.
    pub fn load(&self, model: &Model) -> Result<Box<dyn Executor>, DeviceError> {
        Ok(Box::new(Cpu::new(model, Arc::clone(&self.pool))))
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// What computes, for records.
    pub fn versions(&self) -> Versions {
        Versions {
            program: env!("CARGO_PKG_VERSION").into(),
            isa: Isa::detect().name().into(),
            threads: self.threads(),
        }
    }
}
