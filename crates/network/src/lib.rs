//! Networks as data: the graph, its builders and files, and the four verbs.
//!
//! - [`Graph`]: typed nodes over named parameters, shapes inferred and checked.
//! - [`architecture`]: the built-in networks, by name.
//! - [`Model`]: a graph with its parameters, class names and provenance; one
//!   `.safetensors` file.
//! - [`Classify`] and [`Differentiable`]: the four verbs `logits`, `forward`,
//!   `input_gradient` and `parameter_gradient`. Everything above this crate is
//!   written in them.
//! - [`Reference`]: the verbs as plain loops in `f32` or `f64`, the oracle.

mod activation;
pub mod architecture;
mod cpu;
pub mod exchange;
pub mod file;
mod graph;
mod init;
pub mod logits;
mod model;
mod noise;
mod op;
mod parameters;
mod reference;
mod summary;
mod verbs;

pub use activation::Activation;
pub use cpu::{Cpu, CpuTape};
pub use exchange::{ImportError, ImportReport, LoadOptions, Loaded, load};
pub use file::FileError;
pub use graph::{Graph, GraphBuilder, GraphError, Node, NodeId};
pub use init::initialise;
pub use kernels::geometry::{ConvShape, Padding, Shape, Window};
pub use kernels::images::Images;
pub use kernels::isa::Isa;
pub use model::{Model, ModelInfo};
pub use noise::{Noise, NoisyImage, Purpose};
pub use op::Op;
pub use parameters::{Gradients, ParameterSpec, Parameters, Role};
pub use reference::{Reference, ReferenceTape};
pub use summary::Summary;
pub use verbs::{Classify, Differentiable, Mode};
