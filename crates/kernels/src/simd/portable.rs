//! 8 lanes as an array that the compiler vectorises for any CPU.

use super::Simd;

/// Plain Rust, no instruction beyond the baseline of the target.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

const N: usize = 8;

#[inline(always)]
fn lanes<T: Copy, R: Copy + Default>(a: [T; N], f: impl Fn(T) -> R) -> [R; N] {
    let mut out = [R::default(); N];
    for i in 0..N {
        out[i] = f(a[i]);
    }
    out
}

#[inline(always)]
fn pairs<T: Copy, R: Copy + Default>(a: [T; N], b: [T; N], f: impl Fn(T, T) -> R) -> [R; N] {
    let mut out = [R::default(); N];
    for i in 0..N {
        out[i] = f(a[i], b[i]);
    }
    out
}

/// `a * b + c`: fused where the target always has the instruction, never by a
/// call of the C library.
#[inline(always)]
fn fma(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
        a.mul_add(b, c)
    } else {
        a * b + c
    }
}

impl Simd for Portable {
    const LANES: usize = N;
    // 16 registers of 4 lanes (x86-64 baseline) hold 8 vectors.
    const REGISTERS: usize = if cfg!(target_arch = "aarch64") { 16 } else { 8 };
    type V = [f32; N];
    type U = [u32; N];

    #[inline(always)]
    fn splat(self, x: f32) -> [f32; N] {
        [x; N]
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> [f32; N] {
        // SAFETY: 8 readable floats by the contract of the method.
        unsafe { p.cast::<[f32; N]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: [f32; N]) {
        // SAFETY: 8 writable floats by the contract of the method.
        unsafe { p.cast::<[f32; N]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn load_partial(self, p: *const f32, n: usize) -> [f32; N] {
        let mut v = [0.0; N];
        // SAFETY: `n` readable floats by the contract of the method, and no
        // more than the array holds.
        unsafe { std::ptr::copy_nonoverlapping(p, v.as_mut_ptr(), n.min(N)) };
        v
    }
    #[inline(always)]
    unsafe fn store_partial(self, p: *mut f32, n: usize, v: [f32; N]) {
        // SAFETY: `n` writable floats by the contract of the method, and no
        // more than the array holds.
        unsafe { std::ptr::copy_nonoverlapping(v.as_ptr(), p, n.min(N)) };
    }

    #[inline(always)]
    fn add(self, a: [f32; N], b: [f32; N]) -> [f32; N] {
        pairs(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: [f32; N], b: [f32; N]) -> [f32; N] {
        pairs(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: [f32; N], b: [f32; N]) -> [f32; N] {
        pairs(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: [f32; N], b: [f32; N]) -> [f32; N] {
        pairs(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn mul_add(self, a: [f32; N], b: [f32; N], c: [f32; N]) -> [f32; N] {
        let mut out = c;
        for i in 0..N {
            out[i] = fma(a[i], b[i], c[i]);
        }
        out
    }
    #[inline(always)]
    fn neg_mul_add(self, a: [f32; N], b: [f32; N], c: [f32; N]) -> [f32; N] {
        let mut out = c;
        for i in 0..N {
            out[i] = fma(-a[i], b[i], c[i]);
        }
        out
    }
    #[inline(always)]
    fn max(self, a: [f32; N], b: [f32; N]) -> [f32; N] {
        pairs(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: [f32; N], b: [f32; N]) -> [f32; N] {
        pairs(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn sqrt(self, a: [f32; N]) -> [f32; N] {
        lanes(a, f32::sqrt)
    }
    #[inline(always)]
    fn select_gt(self, x: [f32; N], y: [f32; N], a: [f32; N], b: [f32; N]) -> [f32; N] {
        let mut out = b;
        for i in 0..N {
            out[i] = if x[i] > y[i] { a[i] } else { b[i] };
        }
        out
    }
    #[inline(always)]
    fn sum(self, a: [f32; N]) -> f32 {
        let q = [a[0] + a[4], a[1] + a[5], a[2] + a[6], a[3] + a[7]];
        (q[0] + q[2]) + (q[1] + q[3])
    }

    #[inline(always)]
    fn splat_u32(self, x: u32) -> [u32; N] {
        [x; N]
    }
    #[inline(always)]
    fn iota(self) -> [u32; N] {
        [0, 1, 2, 3, 4, 5, 6, 7]
    }
    #[inline(always)]
    fn add_u32(self, a: [u32; N], b: [u32; N]) -> [u32; N] {
        pairs(a, b, u32::wrapping_add)
    }
    #[inline(always)]
    fn sub_u32(self, a: [u32; N], b: [u32; N]) -> [u32; N] {
        pairs(a, b, u32::wrapping_sub)
    }
    #[inline(always)]
    fn xor(self, a: [u32; N], b: [u32; N]) -> [u32; N] {
        pairs(a, b, |a, b| a ^ b)
    }
    #[inline(always)]
    fn and(self, a: [u32; N], b: [u32; N]) -> [u32; N] {
        pairs(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn or(self, a: [u32; N], b: [u32; N]) -> [u32; N] {
        pairs(a, b, |a, b| a | b)
    }
    #[inline(always)]
    fn shift_left<const K: i32>(self, a: [u32; N]) -> [u32; N] {
        lanes(a, |a| a << K)
    }
    #[inline(always)]
    fn shift_right<const K: i32>(self, a: [u32; N]) -> [u32; N] {
        lanes(a, |a| a >> K)
    }
    #[inline(always)]
    fn mul_wide(self, a: [u32; N], b: [u32; N]) -> ([u32; N], [u32; N]) {
        let wide = pairs(a, b, |a, b| u64::from(a) * u64::from(b));
        (lanes(wide, |w| (w >> 32) as u32), lanes(wide, |w| w as u32))
    }
    #[inline(always)]
    fn select_less(self, x: [u32; N], y: [u32; N], a: [u32; N], b: [u32; N]) -> [u32; N] {
        let mut out = b;
        for i in 0..N {
            if x[i].cast_signed() < y[i].cast_signed() {
                out[i] = a[i];
            }
        }
        out
    }
    #[inline(always)]
    fn any_equal(self, a: [u32; N], b: [u32; N]) -> bool {
        pairs(a, b, |a, b| a == b).contains(&true)
    }
    #[inline(always)]
    unsafe fn gather(self, table: &[[u32; 2]], index: [u32; N]) -> ([u32; N], [u32; N]) {
        let entries = lanes(index, |index| table[index as usize]);
        (lanes(entries, |e| e[0]), lanes(entries, |e| e[1]))
    }
    #[inline(always)]
    fn to_float(self, a: [u32; N]) -> [f32; N] {
        lanes(a, |a| a.cast_signed() as f32)
    }
    #[inline(always)]
    fn weave(self, a: [[f32; N]; 4]) -> [[f32; N]; 4] {
        let mut out = [[0.0; N]; 4];
        for i in 0..4 * N {
            out[i / N][i % N] = a[i % 4][i / 4];
        }
        out
    }
    #[inline(always)]
    fn to_bits(self, a: [f32; N]) -> [u32; N] {
        lanes(a, f32::to_bits)
    }
    #[inline(always)]
    fn float_from_bits(self, a: [u32; N]) -> [f32; N] {
        lanes(a, f32::from_bits)
    }
}
