//! Progress on stderr: a bar on a terminal, a plain line every few seconds
//! elsewhere.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use heatsmooth::{Observer, StageProgress};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between plain lines.
const EVERY: Duration = Duration::from_secs(5);

/// Shows what the library does.
pub struct Terminal {
    quiet: bool,
    stage: Option<StageProgress>,
    meter: Option<Meter>,
}

impl Terminal {
    /// Shows warnings only, if quiet.
    pub fn new(quiet: bool) -> Self {
        Self {
            quiet,
            stage: None,
            meter: None,
        }
    }

    fn line(&self, text: &str) {
        match &self.meter {
            Some(meter) if !meter.plain => meter.bar.println(text),
            _ => eprintln!("{text}"),
        }
    }
}

impl Observer for Terminal {
    fn begin(&mut self, what: &str, total: u64, done: u64) {
        if !self.quiet {
            self.meter = Some(Meter::new(self.stage.clone(), what, total, done));
        }
    }

    fn progress(&mut self, done: u64, note: &dyn Fn() -> String) -> ControlFlow<()> {
        if let Some(meter) = &mut self.meter {
            meter.set(done, note);
        }
        ControlFlow::Continue(())
    }

    fn end(&mut self) {
        if let Some(meter) = self.meter.take() {
            meter.bar.finish_and_clear();
        }
    }

    /// In an experiment, single epochs are too much to tell.
    fn epoch(&mut self, text: &str) {
        if !self.quiet && self.stage.is_none() {
            self.line(text);
        }
    }

    fn note(&mut self, text: &str) {
        if !self.quiet {
            self.line(text);
        }
    }

    fn warning(&mut self, text: &str) {
        self.line(&format!("warning: {text}"));
    }

    fn stage(&mut self, stage: Option<&StageProgress>) {
        self.stage = stage.cloned();
        if let Some(stage) = stage.filter(|_| !self.quiet) {
            eprintln!("{}", stage.name);
        }
    }
}

/// How far a long piece of work is.
struct Meter {
    name: String,
    stage: Option<StageProgress>,
    bar: ProgressBar,
    plain: bool,
    started: Instant,
    first: u64,
    told: Instant,
}

impl Meter {
    fn new(stage: Option<StageProgress>, what: &str, total: u64, done: u64) -> Self {
        let name = match &stage {
            Some(stage) => format!("{}: {what}", stage.name),
            None => what.into(),
        };
        let bar = ProgressBar::new(total);
        let plain = !console_is_terminal();
        if plain {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let style = "{prefix} [{bar:30}] {pos}/{len} {msg}, {eta} left";
        let style = ProgressStyle::with_template(style).expect("the template is sound");
        bar.set_style(style.progress_chars("=> "));
        bar.set_prefix(name.clone());
        // What an earlier run did does not count for the speed.
        bar.set_position(done);
        bar.reset_eta();
        let now = Instant::now();
        Self {
            name,
            stage,
            bar,
            plain,
            started: now,
            first: done,
            told: now,
        }
    }

    fn set(&mut self, done: u64, note: &dyn Fn() -> String) {
        self.bar.set_position(done);
        let total = self.bar.length().unwrap_or(0);
        if !self.plain {
            let whole = self.whole(done, total);
            self.bar.set_message(format!("{}{whole}", note()));
        } else if self.told.elapsed() >= EVERY {
            self.told = Instant::now();
            let (left, whole) = (self.left(done, total), self.whole(done, total));
            eprintln!(
                "{}: {done}/{total} {}{whole}, {left} left",
                self.name,
                note()
            );
        }
    }

    /// Time left for the whole of which this is a part.
    fn whole(&self, done: u64, total: u64) -> String {
        let here = done.saturating_sub(self.first);
        let (Some(stage), 1..) = (&self.stage, here) else {
            return String::new();
        };
        let rest = share(total.saturating_sub(done), total);
        let left = whole_left(stage, share(here, total), self.started.elapsed(), rest);
        format!(" (everything: {} left)", HumanDuration(left))
    }

    fn left(&self, done: u64, total: u64) -> HumanDuration {
        let here = done.saturating_sub(self.first);
        let each = self.started.elapsed().as_secs_f64() / here.max(1) as f64;
        let seconds = each * total.saturating_sub(done) as f64;
        HumanDuration(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }
}

/// Time for the rest of an experiment, `share` of this stage being done in
/// `elapsed`, and `rest` of it being still to do.
fn whole_left(stage: &StageProgress, share: f64, elapsed: Duration, rest: f64) -> Duration {
    let work = stage.done.0 + stage.here * share;
    let seconds = (stage.done.1 + elapsed).as_secs_f64() / work;
    Duration::try_from_secs_f64(seconds * (stage.here * rest + stage.after))
        .unwrap_or(Duration::MAX)
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
        let stage = StageProgress {
            name: "2/3".into(),
            here: 40.0,
            after: 50.0,
            done: (10.0, Duration::from_secs(10)),
        };
        // 10 + 20 units took 60 seconds; 20 + 50 are left.
        let left = whole_left(&stage, 0.5, Duration::from_secs(50), 0.5);
        assert_eq!(left, Duration::from_secs(140));
        // A quarter was done by an earlier run, a quarter here.
        let left = whole_left(&stage, 0.25, Duration::from_secs(30), 0.5);
        assert_eq!(left, Duration::from_secs(140));
    }
}
