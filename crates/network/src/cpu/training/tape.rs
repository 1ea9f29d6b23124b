//! What a forward pass keeps.

use std::sync::Arc;

use kernels::buffer::Buffer;
use kernels::norm::Moments;

use super::memory::Store;
use crate::cpu::folded::Folded;
use crate::verbs::Mode;

/// Kept values of one share of the images.
#[derive(Debug)]
pub(super) struct Share {
    /// The quarter of the batch that it belongs to, from 0.
    pub quarter: usize,
    pub first: usize,
    pub images: usize,
    /// By node; empty where nothing is kept.
    pub values: Vec<Buffer>,
    /// Where values are positive, by node; empty where that is not kept.
    pub bits: Vec<Vec<u8>>,
    /// Statistics of this share, by batch norm in the order of the plan.
    pub moments: Vec<Moments>,
}

/// Factors of a unit that applies some, and what its backward pass wants.
#[derive(Clone, Debug, Default)]
pub(super) struct Applied {
    pub scale: Vec<f32>,
    pub shift: Vec<f32>,
    /// Of a batch norm: mean, variance and `1/sqrt(variance + epsilon)`.
    pub mean: Vec<f32>,
    pub variance: Vec<f32>,
    pub inverse: Vec<f32>,
    /// Values per channel that the statistics stand for.
    pub rows: usize,
}

/// The tape of one forward pass; gives its memory back when dropped.
#[derive(Debug)]
pub struct CpuTape {
    pub(super) mode: Mode,
    pub(super) images: usize,
    /// Into how many quarters they are cut.
    pub(super) quarters: usize,
    /// Floats of an image.
    pub(super) input: usize,
    pub(super) shares: Vec<Share>,
    /// Values that are the same for every image, by node.
    pub(super) constants: Vec<Vec<f32>>,
    /// By node.
    pub(super) applied: Vec<Option<Applied>>,
    pub(super) store: Arc<Store>,
    /// The network that was run, if not the executor's own graph.
    pub(in crate::cpu) folded: Option<Arc<Folded>>,
}

impl CpuTape {
    /// Number of images.
    pub fn images(&self) -> usize {
        self.images
    }

    /// The images themselves.
    pub(in crate::cpu) fn pixels(&self) -> Vec<f32> {
        let mut pixels = vec![];
        for share in &self.shares {
            let len = share.images * self.input;
            pixels.extend_from_slice(&share.values[0][..len]);
        }
        pixels
    }
}

impl Drop for CpuTape {
    fn drop(&mut self) {
        for share in &mut self.shares {
            for buffer in share.values.drain(..) {
                self.store.give(buffer);
            }
        }
    }
}
