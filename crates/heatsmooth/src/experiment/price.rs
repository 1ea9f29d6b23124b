//! What an experiment costs, before it starts: passes, hours on this device by a short
//! measurement, memory, disk.

use std::fmt;
use std::time::Duration;

use data::Split;
use network::architecture::{self, Task};
use network::{Graph, Model};

use super::{Experiment, Laboratory, Stage, StageStart};
use crate::bench::{Bench, Work};
use crate::error::Error;
use crate::normalise::normalisation;
use crate::registry::TRAIN;
use crate::source::{ImageSource as _, outputs};

/// Images in the batches of the short measurement.
const BATCH: usize = 4;

/// What a stage costs.
#[derive(Clone, Debug, PartialEq)]
pub struct StagePrice {
    /// What it is called.
    pub name: String,
    /// Forward passes of one image, or what is worth as much.
    pub passes: f64,
    /// On this device, from its beginning.
    pub seconds: f64,
}

/// What an experiment costs.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceList {
    /// One line a stage.
    pub stages: Vec<StagePrice>,
    /// One forward pass of one image in a batch, measured.
    pub pass_seconds: f64,
    /// One training step, for one image, measured; none if nothing is trained.
    pub train_seconds: Option<f64>,
    /// Of the largest stage, roughly.
    pub memory_bytes: f64,
    /// Of models and checkpoints, roughly.
    pub disk_bytes: f64,
}

impl Experiment {
    /// What all stages cost from their beginning, by a measurement of seconds.
    ///
    /// # Errors
    /// Data, weights or an architecture that cannot be used; a device that fails.
    pub fn price(&self, laboratory: &Laboratory<'_>) -> Result<PriceList, Error> {
        self.check()?;
        let (graph, batch) = self.network()?;
        let trains = self
            .stages
            .iter()
            .any(|stage| matches!(stage, Stage::Fit(_)));
        let parameters = graph.parameter_count() as f64;
        let outputs: usize = (0..graph.nodes().len())
            .map(|node| graph.shape(node).len())
            .sum();
        let model = Model::initialised(graph, laboratory.seed, Default::default());
        let mut bench = Bench::new(&model, laboratory.device, BATCH, 1, laboratory.seed)?;
        let time = Duration::from_millis(500);
        let pass_seconds = bench.seconds(Work::Noisy, time)? / BATCH as f64;
        let train_seconds = match trains {
            true => Some(bench.seconds(Work::Train, time)? / BATCH as f64),
            false => None,
        };
        let images = self.train_images()?;
        let stages = self.stages.iter().map(|stage| {
            let passes = self.work(stage, laboratory.registry, images);
            let pass = match (stage, train_seconds) {
                (Stage::Fit(_), Some(step)) => step / TRAIN,
                _ => pass_seconds,
            };
            StagePrice {
                name: stage.name(),
                passes,
                seconds: passes * pass,
            }
        });
        let models = self.stages.iter().map(|stage| match stage {
            // The model, a checkpoint with its velocities, and what each timestep made.
            Stage::Fit(_) => 4.0,
            Stage::Import(_) => 1.0,
            Stage::Measure(_) => 0.0,
        });
        // Weights, gradients, velocities and the teacher; what two passes keep of a batch.
        let memory_bytes = 4.0 * (4.0 * parameters + 2.0 * (batch * outputs) as f64);
        Ok(PriceList {
            stages: stages.collect(),
            pass_seconds,
            train_seconds,
            memory_bytes,
            disk_bytes: 4.0 * parameters * models.sum::<f64>(),
        })
    }

    /// The network that is measured, as random weights would make it, and the largest
    /// batch that is trained on.
    fn network(&self) -> Result<(Graph, usize), Error> {
        let mut batch = BATCH;
        let mut graph = None;
        for stage in &self.stages {
            match stage {
                Stage::Fit(fit) => {
                    batch = batch.max(fit.training.batch_size);
                    if let (None, StageStart::Architecture(name, normalise)) = (&graph, &fit.start)
                    {
                        let dataset = self.data.open(Split::Test, self.input)?;
                        let input = dataset.shape();
                        let classes = outputs(&dataset).unwrap_or(1);
                        let mut task = Task::new(input, classes);
                        if let Some(text) = normalise {
                            let (mean, std) = normalisation(text, input.channels)?;
                            task = task.normalised(&mean, &std);
                        }
                        graph = Some(architecture::build(name, &task)?);
                    }
                }
                Stage::Import(given) if graph.is_none() => {
                    let dataset = self.data.open(Split::Test, self.input)?;
                    graph = Some(given.source.load(Some(&dataset))?.model.graph);
                }
                _ => {}
            }
        }
        let hint = "the experiment must make or be given one";
        let graph = graph.ok_or_else(|| Error::refused("there is no model", hint))?;
        Ok((graph, batch))
    }
}

impl PriceList {
    /// All stages together.
    pub fn seconds(&self) -> f64 {
        self.stages.iter().map(|stage| stage.seconds).sum()
    }
}

/// A time that people can read.
fn time(seconds: f64) -> String {
    match seconds {
        ..60.0 => format!("{seconds:.1} s"),
        ..3600.0 => format!("{:.1} min", seconds / 60.0),
        ..172_800.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

impl fmt::Display for PriceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "price list, all from the beginning, on this device:")?;
        let width = self.stages.iter().map(|stage| stage.name.len()).max();
        let width = width.unwrap_or(0);
        for stage in &self.stages {
            let StagePrice {
                name,
                passes,
                seconds,
            } = stage;
            writeln!(
                f,
                "  {name:width$} {passes:>10.2e} passes {:>10}",
                time(*seconds)
            )?;
        }
        let (pass, all) = (1e3 * self.pass_seconds, time(self.seconds()));
        write!(f, "  in all {all}; a noisy pass takes {pass:.2} ms")?;
        if let Some(step) = self.train_seconds {
            write!(f, ", a training step {:.2} ms an image", 1e3 * step)?;
        }
        let (memory, disk) = (self.memory_bytes / 1e9, self.disk_bytes / 1e9);
        write!(f, "; about {memory:.2} GB of memory, {disk:.2} GB of disk")
    }
}
