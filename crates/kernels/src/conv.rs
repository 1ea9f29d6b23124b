//! Convolution: packed weights, one of several algorithms, a fused epilogue.

mod choice;
mod depthwise;
mod direct;
mod filters;
mod padded;
mod sums;

pub use choice::Algorithm;
pub(crate) use filters::Filters;
pub(crate) use sums::RawSums;

use crate::gelu::{Form, InPlace};
use crate::geometry::{ConvShape, Padding, Shape, Window};
use crate::isa::Isa;
use crate::team::Leader;
use crate::winograd::Winograd;
use depthwise::Depthwise;
use direct::Direct;
use std::ops::Range;

/// What is done to the sums before they are written:
/// `y = f(conv(x) + bias + residual)`, `f` a ReLU or a Gelu; each part is optional.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epilogue<'a> {
    /// One value per output channel.
    pub bias: Option<&'a [f32]>,
    /// Of the shape of the output.
    pub residual: Option<&'a [f32]>,
    /// Clip at 0.
    pub relu: bool,
    /// After that, [`gelu`](crate::gelu::gelu).
    pub gelu: Option<Form>,
}

/// One of several parts of the work on a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub index: usize,
    pub count: usize,
}

impl Part {
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// This part's share of `0..len`, cut at multiples of `unit`.
    pub fn of(self, len: usize, unit: usize) -> Range<usize> {
        let units = len.div_ceil(unit);
        let at = |i: usize| (i * units / self.count * unit).min(len);
        at(self.index)..at(self.index + 1)
    }
}

/// Floats between the scratches of threads: what a core asks for ahead of its own reading
/// must not be what another one writes, or both wait, for a third of a small layer.
const APART: usize = 1 << 14;

/// What the threads of [`Conv::run_split`] share.
struct Shared {
    epilogue: RawEpilogue,
    y: *mut f32,
    scratch: *mut f32,
}

// SAFETY: the inputs are only read; every part of the output and of the scratch
// is touched by one thread, the one that took the part.
unsafe impl Sync for Shared {}

/// An [`Epilogue`] as addresses; null where there is none.
#[derive(Clone, Copy)]
pub(crate) struct RawEpilogue {
    pub bias: *const f32,
    pub residual: *const f32,
    pub relu: bool,
    pub gelu: Option<Form>,
    pub sums: RawSums,
}

impl RawEpilogue {
    /// For outputs that start at element `at` of those of this one.
    ///
    /// # Safety
    /// `at` must not exceed the length of the output.
    #[inline(always)]
    pub unsafe fn from(self, at: usize) -> Self {
        let residual = if self.residual.is_null() {
            self.residual
        } else {
            // SAFETY: the residual is as long as the output.
            unsafe { self.residual.add(at) }
        };
        Self { residual, ..self }
    }
}

impl Epilogue<'_> {
    /// Checks the lengths.
    fn raw(&self, channels: usize, len: usize) -> RawEpilogue {
        if let Some(bias) = self.bias {
            assert_eq!(bias.len(), channels, "one bias per output channel");
        }
        if let Some(residual) = self.residual {
            assert_eq!(residual.len(), len, "the residual has the output's shape");
        }
        RawEpilogue {
            bias: self.bias.map_or(std::ptr::null(), <[f32]>::as_ptr),
            residual: self.residual.map_or(std::ptr::null(), <[f32]>::as_ptr),
            relu: self.relu,
            gelu: self.gelu,
            sums: RawSums::NONE,
        }
    }
}

/// A convolution ready to run: geometry, packed weights, algorithm.
#[derive(Clone, Debug)]
pub struct Conv {
    isa: Isa,
    shape: ConvShape,
    /// Whether this is a pull-back, whose weights are those of another
    /// convolution, rotated.
    rotated: bool,
    method: Method,
}

#[derive(Clone, Debug)]
enum Method {
    Direct(Direct),
    Winograd(Winograd),
    Depthwise(Depthwise),
}

impl Conv {
    /// Packs `weights` (`out x in/groups x kh x kw`) for the algorithm that
    /// [`Algorithm::choose`] names.
    ///
    /// # Panics
    /// If the window does not fit, the groups do not divide the channels, or
    /// the number of weights is not [`ConvShape::weights`].
    pub fn new(isa: Isa, shape: ConvShape, weights: &[f32]) -> Self {
        Self::with_algorithm(isa, shape, weights, Algorithm::choose(&shape))
    }

    /// The same with a given algorithm; one that cannot do the shape is
    /// replaced by [`Algorithm::Direct`], which can do every one.
    pub fn with_algorithm(
        isa: Isa,
        shape: ConvShape,
        weights: &[f32],
        algorithm: Algorithm,
    ) -> Self {
        Self::with_filters(isa, shape, Filters::plain(weights), algorithm)
    }

