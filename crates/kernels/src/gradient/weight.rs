//! Gradient of a convolution with respect to its weights.

use super::direct::Direct;
use super::winograd::Winograd;
use crate::geometry::ConvShape;
use crate::isa::Isa;

/// A plan for the weight gradient of one convolution.
///
/// The gradient is accumulated in the plan's own order, call after call, and
/// brought into OIHW order once by [`WeightGradient::add_to`].
#[derive(Clone, Debug)]
pub struct WeightGradient {
    isa: Isa,
    shape: ConvShape,
    method: Method,
}

#[derive(Clone, Debug)]
enum Method {
    Direct(Direct),
    Winograd(Winograd),
}

impl WeightGradient {
    /// A plan for `shape`, which must fit its input.
    pub fn new(isa: Isa, shape: ConvShape) -> Self {
        let method = if Winograd::pays(&shape) {
            Method::Winograd(Winograd::new(shape))
        } else {
            Method::Direct(Direct::new(shape))
        };
        Self { isa, shape, method }
    }

    /// Length of an accumulator.
    pub fn accumulator_len(&self) -> usize {
        match &self.method {
            Method::Direct(plan) => plan.accumulator_len(),
            Method::Winograd(plan) => plan.accumulator_len(),
        }
    }

    /// Length of the scratch of [`WeightGradient::accumulate`].
    pub fn scratch_len(&self) -> usize {
        match &self.method {
            Method::Direct(plan) => plan.scratch_len(),
            Method::Winograd(plan) => plan.scratch_len(),
        }
    }

    /// Adds the gradient over `images` images to the accumulator: `x` are the
    /// inputs, `dy` the gradients of the outputs. A `fresh` accumulator is
    /// overwritten instead, so that it need not be zero.
    ///
    /// # Panics
    /// If there are no images or a slice has the wrong length (`scratch`: too
    /// short).
    pub fn accumulate(
        &self,
        images: usize,
        x: &[f32],
        dy: &[f32],
        accumulator: &mut [f32],
        fresh: bool,
        scratch: &mut [f32],
    ) {
        assert!(images > 0);
        assert_eq!(x.len(), images * self.shape.input.len());
        assert_eq!(dy.len(), images * self.shape.output().len());
        assert_eq!(accumulator.len(), self.accumulator_len());
        let pass = Pass {
            x,
            dy,
            accumulator,
            fresh,
            scratch: &mut scratch[..self.scratch_len()],
        };
        match &self.method {
            Method::Direct(plan) => self.isa.dispatch(Accumulate { plan, pass }),
            Method::Winograd(plan) => self.isa.dispatch(Accumulate { plan, pass }),
        }
    }

    /// Adds a finished accumulator to `dweights` in OIHW order.
    ///
    /// # Panics
    /// If a slice has the wrong length.
    pub fn add_to(&self, accumulator: &[f32], dweights: &mut [f32]) {
        assert_eq!(accumulator.len(), self.accumulator_len());
        assert_eq!(dweights.len(), self.shape.weights());
        match &self.method {
            Method::Direct(plan) => plan.add_to(accumulator, dweights),
            Method::Winograd(plan) => plan.add_to(accumulator, dweights),
        }
    }
}

/// What a plan adds up: see [`WeightGradient::accumulate`].
pub(super) struct Pass<'a> {
    pub x: &'a [f32],
    pub dy: &'a [f32],
    pub accumulator: &'a mut [f32],
    pub fresh: bool,
    pub scratch: &'a mut [f32],
}

/// One pass of a plan, as a kernel.
pub(super) struct Accumulate<'a, P> {
    pub plan: &'a P,
    pub pass: Pass<'a>,
}
