//! The ranks of an MPI job.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use ::mpi::Threading;
use ::mpi::collective::SystemOperation;
use ::mpi::environment::Universe;
use ::mpi::point_to_point::send_receive_into;
use ::mpi::topology::SimpleCommunicator;
use ::mpi::traits::{Communicator as _, CommunicatorCollectives as _, Root as _};
use network::{Collective, DeviceError};

use crate::error::Error;

/// What launchers set for the processes of an MPI job.
const LAUNCHED: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"];

/// Bytes that are sent at once: MPI counts in `i32`.
const PIECE: usize = 1 << 28;

/// This process in its MPI job, from its beginning to its end.
pub struct MpiJob {
    _universe: Universe,
    ranks: Arc<MpiRanks>,
}

impl fmt::Debug for MpiJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ranks.fmt(f)
    }
}

impl MpiJob {
    /// Joins the job that this process was started for; `None`: it was started for
    /// none. A process can join once.
    ///
    /// # Errors
    /// An MPI that cannot be used from several threads in turn; a second call.
    pub fn join() -> Result<Option<Self>, Error> {
        if LAUNCHED.iter().all(|name| std::env::var_os(name).is_none()) {
            return Ok(None);
        }
        let joined = ::mpi::initialize_with_threading(Threading::Serialized);
        let Some((universe, threading)) = joined else {
            return Err(Error::refused("MPI was started twice", "join a job once"));
        };
        if threading < Threading::Serialized {
            return Err(Error::refused(
                "this MPI must be called from one thread only",
                "take one that has MPI_THREAD_SERIALIZED, as Open MPI and MPICH do",
            ));
        }
        let world = universe.world();
        let ranks = Arc::new(MpiRanks {
            rank: world.rank() as usize,
            size: world.size() as usize,
            turn: Mutex::new(()),
        });
        Ok(Some(Self {
            _universe: universe,
            ranks,
        }))
    }

    /// The processes of the job.
    pub fn ranks(&self) -> Arc<dyn Collective> {
        Arc::clone(&self.ranks) as Arc<dyn Collective>
    }

    /// Ends all processes of the job: one that fails alone would leave the others
    /// waiting.
    pub fn abort(&self, code: i32) -> ! {
        SimpleCommunicator::world().abort(code)
    }
}

/// The processes of an MPI job. An MPI error ends the job by itself.
#[derive(Debug)]
struct MpiRanks {
    rank: usize,
    size: usize,
    /// MPI is called by one thread at a time.
    turn: Mutex<()>,
}

impl MpiRanks {
    fn in_turn<T>(&self, call: impl FnOnce(&SimpleCommunicator) -> T) -> T {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        call(&SimpleCommunicator::world())
    }
}

impl Collective for MpiRanks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn sum(&self, values: &mut [f32]) -> Result<(), DeviceError> {
        self.in_turn(|world| {
            for values in values.chunks_mut(PIECE / size_of::<f32>()) {
                let mut other = values.to_vec();
                if !matches!(self.size, 2 | 4) {
                    world.all_reduce_into(&other[..], values, SystemOperation::sum());
                    continue;
                }
                // Neighbours first: MPI's own sums have an order of MPI's choice.
                for bit in [1, 2].into_iter().filter(|bit| bit & (self.size - 1) != 0) {
                    let partner = world.process_at_rank((self.rank ^ bit) as i32);
                    send_receive_into(&*values, &partner, &mut other[..], &partner);
                    let pairs = values.iter_mut().zip(&other);
                    pairs.for_each(|(value, more)| *value += more);
                }
            }
        });
        Ok(())
    }

    fn gather(&self, values: &[f64]) -> Result<Vec<f64>, DeviceError> {
        let mut all = vec![0.0; self.size * values.len()];
        self.in_turn(|world| world.all_gather_into(values, &mut all[..]));
        Ok(all)
    }

    fn broadcast(&self, bytes: &mut Vec<u8>) -> Result<(), DeviceError> {
        self.in_turn(|world| {
            let root = world.process_at_rank(0);
            let mut length = bytes.len() as u64;
            root.broadcast_into(&mut length);
            bytes.resize(length as usize, 0);
            for piece in bytes.chunks_mut(PIECE) {
                root.broadcast_into(piece);
            }
        });
        Ok(())
    }

    fn barrier(&self) -> Result<(), DeviceError> {
        self.in_turn(|world| world.barrier());
        Ok(())
    }
}
