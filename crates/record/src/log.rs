//! A log and its manifest, opened together.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use crate::rows::{Line, Row};
use crate::{Manifest, RecordError, TableWriter, Torn};

/// Appends rows of one kind to `F.tsv`, with `F.json` beside it.
///
/// ```no_run
/// # use heatsmooth_record as record;
/// # fn main() -> Result<(), record::RecordError> {
/// # let (path, manifest): (&std::path::Path, record::Manifest) = unimplemented!();
/// # fn certify(idx: u64) -> record::CertifyRow { unimplemented!() }
/// // Opened before the long work; running again resumes.
/// let (mut log, opened) = record::Log::<record::CertifyRow>::open(path, &manifest, &["samples"])?;
/// for idx in manifest.selection.indices().skip(opened.rows.len()) {
///     log.append(&certify(idx))?;
/// }
/// log.finish()
/// # }
/// ```
#[derive(Debug)]
pub struct Log<R> {
    writer: TableWriter,
    extra: usize,
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

impl<R: Row> Log<R> {
    /// Creates `path` with its manifest, or reopens it. A log of another model,
    /// data set, sigma, seed, ... is refused with the differences named; so are
    /// rows that are not the first ones of the manifest's selection.
    pub fn open<S: AsRef<str>>(
        path: &Path,
        manifest: &Manifest,
        extra_columns: &[S],
    ) -> Result<(Self, Opened<R>), RecordError> {
        let json = manifest_path(path);
        let exists = |path: &Path| path.try_exists().map_err(RecordError::io(path, "read"));
        match (exists(path)?, exists(&json)?) {
            (true, false) => {
                return Err(RecordError::NoManifest {
                    path: path.into(),
                    manifest: json,
                });
            }
            (_, true) => {
                let differences = Manifest::read(&json)?.differences(manifest);
                if !differences.is_empty() {
                    return Err(RecordError::Differs {
                        path: json,
                        differences,
                    });
                }
            }
            // The manifest first: a log is never without it.
            (false, false) => manifest.write(&json)?,
        }
        let columns: Vec<&str> = R::COLUMNS
            .iter()
            .copied()
            .chain(extra_columns.iter().map(AsRef::as_ref))
            .collect();
        let (writer, reopened) = TableWriter::open(path, &columns)?;
        let rows: Vec<R> = reopened.table.rows()?;
        let mut expected = manifest.selection.indices();
        for (row, (line, _)) in rows.iter().zip(reopened.table.lines()) {
            let next = expected.next();
            if next != Some(row.idx()) {
                let next = next.map_or("no more".into(), |next| next.to_string());
                let reason = format!("image {} is out of turn, expected {next}", row.idx());
                return Err(crate::table::line_error(path, line, reason));
            }
        }
        let log = Self {
            writer,
            extra: extra_columns.len(),
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
        let mut line = Line::default();
        row.write(&mut line);
        let mut cells = line.into_cells();
        if row.extra().len() != self.extra {
            let reason = format!(
                "expected {} extra cells, got {}",
                self.extra,
                row.extra().len()
            );
            return Err(RecordError::Row {
                path: self.writer.path().into(),
                reason,
            });
        }
        cells.extend(row.extra().iter().map(|&value| crate::format_number(value)));
        self.writer.append(&cells)
    }

    /// The last sync, its error seen.
    pub fn finish(self) -> Result<(), RecordError> {
        self.writer.finish()
    }
}
