//! Measuring a model on images, once for every measurement: manifest, resume,
//! shard, rows, summary.

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use network::{Images, Precision};
use record::{Guarantee, Log, Manifest, ModelId, Row, SmoothingId};
use serde_json::{Value, json};

use crate::error::Error;
use crate::measurements::counted;
use crate::observer::Observer;
use crate::source::{data_id, model_id};
use crate::subject::Subject;

/// Something that is measured image by image: a certificate, a bound, an attack.
///
/// One of your own is a type that implements this, and a row for its log
/// ([`record::Row`]); [`measure`] does the rest. `examples/own_certificate.rs`
/// shows it.
pub trait Measurement {
    /// A line of the log.
    type Row: Row;
    /// What all lines come to.
    type Figures: Figures;

    /// How it is measured, in one word.
    fn procedure(&self) -> String;

    /// Noise std in units of pixels scaled to [0, 1]; `None`: without noise.
    fn sigma(&self) -> Option<f64>;

    /// Which noise, and the norm of radii; Gaussian and L2 unless it says
    /// otherwise.
    fn smoothing(&self) -> Option<SmoothingId> {
        self.sigma().map(|_| SmoothingId::default())
    }

    /// Seed of all noise.
    fn seed(&self) -> u64;

    /// What its figures guarantee, and for which classifier.
    fn guarantee(&self) -> Guarantee;

    /// Everything else that decides a row: logs in which it differs are never
    /// mixed.
    fn settings(&self) -> Value;

    /// The model compared with, if there is one.
    fn reference(&self) -> Option<ModelId> {
        None
    }

    /// The columns of the log.
    fn columns(&self) -> Vec<String> {
        let columns = <Self::Row as Row>::COLUMNS.iter();
        columns.map(|name| (*name).to_owned()).collect()
    }

    /// Refuses what makes no sense for this subject, before anything is written.
    ///
    /// # Errors
    /// Whatever is wrong.
    fn check(&self, subject: &Subject) -> Result<(), Error>;

    /// Refuses a row of an earlier run that contradicts itself: nobody measured it.
    ///
    /// # Errors
    /// What contradicts what, in words.
    fn check_row(&self, subject: &Subject, row: &Self::Row) -> Result<(), String> {
        let _ = (subject, row);
        Ok(())
    }

    /// Measures the images in order and hands out their rows in order; stops when
    /// `write` breaks.
    ///
    /// # Errors
    /// An image or a network that cannot be used; a device that fails.
    fn run(
        &self,
        subject: &Subject,
        images: &mut dyn Iterator<Item = Images>,
        write: &mut dyn FnMut(Self::Row) -> ControlFlow<()>,
        observer: &mut dyn FnMut(&str),
    ) -> Result<(), Error>;

    /// What the rows come to, those of earlier runs included.
    fn summary(&self, rows: &[Self::Row]) -> Self::Figures;

    /// Doubts about the rows, in words that end in advice.
    fn warnings(&self, rows: &[Self::Row]) -> Vec<String> {
        let _ = rows;
        Vec::new()
    }
}

/// Figures about a log: as text for people, as JSON for programs.
pub trait Figures {
    /// Names and values.
    fn to_json(&self) -> Value;

    /// A few lines, without the log's name.
    fn to_text(&self) -> String;
}

/// A log and what it comes to.
pub struct Measured {
    /// The log.
    pub log: PathBuf,
    /// How many images it covers.
    pub images: usize,
    /// What its figures guarantee.
    pub guarantee: Guarantee,
    /// The noise level, if there is noise.
    pub sigma: Option<f64>,
    /// What all rows come to.
    pub summary: Box<dyn Figures>,
}

impl Measured {
    /// Everything as JSON.
    pub fn to_json(&self) -> Value {
        let mut all = json!({
            "log": self.log.display().to_string(), "images": self.images, "sigma": self.sigma,
        });
        if let (Value::Object(all), Value::Object(more)) = (&mut all, self.summary.to_json()) {
            all.extend(more);
            all.insert("guarantee".into(), self.guarantee.to_string().into());
        }
        all
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let images = counted(self.images, "image");
        write!(f, "{}: {images}", self.log.display())?;
        if let Some(sigma) = self.sigma {
            write!(f, ", sigma {sigma}")?;
        }
        writeln!(f, "\n{}", self.summary.to_text().trim_end())?;
        writeln!(f, "  guarantee: {}", self.guarantee)
    }
}

/// Measures a subject and writes one row an image to `log`, with a manifest
/// beside it. Run again, it goes on where it stopped, and ends with the same
/// bytes.
///
/// # Errors
/// A log that is about something else; whatever the measurement refuses; a disk
/// or device that fails; [`Error::Stopped`] if the observer breaks.
pub fn measure<M: Measurement>(
    measurement: &M,
    subject: &Subject,
    log: &Path,
    observer: &mut dyn Observer,
) -> Result<Measured, Error>
where
    M::Figures: 'static,
{
    Ok(measure_within(measurement, subject, log, None, observer)?.0)
}

