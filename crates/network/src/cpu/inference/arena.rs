//! What a thread works in.

use std::sync::{Mutex, PoisonError};

use kernels::buffer::Buffer;

use super::plan::Plan;

/// Buffers for one block.
#[derive(Debug, Default)]
pub(super) struct Arena {
    /// Noisy images.
    pub input: Buffer,
    pub slots: Vec<Buffer>,
    /// Values between sections, of all images of the block.
    pub between: [Buffer; 2],
    pub scratch: Buffer,
}

/// Arenas at rest, as many as threads have run at once: after the first call
/// nothing is allocated.
#[derive(Debug, Default)]
pub(super) struct Arenas {
    free: Mutex<Vec<Arena>>,
}

impl Arenas {
    /// Runs in an arena that has room for so many images, or one image in so
    /// many parts.
    pub fn with(&self, plan: &Plan, images: usize, parts: usize, run: impl FnOnce(&mut Arena)) {
        let lock = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut arena = lock().pop().unwrap_or_default();
        arena.input.reserve(images * plan.input);
        arena.scratch.reserve(plan.scratch(images, parts));
        for (slot, len) in plan.slots(images) {
            if slot >= arena.slots.len() {
                arena.slots.resize_with(slot + 1, Buffer::default);
            }
            arena.slots[slot].reserve(len);
        }
        for buffer in &mut arena.between {
            buffer.reserve(plan.between(images));
        }
        run(&mut arena);
        lock().push(arena);
    }
}
