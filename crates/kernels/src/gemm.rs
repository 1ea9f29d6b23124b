//! The register tile behind convolution, Winograd and linear layers.
//!
//! A tile is `MR` rows (pixels) by `NV` vectors of output channels. Per step of
//! the depth it loads `NV` vectors of packed weights and broadcasts one value
//! of every row: with 6 x 2 on 16 registers, 12 multiply-adds for 8 loads, so
//! that the multipliers are the limit; with 12 x 2 on 32 registers 24 for 14. Every
//! output is one chain of multiply-adds in the order of the depth, whatever tile it
//! falls into: so a result does not depend on what else is computed in the call.

use crate::isa::{Isa, Kernel};
use crate::simd::{Simd, relu};

/// Vectors of output channels in a panel of packed weights.
#[inline(always)]
pub(crate) const fn panel_vectors<S: Simd>() -> usize {
    if S::REGISTERS >= 16 { 2 } else { 1 }
}

/// Rows of the largest tile.
#[inline(always)]
const fn tile_rows<S: Simd>() -> usize {
    match S::REGISTERS {
        32.. => 12,
        16.. => 6,
        _ => 4,
    }
}

/// How `n` output channels are cut into panels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panels {
    /// Output channels.
    pub n: usize,
    /// Floats in a vector.
    pub lanes: usize,
    /// Vectors in a full panel.
    pub vectors: usize,
}

impl Panels {
    pub fn new(isa: Isa, n: usize) -> Self {
        struct Widths;
        impl Kernel for Widths {
            type Output = (usize, usize);
            #[inline(always)]
            fn run<S: Simd>(self, _: S) -> (usize, usize) {
                (S::LANES, panel_vectors::<S>())
            }
        }
        let (lanes, vectors) = isa.dispatch(Widths);
        Self { n, lanes, vectors }
    }

    /// Channels of a full panel.
    pub fn width(&self) -> usize {
        self.lanes * self.vectors
    }

    pub fn count(&self) -> usize {
        self.n.div_ceil(self.width())
    }

    /// All channels, the last panel filled up to whole vectors.
    pub fn padded(&self) -> usize {
        self.n.next_multiple_of(self.lanes)
    }

    /// Channels of panel `p`, filled up to whole vectors.
    pub fn width_of(&self, p: usize) -> usize {
        self.width().min(self.padded() - p * self.width())
    }

    /// Packs the `depth x n` matrix as `panel x depth x width`, zeros in the
    /// filling. `row(k)` says where in `from` row `k` starts, and how far it is
    /// from one column to the next.
    pub fn pack(
        &self,
        depth: usize,
        into: &mut [f32],
        from: &[f32],
        row: impl Fn(usize) -> (usize, usize),
    ) {
        assert_eq!(into.len(), depth * self.padded());
        let mut rest = into;
        for p in 0..self.count() {
            let (first, width) = (p * self.width(), self.width_of(p));
            let (panel, tail) = rest.split_at_mut(depth * width);
            rest = tail;
            let columns = width.min(self.n - first);
            for (k, into) in panel.chunks_exact_mut(width).enumerate() {
                let (start, step) = row(k);
                let from = from[start + first * step..].iter().step_by(step);
                for (w, from) in into[..columns].iter_mut().zip(from) {
                    *w = *from;
                }
                into[columns..].fill(0.0);
            }
        }
    }
}

/// Where the rows of a tile go, and what is done to them on the way.
#[derive(Clone, Copy)]
pub(crate) struct Sink {
    /// First output of the first row, at the panel's first channel.
    pub y: *mut f32,
    /// Floats from one row to the next, for `y` and `residual`.
    pub stride: usize,
    /// Channels of this panel that exist.
    pub channels: usize,
    /// Start from what stands in `y` instead of 0.
    pub accumulate: bool,
    /// Added at the end; at the panel's first channel, or null.
    pub bias: *const f32,
    /// Added at the end; addressed like `y`, or null.
    pub residual: *const f32,
    /// Clip at 0 at the end.
    pub relu: bool,
}

impl Sink {
    /// Plain rows of `y`.
    pub fn plain(y: *mut f32, stride: usize, channels: usize) -> Self {
        Self {
            y,
            stride,
            channels,
            accumulate: false,
            bias: std::ptr::null(),
            residual: std::ptr::null(),
            relu: false,
        }
    }

    /// Reads the panel's channels of one row.
    ///
    /// # Safety
    /// `p` must be readable for `channels` floats, between `NV - 1` and `NV`
    /// vectors.
    #[inline(always)]
    unsafe fn load<S: Simd, const NV: usize>(&self, s: S, p: *const f32) -> [S::V; NV] {
        debug_assert!(self.channels > (NV - 1) * S::LANES && self.channels <= NV * S::LANES);
        let mut x = [s.zero(); NV];
        // SAFETY: by the contract.
        unsafe {
            for v in 0..NV - 1 {
                x[v] = s.load(p.add(v * S::LANES));
            }
            let last = p.add((NV - 1) * S::LANES);
            x[NV - 1] = if self.channels == NV * S::LANES {
                s.load(last)
            } else {
                s.load_partial(last, self.channels - (NV - 1) * S::LANES)
            };
        }
        x
    }

