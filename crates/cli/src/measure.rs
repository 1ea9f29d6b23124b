//! What `certify`, `lbound`, `fidelity` and `attack` have in common: which
//! images, which model, and a log beside its manifest.

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use certify::Image;
use clap::Args;
use data::{DataError, Dataset};
use network::{Cpu, Loaded};
use rayon::ThreadPool;
use record::{Guarantee, Kind, Log, Manifest, ModelId, Row, Selection, Shard};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::commands::train::{data_id, versions};
use crate::common::{Common, DataArgs, DataConfig, ModelArgs, ModelConfig, image_range, load_both};
use crate::failure::advised;
use crate::progress::Meter;

/// Options of every measurement.
#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SubjectArgs {
    #[command(flatten)]
    #[serde(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    #[serde(flatten)]
    data: DataArgs,
    /// The log to write; F.json stands beside it.
    #[arg(long, value_name = "F.tsv")]
    out: Option<PathBuf>,
    /// Only images A to B-1 of the data set, as `A..B`.
    #[arg(long, value_name = "A..B")]
    images: Option<String>,
    /// Only every K-th image.
    #[arg(long, value_name = "K")]
    skip: Option<u64>,
    /// Part I of N, for array jobs; `heatsmooth merge` joins them.
    #[arg(long, value_name = "I/N")]
    shard: Option<String>,
}

/// [`SubjectArgs`] resolved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SubjectConfig {
    /// The model.
    #[serde(flatten)]
    pub model: ModelConfig,
    /// The data set.
    #[serde(flatten)]
    pub data: DataConfig,
    /// The log.
    pub out: PathBuf,
    /// `A..B`.
    #[serde(default)]
    pub images: Option<String>,
    /// Every K-th image.
    pub skip: u64,
    /// `I/N`.
    #[serde(default)]
    pub shard: Option<String>,
}

/// A model and the images it is measured on.
pub struct Subject {
    /// The model and its hash.
    pub loaded: Loaded,
    /// The data set.
    pub dataset: Dataset,
    /// Which images of it.
    pub selection: Selection,
    /// The model, ready to run.
    pub network: Cpu,
    /// The threads it runs on.
    pub pool: Arc<ThreadPool>,
}

impl SubjectConfig {
    /// Loads model and data; refuses a selection that makes no sense.
    pub fn open(&self, common: &Common) -> Result<Subject> {
        if self.out.extension().is_none_or(|e| e != "tsv") {
            return Err(advised(
                format!("--out is {}", self.out.display()),
                "give a file that ends in .tsv; its description goes into a .json beside it",
            ));
        }
        let (loaded, dataset) = load_both(&self.model, &self.data, common.quiet)?;
        let selection = self.selection(dataset.len() as u64)?;
        let pool = common.start()?;
        let network = Cpu::new(&loaded.model, Arc::clone(&pool));
        Ok(Subject {
            loaded,
            dataset,
            selection,
            network,
            pool,
        })
    }

    fn selection(&self, len: u64) -> Result<Selection> {
        let mut selection = Selection::all(len);
        if let Some(text) = &self.images {
            let range = image_range(text, len)?;
            (selection.start, selection.end) = (range.start, range.end);
        }
        if self.skip == 0 {
            return Err(advised(
                "--skip is 0",
                "1 takes every image, 20 every twentieth",
            ));
        }
        selection.step = self.skip;
        if let Some(text) = &self.shard {
            let parts = text.split_once('/');
            let parts = parts.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
            match parts {
                Some((index, count)) if index >= 1 && index <= count => {
                    selection.shard = Some(Shard { index, count });
                }
                _ => {
                    return Err(advised(
                        format!("--shard is `{text}`"),
                        "give I/N with I from 1 to N, such as 3/8",
                    ));
                }
            }
        }
        Ok(selection)
    }
}

impl Subject {
    /// How the model was made; what its file says, or `imported`.
    pub fn method(&self) -> String {
        let method = self.loaded.model.info.method.clone();
        method.unwrap_or_else(|| "imported".into())
    }

