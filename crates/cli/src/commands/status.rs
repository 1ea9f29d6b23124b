//! `heatsmooth status`: how far the logs in a folder are.

use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Result;
use clap::{Args, FromArgMatches as _};
use heatsmooth::record::{self, LogStatus, ShardStatus};
use heatsmooth::{Error, Registry};
use serde_json::{Value, json};

use crate::Entry;
use crate::common::{Common, with_common};
use crate::failure::Unfinished;
use crate::output;

/// `heatsmooth status`.
pub const ENTRY: Entry = Entry {
    name: "status",
    command: |command, _| with_common(Flags::augment_args(command)),
    run: |matches, registry| {
        run(
            &Flags::from_arg_matches(matches)?,
            &Common::of(matches)?,
            registry,
        )
    },
};

/// How far the logs in a folder are: shards that are done, under way or missing, read
/// from the logs alone.
#[derive(Args, Debug)]
#[command(after_help = "Example: heatsmooth status runs")]
pub struct Flags {
    /// The folder; folders in it are looked into.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

fn run(flags: &Flags, common: &Common, _: &Registry) -> Result<()> {
    let (runs, unreadable) = record::status(&flags.folder).map_err(Error::from)?;
    let text: String = match runs.is_empty() {
        true => format!("{}: no logs\n", flags.folder.display()),
        false => runs.iter().map(text).collect(),
    };
    let runs: Vec<Value> = runs.iter().map(to_json).collect();
    output::summary(common, &json!(runs), &text)?;
    if unreadable.is_empty() {
        return Ok(());
    }
    let reasons: Vec<String> = unreadable.iter().map(ToString::to_string).collect();
    Err(Unfinished(format!("cannot be read: {}", reasons.join("; "))).into())
}

fn text(run: &LogStatus) -> String {
    let (rows, images) = (run.rows(), run.images);
    let share = 100.0 * rows as f64 / images.max(1) as f64;
    let images = format!("{rows} of {images} images ({share:.1} %)");
    let what = format!("{}, {}", run.kind, run.procedure);
    let Some(count) = run.shards else {
        let parts = run.parts.iter();
        return parts
            .map(|part| format!("{}: {what}: {images}{}\n", part.path.display(), pace(part)))
            .collect();
    };
    let done = run.parts.iter().filter(|part| part.is_done()).count();
    let first = run
        .parts
        .first()
        .map(|part| part.path.display().to_string());
    let mut text = format!(
        "{}: {what}: {done} of {count} shards done, {images}\n",
        first.unwrap_or_default()
    );
    for part in run.parts.iter().filter(|part| !part.is_done()) {
        let (index, path) = (
            part.shard.map_or(0, |shard| shard.index),
            part.path.display(),
        );
        let (rows, images, pace) = (part.rows, part.images, pace(part));
        text += &format!("  shard {index}/{count}: {rows} of {images} images{pace}: {path}\n");
    }
    for index in run.doubles() {
        text += &format!("  shard {index}/{count} has several logs\n");
    }
    match run.missing() {
        missing if missing.is_empty() => {}
        missing => text += &format!("  without a log: {missing}\n"),
    }
    text
}

/// When the last row was written, and when the last one will be.
fn pace(part: &ShardStatus) -> String {
    if part.is_done() {
        return String::new();
    }
    let mut text = String::new();
    if let Some(seconds) = quiet(part) {
        text += &format!(", last row {} ago", clock(seconds));
    }
    if let Some(left) = part.left {
        text += &format!(", about {} left", clock(left.as_secs()));
    }
    text
}

/// Seconds since the last row.
fn quiet(part: &ShardStatus) -> Option<u64> {
    let since = SystemTime::now().duration_since(part.changed?).ok()?;
    Some(since.as_secs())
}

/// `h:mm:ss`.
fn clock(seconds: u64) -> String {
    format!(
        "{}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

fn to_json(run: &LogStatus) -> Value {
    let parts = run.parts.iter().map(|part| {
        json!({
            "log": part.path.display().to_string(),
            "shard": part.shard.map(|shard| shard.index),
            "rows": part.rows, "images": part.images, "done": part.is_done(),
            "seconds_since_last_row": quiet(part),
            "seconds_left": part.left.map(|left| left.as_secs_f64()),
        })
    });
    json!({
        "kind": run.kind.name(), "procedure": run.procedure, "shards": run.shards,
        "rows": run.rows(), "images": run.images, "done": run.is_done(),
        "missing": run.missing(), "doubles": run.doubles(),
        "logs": parts.collect::<Vec<_>>(),
    })
}
