//! Winograd's minimal filtering F(m x m, 3 x 3) for 3x3 windows with stride 1.
//!
//! With `a = m + 2`, each `m x m` tile of outputs needs an `a x a` patch `d` of
//! the input, and `Y = A^T [ (G g G^T) . (B^T d B) ] A`, the dot elementwise:
//! summed over the input channels this is `a^2` independent matrix products of
//! `tiles x channels` by `channels x outputs`. Products per output: 9 direct,
//! `a^2/m^2` here, 4 for m = 2 and 2.25 for m = 4.
//!
//! A chunk of tiles is transformed into `V[position][tile][channel]`,
//! multiplied with the packed weights `U[position]` into `M[position][tile]
//! [output]` and transformed back, so that `V` and `M` stay in the cache. Every
//! tile goes through the same operations wherever it stands in a chunk.

pub(crate) mod tiles;
pub(crate) mod transform;
mod weights;

use crate::buffer::Buffer;
use crate::conv::{Filters, Part, RawEpilogue, RawSums};
use crate::gemm::{Ahead, Panels, Sink, panel};
use crate::geometry::ConvShape;
use crate::isa::{Isa, Kernel};
use crate::simd::Simd;
use std::marker::PhantomData;
use std::ops::Range;
use tiles::Patch;
use transform::{Filtering, Four, Two};

/// Most tiles of a chunk.
pub(crate) const MOST_TILES: usize = 48;
/// With fewer tiles than this a thread, threads share them and split the
/// output channels: reading the weights costs more than the products.
const FEW_TILES: usize = 6;

#[derive(Clone, Debug)]
pub(crate) struct Winograd {
    shape: ConvShape,
    /// Side of an output tile.
    size: usize,
    panels: Panels,
    /// `position x panel x channel x width`.
    weights: Buffer,
}

impl Winograd {
    pub fn new(isa: Isa, shape: ConvShape, filters: Filters<'_>, size: usize) -> Self {
        let panels = Panels::new(isa, shape.out_channels);
        let positions = (size + 2) * (size + 2);
        let mut winograd = Self {
            shape,
            size,
            panels,
            weights: Buffer::zeroed(positions * shape.input.channels * panels.padded()),
        };
        winograd.pack(isa, filters);
        winograd
    }

    pub fn pack(&mut self, isa: Isa, filters: Filters<'_>) {
        let (shape, panels) = (&self.shape, self.panels);
        weights::pack(isa, shape, filters, self.size, panels, &mut self.weights);
    }

    /// Side of an output tile, 2 or 4.
    pub fn size(&self) -> usize {
        self.size
    }

    fn positions(&self) -> usize {
        (self.size + 2) * (self.size + 2)
    }

    /// All panels of output channels.
    pub fn all_panels(&self) -> Range<usize> {
        0..self.panels.count()
    }

    /// Tiles down and across one image.
    fn grid(&self) -> [usize; 2] {
        let out = self.shape.output();
        [
            out.height.div_ceil(self.size),
            out.width.div_ceil(self.size),
        ]
    }

    /// Tiles of a chunk: few, so that `V` and `M` stay in the second-level
    /// cache, but enough that reading large weights does not dominate.
    fn chunk(&self, images: usize) -> usize {
        let [down, across] = self.grid();
        let tiles = if self.weights.len() < 1 << 18 { 24 } else { 48 };
        tiles.min(images * down * across).max(1)
    }

    /// Input channels, filled up to whole vectors.
    fn channels(&self) -> usize {
        self.shape
            .input
            .channels
            .next_multiple_of(self.panels.lanes)
    }

    /// Floats from one position to the next in `V`: one cache line more than
    /// the tiles need, lest all positions fall into the same cache set.
    fn v_stride(&self, chunk: usize) -> usize {
        chunk * self.channels() + 16
    }

    fn m_stride(&self, chunk: usize) -> usize {
        chunk * self.panels.padded() + 16
    }

    /// Floats in a row of a patch.
    fn zeros(&self) -> usize {
        (self.size + 2) * self.channels()
    }

    pub fn scratch_len(&self, images: usize) -> usize {
        let chunk = self.chunk(images);
        self.zeros() + self.positions() * (self.v_stride(chunk) + self.m_stride(chunk))
    }

    /// Parts are tiles, or output channels where there are few tiles.
    ///
    /// # Safety
    /// As [`crate::conv::Conv::run_part`].
    #[expect(clippy::too_many_arguments, reason = "one signature for all methods")]
    pub unsafe fn run(
        &self,
        isa: Isa,
        part: Part,
        images: usize,
        x: &[f32],
        epilogue: RawEpilogue,
        y: *mut f32,
        scratch: &mut [f32],
    ) {
        let [down, across] = self.grid();
        let tiles = images * down * across;
        let by_tiles = tiles >= FEW_TILES * part.count || self.panels.count() < part.count;
        let (tile_part, panel_part) = if by_tiles {
            (part, Part::WHOLE)
        } else {
            (Part::WHOLE, part)
        };
        let run = Run {
            winograd: self,
            images,
            tiles: tile_part.of(tiles, 1),
            panels: panel_part.of(self.panels.count(), 1),
            x,
            epilogue,
            y,
            scratch,
        };
        if self.size == 2 {
            isa.dispatch(Sized::<Two, 4, 2>(run, PhantomData));
        } else {
            isa.dispatch(Sized::<Four, 6, 4>(run, PhantomData));
        }
    }
}

struct Run<'a> {
    winograd: &'a Winograd,
    images: usize,
    /// Of all images.
    tiles: Range<usize>,
    panels: Range<usize>,
    x: &'a [f32],
    epilogue: RawEpilogue,
    /// Of all images; only the tiles and panels in question are written.
    y: *mut f32,
    scratch: &'a mut [f32],
}

