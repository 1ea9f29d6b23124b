//! Kernels of our own for GPUs, where primitives would take many.

mod descent;
mod noise;
mod norm;

use burn_backend::ops::{FloatTensorOps, ModuleOps};
use burn_backend::tensor::FloatTensor;
use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, cubecl};
use cubecl::calculate_cube_count_elemwise;
use cubecl::prelude::*;
use network::Noise;

use crate::fused::{BatchMoments, CopyKey, Descent, Fused};

/// A new tensor on the device of another, its numbers still to be written.
fn empty_like(like: &CubeTensor, dims: impl Into<Shape>) -> CubeTensor {
    let (client, device) = (like.client.clone(), like.device.clone());
    empty_device_contiguous_dtype(client, device, dims.into(), DType::F32)
}

/// How a kernel of so many units is started.
fn launch(client: &cubecl::client::Client, units: usize) -> (CubeCount, CubeDim) {
    let dim = CubeDim::new(client, units);
    (calculate_cube_count_elemwise(client, units, dim), dim)
}

/// In memory pixel by pixel, channels last: `images x height x width x channels`. As
/// convolutions leave it, so mostly nothing moves.
fn channels_last(x: CubeTensor) -> CubeTensor {
    into_contiguous(CubeBackend::float_permute(x, &[0, 2, 3, 1]))
}

/// The same memory as `images x channels x height x width`.
fn channels_first(x: CubeTensor) -> CubeTensor {
    CubeBackend::float_permute(x, &[0, 3, 1, 2])
}

impl Fused for CubeBackend {
    fn noisy(noise: &Noise, images: FloatTensor<Self>, copies: &[CopyKey]) -> FloatTensor<Self> {
        noise::noisy(noise, images, copies)
    }

    fn moments(x: FloatTensor<Self>, epsilon: f32) -> BatchMoments<Self> {
        let [mean, variance] = norm::moments(x);
        BatchMoments {
            mean,
            variance,
            epsilon,
        }
    }

    fn normalise(
        x: FloatTensor<Self>,
        moments: &BatchMoments<Self>,
        factors: [FloatTensor<Self>; 2],
    ) -> FloatTensor<Self> {
        match x.dtype {
            DType::F32 => norm::normalise(x, moments, factors),
            // In 16 bits, for passes that keep nothing.
            _ => {
                let ([scale, shift], BatchMoments { mean, variance, .. }) =
                    (factors, moments.clone());
                Self::batch_norm(x, scale, shift, mean, variance, moments.epsilon.into())
            }
        }
    }

    fn norm_sums(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        moments: &BatchMoments<Self>,
    ) -> [FloatTensor<Self>; 2] {
        norm::sums(x, dy, moments)
    }

    fn norm_pull_back(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        moments: &BatchMoments<Self>,
        scale: FloatTensor<Self>,
        sums: Option<[FloatTensor<Self>; 2]>,
    ) -> FloatTensor<Self> {
        norm::pull_back(x, dy, moments, scale, sums)
    }

    fn channel_sums(x: FloatTensor<Self>) -> FloatTensor<Self> {
        norm::channel_sums(x)
    }

    fn relu_pull_back(x: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self> {
        norm::relu_pull_back(x, dy)
    }

    fn squares(tensors: &[FloatTensor<Self>]) -> FloatTensor<Self> {
        descent::squares(tensors)
    }

    fn descend(
        value: FloatTensor<Self>,
        velocity: Option<FloatTensor<Self>>,
        gradient: Option<FloatTensor<Self>>,
        by: Descent,
    ) -> [FloatTensor<Self>; 2] {
        descent::descend(value, velocity, gradient, by)
    }

    fn blend(a: (FloatTensor<Self>, f32), b: (FloatTensor<Self>, f32)) -> FloatTensor<Self> {
        descent::blend(a, b)
    }

    fn in_order_of_convolutions(weight: FloatTensor<Self>) -> FloatTensor<Self> {
        match weight.shape().num_dims() {
            4 => channels_first(channels_last(weight)),
            _ => weight,
        }
    }
}
