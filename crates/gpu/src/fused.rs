//! Steps that a backend may do with fewer kernels than its primitives take.
//!
//! A GPU is kept waiting by every kernel that it is asked for. So what is needed often
//! stands here in one piece: by primitives unless a backend has kernels of its own
//! (`crate::cube`).

use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, TensorData, TensorMetadata, read_sync};
use network::Noise;

use crate::tensor::Tensor;

/// Key of one noisy copy: which of the images, and the numbers of image and sample.
#[derive(Clone, Copy, Debug)]
pub struct CopyKey {
    /// Place of the image among those that are given.
    pub place: u32,
    /// The image's number in its data set.
    pub image: u32,
    /// The sample's number.
    pub sample: u32,
}

/// Mean and biased variance, one value a channel, and what keeps the variance from 0.
#[derive(Clone, Debug)]
pub struct BatchMoments<B: Backend> {
    /// `[channels]`.
    pub mean: FloatTensor<B>,
    /// `[channels]`.
    pub variance: FloatTensor<B>,
    /// Added to the variance.
    pub epsilon: f32,
}

impl<B: Backend> BatchMoments<B> {
    /// `1 / sqrt(variance + epsilon)`.
    fn inverse(&self) -> Tensor<B> {
        let deviation = Tensor::<B>(self.variance.clone()).plus_number(self.epsilon);
        Tensor(B::float_recip(deviation.sqrt().0))
    }

    /// What a batch norm scales and shifts.
    fn normalised(&self, x: FloatTensor<B>) -> Tensor<B> {
        let mean = Tensor::<B>(self.mean.clone()).per_channel();
        Tensor(x).minus(&mean).times(&self.inverse().per_channel())
    }
}

/// Factors of `v <- momentum v + shrink g + decay p; p <- p - rate v`.
#[derive(Clone, Copy, Debug)]
pub struct Descent {
    /// Of the velocity.
    pub momentum: f32,
    /// Of the gradient.
    pub shrink: f32,
    /// Of the parameter.
    pub decay: f32,
    /// Of the new velocity.
    pub rate: f32,
}

/// A backend with the steps that networks are made of. Activations are `images x
/// channels x height x width`.
pub trait Fused: Backend {
    /// Noisy copies, `copies x pixels`, of images, `images x pixels`, in the order of
    /// the host's pixels.
    fn noisy(noise: &Noise, images: FloatTensor<Self>, copies: &[CopyKey]) -> FloatTensor<Self> {
        let device = images.device();
        let [_, pixels] = images.shape().dims();
        let data = read_sync(Self::float_into_data(images)).expect("memory of the host");
        let images = data.as_slice::<f32>().expect("single precision");
        let mut noisy = vec![0.0; copies.len() * pixels];
        for (out, key) in noisy.chunks_exact_mut(pixels).zip(copies) {
            let image = &images[key.place as usize * pixels..][..pixels];
            noise.add(key.image, key.sample, image, out);
        }
        let data = TensorData::new(noisy, [copies.len(), pixels]);
        Self::float_from_data(data, &device)
    }

    /// Mean and variance over images and pixels.
    fn moments(x: FloatTensor<Self>, epsilon: f32) -> BatchMoments<Self> {
        let [images, channels, height, width] = x.shape().dims();
        let flat = [channels, images * height * width];
        let x = Tensor::<Self>(x).permute(&[1, 0, 2, 3]).reshape(flat);
        let mean = x.clone().mean(1);
        let centred = x.minus(&mean);
        let variance = centred.clone().times(&centred).mean(1);
        BatchMoments {
            mean: mean.reshape([channels]).0,
            variance: variance.reshape([channels]).0,
            epsilon,
        }
    }

    /// `scale (x - mean) / deviation + shift`.
    fn normalise(
        x: FloatTensor<Self>,
        moments: &BatchMoments<Self>,
        [scale, shift]: [FloatTensor<Self>; 2],
    ) -> FloatTensor<Self> {
        let BatchMoments { mean, variance, .. } = moments.clone();
        Self::batch_norm(x, scale, shift, mean, variance, moments.epsilon.into())
    }