    fn with_filters(
        isa: Isa,
        shape: ConvShape,
        filters: Filters<'_>,
        algorithm: Algorithm,
    ) -> Self {
        assert_eq!(filters.len(), shape.weights(), "number of weights");
        assert!(
            shape.input.channels.is_multiple_of(shape.groups)
                && shape.out_channels.is_multiple_of(shape.groups),
            "groups divide both channel counts"
        );
        let method = match algorithm {
            _ if !algorithm.can(&shape) => Method::Direct(Direct::new(isa, shape, filters)),
            Algorithm::Direct => Method::Direct(Direct::new(isa, shape, filters)),
            Algorithm::Depthwise => Method::Depthwise(Depthwise::new(isa, shape, filters)),
            Algorithm::Winograd2 => Method::Winograd(Winograd::new(isa, shape, filters, 2)),
            Algorithm::Winograd4 => Method::Winograd(Winograd::new(isa, shape, filters, 4)),
        };
        Self {
            isa,
            shape,
            rotated: filters.rotated,
            method,
        }
    }

    /// Packs other weights into the memory of the present ones: of the same
    /// convolution, or, of a pull-back, of the one that it was made from.
    ///
    /// # Panics
    /// If the number of weights is not [`ConvShape::weights`].
    pub fn set_weights(&mut self, weights: &[f32]) {
        assert_eq!(weights.len(), self.shape.weights(), "number of weights");
        let filters = Filters {
            weights,
            rotated: self.rotated,
        };
        match &mut self.method {
            Method::Direct(d) => d.pack(filters),
            Method::Winograd(w) => w.pack(self.isa, filters),
            Method::Depthwise(d) => d.pack(filters),
        }
    }

    /// The convolution that pulls `dL/dy` back to `dL/dx`: rotated windows,
    /// channels swapped, padding `dilation*(kernel-1) - padding`.
    ///
    /// `None` if the stride is not 1 or the padding exceeds the window's reach:
    /// the pull-back is then not a convolution of this kind.
    pub fn input_gradient(isa: Isa, shape: ConvShape, weights: &[f32]) -> Option<Self> {
        let back = pulled_back(&shape)?;
        let filters = Filters {
            weights,
            rotated: true,
        };
        Some(Self::with_filters(
            isa,
            back,
            filters,
            Algorithm::choose(&back),
        ))
    }

    /// The algorithm in use.
    pub fn algorithm(&self) -> Algorithm {
        match &self.method {
            Method::Direct(_) => Algorithm::Direct,
            Method::Depthwise(_) => Algorithm::Depthwise,
            Method::Winograd(w) if w.size() == 2 => Algorithm::Winograd2,
            Method::Winograd(_) => Algorithm::Winograd4,
        }
    }

    /// Winograd's way with tiles of 4x4, if it is in use.
    pub(crate) fn winograd4(&self) -> Option<&Winograd> {
        match &self.method {
            Method::Winograd(w) if w.size() == 4 => Some(w),
            _ => None,
        }
    }

    /// The geometry.
    pub fn shape(&self) -> &ConvShape {
        &self.shape
    }

    /// Floats of scratch that [`Conv::run`] needs for so many images.
    pub fn scratch_len(&self, images: usize) -> usize {
        match &self.method {
            Method::Direct(d) => d.scratch_len(images),
            Method::Winograd(w) => w.scratch_len(images),
            Method::Depthwise(d) => d.scratch_len(),
        }
    }

    /// `y = epilogue(conv(x))` for `images` images; `y` may hold anything.
    ///
    /// # Panics
    /// If a slice has the wrong length (`scratch`: too short).
    pub fn run(
        &self,
        images: usize,
        x: &[f32],
        epilogue: Epilogue<'_>,
        y: &mut [f32],
        scratch: &mut [f32],
    ) {
        let output = self.shape.output();
        assert_eq!(x.len(), images * self.shape.input.len(), "input length");
        assert_eq!(y.len(), images * output.len(), "output length");
        assert!(scratch.len() >= self.scratch_len(images), "scratch length");
        let raw = epilogue.raw(output.channels, y.len());
        // SAFETY: the lengths were checked, and `y` is ours alone.
        unsafe { self.run_part(Part::WHOLE, images, x, raw, y.as_mut_ptr(), scratch) }
        self.finish(epilogue, y);
    }

    /// The part of an epilogue that only [`Direct`] does with the rest.
    fn finish(&self, epilogue: Epilogue<'_>, y: &mut [f32]) {
        match (&self.method, epilogue.gelu) {
            (Method::Direct(_), _) | (_, None) => {}
            (_, Some(form)) => self.isa.dispatch(InPlace { form, y }),
        }
    }

