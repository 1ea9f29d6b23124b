//! Attention of one head, `softmax(scale q k^T + biases) v`, and its pull-back.
//!
//! Queries are taken a block at a time: a block's scores are made, turned into weights
//! and multiplied by the values while they are in the cache, so the matrix of all scores
//! is never stored. The way back makes them again.

use crate::gemm::{Ahead, Panels, Sink, panel};
use crate::isa::{Isa, Kernel};
use crate::matmul::{Matrix, pack};
use crate::simd::Simd;
use crate::softmax::weigh;

/// Most queries of a block: their scores, of a few hundred keys, fit the cache twice.
const BLOCK: usize = 48;

/// Sizes of one head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Rows of `q` and of the result.
    pub queries: usize,
    /// Rows of `k` and `v`.
    pub keys: usize,
    /// Columns of `q` and `k`.
    pub depth: usize,
    /// Columns of `v` and of the result.
    pub columns: usize,
    /// Of the scores, before the biases.
    pub scale: f32,
}

/// Where gradients are added.
#[derive(Debug, Default)]
pub struct AttentionGradients<'a> {
    /// Of the queries.
    pub q: Option<&'a mut [f32]>,
    /// Of the keys.
    pub k: Option<&'a mut [f32]>,
    /// Of the values.
    pub v: Option<&'a mut [f32]>,
    /// Of each bias.
    pub biases: Vec<Option<&'a mut [f32]>>,
}

/// How each factor's columns are cut into panels.
#[derive(Clone, Copy)]
struct Cuts {
    keys: Panels,
    depth: Panels,
    columns: Panels,
}

impl Attention {
    fn cuts(&self, isa: Isa) -> Cuts {
        let [keys, depth, columns] =
            [self.keys, self.depth, self.columns].map(|n| Panels::new(isa, n));
        Cuts {
            keys,
            depth,
            columns,
        }
    }

    /// Queries of the largest block.
    fn block(&self) -> usize {
        self.queries.min(BLOCK)
    }

    /// Floats of scratch that both ways need.
    pub fn scratch_len(&self, isa: Isa) -> usize {
        let cuts = self.cuts(isa);
        let (keys, depth, columns) = (
            cuts.keys.padded(),
            cuts.depth.padded(),
            cuts.columns.padded(),
        );
        let forward = self.depth * keys + self.keys * columns + self.block() * self.keys;
        let packed = (self.depth + self.columns) * keys + self.keys * depth;
        let block = self.block() * (2 * self.keys + depth + columns);
        forward.max(packed + block)
    }

    fn check(&self, [q, k, v]: [&[f32]; 3], biases: &[&[f32]], y: &[f32]) {
        assert_eq!(q.len(), self.queries * self.depth, "queries");
        assert_eq!(k.len(), self.keys * self.depth, "keys");
        assert_eq!(v.len(), self.keys * self.columns, "values");
        assert_eq!(y.len(), self.queries * self.columns, "result");
        let scores = self.queries * self.keys;
        assert!(biases.iter().all(|b| b.len() == scores), "biases");
    }

    /// Writes `y = softmax(scale q k^T + biases) v`.
    ///
    /// # Panics
    /// If a length is wrong (`scratch`: too short).
    pub fn forward(
        &self,
        isa: Isa,
        [q, k, v]: [&[f32]; 3],
        biases: &[&[f32]],
        y: &mut [f32],
        scratch: &mut [f32],
    ) {
        self.check([q, k, v], biases, y);
        let cuts = self.cuts(isa);
        let (packed_k, rest) = scratch.split_at_mut(self.depth * cuts.keys.padded());
        let (packed_v, rest) = rest.split_at_mut(self.keys * cuts.columns.padded());
        pack(&cuts.keys, self.depth, Matrix::transposed(k), packed_k);
        pack(&cuts.columns, self.keys, Matrix::new(v), packed_v);
        isa.dispatch(Forward {
            sizes: *self,
            cuts,
            q,
            packed: [packed_k, packed_v],
            biases,
            y,
            scores: &mut rest[..self.block() * self.keys],
        });
    }

