//! How many images fit, before a run starts.

use network::{DeviceError, Graph};

/// Images of one pass at most: more make no device faster.
const MOST_IMAGES: u64 = 256;
/// Where a device does not say how much memory it has.
const ASSUMED: u64 = 2 << 30;
/// Words that making noise holds at once, for each pixel.
const NOISE_WORDS: u64 = 16;
/// What allocators round up and keep for later, as a factor.
const SLACK: u64 = 2;

/// How many images one pass may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batches {
    /// Of a pass that keeps nothing. Such passes always have this many, so that an
    /// image's logits do not depend on how many are passed with it.
    pub fixed: usize,
    /// Of a pass with a tape and its pull-back.
    pub taped: usize,
}

impl Batches {
    /// For a network on a device with this much memory.
    ///
    /// # Errors
    /// If not even one image fits.
    pub fn fit(
        graph: &Graph,
        last_reader: &[usize],
        device: &str,
        memory: Option<u64>,
    ) -> Result<Self, DeviceError> {
        let bytes = size_of::<f32>() as u64;
        let size = |id: usize| graph.shape(id).len() as u64;
        let nodes = graph.nodes().len();
        let alive = |at: usize| -> u64 {
            let held = (0..at).filter(|&id| last_reader[id] >= at);
            held.map(size).sum::<u64>() + size(at)
        };
        let largest = (0..nodes).map(alive).max().unwrap_or(0);
        let noise = NOISE_WORDS * size(0);
        let passed = SLACK * bytes * largest.max(noise);
        // Values, and cotangents of a part of them.
        let all: u64 = (0..nodes).map(size).sum();
        let taped = SLACK * bytes * (all + largest);
        let weights: u64 = graph.parameters().iter().map(|p| p.len() as u64).sum();
        // Themselves, folded, velocities, gradients.
        let weights = 4 * bytes * weights;
        let total = memory.unwrap_or(ASSUMED);
        // The other half belongs to the system, the driver and other programs.
        let room = (total / 2).saturating_sub(weights);
        let fit = |image: u64| (room / image.max(1)).min(MOST_IMAGES) as usize;
        let batches = Self {
            fixed: fit(passed),
            taped: fit(taped),
        };
        if batches.taped == 0 || batches.fixed == 0 {
            let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
            return Err(DeviceError::OutOfMemory {
                device: device.into(),
                reason: format!(
                    "the network needs about {} MiB and {} MiB for each image, of {} MiB that may be used",
                    mebibytes(weights),
                    mebibytes(taped),
                    mebibytes(total / 2),
                ),
            });
        }
        Ok(batches)
    }
}

#[cfg(test)]
mod tests {
    use network::Shape;
    use network::architecture::{Task, build};

    use super::*;

    fn fit(memory: Option<u64>) -> Result<Batches, DeviceError> {
        let graph = build("resnet20-cifar", &Task::new(Shape::new(32, 32, 3), 10)).unwrap();
        let last_reader: Vec<usize> = (1..=graph.nodes().len()).collect();
        Batches::fit(&graph, &last_reader, "a device", memory)
    }

    #[test]
    fn less_memory_takes_smaller_batches_until_nothing_fits() {
        let large = fit(Some(64 << 30)).unwrap();
        assert_eq!((large.fixed, large.taped), (256, 256));
        let small = fit(Some(128 << 20)).unwrap();
        assert!(small.taped < small.fixed && small.fixed < 256, "{small:?}");
        let error = fit(Some(1 << 20)).unwrap_err();
        assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error}");
        assert!(error.hint().is_some());
        assert!(fit(None).is_ok());
    }
}
