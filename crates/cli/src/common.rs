//! Options that every command has, and what they set up.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result};
use clap::Args;
use data::{Dataset, OpenOptions, Split, View};
use network::architecture::Task;
use network::{LoadOptions, Loaded, Model, Shape};
use rayon::ThreadPool;
use serde::{Deserialize, Serialize};

use crate::failure::advised;

/// Options of every command.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Seed of everything random: same seed, same answer, to the bit.
    #[arg(
        long,
        global = true,
        default_value_t = 0,
        help_heading = "Common options"
    )]
    pub seed: u64,
    /// Threads; results do not depend on it [default: all cores].
    #[arg(long, global = true, value_name = "N", help_heading = "Common options")]
    pub threads: Option<usize>,
    /// No progress on stderr.
    #[arg(long, short, global = true, help_heading = "Common options")]
    pub quiet: bool,
    /// The summary on stdout as JSON.
    #[arg(long, global = true, help_heading = "Common options")]
    pub json: bool,
    /// No summary: for commands that are steps of another one.
    #[arg(skip)]
    pub silent: bool,
}

/// Options of commands that take a configuration.
#[derive(Args, Clone, Debug)]
pub struct Configured {
    /// Any option of this command from a TOML file; flags win over it.
    #[arg(long, value_name = "FILE.toml", help_heading = "Common options")]
    pub config: Option<PathBuf>,
    /// Show the resolved configuration and stop.
    #[arg(long, help_heading = "Common options")]
    pub print_config: bool,
}

impl Common {
    /// The number of threads to use, at least 1.
    pub fn threads(&self) -> Result<usize> {
        match self.threads {
            Some(0) => Err(advised(
                "--threads is 0",
                "give at least 1, or leave it out for all cores",
            )),
            Some(threads) => Ok(threads),
            None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
        }
    }

    /// Starts the threads, once a process: rayon's own decode images, the pool
    /// returned runs networks.
    pub fn start(&self) -> Result<Arc<ThreadPool>> {
        static POOL: OnceLock<Arc<ThreadPool>> = OnceLock::new();
        if let Some(pool) = POOL.get() {
            return Ok(Arc::clone(pool));
        }
        let threads = self.threads()?;
        let builder = || rayon::ThreadPoolBuilder::new().num_threads(threads);
        builder().build_global().context("cannot start threads")?;
        let pool = builder().build().context("cannot start threads")?;
        Ok(Arc::clone(POOL.get_or_init(|| Arc::new(pool))))
    }
}

/// A model file and what it may not say itself.
#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ModelArgs {
    /// The model: .safetensors (ours, or weights with --arch), .onnx, or a
    /// PyTorch checkpoint (.pth, .pt, .th, .tar) with --arch.
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    pub weights: WeightsArgs,
}

/// What a file of weights does not say about its network.
#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct WeightsArgs {
    /// Architecture of a file that holds weights only; `heatsmooth train
    /// baseline --arch list` shows them.
    #[arg(long, help_heading = "Weights without a network")]
    pub arch: Option<String>,
    /// Input normalisation that the weights expect: means and stds for each
    /// channel, as `0.49,0.48,0.45/0.25,0.24,0.26`.
    #[arg(
        long,
        value_name = "MEANS/STDS",
        help_heading = "Weights without a network"
    )]
    pub normalise: Option<String>,
    /// Shape of one image, as `32x32x3` [default: from the data set].
    #[arg(long, value_name = "HxWxC", help_heading = "Weights without a network")]
    pub input: Option<String>,
    /// Number of classes [default: from the data set].
    #[arg(long, value_name = "K", help_heading = "Weights without a network")]
    pub classes: Option<usize>,
}

/// [`ModelArgs`] resolved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ModelConfig {
    /// The file.
    pub model: PathBuf,
    /// See [`WeightsArgs`].
    #[serde(default)]
    pub arch: Option<String>,
    /// See [`WeightsArgs`].
    #[serde(default)]
    pub normalise: Option<String>,
    /// See [`WeightsArgs`].
    #[serde(default)]
    pub input: Option<String>,
    /// See [`WeightsArgs`].
    #[serde(default)]
    pub classes: Option<usize>,
}

impl ModelConfig {
    /// Reads the model; a data set, if there is one, says what the file does
    /// not. What an import changed goes to stderr.
    pub fn load(&self, dataset: Option<&Dataset>, quiet: bool) -> Result<Loaded> {
        let input = match (&self.input, dataset) {
            (Some(text), _) => Some(parse_shape(text)?),
            (None, Some(dataset)) => Some(shape_of(dataset)),
            (None, None) => None,
        };
        let classes = self.classes.or(dataset.map(|d| d.classes().len()));
        let architecture = match (&self.arch, input, classes) {
            (None, ..) => None,
            (Some(arch), Some(input), Some(classes)) => {
                let mut task = Task::new(input, classes);
                if let Some(text) = &self.normalise {
                    let (mean, std) = normalisation(text, input.channels)?;
                    task = task.normalised(&mean, &std);
                }
                Some((arch.clone(), task))
            }
            (Some(_), ..) => {
                return Err(advised(
                    "--arch alone does not say for which images",
                    "add --input 32x32x3 and --classes 10, or whatever the weights are for",
                ));
            }
        };
        let options = LoadOptions {
            architecture,
            input,
            ..LoadOptions::default()
        };
        let loaded = network::load(&self.model, &options)
            .with_context(|| format!("cannot use {}", self.model.display()))?;
        if !quiet {
            for note in &loaded.report.notes {
                eprintln!("{}: {note}", self.model.display());
            }
        }
        Ok(loaded)
    }
}

