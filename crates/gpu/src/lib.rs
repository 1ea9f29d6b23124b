//! The four verbs on a GPU, over the primitives of [burn](https://burn.dev)'s
//! backends.
//!
//! One executor, `Burn`, for every backend: the runtime is the device. Features
//! choose what is built; without any this crate is empty.
//!
//! | feature | runtime |
//! |---|---|
//! | `wgpu` | Vulkan, Metal, DirectX 12 |
//! | `cuda` | CUDA |
//! | `rocm` | ROCm |
//! | `flex` | burn on the CPU: the same program without a driver, for tests |
//!
//! burn's automatic differentiation is not used: it consumes its graph, and a tape
//! must be pulled back many times.
#![cfg(feature = "burn")]

mod activation;
mod backward;
#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "cube")]
mod device;
mod executor;
mod forward;
mod fused;
mod memory;
mod net;
mod place;
mod tensor;
mod tokens;

#[cfg(feature = "flex")]
pub use burn_flex::{Flex, FlexDevice};
#[cfg(feature = "cube")]
pub use device::{GpuInfo, info, list, load};
pub use executor::Burn;
