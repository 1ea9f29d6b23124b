//! Data sets: fetch, verify, decode, augment, batch.
//!
//! [`open`] gives a [`Dataset`]: images by index as pixels in [0, 1], row by
//! row, channels last (NHWC), with [`Targets`] (classes, or real values) and a hash
//! of the content. [`Loader`] makes the batches of an epoch of it, as [`Images`].
//! Shuffling ([`permutation`]) and augmentation ([`Augment`]) are pure
//! functions of (seed, epoch, index).
//!
//! ```
//! use heatsmooth_data::{Loader, LoaderOptions, OpenOptions, Split, open};
//!
//! let digits = open("digits", Split::Train, &OpenOptions::default())?;
//! let mut loader = Loader::new(&digits, LoaderOptions::training(64, &digits, 0, 0))?;
//! while let Some(batch) = loader.next() {
//!     let batch = batch?;
//!     assert_eq!(batch.pixels.len(), batch.len() * 8 * 8);
//!     loader.recycle(batch);
//! }
//! # Ok::<(), heatsmooth_data::DataError>(())
//! ```

mod arrays;
mod at;
mod augment;
mod catalogue;
mod cifar10;
mod classes;
mod csv;
mod dataset;
mod decode;
mod devkit;
mod digits;
mod encode;
mod error;
mod fetch;
mod files;
mod folder;
mod idx;
mod jpeg;
mod loader;
mod matlab;
mod memory;
mod npy;
mod npz;
mod pack;
mod published;
mod random;
mod records;
mod remembered;
mod resize;
mod screen;
mod shards;
mod source;
mod table;
mod targets;

pub use augment::Augment;
pub use catalogue::{
    Entry, OpenOptions, ROOT_VARIABLE, State, VerifiedSplit, default_root, list, open, uses_root,
    usual_view, verify,
};
pub use dataset::{Dataset, Split};
pub use decode::{ImageError, View, decode_image};
pub use encode::encode_png;
pub use error::DataError;
pub use fetch::{FetchOptions, Fetched, Observer, fetch};
pub use kernels::geometry::Shape;
pub use kernels::images::Images;
pub use loader::{BatchPart, Loader, LoaderOptions};
pub use pack::{PackOptions, Packed, pack, packed_view};
pub use random::permutation;
pub use screen::{BrokenImages, Fault, Finding, OddImages};
pub use targets::Targets;
