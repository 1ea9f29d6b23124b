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

/// The points of F(4, 3) beside 0 and infinity, with both signs. Around 1 they round half as
/// coarsely as the textbook's 1 and 2, and their powers are exact.
pub(crate) const NEAR: f64 = 0.75;
pub(crate) const FAR: f64 = 1.5;
/// Over the product of what each point is apart from the others: of 0, `NEAR` and `FAR`.
pub(crate) const PARTS: [f64; 3] = {
    let (near, far) = (NEAR * NEAR, FAR * FAR);
    [
        1.0 / (near * far),
        0.5 / (near * (near - far)),
        0.5 / (far * (far - near)),
    ]
};

/// F(4, 3), points 0, [`NEAR`], -[`NEAR`], [`FAR`], -[`FAR`] and infinity.
pub(crate) struct Four;

impl Filtering<6, 4> for Four {
    const G: [[f64; 3]; 6] = {
        let [zero, near, far] = PARTS;
        [
            [zero, 0.0, 0.0],
            [near, near * NEAR, near * NEAR * NEAR],
            [near, -near * NEAR, near * NEAR * NEAR],
            [far, far * FAR, far * FAR * FAR],
            [far, -far * FAR, far * FAR * FAR],
            [0.0, 0.0, 1.0],
        ]
    };

    /// With the points `a` and `b`:
    /// ```text
    ///  aabb     0  -aa-bb     0  1  0
    ///     0  -abb     -bb     a  1  0
    ///     0   abb     -bb    -a  1  0
    ///     0  -aab     -aa     b  1  0
    ///     0   aab     -aa    -b  1  0
    ///     0  aabb       0  -aa-bb 0  1
    /// ```
    #[inline(always)]
    fn input<S: Simd>(s: S, d: [S::V; 6]) -> [S::V; 6] {
        let (a, b) = (s.splat(NEAR as f32), s.splat(FAR as f32));
        let (aa, bb) = (s.splat((NEAR * NEAR) as f32), s.splat((FAR * FAR) as f32));
        let even = s.neg_mul_add(bb, d[2], d[4]);
        let odd = s.neg_mul_add(bb, d[1], d[3]);
        let near = s.neg_mul_add(aa, d[2], d[4]);
        let far = s.neg_mul_add(aa, d[1], d[3]);
        let first = s.neg_mul_add(aa, d[0], d[2]);
        let last = s.neg_mul_add(aa, d[3], d[5]);
        [
            s.neg_mul_add(bb, first, near),
            s.mul_add(a, odd, even),
            s.neg_mul_add(a, odd, even),
            s.mul_add(b, far, near),
            s.neg_mul_add(b, far, near),
            s.neg_mul_add(bb, far, last),
        ]
    }

    /// With the points `a` and `b`:
    /// ```text
    ///  1    1     1    1     1  0
    ///  0    a    -a    b    -b  0
    ///  0   aa    aa   bb    bb  0
    ///  0  aaa  -aaa  bbb  -bbb  1
    /// ```
    #[inline(always)]
    fn output<S: Simd>(s: S, m: [S::V; 6]) -> [S::V; 4] {
        let near = |power: i32| s.splat(power_of(NEAR, power));
        let far = |power: i32| s.splat(power_of(FAR, power));
        let (p, q) = (s.add(m[1], m[2]), s.sub(m[1], m[2]));
        let (r, t) = (s.add(m[3], m[4]), s.sub(m[3], m[4]));
        [
            s.add(s.add(m[0], p), r),
            s.mul_add(far(1), t, s.mul(near(1), q)),
            s.mul_add(far(2), r, s.mul(near(2), p)),
            s.mul_add(far(3), t, s.mul_add(near(3), q, m[5])),
        ]
    }
}

/// A point's power.
#[inline(always)]
fn power_of(point: f64, power: i32) -> f32 {
    (1..=power).fold(1.0, |product, _| product * point) as f32
}
