//! 16 lanes with AVX-512.

use super::Simd;
use std::arch::x86_64::*;

/// Proof that the CPU has AVX-512F.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The CPU must have AVX-512F.
    #[inline(always)]
    pub unsafe fn new() -> Self {
        Self(())
    }
}

/// The first `n` lanes.
#[inline(always)]
fn mask(n: usize) -> __mmask16 {
    debug_assert!(n <= 16);
    ((1_u32 << n.min(16)) - 1) as __mmask16
}

/// A call of an intrinsic that touches no memory.
macro_rules! op {
    ($e:expr) => {
        // SAFETY: no memory is touched and `Avx512` proves that the CPU has the
        // instruction.
        unsafe { $e }
    };
}

impl Simd for Avx512 {
    const LANES: usize = 16;
    const REGISTERS: usize = 32;
    type V = __m512;
    type U = __m512i;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        op!(_mm512_set1_ps(x))
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> __m512 {
        // SAFETY: 16 readable floats by the contract of the method.
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: __m512) {
        // SAFETY: 16 writable floats by the contract of the method.
        unsafe { _mm512_storeu_ps(p, v) }
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
    unsafe fn load_partial(self, p: *const f32, n: usize) -> __m512 {
        // SAFETY: masked lanes are not touched; the others are readable by
        // the contract of the method.
        unsafe { _mm512_maskz_loadu_ps(mask(n), p) }
    }
    #[inline(always)]
    unsafe fn store_partial(self, p: *mut f32, n: usize, v: __m512) {
        // SAFETY: masked lanes are not touched; the others are writable by
        // the contract of the method.
        unsafe {
            if n >= 16 {
                _mm512_storeu_ps(p, v);
            } else {
                _mm512_mask_storeu_ps(p, mask(n), v);
            }
        }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        op!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        op!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        op!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        op!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        op!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn neg_mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        op!(_mm512_fnmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        op!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        op!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn sqrt(self, a: __m512) -> __m512 {
        op!(_mm512_sqrt_ps(a))
    }
    #[inline(always)]
    fn select_gt(self, x: __m512, y: __m512, a: __m512, b: __m512) -> __m512 {
        op!(_mm512_mask_blend_ps(
            _mm512_cmp_ps_mask::<_CMP_GT_OQ>(x, y),
            b,
            a
        ))
    }
    #[inline(always)]
    fn positive(self, a: __m512) -> u32 {
        u32::from(op!(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(
            a,
            _mm512_setzero_ps()
        )))
    }
    #[inline(always)]
    fn keep(self, a: __m512, bits: u32) -> __m512 {
        op!(_mm512_maskz_mov_ps(bits as __mmask16, a))
    }
    #[inline(always)]
    fn sum(self, a: __m512) -> f32 {
        op!({
            let high = _mm512_shuffle_f32x4::<0b11_10_11_10>(a, a);
            let a = _mm512_castps512_ps256(_mm512_add_ps(a, high));
            let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(a, _mm_shuffle_ps::<1>(a, a)))
        })
    }

    #[inline(always)]
    fn splat_u32(self, x: u32) -> __m512i {
        op!(_mm512_set1_epi32(x.cast_signed()))
    }
    #[inline(always)]
    fn iota(self) -> __m512i {
        op!(_mm512_setr_epi32(
            0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        ))
    }
    #[inline(always)]
    fn add_u32(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn sub_u32(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_sub_epi32(a, b))
    }
    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_xor_si512(a, b))
    }
    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_and_si512(a, b))
    }
    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_or_si512(a, b))
    }
    #[inline(always)]
    fn shift_left<const N: i32>(self, a: __m512i) -> __m512i {
        op!(_mm512_sllv_epi32(a, _mm512_set1_epi32(N)))
    }
    #[inline(always)]
    fn shift_right<const N: i32>(self, a: __m512i) -> __m512i {
        op!(_mm512_srlv_epi32(a, _mm512_set1_epi32(N)))
    }
    #[inline(always)]
    fn mul_wide(self, a: __m512i, b: __m512i) -> (__m512i, __m512i) {
        op!({
            const ODD: __mmask16 = 0b1010_1010_1010_1010;
            // The instruction multiplies the even lanes into 64 bits.
            let even = _mm512_mul_epu32(a, b);
            let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(a), _mm512_srli_epi64::<32>(b));
            let high = _mm512_mask_blend_epi32(ODD, _mm512_srli_epi64::<32>(even), odd);
            let low = _mm512_mask_blend_epi32(ODD, even, _mm512_slli_epi64::<32>(odd));
            (high, low)
        })
    }
    #[inline(always)]
    fn select_less(self, x: __m512i, y: __m512i, a: __m512i, b: __m512i) -> __m512i {
        op!(_mm512_mask_blend_epi32(_mm512_cmpgt_epi32_mask(y, x), b, a))
    }
    #[inline(always)]
    fn any_equal(self, a: __m512i, b: __m512i) -> bool {
        op!(_mm512_cmpeq_epi32_mask(a, b)) != 0
    }
    #[inline(always)]
    unsafe fn gather(self, table: &[[u32; 2]], index: __m512i) -> (__m512i, __m512i) {
        let first = table.as_ptr().cast::<i32>();
        // SAFETY: entries of 8 bytes, all of them within the table by the contract
        // of the method; the second word is 4 bytes behind the first.
        unsafe {
            (
                _mm512_i32gather_epi32::<8>(index, first),
                _mm512_i32gather_epi32::<8>(index, first.add(1)),
            )
        }
    }
    #[inline(always)]
    fn to_float(self, a: __m512i) -> __m512 {
        op!(_mm512_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn weave(self, [a, b, c, d]: [__m512; 4]) -> [__m512; 4] {
        op!({
            let (ac, bd) = (_mm512_unpacklo_ps(a, c), _mm512_unpacklo_ps(b, d));
            let (ac2, bd2) = (_mm512_unpackhi_ps(a, c), _mm512_unpackhi_ps(b, d));
            // Lanes 0|4|8|12, 1|5|9|13, 2|6|10|14 and 3|7|11|15 of all four.
            let (p, q) = (_mm512_unpacklo_ps(ac, bd), _mm512_unpackhi_ps(ac, bd));
            let (r, t) = (_mm512_unpacklo_ps(ac2, bd2), _mm512_unpackhi_ps(ac2, bd2));
            // Quarters are transposed.
            const LOW: i32 = 0b01_00_01_00;
            const HIGH: i32 = 0b11_10_11_10;
            const EVEN: i32 = 0b10_00_10_00;
            const ODD: i32 = 0b11_01_11_01;
            let (pq, rt) = (
                _mm512_shuffle_f32x4::<LOW>(p, q),
                _mm512_shuffle_f32x4::<LOW>(r, t),
            );
            let (pq2, rt2) = (
                _mm512_shuffle_f32x4::<HIGH>(p, q),
                _mm512_shuffle_f32x4::<HIGH>(r, t),
            );
            [
                _mm512_shuffle_f32x4::<EVEN>(pq, rt),
                _mm512_shuffle_f32x4::<ODD>(pq, rt),
                _mm512_shuffle_f32x4::<EVEN>(pq2, rt2),
                _mm512_shuffle_f32x4::<ODD>(pq2, rt2),
            ]
        })
    }
    #[inline(always)]
    fn to_bits(self, a: __m512) -> __m512i {
        op!(_mm512_castps_si512(a))
    }
    #[inline(always)]
    fn float_from_bits(self, a: __m512i) -> __m512 {
        op!(_mm512_castsi512_ps(a))
    }
}
