//! Models from other programs, and for them.
//!
//! | format | to read | to write |
//! |---|---|---|
//! | heatsmooth's own `.safetensors` | [`load`] | [`Model::to_bytes`](network::Model::to_bytes) |
//! | ONNX | [`load`], [`onnx::read`] | [`onnx::write`](fn@onnx::write) |
//! | PyTorch checkpoint | [`load`] with an architecture | - |
//! | any other `.safetensors` | [`load`] with an architecture | - |
//!
//! [`load`] finds out by itself which of them a file is. The last two hold
//! weights without a network, so [`LoadOptions`] has to name one of the built-in
//! architectures. What was matched, left over and changed is said in an
//! [`ImportReport`]; what cannot be read is refused with an [`ImportError`] that
//! says why and has a [`hint`](ImportError::hint). No file is executed, and none
//! can make the reader panic or take memory out of proportion to its size.
//!
//! # Example
//!
//! A network goes to another program and comes back with every weight intact:
//!
//! ```
//! use exchange::onnx::{self, Fold};
//! use network::architecture::{Task, build};
//! use network::{Model, ModelInfo, Shape};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let task = Task::new(Shape::new(8, 8, 1), 10);
//! let model = Model::initialised(build("smallcnn", &task)?, 0, ModelInfo::default());
//!
//! let bytes = onnx::write(&model, Fold::Keep);
//! let (again, report) = onnx::read(bytes, None)?;
//! assert_eq!(again.parameters, model.parameters);
//! assert_eq!(report.matched.len(), model.graph.parameters().len());
//!
//! // For the fastest inference elsewhere: no batch norms, but no training either.
//! let folded = onnx::write(&model, Fold::Fold);
//! let (folded, _) = onnx::read(folded, None)?;
//! assert!(folded.graph.nodes().len() < model.graph.nodes().len());
//! # Ok(())
//! # }
//! ```
//!
//! A checkpoint that holds weights alone, with the network that they are for:
//!
//! ```no_run
//! use std::path::Path;
//!
//! use exchange::{LoadOptions, load};
//! use network::Shape;
//! use network::architecture::Task;
//!
//! # fn main() -> Result<(), exchange::ImportError> {
//! let task = Task::new(Shape::new(32, 32, 3), 10)
//!     .normalised(&[0.485, 0.456, 0.406], &[0.229, 0.224, 0.225]);
//! let options = LoadOptions {
//!     architecture: Some(("resnet20-cifar".into(), task)),
//!     ..LoadOptions::default()
//! };
//! let loaded = load(Path::new("resnet20.th"), &options)?;
//! println!("{}", loaded.report);
//! # Ok(())
//! # }
//! ```

mod error;
mod load;
pub mod onnx;
pub mod pytorch;
mod report;
pub mod safetensors;
mod state_dict;

pub use self::error::{ImportError, Mismatch};
pub use self::load::{FileKind, LoadOptions, Loaded, load};
pub use self::report::ImportReport;
pub use self::state_dict::{StateDict, Tensor, assign};
