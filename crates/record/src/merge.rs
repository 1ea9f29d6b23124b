//! Joins the logs of shards, or of ranges of images, into the one that a single run
//! would have written.

use std::path::{Path, PathBuf};

use crate::manifest::differences;
use crate::{
    AccuracyRow, AttackRow, CalibrationRow, CellError, Cells, CertifyRow, CleverRow, FidelityRow,
    IntervalRow, LboundRow, Line, LogKind, Manifest, RecordError, Row, Selection, Shard, Tsv,
    Versions, atomic, manifest_path,
};

/// What [`merge`] wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// The joined log; its manifest stands beside it.
    pub path: PathBuf,
    /// Rows in it.
    pub rows: usize,
    /// The programs and instruction sets that computed the shards, if they are
    /// not all the same: on another CPU type the last bits may differ.
    pub mixed: Vec<Versions>,
}

struct Part {
    path: PathBuf,
    /// `None`: a range of images, whole.
    shard: Option<Shard>,
    manifest: Manifest,
    table: Tsv,
}

/// Joins complete shards of one run, or complete ranges of images that follow each
/// other, into `out` and its manifest. Refuses parts of different runs (the difference
/// named), a part that is missing, stands twice or is not finished, shards among
/// ranges, and an `out` that holds something else.
pub fn merge<P: AsRef<Path>>(shards: &[P], out: &Path) -> Result<Merged, RecordError> {
    let mut parts = shards
        .iter()
        .map(|path| read(path.as_ref()))
        .collect::<Result<Vec<_>, _>>()?;
    parts.sort_by_key(|part| (part.shard.map(|shard| shard.index), part.start()));
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
        return Err(shards_error(
            "no shards given",
            "name the logs of all shards",
        ));
    };
    all_belong(first, &parts[1..])?;
    let mut whole = first.manifest.clone();
    match first.shard {
        Some(Shard { count, .. }) => all_there(&parts, count)?,
        None if parts.len() == 1 => {
            let reason = format!("{} is a whole log, not a shard", first.path.display());
            return Err(shards_error(
                reason,
                "name the logs of all shards, or ranges",
            ));
        }
        None => {
            follow_each_other(&parts)?;
            whole.selection.end = last.manifest.selection.end;
            // What one range came to is not what all of them come to.
            if let Some(configuration) = whole.configuration.as_object_mut() {
                configuration.remove("calibration");
            }
        }
    }
    whole.selection.shard = None;
    let mut rows = Vec::new();
    for part in &parts {
        rows.extend(finished(part)?);
    }
    rows.sort_unstable_by_key(|&(idx, _)| idx);
    let mut text = first.table.columns().join("\t") + "\n";
    for (_, line) in &rows {
        text.push_str(line);
        text.push('\n');
    }
    write(out, &whole, &text)?;
    let mut mixed: Vec<Versions> = Vec::new();
    for part in &parts {
        let versions = Versions {
            threads: 0,
            ..part.manifest.versions.clone()
        };
        if !mixed.contains(&versions) {
            mixed.push(versions);
        }
    }
    if mixed.len() == 1 {
        mixed.clear();
    }
    Ok(Merged {
        path: out.into(),
        rows: rows.len(),
        mixed,
    })
}

fn read(path: &Path) -> Result<Part, RecordError> {
    let json = manifest_path(path);
    if !json.exists() {
        return Err(RecordError::NoManifest {
            path: path.into(),
            manifest: json,
        });
    }
    let manifest = Manifest::read(&json)?;
    Ok(Part {
        path: path.into(),
        shard: manifest.selection.shard,
        manifest,
        table: Tsv::read(path)?,
    })
}

impl Part {
    fn start(&self) -> u64 {
        self.manifest.selection.start
    }

    /// `shard 1/3 (F.tsv)` or `images 0..500 (F.tsv)`.
    fn name(&self) -> String {
        let path = self.path.display();
        match self.shard {
            Some(Shard { index, count }) => format!("shard {index}/{count} ({path})"),
            None => {
                let Selection { start, end, .. } = self.manifest.selection;
                format!("images {start}..{end} ({path})")
            }
        }
    }
}

