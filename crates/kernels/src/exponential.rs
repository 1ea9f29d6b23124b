//! The exponential of a vector, for what is made of it.

use crate::simd::Simd;

/// `1.5 * 2^23`: added to a number below 2^22, its fraction is rounded off and the
/// lowest bits of the sum are the integer.
const ROUND: f32 = 12_582_912.0;

/// `e^x`, to about one unit in the last place; below -87.3 and above 88 as at these
/// ends. What is not a number stays one.
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::V) -> S::V {
    let x = s.max(s.splat(-87.3), s.min(s.splat(88.0), x));
    // x = n ln 2 + r with |r| <= ln 2 / 2.
    let shifted = s.mul_add(x, s.splat(std::f32::consts::LOG2_E), s.splat(ROUND));
    let n = s.sub(shifted, s.splat(ROUND));
    // ln 2 in two parts, the first with few enough bits for exact products.
    let r = s.neg_mul_add(n, s.splat(0.693_359_4), x);
    let r = s.neg_mul_add(n, s.splat(-2.121_944_4e-4), r);
    // e^r = 1 + r + r^2 p(r): minimax of degree 5 (Cephes).
    let mut p = s.splat(1.987_569_1e-4);
    for c in [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        p = s.mul_add(p, r, s.splat(c));
    }
    let p = s.add(s.mul_add(p, s.mul(r, r), r), s.splat(1.0));
    // 2^n by its bits.
    let n = s.add_u32(
        s.to_bits(shifted),
        s.splat_u32(127_u32.wrapping_sub(ROUND.to_bits())),
    );
    s.mul(p, s.float_from_bits(s.shift_left::<23>(n)))
}
