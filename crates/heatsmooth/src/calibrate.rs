//! Calibrating a model: measured once, kept in its file.

use std::path::{Path, PathBuf};

use network::file::{read_bytes, sha256};
use network::{Calibration, FileError, Model};
use record::{CalibrationRow, Manifest, Tsv, atomic, manifest_path};
use serde_json::{Value, json};

use crate::error::Error;
use crate::measure::{Measured, manifest, measure};
use crate::measurements::Calibrated;
use crate::observer::Observer;
use crate::source::ModelSource;
use crate::subject::Subject;

/// The log of a calibration where nothing is said: beside the model's file.
pub fn calibration_log(model: &ModelSource) -> PathBuf {
    model.file().with_extension("calibration.tsv")
}

/// Measures what one pass of a model may promise and keeps it in the model's file,
/// whose weights stay and which records go on to name by the same hash
/// ([`Model::uncalibrated_sha256`]).
///
/// A model that is in memory has no file: the log's description alone keeps it.
///
/// Of a shard only the log is written: one more run on the merged log calibrates.
/// Another miss rate or confidence uses the rows that are there.
///
/// # Errors
/// As [`measure()`]; images that the model or its reference was trained on; too few
/// of them; a model file that cannot keep a calibration.
pub fn calibrate(
    measurement: &Calibrated,
    subject: &Subject,
    log: &Path,
    observer: &mut dyn Observer,
) -> Result<Measured, Error> {
    let file = match subject.in_memory {
        true => None,
        false => {
            let file = ModelSource::new(&subject.path).file();
            // A link stays one.
            let file = file.canonicalize().unwrap_or(file);
            own_file(&file)?;
            Some(file)
        }
    };
    promise_anew(measurement, subject, log)?;
    let measured = measure(measurement, subject, log, observer)?;
    if subject.selection.shard.is_some() {
        observer.note("a shard calibrates nothing by itself: merge the parts, then calibrate with the merged log");
        return Ok(measured);
    }
    let rows: Vec<CalibrationRow> = Tsv::read(log)?.rows()?;
    let calibration = measurement.calibration(&rows, subject)?;
    match file {
        Some(file) => keep(&file, subject, &calibration, observer)?,
        None => observer.note("the model is in memory: its calibration is kept beside the log"),
    }
    tell(log, &calibration)?;
    Ok(measured)
}

/// Refuses a file that cannot keep a calibration.
fn own_file(file: &Path) -> Result<(Vec<u8>, Model), Error> {
    let bytes = read_bytes(file)?;
    match Model::from_bytes(&bytes) {
        Ok(model) => Ok((bytes, model)),
        Err(FileError::NoGraph { .. } | FileError::Layout(_)) => Err(Error::refused(
            format!("{} cannot keep a calibration", file.display()),
            "a calibration is kept in the model's own .safetensors file: convert the model first",
        )),
        Err(error) => Err(error.into()),
    }
}

/// The miss rate and the confidence decide no row: a log that differs in nothing
/// else is used again.
fn promise_anew(measurement: &Calibrated, subject: &Subject, log: &Path) -> Result<(), Error> {
    let json = manifest_path(log);
    if !json.exists() {
        return Ok(());
    }
    let wanted = manifest(measurement, subject);
    let found = Manifest::read(&json)?;
    let renewed = Manifest {
        guarantee: wanted.guarantee,
        ..found.clone()
    };
    if found.guarantee != wanted.guarantee && renewed.differences(&wanted).is_empty() {
        renewed.write(&json)?;
    }
    Ok(())
}

/// Writes the calibration into the model's file, whole or not at all.
fn keep(
    file: &Path,
    subject: &Subject,
    calibration: &Calibration,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    let (bytes, mut model) = own_file(file)?;
    let name = match model.info.calibration {
        Some(_) => model.uncalibrated_sha256(),
        None => sha256(&bytes),
    };
    if name != subject.loaded.sha256 {
        return Err(Error::refused(
            format!("{} was changed while it was calibrated", file.display()),
            "calibrate the model that is there now",
        ));
    }
    if model.info.calibration.as_ref() == Some(calibration) {
        return Ok(());
    }
    model.info.calibration = Some(calibration.clone());
    if model.uncalibrated_sha256() != name {
        observer.warning(&format!(
            "{} was written by another version: records will name it by another hash, and logs \
             that were measured before cannot be resumed",
            file.display()
        ));
    }
    atomic::write(file, &model.to_bytes())?;
    observer.note(&format!(
        "{}: the calibration is kept in it",
        file.display()
    ));
    Ok(())
}

/// Adds the result to the log's manifest, for the report.
fn tell(log: &Path, calibration: &Calibration) -> Result<(), Error> {
    let json = manifest_path(log);
    let mut manifest = Manifest::read(&json)?;
    if let Value::Object(configuration) = &mut manifest.configuration {
        configuration.insert("calibration".into(), json!(calibration));
    }
    Ok(manifest.write(&json)?)
}