    /// [`Conv::run`] with no more than a bias behind it, and the mean and the sum of
    /// squared deviations of each output channel over all pixels.
    ///
    /// # Panics
    /// If there are no images or a slice has the wrong length (`scratch`: too short).
    #[expect(
        clippy::too_many_arguments,
        reason = "a convolution and its statistics"
    )]
    pub fn run_with_statistics(
        &self,
        images: usize,
        x: &[f32],
        bias: Option<&[f32]>,
        y: &mut [f32],
        scratch: &mut [f32],
        mean: &mut [f32],
        deviation: &mut [f32],
    ) {
        let output = self.shape.output();
        assert!(images > 0 && mean.len() == output.channels && deviation.len() == mean.len());
        let epilogue = Epilogue {
            bias,
            ..Epilogue::default()
        };
        if let Method::Depthwise(_) = self.method {
            self.run(images, x, epilogue, y, scratch);
            return crate::norm::statistics(self.isa, y, mean, deviation);
        }
        assert_eq!(x.len(), images * self.shape.input.len(), "input length");
        assert_eq!(y.len(), images * output.len(), "output length");
        assert!(scratch.len() >= self.scratch_len(images), "scratch length");
        let mut sums = vec![0.0; 3 * output.channels];
        let epilogue = RawEpilogue {
            sums: RawSums::new(&mut sums),
            ..epilogue.raw(output.channels, y.len())
        };
        // SAFETY: the lengths were checked, and `y` and the sums are ours alone.
        unsafe { self.run_part(Part::WHOLE, images, x, epilogue, y.as_mut_ptr(), scratch) };
        sums::finish(&sums, images * output.pixels(), mean, deviation);
    }

    /// Floats of scratch that [`Conv::run_split`] needs.
    pub fn split_scratch_len(&self, parts: usize) -> usize {
        parts * (self.scratch_len(1) + APART)
    }

    /// [`Conv::run`] for one image, cut into parts for several threads.
    ///
    /// The result is that of [`Conv::run`], to the bit.
    ///
    /// # Panics
    /// If a slice has the wrong length (`scratch`: shorter than
    /// [`Conv::split_scratch_len`]), or the leader's team is smaller.
    pub fn run_split(
        &self,
        parts: usize,
        x: &[f32],
        epilogue: Epilogue<'_>,
        y: &mut [f32],
        scratch: &mut [f32],
        leader: &mut Leader<'_>,
    ) {
        let output = self.shape.output();
        let (own, each) = (self.scratch_len(1), self.scratch_len(1) + APART);
        assert_eq!(x.len(), self.shape.input.len(), "input length");
        assert_eq!(y.len(), output.len(), "output length");
        assert!(
            scratch.len() >= self.split_scratch_len(parts),
            "scratch length"
        );
        let shared = Shared {
            epilogue: epilogue.raw(output.channels, y.len()),
            y: y.as_mut_ptr(),
            scratch: scratch.as_mut_ptr(),
        };
        let part = |index: usize| {
            // The whole of it is captured, not its raw pointers one by one.
            let shared = &shared;
            let part = Part {
                index,
                count: parts,
            };
            // SAFETY: every part has a stretch of scratch of its own, and the leader
            // has it run once. The lengths were checked; parts write disjoint outputs.
            unsafe {
                let scratch = std::slice::from_raw_parts_mut(shared.scratch.add(index * each), own);
                self.run_part(part, 1, x, shared.epilogue, shared.y, scratch);
            }
        };
        leader.run(parts, &part);
        self.finish(epilogue, y);
    }

    /// # Safety
    /// `x` must hold `images` inputs, `y` and the residual `images` outputs, and
    /// nobody else may touch the part's outputs meanwhile. Sums are made of whole
    /// outputs only, not by [`Depthwise`].
    unsafe fn run_part(
        &self,
        part: Part,
        images: usize,
        x: &[f32],
        epilogue: RawEpilogue,
        y: *mut f32,
        scratch: &mut [f32],
    ) {
        // SAFETY: passed on.
        unsafe {
            match &self.method {
                Method::Direct(d) => d.run(self.isa, part, images, x, epilogue, y, scratch),
                Method::Winograd(w) => w.run(self.isa, part, images, x, epilogue, y, scratch),
                Method::Depthwise(d) => d.run(self.isa, part, images, x, epilogue, y, scratch),
            }
        }
    }
}

/// Geometry of the pull-back of a convolution with stride 1.
fn pulled_back(shape: &ConvShape) -> Option<ConvShape> {
    let Window {
        kernel,
        stride,
        padding,
        dilation,
    } = shape.window;
    if stride != [1, 1] {
        return None;
    }
    let reach = [dilation[0] * (kernel[0] - 1), dilation[1] * (kernel[1] - 1)];
    Some(ConvShape {
        input: shape.output(),
        out_channels: shape.input.channels,
        window: Window {
            padding: Padding {
                top: reach[0].checked_sub(padding.top)?,
                left: reach[1].checked_sub(padding.left)?,
                bottom: reach[0].checked_sub(padding.bottom)?,
                right: reach[1].checked_sub(padding.right)?,
            },
            ..shape.window
        },
        groups: shape.groups,
    })
}

/// Height and width of `input` with its zeros around it.
fn padded_size(input: Shape, padding: Padding) -> [usize; 2] {
    [
        input.height + padding.top + padding.bottom,
        input.width + padding.left + padding.right,
    ]
}

#[cfg(test)]
mod tests;
