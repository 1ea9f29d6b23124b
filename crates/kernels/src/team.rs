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

/// What a job is.
#[derive(Default)]
#[repr(align(128))]
struct Order {
    /// Its number, from 1.
    number: AtomicU64,
    /// What to do, and in how many parts; set by the leader while no part is open.
    work: UnsafeCell<Option<(Job, usize)>>,
}

/// A part, the same one in all jobs, on cache lines of its own: a line that another core
/// has written to takes as long as a small layer.
///
/// A thread takes the part of its own number before any other: what it wrote in one job
/// and reads in the next is then in its own cache.
#[derive(Default)]
#[repr(align(128))]
struct Part {
    /// The last job whose part was taken, and the last whose part is done.
    taken: AtomicU64,
    done: AtomicU64,
}

/// One leader and any number of helpers.
pub struct Team {
    order: Order,
    parts: Vec<Part>,
    /// Threads that have come to help.
    helpers: AtomicUsize,
    led: AtomicBool,
    closed: AtomicBool,
    panicked: AtomicBool,
}

// SAFETY: `work` is written by the only leader while no part is open or running,
// and read by threads that hold a part, which the leader waits for.
unsafe impl Sync for Team {}
// SAFETY: the pointer in `work` is only followed while a part is held, see above.
unsafe impl Send for Team {}

impl Team {
    /// A team whose jobs have at most so many parts.
    pub fn new(parts: usize) -> Self {
        Self {
            order: Order::default(),
            parts: (0..parts).map(|_| Part::default()).collect(),
            helpers: AtomicUsize::new(0),
            led: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
        }
    }

    /// Works on whatever the leader hands out, until the leader is dropped.
    pub fn help(&self) {
        // The leader's is 0.
        let own = 1 + self.helpers.fetch_add(1, Ordering::Relaxed);
        let (mut idle, mut seen) = (0, 0);
        while !self.closed.load(Ordering::Acquire) {
            let job = self.order.number.load(Ordering::Acquire);
            if job == seen {
                pause(&mut idle);
                continue;
            }
            (idle, seen) = (0, job);
            for part in own..own + self.parts.len() {
                self.take_part(job, part % self.parts.len());
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

    /// Takes and runs one part of a job, if nobody has.
    fn take_part(&self, job: u64, part: usize) {
        let Part { taken, done } = &self.parts[part];
        // A part of a job that is over was taken, and perhaps again for a later one.
        let before = taken.load(Ordering::Relaxed);
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        if before >= job
            || taken
                .compare_exchange(before, job, success, failure)
                .is_err()
        {
            return;
        }
        // SAFETY: we hold a part of the job whose number we read, so the leader is inside
        // `Leader::run`, which set the work before it gave the number and keeps it alive
        // until all parts are done.
        let work = unsafe { (*self.order.work.get()).map(|(work, parts)| (&*work, parts)) };
        let (work, parts) = work.expect("a job with open parts");
        if part < parts && catch_unwind(AssertUnwindSafe(|| work(part))).is_err() {
            self.panicked.store(true, Ordering::Relaxed);
        }
        done.store(job, Ordering::Release);
    }
}

/// Hands out work; dropping it sends the helpers home.
pub struct Leader<'a> {
    team: &'a Team,
}

impl Leader<'_> {
    /// Calls `f(0)` to `f(parts - 1)`, each once, here and on the helpers, and returns
    /// when all are done.
    ///
    /// # Panics
    /// If `f` did, on any thread, or if there are more parts than the team is made for.
    pub fn run(&mut self, parts: usize, f: &(dyn Fn(usize) + Sync)) {
        let team = self.team;
        let most = team.parts.len();
        assert!(parts <= most, "{parts} parts for a team of {most}");
        let f = std::ptr::from_ref(f);
        // SAFETY: we are the only leader, and no part of the last job is open
        // or running: nobody reads the work. Only its lifetime is forgotten; it
        // is not followed after this function, which waits for all parts.
        unsafe {
            let f = std::mem::transmute::<*const (dyn Fn(usize) + Sync), Job>(f);
            *team.order.work.get() = Some((f, parts));
        }
        let job = team.order.number.load(Ordering::Relaxed) + 1;
        team.order.number.store(job, Ordering::Release);
        let helpers = team.helpers.load(Ordering::Relaxed);
        for (part, state) in team.parts.iter().enumerate() {
            let mut idle = 0;
            while state.done.load(Ordering::Acquire) < job {
                // Whoever has the part as its own is about to come, or late.
                if part == 0 || part > helpers || idle > LATE {
                    team.take_part(job, part);
                }
                pause(&mut idle);
            }
        }
        assert!(!team.panicked.load(Ordering::Relaxed), "a part panicked");
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        self.team.closed.store(true, Ordering::Release);
    }
}

/// Turns of waiting after which the leader does the part of a helper that is there but has
/// not taken it: some microseconds, where another core sees a job within one.
const LATE: u32 = 256;

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
            let team = Team::new(5);
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
        let team = Team::new(5);
        std::thread::scope(|scope| {
            scope.spawn(|| team.help());
            let mut leader = team.lead();
            let run = AssertUnwindSafe(|| leader.run(3, &|part| assert_ne!(part, 1)));
            assert!(catch_unwind(run).is_err());
        });
    }
}
