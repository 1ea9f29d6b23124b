//! SIMD kernels for f32 on the CPU, each with a naive reference beside it.
//!
//! Conventions, everywhere:
//! - activations are NHWC: an image is `height x width x channels`, contiguous;
//! - convolution weights arrive as in PyTorch, `out x in/groups x kh x kw`
//!   (OIHW), and are packed by the kernel that uses them;
//! - a kernel works on a few images on one thread; the caller owns the threads;
//! - an image's result never depends on the other images of the call.
//!
//! [`mod@reference`] holds the specification: plain loops, generic over `f32` and
//! `f64`, against which every fast kernel is tested.
//!
//! ```
//! use heatsmooth_kernels::isa::Isa;
//! use heatsmooth_kernels::noise::{Distribution, NoiseKey, add_noise};
//! use heatsmooth_kernels::random::Purpose;
//!
//! // Noise is a function of its key alone: the same on every thread, at any time.
//! let key = NoiseKey { seed: 0, purpose: Purpose::Bench, image: 7, sample: 0 };
//! let (image, mut noisy, mut again) = ([0.5; 64], [0.0; 64], [0.0; 64]);
//! let law = (Distribution::Gaussian, 0.25);
//! add_noise(Isa::detect(), key, law, &image, &mut noisy);
//! add_noise(Isa::detect(), key, law, &image, &mut again);
//! assert_eq!(noisy, again);
//! ```

pub mod attention;
pub mod averaged_relu;
pub mod backward;
pub mod buffer;
pub mod conv;
pub mod elementwise;
mod exponential;
pub mod gelu;
mod gemm;
pub mod geometry;
pub mod gradient;
pub mod images;
pub mod isa;
pub mod layer_norm;
pub mod matmul;
pub mod noise;
pub mod norm;
pub mod pool;
pub mod random;
pub mod reference;
pub mod simd;
pub mod softmax;
pub mod team;
mod winograd;