    /// Adds to the gradients that are wanted what `dy` becomes on its way back.
    ///
    /// # Panics
    /// If a length is wrong (`scratch`: too short).
    pub fn backward(
        &self,
        isa: Isa,
        [q, k, v]: [&[f32]; 3],
        biases: &[&[f32]],
        dy: &[f32],
        gradients: AttentionGradients<'_>,
        scratch: &mut [f32],
    ) {
        self.check([q, k, v], biases, dy);
        let len = |x: &Option<&mut [f32]>, n: usize| x.as_ref().is_none_or(|x| x.len() == n);
        assert!(len(&gradients.q, q.len()) && len(&gradients.k, k.len()));
        assert!(len(&gradients.v, v.len()));
        let scores = self.queries * self.keys;
        assert!(gradients.biases.iter().all(|b| len(b, scores)));
        let cuts = self.cuts(isa);
        let mut rest = scratch;
        let mut take = |len: usize| {
            let (part, tail) = std::mem::take(&mut rest).split_at_mut(len);
            rest = tail;
            part
        };
        let packed_k = take(self.depth * cuts.keys.padded());
        let packed_v = take(self.columns * cuts.keys.padded());
        let turned_k = take(self.keys * cuts.depth.padded());
        pack(&cuts.keys, self.depth, Matrix::transposed(k), packed_k);
        pack(&cuts.keys, self.columns, Matrix::transposed(v), packed_v);
        pack(&cuts.depth, self.keys, Matrix::new(k), turned_k);
        let block = self.block();
        isa.dispatch(Backward {
            sizes: *self,
            cuts,
            q,
            dy,
            packed: [packed_k, packed_v, turned_k],
            biases,
            gradients,
            weights: take(block * self.keys),
            slopes: take(block * self.keys),
            packed_q: take(block * cuts.depth.padded()),
            packed_dy: take(block * cuts.columns.padded()),
        });
    }
}

/// The left factor of a product.
#[derive(Clone, Copy)]
enum Left<'a> {
    /// Row by row.
    Plain(&'a [f32]),
    /// The transposed of what lies there.
    Turned(&'a [f32]),
}

/// `y = a b`, or `y += a b`, with `b` of `depth` rows packed.
#[inline(always)]
fn multiply<S: Simd>(
    s: S,
    panels: &Panels,
    depth: usize,
    a: Left<'_>,
    packed: &[f32],
    accumulate: bool,
    y: &mut [f32],
) {
    let n = panels.n;
    assert_eq!(packed.len(), depth * panels.padded());
    let rows = y.len() / n;
    let (values, step) = match a {
        Left::Plain(values) => (values, depth),
        Left::Turned(values) => (values, 1),
    };
    assert_eq!(values.len(), rows * depth);
    assert_eq!(y.len(), rows * n);
    // What lies turned is read one step of the depth at a time, row beside row.
    let places: Vec<usize> = match a {
        Left::Plain(_) => vec![0],
        Left::Turned(_) => (0..depth).map(|k| k * rows).collect(),
    };
    let run = depth / places.len();
    let starts = (0..rows).map(|row| values[row * step..].as_ptr());
    let starts: Vec<*const f32> = starts.collect();
    let mut w = packed;
    for p in 0..panels.count() {
        let (first, width) = (p * panels.width(), panels.width_of(p));
        let sink = Sink {
            accumulate,
            ..Sink::plain(y[first..].as_mut_ptr(), n, width.min(n - first))
        };
        // SAFETY: row `r` at step `k` of the depth is element `r * depth + k` of a plain
        // factor and `k * rows + r` of a turned one, of `rows * depth`; the panel has
        // `depth * width` floats, and the outputs are its columns of all rows of `y`.
        unsafe {
            panel(
                s,
                &starts,
                &places,
                run,
                w.as_ptr(),
                width / S::LANES,
                sink,
                Ahead::NOTHING,
            )
        };
        w = &w[depth * width..];
    }
}

/// `x <- factor x`.
#[inline(always)]
fn scale_row<S: Simd>(s: S, factor: f32, x: &mut [f32]) {
    let factor = s.splat(factor);
    for x in x.chunks_mut(S::LANES) {
        let product = s.mul(s.read_partial(x), factor);
        s.write_partial(x, product);
    }
}

struct Forward<'a> {
    sizes: Attention,
    cuts: Cuts,
    q: &'a [f32],
    /// Keys, transposed, and values.
    packed: [&'a [f32]; 2],
    biases: &'a [&'a [f32]],
    y: &'a mut [f32],
    scores: &'a mut [f32],
}

