//! The state of a run on disk.

use std::path::Path;

use network::file::{self, Container};
use network::{Collective, Executor, HostGradients, TrainingState};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::TrainError;
use crate::ranks;

/// Position and running sums; everything else of the state is tensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    /// Epochs finished.
    pub epoch: u32,
    /// Batches done in the epoch under way.
    pub batch: usize,
    /// Steps done in the leg.
    pub step: u64,
    /// Images seen in the epoch under way.
    pub images: u64,
    /// Sums over those images of what the method measures.
    pub sums: Vec<f64>,
    /// Seconds spent in the epoch under way.
    pub seconds: f64,
    /// What the method itself keeps.
    #[serde(default)]
    pub method: Value,
    /// SHA-256 of the checkpoint with this field empty: a flipped bit must not be
    /// trained on. Early checkpoints have none.
    #[serde(default)]
    pub checksum: String,
}

/// Prefix of the velocities' names.
const VELOCITY: &str = "velocity/";

/// Replaces the checkpoint atomically.
pub(crate) fn save(path: &Path, network: &dyn Executor, state: &State) -> Result<(), TrainError> {
    let graph = network.graph();
    let TrainingState {
        parameters,
        velocity,
    } = network.state()?;
    let write = |state: &State| {
        let velocities = graph.parameters().iter().zip(velocity.iter());
        let velocities = velocities
            .filter(|(spec, _)| spec.role.trainable())
            .map(|(spec, v)| (format!("{VELOCITY}{}", spec.name), spec.shape.clone(), v));
        let tensors = file::named_parameters(graph, &parameters).chain(velocities);
        file::write_container(state, tensors)
    };
    let mut state = State {
        checksum: String::new(),
        ..state.clone()
    };
    state.checksum = file::sha256(&write(&state));
    Ok(record::atomic::write(path, &write(&state))?)
}

/// Whether a checkpoint is what was saved, to the bit.
fn is_whole(container: &mut Container<State>) -> bool {
    let checksum = std::mem::take(&mut container.content.checksum);
    let tensors = container.tensors.iter();
    let tensors =
        tensors.map(|(name, (shape, values))| (name.clone(), shape.clone(), values.as_slice()));
    checksum.is_empty()
        || file::sha256(&file::write_container(&container.content, tensors)) == checksum
}

/// Restores the network and gives the state; `None` if there is no checkpoint. Rank 0
/// reads it for all.
pub(crate) fn load(
    path: &Path,
    network: &mut dyn Executor,
    ranks: &dyn Collective,
) -> Result<Option<State>, TrainError> {
    let damaged = |error: network::FileError| TrainError::Checkpoint {
        path: path.into(),
        reason: error.to_string(),
    };
    let read = |path: &Path| file::read_bytes(path).map_err(damaged);
    let Some(bytes) = ranks::read(ranks, path, read)? else {
        return Ok(None);
    };
    let mut container: Container<State> = file::read_container(&bytes).map_err(damaged)?;
    if !is_whole(&mut container) {
        return Err(TrainError::Checkpoint {
            path: path.into(),
            reason: "some of its bits have changed since it was written".into(),
        });
    }
    let graph = network.graph();
    let parameters = file::take_parameters(graph, &mut container.tensors).map_err(damaged)?;
    let mut velocity = HostGradients::zeros(graph);
    for (spec, velocity) in graph.parameters().iter().zip(velocity.iter_mut()) {
        if spec.role.trainable() {
            let name = format!("{VELOCITY}{}", spec.name);
            let found = container.tensors.remove(&name);
            match found {
                Some((shape, values)) if shape == spec.shape => velocity.copy_from_slice(&values),
                _ => return Err(damaged(network::FileError::Missing(name))),
            }
        }
    }
    network.restore(TrainingState {
        parameters,
        velocity,
    })?;
    Ok(Some(container.content))
}