    /// Warns if the model was made for another noise level.
    pub fn check_sigma(&self, sigma: f64, quiet: bool) {
        if let Some(own) = self.loaded.model.info.sigma
            && (own - sigma).abs() > 1e-9
            && !quiet
        {
            eprintln!("warning: the model was made for sigma {own}, not {sigma}");
        }
    }

    /// The manifest of a log about this subject.
    pub fn manifest(
        &self,
        config: &SubjectConfig,
        common: &Common,
        (kind, procedure): (Kind, &str),
        sigma: Option<f64>,
        guarantee: Guarantee,
        configuration: Value,
    ) -> Manifest {
        Manifest {
            format: Manifest::FORMAT.into(),
            version: Manifest::VERSION,
            kind,
            procedure: procedure.into(),
            method: self.method(),
            label: None,
            model: ModelId {
                sha256: self.loaded.sha256.clone(),
                path: Some(config.model.model.display().to_string()),
            },
            reference: None,
            data: data_id(&self.dataset),
            selection: self.selection,
            sigma,
            seed: common.seed,
            guarantee,
            configuration,
            versions: versions(self.pool.current_num_threads()),
        }
    }

    /// The images from number `skip` of the selection on.
    pub fn images(&self, skip: usize) -> Images<'_> {
        Images {
            dataset: &self.dataset,
            indices: Box::new(self.selection.indices().skip(skip)),
            error: RefCell::new(None),
        }
    }
}

/// Reads images one by one; stops at the first that cannot be read.
pub struct Images<'a> {
    dataset: &'a Dataset,
    indices: Box<dyn Iterator<Item = u64> + 'a>,
    error: RefCell<Option<DataError>>,
}

impl Images<'_> {
    /// The error that ended the images early, if one did.
    pub fn result(self) -> Result<()> {
        match self.error.into_inner() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

impl Iterator for &mut Images<'_> {
    type Item = Image<'static>;

    fn next(&mut self) -> Option<Image<'static>> {
        let index = self.indices.next()?;
        let mut pixels = vec![0.0; self.dataset.image_len()];
        match self.dataset.read(index as usize, &mut pixels) {
            Ok(()) => Some(Image {
                index: index as u32,
                label: self.dataset.labels()[index as usize] as usize,
                pixels: Cow::Owned(pixels),
            }),
            Err(error) => {
                *self.error.borrow_mut() = Some(error);
                None
            }
        }
    }
}

/// A log with its meter: rows go to disk one by one.
pub struct Recorder<R> {
    log: Log<R>,
    /// Rows of this and of earlier runs.
    pub rows: Vec<R>,
    /// How many of them an earlier run wrote.
    pub resumed: usize,
    meter: Meter,
    error: Option<record::RecordError>,
}

impl<R: Row> Recorder<R> {
    /// Opens or reopens the log.
    pub fn open(
        path: &Path,
        manifest: &Manifest,
        extra: &[impl AsRef<str>],
        quiet: bool,
    ) -> Result<Self> {
        let (log, opened) = Log::open(path, manifest, extra)?;
        let total = manifest.selection.indices().count();
        let mut meter = Meter::new(quiet, "images", total as u64);
        let resumed = opened.rows.len();
        if resumed > 0 && !quiet {
            eprintln!(
                "{}: resuming after {resumed} of {total} images",
                path.display()
            );
        }
        meter.resume(resumed as u64);
        Ok(Self {
            log,
            rows: opened.rows,
            resumed,
            meter,
            error: None,
        })
    }

    /// Writes a row; breaks if that fails.
    pub fn push(&mut self, row: R, note: impl FnOnce() -> String) -> std::ops::ControlFlow<()> {
        match self.log.append(&row) {
            Ok(()) => {
                self.rows.push(row);
                self.meter.set(self.rows.len() as u64, note);
                std::ops::ControlFlow::Continue(())
            }
            Err(error) => {
                self.error = Some(error);
                std::ops::ControlFlow::Break(())
            }
        }
    }

    /// Everything on disk, or the error; gives the rows and how many were there.
    pub fn finish(self) -> Result<(Vec<R>, usize)> {
        self.meter.finish();
        if let Some(error) = self.error {
            return Err(error.into());
        }
        self.log.finish()?;
        Ok((self.rows, self.resumed))
    }
}
