//! Gradient of a convolution with respect to its weights.

use super::direct::Direct;
use super::tile::BLOCK;
use super::winograd::Winograd;
use crate::conv::Conv;
use crate::geometry::ConvShape;
use crate::isa::Isa;
use crate::norm::Masking;

/// The inputs of a convolution: `x`, or `relu(scale * x + shift)` per channel if
/// there are factors, without the ReLU unless it is wanted.
#[derive(Clone, Copy, Debug)]
pub struct ConvInputs<'a> {
    /// As they lie there.
    pub x: &'a [f32],
    /// `(scale, shift)`.
    pub factors: Option<(&'a [f32], &'a [f32])>,
    /// Clip at 0, where there are factors.
    pub relu: bool,
}

/// The gradient of the inputs, to be made together with that of the weights.
#[derive(Debug)]
pub struct InputPass<'a> {
    /// The pull-back: [`Conv::input_gradient`] of the same convolution.
    pub conv: &'a Conv,
    /// Added.
    pub residual: Option<&'a [f32]>,
    /// Takes the gradient.
    pub dx: &'a mut [f32],
    /// What is done to it in the end.
    pub masking: Option<Masking<'a>>,
}

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
            Method::Direct(Direct::new(isa, shape))
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

    /// Whether [`WeightGradient::accumulate`] takes inputs with factors.
    pub fn applies_factors(&self) -> bool {
        matches!(self.method, Method::Winograd(_))
    }

    /// Whether [`WeightGradient::accumulate`] makes the gradient of the inputs
    /// too, with this pull-back.
    pub fn pulls_back(&self, conv: &Conv) -> bool {
        matches!(self.method, Method::Winograd(_)) && conv.winograd4().is_some()
    }

    /// Adds the gradient over `images` images to the accumulator: `dy` are the
    /// gradients of the outputs. A `fresh` accumulator is overwritten instead, so
    /// that it need not be zero.
    ///
    /// # Panics
    /// If there are no images, a slice has the wrong length (`scratch`: too
    /// short), or factors or an input pass are given to a plan that does not
    /// take them.
    #[expect(clippy::too_many_arguments, reason = "two gradients in one pass")]
    pub fn accumulate(
        &self,
        images: usize,
        inputs: ConvInputs<'_>,
        dy: &[f32],
        accumulator: &mut [f32],
        fresh: bool,
        scratch: &mut [f32],
        input: Option<InputPass<'_>>,
    ) {
        assert!(images > 0);
        assert_eq!(inputs.x.len(), images * self.shape.input.len());
        assert_eq!(dy.len(), images * self.shape.output().len());
        assert_eq!(accumulator.len(), self.accumulator_len());
        assert!(inputs.factors.is_none() || self.applies_factors());
        if let Some(input) = &input {
            assert!(self.pulls_back(input.conv));
            assert_eq!(input.conv.shape().input, self.shape.output());
            assert_eq!(input.conv.shape().out_channels, self.shape.input.channels);
            assert_eq!(input.dx.len(), inputs.x.len());
        }
        let pass = Pass {
            inputs,
            dy,
            accumulator,
            fresh,
            scratch: &mut scratch[..self.scratch_len()],
            input,
        };
        match &self.method {
            Method::Direct(plan) => self.isa.dispatch(Accumulate { plan, pass }),
            Method::Winograd(plan) => self.isa.dispatch(Accumulate { plan, pass }),
        }
    }

    /// Adds finished accumulators, one behind the other, to the weights' gradient, of
    /// which `dweights` are those of some outputs, from `first` on, in OIHW order.
    ///
    /// # Panics
    /// If a slice has the wrong length.
    pub fn add_to(&self, accumulators: &[&[f32]], first: usize, dweights: &mut [f32]) {
        let row = self.shape.weights() / self.shape.out_channels;
        let len = self.accumulator_len();
        assert!(accumulators.iter().all(|sums| sums.len() == len));
        assert!(dweights.len().is_multiple_of(row));
        assert!(first + dweights.len() / row <= self.shape.out_channels);
        match &self.method {
            Method::Direct(plan) => plan.add_to(accumulators, first, dweights),
            Method::Winograd(plan) => plan.add_to(self.isa, accumulators, first, dweights),
        }
    }
}

/// Sixteen neighbours of all accumulators, summed in their order.
#[inline(always)]
pub(super) fn total(accumulators: &[&[f32]], at: usize) -> [f32; BLOCK] {
    let mut total = [0.0; BLOCK];
    for sums in accumulators {
        for (total, x) in total.iter_mut().zip(&sums[at..][..BLOCK]) {
            *total += x;
        }
    }
    total
}

/// What a plan adds up: see [`WeightGradient::accumulate`].
pub(super) struct Pass<'a> {
    pub inputs: ConvInputs<'a>,
    pub dy: &'a [f32],
    pub accumulator: &'a mut [f32],
    pub fresh: bool,
    pub scratch: &'a mut [f32],
    pub input: Option<InputPass<'a>>,
}

/// One pass of a plan, as a kernel.
pub(super) struct Accumulate<'a, P> {
    pub plan: &'a P,
    pub pass: Pass<'a>,
}
