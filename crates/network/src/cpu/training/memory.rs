//! Buffers that go from step to step.

use std::sync::{Mutex, PoisonError};

use kernels::buffer::Buffer;

/// Buffers at rest. What a tape or a backward pass gives back, the next one
/// takes: after the first step nothing is allocated.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// Sorted by length.
    free: Mutex<Vec<Buffer>>,
}

impl Store {
    /// A buffer of at least `len` floats that hold anything.
    pub fn take(&self, len: usize) -> Buffer {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let at = free.partition_point(|b| b.len() < len);
        // A much larger one is worth more to somebody else.
        if free.get(at).is_some_and(|b| b.len() <= 2 * len + 1024) {
            return free.remove(at);
        }
        drop(free);
        Buffer::zeroed(len)
    }

    /// Takes a buffer back.
    pub fn give(&self, buffer: Buffer) {
        if buffer.is_empty() {
            return;
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let at = free.partition_point(|b| b.len() < buffer.len());
        free.insert(at, buffer);
    }
}

/// What one thread works with, beside the buffers of a batch.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Values that are not kept, by input.
    pub values: Vec<Buffer>,
    /// Gradient of a unit's value.
    pub dy: Buffer,
    /// Values of a forward pass that nobody needs behind their stage.
    pub passing: Vec<Buffer>,
    /// For convolutions and products of matrices.
    pub conv: Buffer,
    /// Values that a pull-back computes again.
    pub own: Buffer,
    /// Gradients of a few images.
    pub gradients: Vec<Buffer>,
    /// Two vectors of one value per channel.
    pub sums: [Vec<f32>; 2],
}

impl Scratch {
    /// Both vectors, `channels` long.
    pub fn sums(&mut self, channels: usize) -> (&mut [f32], &mut [f32]) {
        let [a, b] = &mut self.sums;
        a.resize(channels, 0.0);
        b.resize(channels, 0.0);
        (a, b)
    }
}

/// Scratches at rest: as many as threads have run at once.
#[derive(Debug, Default)]
pub(super) struct Scratches {
    free: Mutex<Vec<Scratch>>,
}

impl Scratches {
    /// Runs with a scratch of one's own.
    pub fn with<R>(&self, run: impl FnOnce(&mut Scratch) -> R) -> R {
        let lock = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut scratch = lock().pop().unwrap_or_default();
        let result = run(&mut scratch);
        lock().push(scratch);
        result
    }
}
