//! Training together with other processes.

use anyhow::Result;
use heatsmooth::{Device, Observer, Quiet};

use crate::common::Common;
#[cfg(feature = "mpi")]
use crate::failure;

/// This process among those that train together.
pub struct Ranks {
    #[cfg(feature = "mpi")]
    job: Option<heatsmooth::MpiJob>,
}

/// Does what all ranks do together. A rank that fails ends the others, which would
/// wait for it.
pub fn together(work: impl FnOnce(&Ranks) -> Result<()>) -> Result<()> {
    let ranks = Ranks::join()?;
    match work(&ranks) {
        Ok(()) => Ok(()),
        Err(error) => ranks.fail(error),
    }
}

#[cfg(feature = "mpi")]
impl Ranks {
    fn join() -> Result<Self> {
        let job = heatsmooth::MpiJob::join()?;
        Ok(Self { job })
    }

    fn rank(&self) -> usize {
        self.job.as_ref().map_or(0, |job| job.ranks().rank())
    }

    /// The device, as this rank's.
    pub fn on(&self, device: Device) -> Device {
        match &self.job {
            Some(job) => device.with_ranks(job.ranks()),
            None => device,
        }
    }

    fn fail(&self, error: anyhow::Error) -> Result<()> {
        let Some(job) = self.job.as_ref().filter(|job| job.ranks().size() > 1) else {
            return Err(error);
        };
        let rank = self.rank();
        if rank > 0 {
            // What all ranks find wrong is said once, by rank 0, which then ends us.
            std::thread::sleep(std::time::Duration::from_secs(2));
            eprintln!("rank {rank} of {} failed:", job.ranks().size());
        }
        let _ = failure::report(&error);
        job.abort(2)
    }
}

#[cfg(not(feature = "mpi"))]
impl Ranks {
    fn join() -> Result<Self> {
        let name = "OMPI_COMM_WORLD_SIZE";
        let count = std::env::var(name).ok();
        match count.and_then(|count| count.parse::<usize>().ok()) {
            Some(count) if count > 1 => Err(heatsmooth::Error::refused(
                format!("mpirun started {count} processes, but this build trains in one"),
                "build it with `cargo build --release --features mpi`, which needs an MPI's \
                 headers and libclang; or start it without mpirun",
            )
            .into()),
            _ => Ok(Self {}),
        }
    }

    fn rank(&self) -> usize {
        0
    }

    /// The device, as this rank's.
    pub fn on(&self, device: Device) -> Device {
        device
    }

    fn fail(&self, error: anyhow::Error) -> Result<()> {
        Err(error)
    }
}

impl Ranks {
    /// Whether this process speaks for all.
    pub fn leads(&self) -> bool {
        self.rank() == 0
    }

    /// Where progress is shown: by one rank.
    pub fn observer(&self, common: &Common) -> Box<dyn Observer> {
        match self.leads() {
            true => Box::new(common.terminal()),
            false => Box::new(Quiet),
        }
    }
}
