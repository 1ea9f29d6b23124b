//! Progress on stderr: a bar on a terminal, else a plain line now and then.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between two plain lines.
const EVERY: Duration = Duration::from_secs(5);

/// The part of a longer piece of work that is being done.
static PART: Mutex<Option<Part>> = Mutex::new(None);

/// One part of a longer piece of work: every meter shows it, and how long the
/// whole will take. Work is in any unit, the same for all parts.
#[derive(Clone, Debug)]
pub struct Part {
    /// Which part this is.
    pub name: String,
    /// Work in it.
    pub here: f64,
    /// Work in the parts after it.
    pub after: f64,
    /// Work in the parts that this process did, and the time it took.
    pub done: (f64, Duration),
    /// Share of it that an earlier run did, as its meter was told.
    pub before: f64,
}

impl Part {
    /// Meters made from now on are of this part; gives the one that is left.
    pub fn enter(part: Option<Self>) -> Option<Self> {
        let mut current = PART.lock().expect("nothing panics with the lock");
        std::mem::replace(&mut *current, part)
    }

    fn current() -> Option<Self> {
        PART.lock().expect("nothing panics with the lock").clone()
    }

    /// Time for the rest of the whole, `share` of this part being done in
    /// `elapsed`, and `rest` of it being still to do.
    fn left(&self, share: f64, elapsed: Duration, rest: f64) -> Duration {
        let work = self.done.0 + self.here * share;
        let seconds = (self.done.1 + elapsed).as_secs_f64() / work;
        Duration::try_from_secs_f64(seconds * (self.here * rest + self.after))
            .unwrap_or(Duration::MAX)
    }
}

/// How far a long piece of work is.
pub struct Meter {
    name: String,
    part: Option<Part>,
    bar: ProgressBar,
    plain: bool,
    quiet: bool,
    started: Instant,
    first: u64,
    told: Instant,
}

impl Meter {
    /// A meter for `total` units of work.
    pub fn new(quiet: bool, name: impl Into<String>, total: u64) -> Self {
        let part = Part::current();
        let name = match &part {
            Some(part) => format!("{}: {}", part.name, name.into()),
            None => name.into(),
        };
        let bar = ProgressBar::new(total);
        let terminal = console_is_terminal();
        if quiet || !terminal {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let style = "{prefix} [{bar:30}] {pos}/{len} {msg}, {eta} left";
        let style = ProgressStyle::with_template(style).expect("the template is sound");
        bar.set_style(style.progress_chars("=> "));
        bar.set_prefix(name.clone());
        let now = Instant::now();
        Self {
            name,
            part,
            bar,
            plain: !quiet && !terminal,
            quiet,
            started: now,
            first: 0,
            told: now,
        }
    }

    /// Work that an earlier run did: it does not count for the speed.
    pub fn resume(&mut self, done: u64) {
        self.first = done;
        self.bar.set_position(done);
        self.bar.reset_eta();
        let total = self.bar.length().unwrap_or(0);
        if let Some(part) = &mut *PART.lock().expect("nothing panics with the lock") {
            part.before = share(done, total);
        }
    }

    /// `done` units are done; `note` says something about them.
    pub fn set(&mut self, done: u64, note: impl FnOnce() -> String) {
        self.bar.set_position(done);
        let total = self.bar.length().unwrap_or(0);
        if self.plain {
            if self.told.elapsed() >= EVERY {
                self.told = Instant::now();
                let (left, whole) = (self.left(done, total), self.whole(done, total));
                let note = note();
                eprintln!("{}: {done}/{total} {note}{whole}, {left} left", self.name);
            }
        } else if !self.quiet {
            self.bar
                .set_message(format!("{}{}", note(), self.whole(done, total)));
        }
    }

    /// Time left for the whole of which this is a part.
    fn whole(&self, done: u64, total: u64) -> String {
        let here = done.saturating_sub(self.first);
        let (Some(part), 1..) = (&self.part, here) else {
            return String::new();
        };
        let rest = share(total.saturating_sub(done), total);
        let left = part.left(share(here, total), self.started.elapsed(), rest);
        format!(" (everything: {} left)", HumanDuration(left))
    }

    fn left(&self, done: u64, total: u64) -> HumanDuration {
        let here = done.saturating_sub(self.first);
        let each = self.started.elapsed().as_secs_f64() / here.max(1) as f64;
        let seconds = each * total.saturating_sub(done) as f64;
        HumanDuration(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    /// A line above the bar.
    pub fn line(&self, text: &str) {
        if self.plain {
            eprintln!("{text}");
        } else {
            self.bar.println(text);
        }
    }

    /// Removes the bar.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

fn share(units: u64, total: u64) -> f64 {
    units as f64 / total.max(1) as f64
}

fn console_is_terminal() -> bool {
    use std::io::IsTerminal;
    std::io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_takes_as_long_as_its_work() {
        let part = Part {
            name: "2/3".into(),
            here: 40.0,
            after: 50.0,
            done: (10.0, Duration::from_secs(10)),
            before: 0.0,
        };
        // 10 + 20 units took 60 seconds; 20 + 50 are left.
        let left = part.left(0.5, Duration::from_secs(50), 0.5);
        assert_eq!(left, Duration::from_secs(140));
        // A quarter was done by an earlier run, a quarter here.
        let left = part.left(0.25, Duration::from_secs(30), 0.5);
        assert_eq!(left, Duration::from_secs(140));
        // What the earlier run did is known when the part is left.
        Part::enter(Some(part));
        Meter::new(true, "images", 400).resume(100);
        assert_eq!(Part::enter(None).unwrap().before, 0.25);
    }
}