impl Kernel for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Attention {
            keys,
            depth,
            columns,
            scale,
            ..
        } = self.sizes;
        let block = self.sizes.block();
        let blocks = self.q.chunks(block * depth);
        for (i, (q, y)) in blocks.zip(self.y.chunks_mut(block * columns)).enumerate() {
            let rows = q.len() / depth;
            let scores = &mut self.scores[..rows * keys];
            let [k, v] = self.packed;
            multiply(s, &self.cuts.keys, depth, Left::Plain(q), k, false, scores);
            let mut sums = [0.0; BLOCK];
            for (row, scores) in scores.chunks_exact_mut(keys).enumerate() {
                sums[row] = weigh(s, scale, self.biases, (i * block + row) * keys, scores);
            }
            let weights = Left::Plain(scores);
            multiply(s, &self.cuts.columns, keys, weights, v, false, y);
            for (y, sum) in y.chunks_exact_mut(columns).zip(sums) {
                scale_row(s, 1.0 / sum, y);
            }
        }
    }
}

struct Backward<'a> {
    sizes: Attention,
    cuts: Cuts,
    q: &'a [f32],
    dy: &'a [f32],
    /// Keys and values, transposed, and keys.
    packed: [&'a [f32]; 3],
    biases: &'a [&'a [f32]],
    gradients: AttentionGradients<'a>,
    /// What each query takes of every value, for a block.
    weights: &'a mut [f32],
    /// The gradient of that, then of the scores.
    slopes: &'a mut [f32],
    packed_q: &'a mut [f32],
    packed_dy: &'a mut [f32],
}

impl Kernel for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let Attention {
            keys,
            depth,
            columns,
            scale,
            ..
        } = self.sizes;
        let cuts = self.cuts;
        let block = self.sizes.block();
        let blocks = self.q.chunks(block * depth);
        for (i, (q, dy)) in blocks.zip(self.dy.chunks(block * columns)).enumerate() {
            let rows = q.len() / depth;
            let first = i * block;
            let weights = &mut self.weights[..rows * keys];
            let slopes = &mut self.slopes[..rows * keys];
            let [k, v, turned_k] = self.packed;
            multiply(s, &cuts.keys, depth, Left::Plain(q), k, false, weights);
            multiply(s, &cuts.keys, columns, Left::Plain(dy), v, false, slopes);
            for (row, weights) in weights.chunks_exact_mut(keys).enumerate() {
                let at = (first + row) * keys;
                let sum = weigh(s, scale, self.biases, at, weights);
                scale_row(s, 1.0 / sum, weights);
                let slopes = &mut slopes[row * keys..][..keys];
                through_softmax(s, weights, slopes);
                for bias in self.gradients.biases.iter_mut().flatten() {
                    let bias = bias[at..at + keys].iter_mut();
                    bias.zip(&*slopes).for_each(|(sum, x)| *sum += x);
                }
                scale_row(s, scale, slopes);
            }
            if let Some(dq) = &mut self.gradients.q {
                let dq = &mut dq[first * depth..][..rows * depth];
                multiply(
                    s,
                    &cuts.depth,
                    keys,
                    Left::Plain(slopes),
                    turned_k,
                    true,
                    dq,
                );
            }
            if let Some(dk) = &mut self.gradients.k {
                let packed = &mut self.packed_q[..rows * cuts.depth.padded()];
                pack(&cuts.depth, rows, Matrix::new(q), packed);
                multiply(s, &cuts.depth, rows, Left::Turned(slopes), packed, true, dk);
            }
            if let Some(dv) = &mut self.gradients.v {
                let packed = &mut self.packed_dy[..rows * cuts.columns.padded()];
                pack(&cuts.columns, rows, Matrix::new(dy), packed);
                multiply(
                    s,
                    &cuts.columns,
                    rows,
                    Left::Turned(weights),
                    packed,
                    true,
                    dv,
                );
            }
        }
    }
}

/// The gradient of a row of scores from that of its weights, in place.
#[inline(always)]
fn through_softmax<S: Simd>(s: S, weights: &[f32], slopes: &mut [f32]) {
    let mut dot = s.zero();
    for (w, d) in weights.chunks(S::LANES).zip(slopes.chunks(S::LANES)) {
        dot = s.mul_add(s.read_partial(w), s.read_partial(d), dot);
    }
    let dot = s.splat(s.sum(dot));
    for (w, d) in weights.chunks(S::LANES).zip(slopes.chunks_mut(S::LANES)) {
        let moved = s.sub(s.read_partial(d), dot);
        s.write_partial(d, s.mul(s.read_partial(w), moved));
    }
}

#[cfg(test)]
mod tests;