struct Sized<'a, F, const A: usize, const M: usize>(Run<'a>, PhantomData<F>);

impl<F: Filtering<A, M>, const A: usize, const M: usize> Kernel for Sized<'_, F, A, M> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Run {
            winograd: w,
            images,
            tiles,
            panels,
            x,
            epilogue,
            y,
            scratch,
        } = self.0;
        let [down, across] = w.grid();
        let (input, output) = (w.shape.input, w.shape.output());
        let chunk = w.chunk(images);
        let (v_stride, m_stride) = (w.v_stride(chunk), w.m_stride(chunk));
        assert_eq!(x.len(), images * input.len());
        assert!(tiles.end <= images * down * across && panels.end <= w.panels.count());
        let (zeros, rest) = scratch.split_at_mut(w.zeros());
        zeros.fill(0.0);
        let (v, rest) = rest.split_at_mut(A * A * v_stride);
        let m = &mut rest[..A * A * m_stride];
        let width = w.panels.width();
        let channels = panels.start * width..(panels.end * width).min(output.channels);
        // Image, top and left of the tiles of a chunk, counted up: divisions
        // would cost as much as a transform.
        let mut places = [(0, 0, 0); MOST_TILES];
        let in_image = tiles.start % (down * across);
        let mut next = (
            tiles.start / (down * across),
            in_image / across * M,
            in_image % across * M,
        );
        let mut first = tiles.start;
        let mut sums = RawSums::NONE;
        while first < tiles.end {
            let count = chunk.min(tiles.end - first);
            for (t, place) in places[..count].iter_mut().enumerate() {
                let (image, top, left) = next;
                *place = next;
                next.2 += M;
                if next.2 >= across * M {
                    (next.1, next.2) = (next.1 + M, 0);
                }
                if next.1 >= down * M {
                    (next.0, next.1) = (next.0 + 1, 0);
                }
                let padding = w.shape.window.padding;
                let patch = Patch {
                    shape: input,
                    x: &x[image * input.len()..][..input.len()],
                    zeros,
                    top: top.cast_signed() - padding.top.cast_signed(),
                    left: left.cast_signed() - padding.left.cast_signed(),
                };
                tiles::forward::<S, F, A, M>(s, &patch, &mut v[t * w.channels()..], v_stride);
            }
            products::<S, A>(s, w, panels.clone(), count, v, v_stride, m, m_stride);
            for (t, &(image, top, left)) in places[..count].iter().enumerate() {
                let at = image * output.len();
                // SAFETY: `y` and the residual hold all images; this tile's
                // channels are ours alone by the contract of `Winograd::run`.
                unsafe {
                    let epilogue = epilogue.from(at);
                    let y = y.add(at);
                    tiles::backward::<S, F, A, M>(
                        s,
                        &m[t * w.panels.padded()..],
                        m_stride,
                        output,
                        [top, left],
                        channels.clone(),
                        RawEpilogue { sums, ..epilogue },
                        y,
                    );
                    // The first tile is summed up when it is there.
                    if sums.is_none() && !epilogue.sums.is_none() {
                        sums = epilogue.sums;
                        let rows = (0..M * M)
                            .map(|p| [top + p / M, left + p % M])
                            .filter(|p| p[0] < output.height && p[1] < output.width)
                            .map(|p| y.add((p[0] * output.width + p[1]) * output.channels))
                            .map(<*mut f32>::cast_const);
                        sums.rows(s, output.channels, rows, true);
                    }
                }
            }
            first += count;
        }
    }
}

/// `M[position] = V[position] U[position]` for all positions, of at most
/// [`MOST_TILES`] tiles.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "two matrices and their strides")]
pub(crate) fn products<S: Simd, const A: usize>(
    s: S,
    w: &Winograd,
    panels: Range<usize>,
    count: usize,
    v: &[f32],
    v_stride: usize,
    m: &mut [f32],
    m_stride: usize,
) {
    let depth = w.shape.input.channels;
    let (channels, outputs) = (w.channels(), w.panels.padded());
    let mut rows = [std::ptr::null::<f32>(); MOST_TILES];
    assert!(count <= MOST_TILES && v_stride >= count * channels && m_stride >= count * outputs);
    assert!(v.len() >= (A * A - 1) * v_stride + count * channels && m.len() >= A * A * m_stride);
    for (t, row) in rows[..count].iter_mut().enumerate() {
        // SAFETY: `count` rows of `channels` floats per position.
        *row = unsafe { v.as_ptr().add(t * channels) };
    }
    for position in 0..A * A {
        let weights = position * depth * outputs;
        for p in panels.clone() {
            let (c, width) = (p * w.panels.width(), w.panels.width_of(p));
            // SAFETY: rows hold `channels >= depth` floats at every position,
            // `v_stride` apart; the panel's weights
            // start at `depth * c` and are `depth * width`; the sink covers
            // `count` rows of `outputs` floats, `width` of them from `c` on.
            unsafe {
                debug_assert!(weights + depth * (c + width) <= w.weights.len());
                let at = w.weights.as_ptr().add(weights + depth * c);
                // The next panel of ours, or the first one at the next position.
                let next = if p + 1 < panels.end {
                    p + 1
                } else {
                    panels.start
                };
                let place = weights + if next > p { 0 } else { depth * outputs };
                let place = place + depth * next * w.panels.width();
                let next = Ahead::new(
                    w.weights.as_ptr().wrapping_add(place),
                    depth * w.panels.width_of(next),
                );
                panel(
                    s,
                    &rows[..count],
                    &[position * v_stride],
                    depth,
                    at,
                    width / S::LANES,
                    Sink::plain(m.as_mut_ptr().add(position * m_stride + c), outputs, width),
                    next,
                );
            }
        }
    }
}
