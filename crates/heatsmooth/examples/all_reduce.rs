//! How long the ranks of an MPI job take to sum up the gradients of networks of several
//! sizes: the figures of docs/scale.md.
//!
//!     cargo build --release -p heatsmooth --features mpi --example all_reduce
//!     mpirun -n 2 target/release/examples/all_reduce

use std::time::Instant;

use heatsmooth::network::sum_in_buckets;
use heatsmooth::{Error, MpiJob};

/// Parameters of ResNet-20, ResNet-50 and a large transformer, in millions.
const MILLIONS: [f64; 3] = [0.27, 25.6, 300.0];
/// How often statistics are summed up.
const TIMES: u32 = 1000;
/// Values of one array: a usual layer.
const LAYER: usize = 100_000;

fn main() -> Result<(), Error> {
    let Some(job) = MpiJob::join()? else {
        return Err(Error::refused(
            "not started by mpirun",
            "start it by mpirun -n 2",
        ));
    };
    let ranks = job.ranks();
    // What a batch norm of 64 channels sums up.
    let mut statistics = [1.0_f64; 129];
    ranks.barrier()?;
    let clock = Instant::now();
    for _ in 0..TIMES {
        statistics.fill(1.0);
        ranks.sum_wide(&mut statistics)?;
    }
    if ranks.rank() == 0 {
        let each = 1e6 * clock.elapsed().as_secs_f64() / f64::from(TIMES);
        println!(
            "{} ranks, statistics of a batch norm: {each:.1} us",
            ranks.size()
        );
    }
    for millions in MILLIONS {
        let mut values = vec![1.0_f32; (millions * 1e6) as usize];
        let times = (0..3).map(|_| {
            values.fill(1.0);
            ranks.barrier()?;
            let clock = Instant::now();
            sum_in_buckets(&*ranks, values.chunks_mut(LAYER))?;
            Ok(clock.elapsed().as_secs_f64())
        });
        let times = times.collect::<Result<Vec<f64>, Error>>()?;
        assert!(values.iter().all(|&v| v == ranks.size() as f32));
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        if ranks.rank() == 0 {
            println!(
                "{} ranks, {millions} M parameters: {:.2} ms, {:.2} GB/s of gradients",
                ranks.size(),
                1e3 * best,
                4e-3 * millions / best
            );
        }
    }
    Ok(())
}
