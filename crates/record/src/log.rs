//! A log and its manifest, opened together.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use crate::rows::{Line, Row, missing};
use crate::{Manifest, RecordError, Torn, Tsv, TsvWriter, atomic};

/// Appends rows of one kind to `F.tsv`, with `F.json` beside it.
///
/// ```no_run
/// # use heatsmooth_record::{CertifyRow, Log, Manifest, RecordError, Row};
/// # fn main() -> Result<(), RecordError> {
/// # let (path, manifest): (&std::path::Path, Manifest) = unimplemented!();
/// # fn certify(idx: u64) -> CertifyRow { unimplemented!() }
/// // Opened before the long work; running again resumes.
/// let (mut log, opened) = Log::<CertifyRow>::open(path, &manifest, CertifyRow::COLUMNS)?;
/// for idx in manifest.selection.indices().skip(opened.rows.len()) {
///     log.append(&certify(idx))?;
/// }
/// log.finish()
/// # }
/// ```
#[derive(Debug)]
pub struct Log<R> {
    writer: TsvWriter,
    /// What rows are written as, and which of these columns the file has.
    columns: Vec<(String, bool)>,
    row: PhantomData<R>,
}

/// What [`Log::open`] found on disk.
#[derive(Debug)]
pub struct Opened<R> {
    /// The rows already there, in the order of the selection: its first ones.
    pub rows: Vec<R>,
    /// The torn last line that was cut off, if there was one.
    pub cut: Option<Torn>,
}

/// `F.json` for `F.tsv`.
pub fn manifest_path(log: &Path) -> PathBuf {
    log.with_extension("json")
}

/// The columns of a log on disk, if they are some of those wanted, all required ones
/// among them: an earlier version had fewer, and its logs go on with those.
fn earlier<R: Row>(path: &Path, columns: &[String]) -> Vec<String> {
    let Ok(table) = Tsv::read(path) else {
        return columns.to_vec();
    };
    let found = table.columns().to_vec();
    let known: Vec<&String> = columns.iter().filter(|name| found.contains(name)).collect();
    let fewer = known.iter().copied().eq(&found) && missing::<R>(&found).is_none();
    if fewer { found } else { columns.to_vec() }
}

impl<R: Row> Log<R> {
    /// Creates `path` with its manifest, or reopens it. A log of another model,
    /// data set, sigma, seed, ... is refused with the differences named, but for
    /// more images behind those that it is about, with which it goes on; so are
    /// rows that are not the first ones of the manifest's selection.
    ///
    /// `columns` are all columns of the log, in their order: [`Row::COLUMNS`], or
    /// what the row type's own function gives where they depend on the run
    /// ([`AttackRow::columns`](crate::AttackRow::columns),
    /// [`FidelityRow::columns`](crate::FidelityRow::columns)). They may leave out
    /// columns that are not required. A log that has fewer of them goes on with its
    /// own.
    pub fn open<S: AsRef<str>>(
        path: &Path,
        manifest: &Manifest,
        columns: &[S],
    ) -> Result<(Self, Opened<R>), RecordError> {
        let columns: Vec<String> = columns.iter().map(|name| name.as_ref().into()).collect();
        let mismatch = missing::<R>(&columns).or_else(|| {
            let (found, wanted) = (&manifest.kind, R::KIND);
            (*found != wanted)
                .then(|| format!("its manifest is of kind {found}, its rows are of kind {wanted}"))
        });
        if let Some(reason) = mismatch {
            return Err(RecordError::Row {
                path: path.into(),
                reason,
            });
        }
        let json = manifest_path(path);
        atomic::sweep_for(&json);
        let exists = |path: &Path| path.try_exists().map_err(RecordError::io(path, "read"));
        match (exists(path)?, exists(&json)?) {
            (true, false) => {
                return Err(RecordError::NoManifest {
                    path: path.into(),
                    manifest: json,
                });
            }
            (_, true) => {
                let found = Manifest::read(&json)?;
                let differences = found.differences(manifest);
                if found.grows_into(manifest) {
                    manifest.write(&json)?;
                } else if !differences.is_empty() {
                    return Err(RecordError::Differs {
                        path: json,
                        differences,
                    });
                }
            }
            // The manifest first: a log is never without it.
            (false, false) => manifest.write(&json)?,
        }
        let on_disk = match exists(path)? {
            true => earlier::<R>(path, &columns),
            false => columns.clone(),
        };
        // Every shard has a file of its own, perhaps on a shared folder, whose locks
        // may outlive a process that was killed on another machine.
        let opened = match manifest.selection.shard {
            Some(_) => TsvWriter::open_unlocked(path, &on_disk),
            None => TsvWriter::open(path, &on_disk),
        };
        if matches!(&opened, Err(RecordError::Io { .. })) && !path.exists() {
            // A full disk: a manifest alone is of no use.
            let _ = std::fs::remove_file(&json);
        }
        let (writer, reopened) = opened?;
        let has = |name: String| {
            let has = on_disk.contains(&name);
            (name, has)
        };
        let columns = columns.into_iter().map(has).collect();
        let rows: Vec<R> = reopened.table.rows()?;
        let mut expected = manifest.selection.indices();
        for (row, (line, _)) in rows.iter().zip(reopened.table.lines()) {
            let next = expected.next();
            if next != Some(row.idx()) {
                let next = next.map_or("no more".into(), |next| next.to_string());
                let reason = format!("image {} is out of turn, expected {next}", row.idx());
                return Err(crate::tsv::line_error(path, line, reason));
            }
        }
        let log = Self {
            writer,
            columns,
            row: PhantomData,
        };
        Ok((
            log,
            Opened {
                rows,
                cut: reopened.cut,
            },
        ))
    }

    /// Appends one row; it is with the operating system when this returns.
    pub fn append(&mut self, row: &R) -> Result<(), RecordError> {
        let names: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let mut line = Line::new(&names);
        row.write(&mut line);
        let cells = line.into_cells().map_err(|reason| RecordError::Row {
            path: self.writer.path().into(),
            reason,
        })?;
        let kept = cells.into_iter().zip(&self.columns);
        let kept: Vec<_> = kept
            .filter(|(_, (_, on_disk))| *on_disk)
            .map(|(cell, _)| cell)
            .collect();
        self.writer.append(&kept)
    }

    /// Takes the log and its manifest away again: for one without a row, whose work
    /// was refused.
    pub fn discard(self) {
        let path = self.writer.path().to_path_buf();
        let _ = std::fs::remove_file(&path);
        let _ = std::fs::remove_file(manifest_path(&path));
    }

    /// The last sync, its error seen.
    pub fn finish(self) -> Result<(), RecordError> {
        self.writer.finish()
    }
}
