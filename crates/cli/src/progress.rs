//! Progress on stderr: a bar on a terminal, else a plain line now and then.

use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between two plain lines.
const EVERY: Duration = Duration::from_secs(5);

/// How far a long piece of work is.
pub struct Meter {
    name: String,
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
        let name = name.into();
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
    }

    /// `done` units are done; `note` says something about them.
    pub fn set(&mut self, done: u64, note: impl FnOnce() -> String) {
        self.bar.set_position(done);
        if self.plain {
            if self.told.elapsed() >= EVERY {
                self.told = Instant::now();
                let total = self.bar.length().unwrap_or(0);
                let left = self.left(done, total);
                eprintln!("{}: {done}/{total} {}, {left} left", self.name, note());
            }
        } else if !self.quiet {
            self.bar.set_message(note());
        }
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

fn console_is_terminal() -> bool {
    use std::io::IsTerminal;
    std::io::stderr().is_terminal()
}