/// Which images, in the words of the user.
#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DataArgs {
    /// The data set: a name, or a folder of class folders of images.
    #[arg(long)]
    pub data: Option<String>,
    /// Which part of it, train or test [default: test].
    #[arg(long)]
    pub split: Option<String>,
    /// The folder of data sets [default: $HEATSMOOTH_DATA, or the platform's].
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// [`DataArgs`] resolved.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DataConfig {
    /// Name or folder.
    pub data: String,
    /// Which part of it.
    pub split: Split,
    /// The folder of data sets.
    #[serde(default)]
    pub root: Option<PathBuf>,
}

impl DataConfig {
    /// Opens it, images of a folder in the size that a network wants.
    pub fn open(&self, input: Option<Shape>) -> Result<Dataset> {
        open_data(&self.data, self.split, self.root.clone(), input)
    }
}

/// Opens a data set, images of a folder in the size that a network wants.
pub fn open_data(
    name: &str,
    split: Split,
    root: Option<PathBuf>,
    input: Option<Shape>,
) -> Result<Dataset> {
    let view = match input {
        Some(s) => View::for_shape([s.height, s.width, s.channels]),
        None => View::default(),
    };
    Ok(data::open(name, split, &OpenOptions { root, view })?)
}

/// A model and a data set that fit each other.
pub fn load_both(model: &ModelConfig, data: &DataConfig, quiet: bool) -> Result<(Loaded, Dataset)> {
    let given = model.input.as_deref().map(parse_shape).transpose()?;
    let (loaded, dataset) = if model.arch.is_some() {
        let dataset = data.open(given)?;
        (model.load(Some(&dataset), quiet)?, dataset)
    } else {
        let loaded = model.load(None, quiet)?;
        let dataset = data.open(Some(loaded.model.graph.input()))?;
        (loaded, dataset)
    };
    check_fit(&loaded.model, &dataset)?;
    Ok((loaded, dataset))
}

/// Shape of a data set's images.
pub fn shape_of(dataset: &Dataset) -> Shape {
    let [height, width, channels] = dataset.shape();
    Shape::new(height, width, channels)
}

fn parse_shape(text: &str) -> Result<Shape> {
    let parts: Option<Vec<usize>> = text.split('x').map(|v| v.parse().ok()).collect();
    match parts.as_deref() {
        Some(&[h, w, c]) if h > 0 && w > 0 && c > 0 => Ok(Shape::new(h, w, c)),
        _ => Err(advised(
            format!("--input is `{text}`"),
            "give height, width and channels, such as 32x32x3",
        )),
    }
}

/// `m1,m2,.../s1,s2,...`, one value for each channel.
pub fn normalisation(text: &str, channels: usize) -> Result<(Vec<f32>, Vec<f32>)> {
    let wrong = || {
        advised(
            format!("--normalise is `{text}`"),
            format!(
                "give {channels} means, a slash, and {channels} positive stds, such as 0.5/0.25 for one channel"
            ),
        )
    };
    let list = |text: &str| -> Option<Vec<f32>> {
        let values: Option<Vec<f32>> = text.split(',').map(|v| v.trim().parse().ok()).collect();
        values.filter(|v| v.len() == channels && v.iter().all(|x| x.is_finite()))
    };
    let (mean, std) = text.split_once('/').ok_or_else(wrong)?;
    match (list(mean), list(std)) {
        (Some(mean), Some(std)) if std.iter().all(|&s| s > 0.0) => Ok((mean, std)),
        _ => Err(wrong()),
    }
}

/// Refuses a data set that does not fit a network.
pub fn check_fit(model: &Model, dataset: &Dataset) -> Result<()> {
    let (input, shape) = (model.graph.input(), shape_of(dataset));
    let (outputs, classes) = (model.graph.classes(), dataset.classes().len());
    if input != shape || outputs < classes {
        return Err(advised(
            format!(
                "the model takes {input} and has {outputs} classes, {} has {shape} and {classes} classes",
                dataset.name()
            ),
            "use the data set the model was made for; `heatsmooth inspect MODEL` tells",
        ));
    }
    Ok(())
}

/// A noise level that makes sense.
pub fn sigma(sigma: f64) -> Result<f32> {
    if sigma > 0.0 && sigma.is_finite() {
        return Ok(sigma as f32);
    }
    Err(advised(
        format!("--sigma is {sigma}"),
        "give a positive noise level in units of pixels scaled to [0, 1], such as 0.1",
    ))
}

/// `A..B`, a part of `len` images; either end may be left out.
pub fn image_range(text: &str, len: u64) -> Result<Range<u64>> {
    let number = |end: &str, or| match end {
        "" => Some(or),
        _ => end.parse().ok(),
    };
    let ends = text.split_once("..");
    match ends.and_then(|(a, b)| Some(number(a, 0)?..number(b, len)?)) {
        Some(range) if !range.is_empty() && range.end <= len => Ok(range),
        _ => Err(advised(
            format!("--images is `{text}`"),
            format!(
                "give A..B with A below B and B at most {len}, such as 0..{}",
                len.min(500)
            ),
        )),
    }
}
