//! The outer loop of HeatSmoothing: timesteps.

use std::path::{Path, PathBuf};

use data::Dataset;
use network::{Differentiable, Model};

use crate::error::TrainError;
use crate::methods::{Heat, HeatParams, Start};
use crate::observer::Observer;
use crate::run::{Leg, Plan, Run, train};

/// Images on which the variance of a teacher's outputs is measured.
const VARIANCE_IMAGES: usize = 512;

/// A heat-smoothing run: everything but the model.
#[derive(Debug)]
pub struct HeatRun<'a> {
    /// Hyper-parameters of the method.
    pub params: HeatParams,
    /// The schedule of each timestep.
    pub plan: Plan,
    /// Folder, data and checkpoints; its `leg` is set here.
    pub run: Run<'a>,
    /// Keep all iterates `f^1 ... f^{n_T}` beside the model.
    pub keep_iterates: bool,
}

/// Name of the file of iterate `f^k` in the run folder.
pub fn iterate_file(k: u32) -> String {
    format!("f{k}.safetensors")
}

/// Smooths `f`: for k = 0..n_T-1 the teacher f^k is frozen and a student fitted
/// to it under the gradient penalty becomes f^{k+1}. Returns v = f^{n_T} with
/// the graph and provenance of `f`. `executor` puts a model on a device.
///
/// A killed run goes on where it was, also within a timestep, and ends with the
/// same weights.
pub fn smooth<N: Differentiable>(
    f: &Model,
    heat: &mut HeatRun<'_>,
    executor: impl Fn(&Model) -> N,
    observer: &mut dyn Observer,
) -> Result<Model, TrainError> {
    heat.params.check()?;
    let timesteps = heat.params.timesteps;
    let images = first_images(&heat.plan.images(heat.run.train)?)?;
    let mut teacher = f.clone();
    for k in 0..timesteps {
        let file = heat.run.folder.join(iterate_file(k + 1));
        if let Some(done) = read_iterate(&file, f)? {
            teacher = done;
            continue;
        }
        heat.run.leg = Leg {
            number: k,
            of: timesteps,
        };
        let start = match heat.params.start {
            Start::Warm => teacher.clone(),
            Start::Reinit => {
                let seed = heat.plan.seed.wrapping_add(u64::from(k) + 1);
                Model::initialised(f.graph.clone(), seed, f.info.clone())
            }
        };
        let mut student = executor(&start);
        let mut method = Heat::new(heat.params.clone(), executor(&teacher), &images)?;
        train(&mut student, &mut method, &heat.plan, &heat.run, observer)?;
        teacher.parameters = student.parameters().clone();
        record::atomic::write(&file, &teacher.to_bytes())?;
        remove(&heat.run.folder.join(heat.run.leg.checkpoint()))?;
    }
    Ok(teacher)
}

/// Removes what only resuming needed, once the model itself is on disk.
impl HeatRun<'_> {
    /// Call after the finished model was written.
    pub fn tidy(&self) -> Result<(), TrainError> {
        if self.keep_iterates {
            return Ok(());
        }
        (1..=self.params.timesteps).try_for_each(|k| remove(&self.run.folder.join(iterate_file(k))))
    }
}

fn read_iterate(file: &Path, f: &Model) -> Result<Option<Model>, TrainError> {
    if !file.exists() {
        return Ok(None);
    }
    let damaged = |reason: String| TrainError::Checkpoint {
        path: file.into(),
        reason,
    };
    let bytes = network::file::read_bytes(file).map_err(|e| damaged(e.to_string()))?;
    let model = Model::from_bytes(&bytes).map_err(|e| damaged(e.to_string()))?;
    if model.graph != f.graph {
        return Err(damaged("it is of another network".into()));
    }
    Ok(Some(model))
}

fn remove(file: &PathBuf) -> Result<(), TrainError> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(TrainError::Checkpoint {
            path: file.clone(),
            reason: format!("cannot remove it: {error}"),
        }),
        _ => Ok(()),
    }
}

fn first_images(dataset: &Dataset) -> Result<Vec<f32>, TrainError> {
    let (count, len) = (dataset.len().min(VARIANCE_IMAGES), dataset.image_len());
    let mut images = vec![0.0; count * len];
    for (index, out) in images.chunks_exact_mut(len).enumerate() {
        dataset.read(index, out)?;
    }
    Ok(images)
}
