//! What a forward pass keeps.

use std::sync::Arc;

use kernels::buffer::Buffer;
use kernels::norm::Moments;

use super::memory::Store;
use crate::verbs::Mode;

/// Kept values of one share of the images.
#[derive(Debug)]
pub(super) struct Share {
    pub first: usize,
    pub images: usize,
    /// By node; empty where nothing is kept.
    pub values: Vec<Buffer>,
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
    pub(super) shares: Vec<Share>,
    /// By node.
    pub(super) applied: Vec<Option<Applied>>,
    pub(super) store: Arc<Store>,
}

impl CpuTape {
    /// Number of images.
    pub fn images(&self) -> usize {
        self.images
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
