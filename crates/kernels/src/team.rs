//! Threads that share one image's work, layer by layer.
//!
//! A layer of a small network takes microseconds, less than waking a thread.
//! Helpers therefore spin from one piece of work to the next. The leader never
//! waits for a helper to come, only for parts that one has begun: a helper that
//! is late, or never comes, costs speed and nothing else.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

type Job = *const (dyn Fn(usize) + Sync);

/// One leader and any number of helpers.
#[derive(Default)]
pub struct Team {
    /// Number of the job (high half) and parts of it that nobody has taken
    /// (low half).
    state: AtomicU64,
    /// Parts of the job that are done.
    done: AtomicUsize,
    /// What to do; set by the leader while no part is open.
    job: UnsafeCell<Option<Job>>,
    led: AtomicBool,
    closed: AtomicBool,
    panicked: AtomicBool,
}

// SAFETY: `job` is written by the only leader while no part is open or running,
// and read by threads that hold a part, which the leader waits for.
unsafe impl Sync for Team {}
// SAFETY: the pointer in `job` is only followed while a part is held, see above.
unsafe impl Send for Team {}

impl Team {
    /// Works on whatever the leader hands out, until the leader is dropped.
    pub fn help(&self) {
        let mut idle = 0_u32;
        while !self.closed.load(Ordering::Acquire) {
            if self.take_part() {
                idle = 0;
            } else {
                pause(&mut idle);
            }
        }
    }

    /// The leader.
    ///
    /// # Panics
    /// If there has been one.
    pub fn lead(&self) -> Leader<'_> {
        let second = self.led.swap(true, Ordering::Relaxed);
        assert!(!second, "a team has one leader");
        Leader { team: self }
    }

    /// Takes and runs one part; says whether there was one.
    fn take_part(&self) -> bool {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let open = state & u64::from(u32::MAX);
            if open == 0 {
                return false;
            }
            let taken = self.state.compare_exchange_weak(
                state,
                state - 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match taken {
                Err(now) => state = now,
                Ok(_) => {
                    // SAFETY: we hold a part, so the leader is inside
                    // `Leader::run`, which set the job before it opened the
                    // parts and keeps it alive until all are done.
                    let job = unsafe { (*self.job.get()).map(|job| &*job) };
                    let job = job.expect("a job with open parts");
                    if catch_unwind(AssertUnwindSafe(|| job(open as usize - 1))).is_err() {
                        self.panicked.store(true, Ordering::Relaxed);
                    }
                    self.done.fetch_add(1, Ordering::Release);
                    return true;
                }
            }
        }
    }
}

/// Hands out work; dropping it sends the helpers home.
pub struct Leader<'a> {
    team: &'a Team,
}

impl Leader<'_> {
    /// Calls `f(0)` to `f(parts - 1)`, here and on the helpers, and returns when
    /// all are done.
    ///
    /// # Panics
    /// If `f` did, on any thread.
    pub fn run(&mut self, parts: usize, f: &(dyn Fn(usize) + Sync)) {
        let team = self.team;
        let open = u32::try_from(parts).expect("a number of parts");
        team.done.store(0, Ordering::Relaxed);
        // SAFETY: we are the only leader, and no part of the last job is open
        // or running: nobody reads the job. Only its lifetime is forgotten; it
        // is not followed after this function, which waits for all parts.
        unsafe {
            *team.job.get() = Some(std::mem::transmute::<*const (dyn Fn(usize) + Sync), Job>(
                std::ptr::from_ref(f),
            ));
        }
        let job = (team.state.load(Ordering::Relaxed) >> 32).wrapping_add(1) << 32;
        team.state.store(job | u64::from(open), Ordering::Release);
        while team.take_part() {}
        let mut idle = 0;
        while team.done.load(Ordering::Acquire) < parts {
            pause(&mut idle);
        }
        assert!(!team.panicked.load(Ordering::Relaxed), "a part panicked");
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        self.team.closed.store(true, Ordering::Release);
    }
}

/// Spins for a while, then lets other threads run.
fn pause(idle: &mut u32) {
    *idle = idle.saturating_add(1);
    if *idle < 4096 {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_runs_once_with_any_helpers() {
        for helpers in 0..4 {
            let team = Team::default();
            std::thread::scope(|scope| {
                for _ in 0..helpers {
                    scope.spawn(|| team.help());
                }
                let mut leader = team.lead();
                for round in 0..2000 {
                    let parts = round % 5;
                    let counts: Vec<AtomicUsize> =
                        (0..parts).map(|_| AtomicUsize::new(0)).collect();
                    leader.run(parts, &|part| {
                        counts[part].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
                }
            });
        }
    }

    #[test]
    fn a_panic_reaches_the_leader_and_frees_the_helpers() {
        let team = Team::default();
        std::thread::scope(|scope| {
            scope.spawn(|| team.help());
            let mut leader = team.lead();
            let run = AssertUnwindSafe(|| leader.run(3, &|part| assert_ne!(part, 1)));
            assert!(catch_unwind(run).is_err());
        });
    }
}