/// The same within some time, and all rows: once the time is up, the image at hand is
/// the last one, and what there is then is summed up.
///
/// # Errors
/// As [`measure`].
pub(crate) fn measure_within<M: Measurement>(
    measurement: &M,
    subject: &Subject,
    log: &Path,
    time: Option<Duration>,
    observer: &mut dyn Observer,
) -> Result<(Measured, Vec<M::Row>), Error>
where
    M::Figures: 'static,
{
    let clock = Instant::now();
    if log.extension().is_none_or(|extension| extension != "tsv") {
        let expected = "a file that ends in .tsv; its description goes into a .json beside it";
        return Err(settings::SettingError::value("out", log.display(), expected).into());
    }
    measurement.check(subject)?;
    if let (Some(sigma), Some(own)) = (measurement.sigma(), subject.loaded.model.info.sigma)
        && (own - sigma).abs() > 1e-9
    {
        observer.warning(&format!("the model was made for sigma {own}, not {sigma}"));
    }
    if let (Some(SmoothingId { noise, .. }), Some(_)) =
        (measurement.smoothing(), subject.loaded.model.info.sigma)
        && noise.word() != subject.loaded.model.info.noise.to_string()
    {
        let own = subject.loaded.model.info.noise;
        let used = noise.word();
        observer.warning(&format!("the model was made for {own} noise, not {used}"));
    }
    subject.tell(observer)?;
    let manifest = manifest(measurement, subject);
    let columns = measurement.columns();
    let (mut file, opened) = Log::<M::Row>::open(log, &manifest, &columns)?;
    let (mut rows, total) = (opened.rows, manifest.selection.len());
    let resumed = rows.len();
    for (place, row) in rows.iter().enumerate() {
        measurement.check_row(subject, row).map_err(|reason| {
            Error::refused(
                // The first line names the columns.
                format!("{}:{}: {reason}", log.display(), place + 2),
                "this row was changed after it was written; remove it and all after it, and run \
                 again",
            )
        })?;
    }
    if resumed > 0 {
        observer.note(&format!(
            "{}: resuming after {resumed} of {total} images",
            log.display()
        ));
    }
    let precision = subject.device.precision();
    if precision != Precision::F32 {
        observer.note(&format!(
            "what is said here is about the function that is computed in {} on this device",
            precision.name()
        ));
    }
    observer.begin("images", total, resumed as u64);
    let mut images = subject.images(resumed);
    let (mut failed, mut stopped) = (None, false);
    let mut warnings = Vec::new();
    let mut write = |row: M::Row| {
        if let Err(error) = file.append(&row) {
            failed = Some(error);
            return ControlFlow::Break(());
        }
        rows.push(row);
        let flow = observer.progress(rows.len() as u64, &String::new);
        stopped |= flow.is_break();
        match time.is_some_and(|time| clock.elapsed() >= time) {
            true => ControlFlow::Break(()),
            false => flow,
        }
    };
    let mut warn = |text: &str| warnings.push(text.to_owned());
    let outcome = measurement.run(subject, &mut images, &mut write, &mut warn);
    observer.end();
    for warning in &warnings {
        observer.warning(warning);
    }
    let outcome = match failed {
        Some(error) => Err(error.into()),
        None => outcome.and_then(|()| images.result()),
    };
    if let Err(error) = outcome {
        if rows.is_empty() {
            file.discard();
        }
        return Err(error);
    }
    file.finish()?;
    if stopped && (rows.len() as u64) < total {
        return Err(Error::Stopped);
    }
    if (rows.len() as u64) < total {
        observer.note(&format!(
            "{}: the time is up after {} of {total} images; run the same again to go on",
            log.display(),
            rows.len()
        ));
    }
    for warning in measurement.warnings(&rows) {
        observer.warning(&warning);
    }
    let measured = Measured {
        log: log.into(),
        images: rows.len(),
        guarantee: measurement.guarantee(),
        sigma: measurement.sigma(),
        summary: Box::new(measurement.summary(&rows)),
    };
    Ok((measured, rows))
}

/// What stands beside the log.
pub(crate) fn manifest<M: Measurement>(measurement: &M, subject: &Subject) -> Manifest {
    Manifest {
        format: Manifest::FORMAT.into(),
        version: Manifest::VERSION,
        kind: <M::Row as Row>::KIND,
        procedure: measurement.procedure(),
        method: subject.method(),
        label: subject.loaded.model.info.label.clone(),
        model: model_id(&subject.loaded, &subject.path),
        reference: measurement.reference(),
        data: data_id(&subject.dataset),
        selection: subject.selection,
        sigma: measurement.sigma(),
        smoothing: measurement.smoothing(),
        seed: measurement.seed(),
        guarantee: measurement.guarantee(),
        configuration: configuration(measurement, subject),
        versions: subject.device.versions(),
    }
}

/// The measurement's settings, and the precision of passes where it is not the usual
/// one: what is measured then is the function that is computed so.
fn configuration<M: Measurement>(measurement: &M, subject: &Subject) -> Value {
    let mut settings = measurement.settings();
    let precision = subject.device.precision();
    if let (Some(settings), true) = (settings.as_object_mut(), precision != Precision::F32) {
        settings.insert("precision".into(), precision.name().into());
    }
    settings
}
