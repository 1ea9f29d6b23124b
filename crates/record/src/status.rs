//! How far the logs in a folder are, from the logs alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::manifest::differences;
use crate::merge::missing_of;
use crate::{LogKind, Manifest, RecordError, Shard, Tsv, manifest_path, parse_duration};

/// Folders within folders that are looked into.
const DEEPEST: usize = 8;

/// One run: a whole log, or its shards.
#[derive(Clone, Debug, PartialEq)]
pub struct LogStatus {
    /// What is measured.
    pub kind: LogKind,
    /// How.
    pub procedure: String,
    /// Number of shards; `None`: a whole log.
    pub shards: Option<u64>,
    /// The logs that are there, by shard.
    pub parts: Vec<ShardStatus>,
    /// Images of the whole run.
    pub images: u64,
}

/// One log.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardStatus {
    /// The log.
    pub path: PathBuf,
    /// Which shard it is; `None`: a whole log.
    pub shard: Option<Shard>,
    /// Rows that it has.
    pub rows: u64,
    /// Images that it is to have.
    pub images: u64,
    /// When its last row was written.
    pub changed: Option<SystemTime>,
    /// Time to its end at the pace of its rows, if they say how long they took.
    pub left: Option<Duration>,
}

impl ShardStatus {
    /// Every image has its row.
    pub fn is_done(&self) -> bool {
        self.rows >= self.images
    }
}

impl LogStatus {
    /// Rows of all parts.
    pub fn rows(&self) -> u64 {
        self.parts.iter().map(|part| part.rows).sum()
    }

    /// Every shard is there, once and finished.
    pub fn is_done(&self) -> bool {
        self.missing().is_empty()
            && self.doubles().is_empty()
            && self.parts.iter().all(ShardStatus::is_done)
    }

    /// The shards without a log, as `2/9, 4/9 to 7/9`; empty if there are none.
    pub fn missing(&self) -> String {
        let mut there = self.indices();
        there.dedup();
        self.shards
            .map_or_else(String::new, |count| missing_of(&there, count))
    }

    /// Shards that have several logs.
    pub fn doubles(&self) -> Vec<u64> {
        let indices = self.indices();
        let pairs = indices.windows(2).filter(|pair| pair[0] == pair[1]);
        let mut doubles: Vec<u64> = pairs.map(|pair| pair[0]).collect();
        doubles.dedup();
        doubles
    }

    fn indices(&self) -> Vec<u64> {
        let shards = self.parts.iter().filter_map(|part| part.shard);
        shards.map(|shard| shard.index).collect()
    }
}

/// All logs in a folder and the folders in it, shards of one run together, and the
/// logs that cannot be read.
///
/// # Errors
/// A folder that cannot be read.
pub fn status(folder: &Path) -> Result<(Vec<LogStatus>, Vec<RecordError>), RecordError> {
    let mut paths = Vec::new();
    find(folder, DEEPEST, &mut paths)?;
    paths.sort();
    let (mut runs, mut unreadable): (Vec<(Manifest, LogStatus)>, _) = (Vec::new(), Vec::new());
    for path in paths {
        let (manifest, part) = match read(&path) {
            Ok(Some(read)) => read,
            // Some other table, `epochs.tsv` for instance.
            Ok(None) => continue,
            Err(error) => {
                unreadable.push(error);
                continue;
            }
        };
        let shards = manifest.selection.shard.map(|shard| shard.count);
        let known = runs.iter_mut().find(|(known, _)| {
            let own = [&Manifest::NEVER_COMPARED[..], &["selection.shard.index"]].concat();
            shards.is_some() && differences(known, &manifest, &own).is_empty()
        });
        if let Some((_, run)) = known {
            run.parts.push(part);
            continue;
        }
        let mut whole = manifest.selection;
        whole.shard = None;
        let run = LogStatus {
            kind: manifest.kind.clone(),
            procedure: manifest.procedure.clone(),
            shards,
            images: whole.len(),
            parts: vec![part],
        };
        runs.push((manifest, run));
    }
    let mut runs: Vec<LogStatus> = runs.into_iter().map(|(_, run)| run).collect();
    for run in &mut runs {
        run.parts
            .sort_by_key(|part| part.shard.map(|shard| shard.index));
    }
    Ok((runs, unreadable))
}

fn find(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), RecordError> {
    let entries = fs::read_dir(folder).map_err(RecordError::io(folder, "read"))?;
    for entry in entries.flatten() {
        let path = entry.path();
        // Links are not followed: they may lead round in a circle.
        let kind = entry.file_type();
        if kind.as_ref().is_ok_and(fs::FileType::is_dir) && depth > 0 {
            // A folder that is not ours to read has no logs of ours.
            let _ = find(&path, depth - 1, found);
        } else if path.extension().is_some_and(|extension| extension == "tsv") {
            found.push(path);
        }
    }
    Ok(())
}

/// A log with its manifest; `None`: a table of something else.
fn read(path: &Path) -> Result<Option<(Manifest, ShardStatus)>, RecordError> {
    let json = manifest_path(path);
    if !json.exists() {
        return Ok(None);
    }
    let manifest = Manifest::read(&json)?;
    let table = Tsv::read(path)?;
    let images = manifest.selection.len();
    let rows = table.lines().count() as u64;
    let modified = fs::metadata(path).and_then(|file| file.modified());
    let part = ShardStatus {
        path: path.into(),
        shard: manifest.selection.shard,
        rows,
        images,
        changed: modified.ok(),
        left: left(&table, images.saturating_sub(rows)),
    };
    Ok(Some((manifest, part)))
}

/// The time that so many further images take if they are like those that are there.
fn left(table: &Tsv, images: u64) -> Option<Duration> {
    let column = table.columns().iter().position(|name| name == "time")?;
    let times = table
        .lines()
        .filter_map(|(_, line)| line.split('\t').nth(column));
    let times: Vec<Duration> = times.filter_map(parse_duration).collect();
    let count = u32::try_from(times.len()).ok().filter(|count| *count > 0)?;
    let mean = times.iter().sum::<Duration>() / count;
    Duration::try_from_secs_f64(mean.as_secs_f64() * images as f64).ok()
}
