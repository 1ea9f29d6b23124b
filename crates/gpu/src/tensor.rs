//! Tensors of a backend with the operations that networks are written in.
//!
//! Activations are `images x channels x height x width`, as burn's convolutions want
//! them; a vector of features has height and width 1.

use burn_backend::ops::PadMode;
use burn_backend::tensor::{BoolTensor, FloatTensor};
use burn_backend::{
    Backend, BoolDType, FloatDType, Scalar, Shape, Slice, TensorMetadata, get_device_settings,
};

/// Numbers on a device. Cloning is cheap: clones share the memory.
#[derive(Clone, Debug)]
pub(crate) struct Tensor<B: Backend>(pub FloatTensor<B>);

macro_rules! unary {
    ($($name:ident = $primitive:ident),*) => {
        $(pub fn $name(self) -> Self {
            Self(B::$primitive(self.0))
        })*
    };
}

macro_rules! binary {
    ($($name:ident = $primitive:ident),*) => {
        $(pub fn $name(self, other: &Self) -> Self {
            Self(B::$primitive(self.0, other.0.clone()))
        })*
    };
}

macro_rules! with_number {
    ($($name:ident = $primitive:ident),*) => {
        $(pub fn $name(self, number: impl Into<Scalar>) -> Self {
            Self(B::$primitive(self.0, number.into()))
        })*
    };
}

macro_rules! compared {
    ($($name:ident = $primitive:ident),*) => {
        $(pub fn $name(&self, number: impl Into<Scalar>) -> BoolTensor<B> {
            B::$primitive(self.0.clone(), number.into(), self.booleans())
        })*
    };
}

impl<B: Backend> Tensor<B> {
    // Numbers may be spread over an axis of length 1.
    binary!(
        plus = float_add,
        minus = float_sub,
        times = float_mul,
        over = float_div
    );
    with_number!(
        plus_number = float_add_scalar,
        times_number = float_mul_scalar,
        at_least = float_clamp_min,
        at_most = float_clamp_max
    );
    unary!(
        exp = float_exp,
        tanh = float_tanh,
        erf = float_erf,
        sqrt = float_sqrt,
        abs = float_abs,
        negative = float_neg
    );
    compared!(
        above = float_greater_elem,
        not_below = float_greater_equal_elem,
        below = float_lower_elem,
        not_above = float_lower_equal_elem
    );

    /// How truths are stored on this device.
    fn booleans(&self) -> BoolDType {
        get_device_settings::<B>(&self.0.device()).bool_dtype
    }

    /// Its extents.
    pub fn dims<const D: usize>(&self) -> [usize; D] {
        self.0.shape().dims()
    }

    /// The same numbers in other extents.
    pub fn reshape(self, dims: impl Into<Shape>) -> Self {
        Self(B::float_reshape(self.0, dims.into()))
    }

    /// The axes in another order.
    pub fn permute(self, axes: &[usize]) -> Self {
        Self(B::float_permute(self.0, axes))
    }

    /// A matrix's transpose.
    pub fn transpose(self) -> Self {
        Self(B::float_transpose(self.0))
    }

    /// Product of matrices, along the last two axes.
    pub fn matmul(self, other: Self) -> Self {
        Self(B::float_matmul(self.0, other.0))
    }

    /// Spread over axes of length 1.
    pub fn expand(self, dims: impl Into<Shape>) -> Self {
        Self(B::float_expand(self.0, dims.into()))
    }

    /// Sum along an axis, which stays with length 1.
    pub fn sum(self, axis: usize) -> Self {
        Self(B::float_sum_dim(self.0, axis))
    }

    /// Mean along an axis, which stays with length 1.
    pub fn mean(self, axis: usize) -> Self {
        Self(B::float_mean_dim(self.0, axis))
    }

    /// Sum of everything, as a vector of one number.
    pub fn total(self) -> Self {
        Self(B::float_sum(self.0)).reshape([1])
    }

    /// Where a condition holds, a number instead.
    pub fn filled(self, condition: BoolTensor<B>, number: impl Into<Scalar>) -> Self {
        Self(B::float_mask_fill(self.0, condition, number.into()))
    }

    /// Where a condition holds, the numbers of another tensor instead.
    pub fn replaced(self, condition: BoolTensor<B>, other: Self) -> Self {
        Self(B::float_mask_where(self.0, condition, other.0))
    }

    /// One behind the other along an axis.
    pub fn concat(parts: Vec<Self>, axis: usize) -> Self {
        let parts = parts.into_iter().map(|part| part.0).collect();
        Self(B::float_cat(parts, axis))
    }

    /// `count` numbers from `first` on, along an axis.
    pub fn part(self, axis: usize, first: usize, count: usize) -> Self {
        let shape = self.0.shape();
        let slice = |(i, &size): (usize, &usize)| match i == axis {
            true => Slice::from(first..first + count),
            false => Slice::from(0..size),
        };
        let slices: Vec<Slice> = shape.iter().enumerate().map(slice).collect();
        Self(B::float_slice(self.0, &slices))
    }

    /// A number before and after, along every axis.
    pub fn padded(self, padding: &[(usize, usize)], number: f32) -> Self {
        Self(B::float_pad(self.0, padding, PadMode::Constant(number)))
    }

    /// In another precision.
    pub fn cast(self, precision: FloatDType) -> Self {
        Self(B::float_cast(self.0, precision))
    }

    /// Sums along the axes that have length 1 in `dims`: what spreading becomes on
    /// the way back.
    pub fn gathered(self, dims: [usize; 4]) -> Self {
        let own = self.dims::<4>();
        let spread = (0..4).filter(|&axis| dims[axis] == 1 && own[axis] > 1);
        spread.fold(self, Self::sum)
    }

    /// One value a channel, to be spread over images and pixels.
    pub fn per_channel(self) -> Self {
        let channels = self.0.shape().num_elements();
        self.reshape([1, channels, 1, 1])
    }
}