    /// With `z = (x - mean) / deviation`, the sums of `dy` and `dy z` over images and
    /// pixels.
    fn norm_sums(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        moments: &BatchMoments<Self>,
    ) -> [FloatTensor<Self>; 2] {
        let z = moments.normalised(x);
        let dy = Tensor::<Self>(dy);
        let products = z.times(&dy);
        [dy, products].map(|values| Self::channel_sums(values.0))
    }

    /// Gradient with respect to what was normalised. With the batch's own moments,
    /// whose [`Fused::norm_sums`] are given,
    ///
    /// ```text
    /// dx = scale / deviation * (dy - mean(dy) - z mean(dy z))
    /// ```
    ///
    /// and without the means where the moments are constants.
    fn norm_pull_back(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        moments: &BatchMoments<Self>,
        scale: FloatTensor<Self>,
        sums: Option<[FloatTensor<Self>; 2]>,
    ) -> FloatTensor<Self> {
        let dy = Tensor::<Self>(dy);
        let factor = Tensor(scale).times(&moments.inverse()).per_channel();
        let Some(sums) = sums else {
            return dy.times(&factor).0;
        };
        let [images, _, height, width] = dy.dims();
        let share = 1.0 / (images * height * width) as f32;
        let [mean, along] = sums.map(|sum| Tensor::<Self>(sum).times_number(share).per_channel());
        let along = moments.normalised(x).times(&along);
        dy.minus(&mean).minus(&along).times(&factor).0
    }

    /// Sums over images and pixels, one a channel.
    fn channel_sums(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let [images, channels, height, width] = x.shape().dims();
        let flat = [channels, images * height * width];
        let x = Tensor::<Self>(x).permute(&[1, 0, 2, 3]).reshape(flat);
        x.sum(1).reshape([channels]).0
    }

    /// `dy` where `x` is above 0, and 0 elsewhere.
    fn relu_pull_back(x: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self> {
        let x = Tensor::<Self>(x);
        Tensor::<Self>(dy).filled(x.not_above(0.0), 0.0).0
    }

    /// Numbers whose sum is that of all squares in all tensors.
    fn squares(tensors: &[FloatTensor<Self>]) -> FloatTensor<Self> {
        let square = |tensor: &FloatTensor<Self>| {
            let tensor = Tensor::<Self>(tensor.clone());
            tensor.clone().times(&tensor).total()
        };
        Tensor::concat(tensors.iter().map(square).collect(), 0).0
    }

    /// A parameter and its velocity after a step; a velocity or gradient that is not
    /// there is 0.
    fn descend(
        value: FloatTensor<Self>,
        velocity: Option<FloatTensor<Self>>,
        gradient: Option<FloatTensor<Self>>,
        by: Descent,
    ) -> [FloatTensor<Self>; 2] {
        let value = Tensor::<Self>(value);
        let times = |part: Option<FloatTensor<Self>>, factor: f32| {
            part.map(|part| Tensor::<Self>(part).times_number(factor))
        };
        let pull = value.clone().times_number(by.decay);
        // In the order of the CPU: momentum, gradient, decay.
        let moved = [times(velocity, by.momentum), times(gradient, by.shrink)];
        let moved = moved.into_iter().flatten();
        let moved = moved.reduce(|sum, part| sum.plus(&part));
        let moved = moved.map_or(pull.clone(), |moved| moved.plus(&pull));
        let step = moved.clone().times_number(-by.rate);
        [step.plus(&value).0, moved.0]
    }

    /// `share a + other b`.
    fn blend(
        (a, share): (FloatTensor<Self>, f32),
        (b, other): (FloatTensor<Self>, f32),
    ) -> FloatTensor<Self> {
        let b = Tensor::<Self>(b).times_number(other);
        Tensor(a).times_number(share).plus(&b).0
    }

    /// The same weights of a convolution, in memory as convolutions read them.
    fn in_order_of_convolutions(weight: FloatTensor<Self>) -> FloatTensor<Self> {
        weight
    }
}

#[cfg(feature = "flex")]
impl Fused for burn_flex::Flex {}
