//! Networks as data: the graph, its builders and files, and the four verbs.
//!
//! - [`Graph`]: typed nodes over named parameters, shapes inferred and checked.
//! - [`architecture`]: the built-in networks, by name.
//! - [`Model`]: a graph with its parameters, class names and provenance; one
//!   `.safetensors` file.
//! - [`Classify`] and [`Executor`]: the four verbs `logits`, `forward`,
//!   `input_gradient` and `parameter_gradient`. Everything above this crate is
//!   written in them.
//! - [`Reference`]: the verbs as plain loops in `f32` or `f64`, the oracle.
//!
//! ```
//! use std::sync::Arc;
//!
//! use network::architecture::{Task, build};
//! use network::{Classify, Cpu, Executor, Mode, Model, ModelInfo, Shape};
//!
//! // A small network for grey images of 8x8 and ten classes, with random weights.
//! let graph = build("smallcnn", &Task::new(Shape::new(8, 8, 1), 10))?;
//! let model = Model::initialised(graph, 0, ModelInfo::default());
//!
//! let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
//! let network = Cpu::new(&model, Arc::new(pool));
//! let images = vec![0.5; 2 * 64];
//! let mut logits = vec![0.0; 2 * 10];
//! network.logits(&images, &mut logits)?;
//!
//! // The gradient of each image's first logit with respect to its pixels.
//! let (again, tape) = network.forward(&images, Mode::Eval)?;
//! let cotangent: Vec<f32> = (0..20).map(|i| if i % 10 == 0 { 1.0 } else { 0.0 }).collect();
//! let gradient = network.input_gradient(&tape, &cotangent)?;
//! assert_eq!((again.len(), gradient.len()), (20, 2 * 64));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod activation;
pub mod architecture;
mod calibration;
mod collective;
mod cpu;
mod device_error;
pub mod file;
mod fold;
mod graph;
mod infer;
mod init;
pub mod logits;
mod model;
mod noise;
mod op;
mod optimiser;
mod parameters;
mod precision;
mod rearrange;
mod reference;
mod summary;
mod verbs;

pub use activation::Activation;
pub use calibration::{Calibration, CalibrationOrigin};
pub use collective::{Alone, Collective, NormSharing, sum_in_buckets, tree_sum};
pub use cpu::Cpu;
pub use device_error::DeviceError;
pub use file::FileError;
pub use fold::fold_batch_norms;
pub use graph::{Graph, GraphBuilder, GraphError, Node, NodeId};
pub use init::{initialise, window_mask};
pub use kernels::geometry::{ConvShape, Padding, Shape, Window};
pub use kernels::images::Images;
pub use kernels::isa::Isa;
pub use model::{Model, ModelInfo, TaskKind};
pub use noise::{Distribution, GridNoise, Noise, NoiseKind, NoisyImage, Purpose, uniform};
pub use op::Op;
pub use optimiser::{SgdStep, TrainingState};
pub use parameters::{HostGradients, ParameterSpec, Parameters, Role};
pub use precision::Precision;
pub use rearrange::{Rearrange, Runs, Walk};
pub use reference::{Reference, ReferenceTape};
pub use summary::Summary;
pub use verbs::{Classify, Executor, Gradients, Load, Mode, Tape};