    /// Writes the panel's channels of one row.
    ///
    /// # Safety
    /// `p` must be writable for `channels` floats, between `NV - 1` and `NV`
    /// vectors.
    #[inline(always)]
    unsafe fn store<S: Simd, const NV: usize>(&self, s: S, p: *mut f32, x: [S::V; NV]) {
        debug_assert!(self.channels > (NV - 1) * S::LANES && self.channels <= NV * S::LANES);
        // SAFETY: by the contract.
        unsafe {
            for v in 0..NV - 1 {
                s.store(p.add(v * S::LANES), x[v]);
            }
            let last = p.add((NV - 1) * S::LANES);
            if self.channels == NV * S::LANES {
                s.store(last, x[NV - 1]);
            } else {
                s.store_partial(last, self.channels - (NV - 1) * S::LANES, x[NV - 1]);
            }
        }
    }

    /// The same sink `rows` further down.
    ///
    /// # Safety
    /// The rows must exist.
    #[inline(always)]
    pub unsafe fn below(self, rows: usize) -> Self {
        // SAFETY: both pointers stay inside their arrays, by the contract.
        unsafe {
            Self {
                y: self.y.add(rows * self.stride),
                residual: if self.residual.is_null() {
                    self.residual
                } else {
                    self.residual.add(rows * self.stride)
                },
                ..self
            }
        }
    }
}

/// Weights that are wanted after those at hand; asked for on the way.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    /// What is asked for next; never followed.
    at: *const f32,
    /// Floats that are left.
    left: usize,
}

impl Ahead {
    pub const NOTHING: Self = Self {
        at: std::ptr::null(),
        left: 0,
    };

    /// So many floats, which need not exist.
    pub fn new(at: *const f32, floats: usize) -> Self {
        Self { at, left: floats }
    }
}

/// Cache lines asked for in four steps of the depth: a panel is there before its tiles
/// of a few dozen rows are done.
const LINES: usize = 2;
/// Floats of a cache line.
const LINE: usize = 16;

/// One tile: `y[m] = finish(sum over runs and k of rows[m][run + k] * w[k])`. Of `MR`
/// rows the first `count` are different, and the others repeat the last of these.
///
/// # Safety
/// For all `m` and all `run` in `runs`, `rows[m] + run` must be readable for
/// `depth` floats, `w` for `runs.len() * depth * NV * LANES`, and the sink valid
/// for `count` rows, one at least.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "a product's parts")]
unsafe fn tile<S: Simd, const MR: usize, const NV: usize>(
    s: S,
    rows: [*const f32; MR],
    count: usize,
    runs: &[usize],
    depth: usize,
    mut w: *const f32,
    sink: Sink,
    ahead: &mut Ahead,
) {
    // Plain loops over constants: the compiler must unroll every one of them
    // to keep the sums in registers.
    let mut acc = [[s.zero(); NV]; MR];
    let at = |m: usize| m.min(count - 1) * sink.stride;
    // SAFETY: all addresses are inside what the contract above promises: rows
    // at `run + k` with `k < depth`, weights advance by one row of the panel
    // per step, and outputs stay below `sink.channels` of `count` rows. All reads of
    // outputs come before the first write, so that a row may repeat.
    unsafe {
        if sink.accumulate {
            for m in 0..MR {
                acc[m] = sink.load(s, sink.y.add(at(m)));
            }
        }
        for m in 0..MR {
            for v in 0..NV {
                // What the next tile starts from, and this one ends with.
                let at = (MR + m) * sink.stride + v * S::LANES;
                if sink.accumulate {
                    s.prefetch(sink.y.wrapping_add(at));
                }
                if !sink.residual.is_null() {
                    let at = m * sink.stride + v * S::LANES;
                    s.prefetch(sink.residual.wrapping_add(at));
                }
            }
        }
        // Without anything to ask for it is the same line again and again.
        let (mut wanted, step) = match ahead.left {
            0 => (w, 0),
            _ => (ahead.at, LINE),
        };
        for &run in runs {
            let mut p = rows;
            for m in 0..MR {
                p[m] = p[m].add(run);
            }
            let mut k = 0;
            // By fours: what a turn of the loop costs beside its products.
            while k + 4 <= depth {
                for _ in 0..LINES {
                    s.prefetch_far(wanted);
                    wanted = wanted.wrapping_add(step);
                }
                for i in 0..4 {
                    multiply(s, &mut acc, &p, k + i, w.add(i * NV * S::LANES));
                }
                w = w.add(4 * NV * S::LANES);
                k += 4;
            }
            while k < depth {
                multiply(s, &mut acc, &p, k, w);
                w = w.add(NV * S::LANES);
                k += 1;
            }
        }
        let asked = runs.len() * (depth / 4) * LINES * LINE;
        *ahead = Ahead {
            at: wanted,
            left: ahead.left.saturating_sub(asked),
        };
        if !sink.bias.is_null() {
            let bias: [S::V; NV] = sink.load(s, sink.bias);
            for m in 0..MR {
                for v in 0..NV {
                    acc[m][v] = s.add(acc[m][v], bias[v]);
                }
            }
        }
        if !sink.residual.is_null() {
            for m in 0..MR {
                let residual: [S::V; NV] = sink.load(s, sink.residual.add(at(m)));
                for v in 0..NV {
                    acc[m][v] = s.add(acc[m][v], residual[v]);
                }
            }
        }
        if sink.relu {
            for m in 0..MR {
                for v in 0..NV {
                    acc[m][v] = relu(s, acc[m][v]);
                }
            }
        }
        for m in 0..MR {
            sink.store(s, sink.y.add(at(m)), acc[m]);
        }
    }
}

