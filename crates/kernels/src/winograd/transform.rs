//! The one-dimensional transforms of F(2, 3) and F(4, 3).

use crate::simd::Simd;

/// Minimal filtering with `A = M + 2` points, applied along both axes.
pub(crate) trait Filtering<const A: usize, const M: usize> {
    /// `G`, the transform of three filter taps.
    const G: [[f64; 3]; A];
    /// `B^T d`.
    fn input<S: Simd>(s: S, d: [S::V; A]) -> [S::V; A];
    /// `A^T m`.
    fn output<S: Simd>(s: S, m: [S::V; A]) -> [S::V; M];
}

/// F(2, 3), points 0, 1, -1 and infinity.
pub(crate) struct Two;

impl Filtering<4, 2> for Two {
    const G: [[f64; 3]; 4] = [
        [1.0, 0.0, 0.0],
        [0.5, 0.5, 0.5],
        [0.5, -0.5, 0.5],
        [0.0, 0.0, 1.0],
    ];

    #[inline(always)]
    fn input<S: Simd>(s: S, d: [S::V; 4]) -> [S::V; 4] {
        [
            s.sub(d[0], d[2]),
            s.add(d[1], d[2]),
            s.sub(d[2], d[1]),
            s.sub(d[3], d[1]),
        ]
    }

    #[inline(always)]
    fn output<S: Simd>(s: S, m: [S::V; 4]) -> [S::V; 2] {
        [
            s.add(m[0], s.add(m[1], m[2])),
            s.add(s.sub(m[1], m[2]), m[3]),
        ]
    }
}

/// F(4, 3), points 0, 1, -1, 2, -2 and infinity.
pub(crate) struct Four;

impl Filtering<6, 4> for Four {
    const G: [[f64; 3]; 6] = [
        [1.0 / 4.0, 0.0, 0.0],
        [-1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0],
        [-1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0],
        [1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0],
        [1.0 / 24.0, -1.0 / 12.0, 1.0 / 6.0],
        [0.0, 0.0, 1.0],
    ];

    /// ```text
    ///  4  0 -5  0  1  0
    ///  0 -4 -4  1  1  0
    ///  0  4 -4 -1  1  0
    ///  0 -2 -1  2  1  0
    ///  0  2 -1 -2  1  0
    ///  0  4  0 -5  0  1
    /// ```
    #[inline(always)]
    fn input<S: Simd>(s: S, d: [S::V; 6]) -> [S::V; 6] {
        let (two, four) = (s.splat(2.0), s.splat(4.0));
        let even = s.neg_mul_add(four, d[2], d[4]);
        let odd = s.neg_mul_add(four, d[1], d[3]);
        let near = s.sub(d[4], d[2]);
        let far = s.sub(d[3], d[1]);
        [
            s.mul_add(four, s.sub(d[0], d[2]), near),
            s.add(even, odd),
            s.sub(even, odd),
            s.mul_add(two, far, near),
            s.neg_mul_add(two, far, near),
            s.neg_mul_add(four, far, s.sub(d[5], d[3])),
        ]
    }

    /// ```text
    ///  1  1  1  1  1  0
    ///  0  1 -1  2 -2  0
    ///  0  1  1  4  4  0
    ///  0  1 -1  8 -8  1
    /// ```
    #[inline(always)]
    fn output<S: Simd>(s: S, m: [S::V; 6]) -> [S::V; 4] {
        let (two, four, eight) = (s.splat(2.0), s.splat(4.0), s.splat(8.0));
        let (p, q) = (s.add(m[1], m[2]), s.sub(m[1], m[2]));
        let (r, t) = (s.add(m[3], m[4]), s.sub(m[3], m[4]));
        [
            s.add(s.add(m[0], p), r),
            s.mul_add(two, t, q),
            s.mul_add(four, r, p),
            s.add(s.mul_add(eight, t, q), m[5]),
        ]
    }
}