/// How many parts an error names.
const NAMED: usize = 20;

/// Every part belongs to the first one; all that do not are named.
fn all_belong(first: &Part, others: &[Part]) -> Result<(), RecordError> {
    let mut reasons: Vec<String> = Vec::new();
    let mut hint = String::new();
    for part in others {
        match belongs(first, part) {
            Ok(()) => {}
            Err(RecordError::Shards { reason, hint: what }) => {
                reasons.push(reason);
                hint = what;
            }
            Err(other) => return Err(other),
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    reasons.truncate(NAMED);
    Err(shards_error(reasons.join("; "), &hint))
}

fn belongs(first: &Part, part: &Part) -> Result<(), RecordError> {
    if first.shard.is_some() != part.shard.is_some() {
        let whole = if first.shard.is_some() { part } else { first };
        let reason = format!("{} is a whole log, not a shard", whole.path.display());
        return Err(shards_error(
            reason,
            "name only shards, or only ranges of images",
        ));
    }
    let own: &[&str] = match first.shard {
        Some(_) => &["selection.shard.index"],
        None => &["selection.start", "selection.end"],
    };
    let ignored = [&Manifest::NEVER_COMPARED[..], own].concat();
    let differences = differences(&part.manifest, &first.manifest, &ignored);
    if let Some(difference) = differences.first() {
        let reason = format!(
            "{} does not belong to {}: {difference}",
            part.path.display(),
            first.path.display()
        );
        return Err(shards_error(reason, "merge only shards of one run"));
    }
    if part.table.columns() != first.table.columns() {
        return Err(RecordError::Header {
            path: part.path.clone(),
            found: part.table.columns().join(" "),
            wanted: first.table.columns().join(" "),
        });
    }
    Ok(())
}

/// Every range begins with the image after the last one of the range before.
fn follow_each_other(parts: &[Part]) -> Result<(), RecordError> {
    for pair in parts.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        let Selection { end, step, .. } = before.manifest.selection;
        let next = before.start() + (end - before.start()).next_multiple_of(step.max(1));
        if after.start() != next {
            let reason = format!(
                "{} does not follow {}: image {next} comes next",
                after.name(),
                before.name()
            );
            let hint = "name ranges that follow each other, each once";
            return Err(shards_error(reason, hint));
        }
    }
    Ok(())
}

fn all_there(parts: &[Part], count: u64) -> Result<(), RecordError> {
    let index = |part: &Part| part.shard.map_or(0, |shard| shard.index);
    let pairs = parts
        .windows(2)
        .filter(|pair| index(&pair[0]) == index(&pair[1]));
    let doubles = pairs.take(NAMED).map(|pair| {
        let (a, b) = (pair[0].path.display(), pair[1].path.display());
        format!(
            "shard {}/{count} is given twice: {a} and {b}",
            index(&pair[0])
        )
    });
    let doubles: Vec<String> = doubles.collect();
    if !doubles.is_empty() {
        return Err(shards_error(doubles.join("; "), "name each shard once"));
    }
    if let Some(part) = parts
        .iter()
        .find(|part| !(1..=count).contains(&index(part)))
    {
        let reason = format!(
            "{}: there is no shard {}/{count}",
            part.path.display(),
            index(part)
        );
        return Err(shards_error(reason, "shards count from 1/N to N/N"));
    }
    let there: Vec<u64> = parts.iter().map(index).collect();
    let missing = missing_of(&there, count);
    if missing.is_empty() {
        return Ok(());
    }
    let reason = format!("of {count} shards, {missing} missing");
    Err(shards_error(
        reason,
        "run the missing shards, or name their logs too",
    ))
}

/// The shards that are not among `there` (sorted), as `2/9, 4/9 to 7/9`; empty if none
/// is missing.
pub(crate) fn missing_of(there: &[u64], count: u64) -> String {
    let ends = there.iter().copied().chain([count + 1]);
    let starts = [0].into_iter().chain(there.iter().copied());
    let gaps = starts
        .zip(ends)
        .filter(|(before, after)| after - before > 1);
    let gaps = gaps.map(|(before, after)| match (before + 1, after - 1) {
        (one, other) if one == other => format!("{one}/{count}"),
        (first, last) if first + 1 == last => format!("{first}/{count}, {last}/{count}"),
        (first, last) => format!("{first}/{count} to {last}/{count}"),
    });
    let mut named: Vec<String> = gaps.take(NAMED + 1).collect();
    if named.len() > NAMED {
        named[NAMED] = "and more".into();
    }
    named.join(", ")
}

/// The lines of a shard with their images, if these are all that it should have.
fn finished(part: &Part) -> Result<Vec<(u64, &str)>, RecordError> {
    let table = &part.table;
    let images = match part.manifest.kind {
        LogKind::Certify => images::<CertifyRow>(table)?,
        LogKind::Attack => images::<AttackRow>(table)?,
        LogKind::Lbound => images::<LboundRow>(table)?,
        LogKind::Fidelity => images::<FidelityRow>(table)?,
        LogKind::Calibrate => images::<CalibrationRow>(table)?,
        LogKind::Clever => images::<CleverRow>(table)?,
        LogKind::Interval => images::<IntervalRow>(table)?,
        LogKind::Accuracy => images::<AccuracyRow>(table)?,
        LogKind::Own(_) => images::<AnyRow>(table)?,
    };
    let mut sorted = images.clone();
    sorted.sort_unstable();
    let selection = part.manifest.selection;
    let name = part.name();
    let mut found = sorted.iter();
    for image in selection.indices() {
        match found.next() {
            Some(&next) if next == image => {}
            Some(&next) if next < image => {
                let reason = format!("{name} holds image {next}, which is not its own");
                return Err(shards_error(
                    reason,
                    "remove that log and run the shard again",
                ));
            }
            _ => {
                let (rows, of) = (sorted.len(), selection.len());
                let reason = format!("{name} has {rows} of {of} images; image {image} is missing");
                let hint = "run that shard's command again: it continues where it stopped";
                return Err(shards_error(reason, hint));
            }
        }
    }
    if let Some(next) = found.next() {
        let reason = format!("{name} holds image {next}, which is not its own");
        return Err(shards_error(
            reason,
            "remove that log and run the shard again",
        ));
    }
    Ok(images
        .into_iter()
        .zip(table.lines().map(|(_, line)| line))
        .collect())
}

fn images<R: Row>(table: &Tsv) -> Result<Vec<u64>, RecordError> {
    Ok(table.rows::<R>()?.iter().map(Row::idx).collect())
}

/// A row of a kind that this crate does not know: merging needs only its image.
struct AnyRow(u64);

impl Row for AnyRow {
    const KIND: LogKind = LogKind::own("any");
    const COLUMNS: &'static [&'static str] = &["idx"];
    const REQUIRED: usize = 1;

    fn idx(&self) -> u64 {
        self.0
    }

    fn read(cells: &Cells<'_>) -> Result<Self, CellError> {
        cells.integer("idx").map(Self)
    }

    fn write(&self, line: &mut Line<'_>) {
        line.integer("idx", self.0);
    }
}

fn write(out: &Path, whole: &Manifest, text: &str) -> Result<(), RecordError> {
    let json = manifest_path(out);
    if json.exists() {
        let differences = Manifest::read(&json)?.differences(whole);
        if !differences.is_empty() {
            return Err(RecordError::Differs {
                path: json,
                differences,
            });
        }
    } else if out.exists() {
        return Err(RecordError::NoManifest {
            path: out.into(),
            manifest: json,
        });
    }
    whole.write(&json)?;
    atomic::write(out, text.as_bytes())
}

fn shards_error(reason: impl Into<String>, hint: &str) -> RecordError {
    RecordError::Shards {
        reason: reason.into(),
        hint: hint.into(),
    }
}