/// Adds the products of step `k` of the depth, with one row of packed weights.
///
/// # Safety
/// All `rows` must be readable at `k`, `w` for `NV` vectors.
#[inline(always)]
unsafe fn multiply<S: Simd, const MR: usize, const NV: usize>(
    s: S,
    acc: &mut [[S::V; NV]; MR],
    rows: &[*const f32; MR],
    k: usize,
    w: *const f32,
) {
    let mut row = [s.zero(); NV];
    // SAFETY: by the contract.
    unsafe {
        for v in 0..NV {
            row[v] = s.load(w.add(v * S::LANES));
        }
        for m in 0..MR {
            let x = s.broadcast(rows[m].add(k));
            for v in 0..NV {
                acc[m][v] = s.mul_add(x, row[v], acc[m][v]);
            }
        }
    }
}

/// All `rows` against one panel of `vectors` vectors, in tiles of as many rows
/// as registers allow, and of fewer at the end. Meanwhile the weights that come next are
/// asked for: the cache's own guess ends at the borders of pages.
///
/// # Safety
/// As [`tile`], for every row.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "a product's parts")]
pub(crate) unsafe fn panel<S: Simd>(
    s: S,
    rows: &[*const f32],
    runs: &[usize],
    depth: usize,
    w: *const f32,
    vectors: usize,
    sink: Sink,
    ahead: Ahead,
) {
    // SAFETY: passed on.
    unsafe {
        if vectors == 2 {
            tiles::<S, 2>(s, rows, runs, depth, w, sink, ahead);
        } else {
            debug_assert_eq!(vectors, 1);
            tiles::<S, 1>(s, rows, runs, depth, w, sink, ahead);
        }
    }
}

/// # Safety
/// As [`tile`], for every row.
#[inline(always)]
unsafe fn tiles<S: Simd, const NV: usize>(
    s: S,
    rows: &[*const f32],
    runs: &[usize],
    depth: usize,
    w: *const f32,
    sink: Sink,
    mut ahead: Ahead,
) {
    let mut done = 0;
    // A tile of `mr` rows, the last one repeated where fewer are left: a few chains of
    // sums take as long as more of them.
    macro_rules! step {
        ($mr:literal, $count:expr) => {{
            let count: usize = $count;
            let mut r = [std::ptr::null(); $mr];
            for m in 0..$mr {
                r[m] = rows[done + m.min(count - 1)];
            }
            // SAFETY: the rows `done..done + count` exist; passed on.
            unsafe {
                let sink = sink.below(done);
                tile::<S, $mr, NV>(s, r, count, runs, depth, w, sink, &mut ahead);
            }
            done += count;
        }};
    }
    if const { tile_rows::<S>() == 12 } {
        while rows.len() - done >= 12 {
            step!(12, 12);
        }
        match rows.len() - done {
            0 => {}
            left @ ..=4 => step!(4, left),
            left @ 5..=6 => step!(6, left),
            left @ 7..=8 => step!(8, left),
            left => step!(12, left),
        }
    } else if const { tile_rows::<S>() == 6 } {
        // 8 are 4 and 4: two rows alone do not hide a product's latency.
        while rows.len() - done >= 6 && rows.len() - done != 8 {
            step!(6, 6);
        }
        match rows.len() - done {
            0 => {}
            left @ ..=4 => step!(4, left),
            left @ 5 => step!(6, left),
            _ => {
                step!(4, 4);
                step!(4, 4);
            }
        }
    } else {
        while rows.len() - done >= 4 {
            step!(4, 4);
        }
        if rows.len() - done >= 2 {
            step!(2, 2);
        }
        if done < rows.len() {
            step!(1, 1);
        }
    }
    debug_assert_eq!(done, rows.len());
}
