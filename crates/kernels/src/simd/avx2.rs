//! 8 lanes with AVX2 and FMA.

use super::Simd;
use std::arch::x86_64::*;

/// Proof that the CPU has AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The CPU must have AVX2 and FMA.
    #[inline(always)]
    pub unsafe fn new() -> Self {
        Self(())
    }
}

/// Masks for partial loads: 8 minus `n` entries in.
static MASK: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

#[inline(always)]
fn mask(n: usize) -> __m256i {
    debug_assert!(n <= 8);
    // SAFETY: entries 8-n .. 16-n of a table of 16; AVX is there (`Avx2`).
    unsafe { _mm256_loadu_si256(MASK.as_ptr().add(8 - n.min(8)).cast()) }
}

/// A call of an intrinsic that touches no memory.
macro_rules! op {
    ($e:expr) => {
        // SAFETY: no memory is touched and `Avx2` proves that the CPU has the
        // instruction.
        unsafe { $e }
    };
}

impl Simd for Avx2 {
    const LANES: usize = 8;
    const REGISTERS: usize = 16;
    type V = __m256;
    type U = __m256i;

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        op!(_mm256_set1_ps(x))
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> __m256 {
        // SAFETY: 8 readable floats by the contract of the method.
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: __m256) {
        // SAFETY: 8 writable floats by the contract of the method.
        unsafe { _mm256_storeu_ps(p, v) }
    }
    #[inline(always)]
    fn prefetch(self, p: *const f32) {
        op!(_mm_prefetch::<_MM_HINT_T0>(p.cast()))
    }
    #[inline(always)]
    fn prefetch_far(self, p: *const f32) {
        op!(_mm_prefetch::<_MM_HINT_T1>(p.cast()))
    }
    #[inline(always)]
    unsafe fn load_partial(self, p: *const f32, n: usize) -> __m256 {
        // SAFETY: masked lanes are not touched; the others are readable by
        // the contract of the method.
        unsafe { _mm256_maskload_ps(p, mask(n)) }
    }
    #[inline(always)]
    unsafe fn store_partial(self, p: *mut f32, n: usize, v: __m256) {
        // SAFETY: masked lanes are not touched; the others are writable by
        // the contract of the method.
        unsafe {
            // A masked store takes dozens of cycles on some CPUs.
            if n >= 8 {
                _mm256_storeu_ps(p, v);
            } else {
                _mm256_maskstore_ps(p, mask(n), v);
            }
        }
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        op!(_mm256_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        op!(_mm256_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        op!(_mm256_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        op!(_mm256_div_ps(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        op!(_mm256_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn neg_mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        op!(_mm256_fnmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        op!(_mm256_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        op!(_mm256_min_ps(a, b))
    }
    #[inline(always)]
    fn sqrt(self, a: __m256) -> __m256 {
        op!(_mm256_sqrt_ps(a))
    }
    #[inline(always)]
    fn select_gt(self, x: __m256, y: __m256, a: __m256, b: __m256) -> __m256 {
        op!(_mm256_blendv_ps(b, a, _mm256_cmp_ps::<_CMP_GT_OQ>(x, y)))
    }
    #[inline(always)]
    fn positive(self, a: __m256) -> u32 {
        let bits = op!(_mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(
            a,
            _mm256_setzero_ps()
        )));
        bits.cast_unsigned()
    }
    #[inline(always)]
    fn keep(self, a: __m256, bits: u32) -> __m256 {
        op!({
            let each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let set = _mm256_and_si256(_mm256_set1_epi32(bits.cast_signed()), each);
            _mm256_and_ps(a, _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, each)))
        })
    }
    #[inline(always)]
    fn sum(self, a: __m256) -> f32 {
        op!({
            let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(a, _mm_shuffle_ps::<1>(a, a)))
        })
    }

    #[inline(always)]
    fn splat_u32(self, x: u32) -> __m256i {
        op!(_mm256_set1_epi32(x.cast_signed()))
    }
    #[inline(always)]
    fn iota(self) -> __m256i {
        op!(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
    }
    #[inline(always)]
    fn add_u32(self, a: __m256i, b: __m256i) -> __m256i {
        op!(_mm256_add_epi32(a, b))
    }
    #[inline(always)]
    fn sub_u32(self, a: __m256i, b: __m256i) -> __m256i {
        op!(_mm256_sub_epi32(a, b))
    }
    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        op!(_mm256_xor_si256(a, b))
    }
    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        op!(_mm256_and_si256(a, b))
    }
    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        op!(_mm256_or_si256(a, b))
    }
    #[inline(always)]
    fn shift_left<const N: i32>(self, a: __m256i) -> __m256i {
        op!(_mm256_slli_epi32::<N>(a))
    }
    #[inline(always)]
    fn shift_right<const N: i32>(self, a: __m256i) -> __m256i {
        op!(_mm256_srli_epi32::<N>(a))
    }
    #[inline(always)]
    fn mul_wide(self, a: __m256i, b: __m256i) -> (__m256i, __m256i) {
        op!({
            // The instruction multiplies the even lanes into 64 bits.
            let even = _mm256_mul_epu32(a, b);
            let odd = _mm256_mul_epu32(_mm256_srli_epi64::<32>(a), _mm256_srli_epi64::<32>(b));
            let high = _mm256_blend_epi32::<0b1010_1010>(_mm256_srli_epi64::<32>(even), odd);
            let low = _mm256_blend_epi32::<0b1010_1010>(even, _mm256_slli_epi64::<32>(odd));
            (high, low)
        })
    }
    #[inline(always)]
    fn select_less(self, x: __m256i, y: __m256i, a: __m256i, b: __m256i) -> __m256i {
        op!(_mm256_blendv_epi8(b, a, _mm256_cmpgt_epi32(y, x)))
    }
    #[inline(always)]
    fn any_equal(self, a: __m256i, b: __m256i) -> bool {
        op!(_mm256_movemask_epi8(_mm256_cmpeq_epi32(a, b))) != 0
    }
    #[inline(always)]
    unsafe fn gather(self, table: &[[u32; 2]], index: __m256i) -> (__m256i, __m256i) {
        let first = table.as_ptr().cast::<i32>();
        // SAFETY: entries of 8 bytes, all of them within the table by the contract
        // of the method; the second word is 4 bytes behind the first.
        unsafe {
            (
                _mm256_i32gather_epi32::<8>(first, index),
                _mm256_i32gather_epi32::<8>(first.add(1), index),
            )
        }
    }
    #[inline(always)]
    fn to_float(self, a: __m256i) -> __m256 {
        op!(_mm256_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn weave(self, [a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
        op!({
            let (ac, bd) = (_mm256_unpacklo_ps(a, c), _mm256_unpacklo_ps(b, d));
            let (ac2, bd2) = (_mm256_unpackhi_ps(a, c), _mm256_unpackhi_ps(b, d));
            // Lanes 0|4, 1|5, 2|6 and 3|7 of all four.
            let (p, q) = (_mm256_unpacklo_ps(ac, bd), _mm256_unpackhi_ps(ac, bd));
            let (r, t) = (_mm256_unpacklo_ps(ac2, bd2), _mm256_unpackhi_ps(ac2, bd2));
            [
                _mm256_permute2f128_ps::<0x20>(p, q),
                _mm256_permute2f128_ps::<0x20>(r, t),
                _mm256_permute2f128_ps::<0x31>(p, q),
                _mm256_permute2f128_ps::<0x31>(r, t),
            ]
        })
    }
    #[inline(always)]
    fn to_bits(self, a: __m256) -> __m256i {
        op!(_mm256_castps_si256(a))
    }
    #[inline(always)]
    fn float_from_bits(self, a: __m256i) -> __m256 {
        op!(_mm256_castsi256_ps(a))
    }
}
