//! One vector type for every instruction set: kernels are written once against
//! [`Simd`] and instantiated per instruction set by [`crate::isa::Isa`].

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
pub use portable::Portable;

/// Vectors of `LANES` floats.
///
/// A value of the implementing type is the proof that the CPU has the
/// instructions; it has no size. Every method is inlined into the function
/// that was compiled for the instruction set, so generic code built on this
/// trait must be `#[inline(always)]` up to [`crate::isa::Kernel::run`].
pub trait Simd: Copy + Send + Sync + 'static {
    /// Floats in a vector.
    const LANES: usize;
    /// Vector registers that hold a whole `V` each; kernels choose their
    /// register tile by it.
    const REGISTERS: usize;
    /// `LANES` floats.
    type V: Copy;
    /// `LANES` unsigned integers of 32 bits.
    type U: Copy;

    /// The same value in all lanes.
    fn splat(self, x: f32) -> Self::V;
    /// Zero in all lanes.
    #[inline(always)]
    fn zero(self) -> Self::V {
        self.splat(0.0)
    }

    /// Reads `LANES` floats; no alignment is asked for.
    ///
    /// # Safety
    /// `p` must be valid for reading `LANES` floats.
    unsafe fn load(self, p: *const f32) -> Self::V;
    /// Writes `LANES` floats; no alignment is asked for.
    ///
    /// # Safety
    /// `p` must be valid for writing `LANES` floats.
    unsafe fn store(self, p: *mut f32, v: Self::V);
    /// Reads the first `n <= LANES` floats; the other lanes are 0.
    ///
    /// # Safety
    /// `p` must be valid for reading `n` floats.
    unsafe fn load_partial(self, p: *const f32, n: usize) -> Self::V;
    /// Writes the first `n <= LANES` lanes.
    ///
    /// # Safety
    /// `p` must be valid for writing `n` floats.
    unsafe fn store_partial(self, p: *mut f32, n: usize, v: Self::V);
    /// Asks for the cache line of an address, which need not exist.
    #[inline(always)]
    fn prefetch(self, _p: *const f32) {}
    /// The same, into the second-level cache.
    #[inline(always)]
    fn prefetch_far(self, _p: *const f32) {}
    /// Reads one float into all lanes.
    ///
    /// # Safety
    /// `p` must be valid for reading one float.
    #[inline(always)]
    unsafe fn broadcast(self, p: *const f32) -> Self::V {
        // SAFETY: the caller guarantees one readable float.
        self.splat(unsafe { *p })
    }

    /// The first `LANES` floats of a slice.
    #[inline(always)]
    fn read(self, x: &[f32]) -> Self::V {
        assert!(x.len() >= Self::LANES);
        // SAFETY: the slice holds at least LANES floats.
        unsafe { self.load(x.as_ptr()) }
    }
    /// Writes to the first `LANES` floats of a slice.
    #[inline(always)]
    fn write(self, y: &mut [f32], v: Self::V) {
        assert!(y.len() >= Self::LANES);
        // SAFETY: the slice holds at least LANES floats.
        unsafe { self.store(y.as_mut_ptr(), v) }
    }
    /// Up to `LANES` floats of a slice, the rest 0.
    #[inline(always)]
    fn read_partial(self, x: &[f32]) -> Self::V {
        // SAFETY: at most the length of the slice is read.
        unsafe { self.load_partial(x.as_ptr(), x.len().min(Self::LANES)) }
    }
    /// Writes up to `LANES` floats, as many as the slice holds.
    #[inline(always)]
    fn write_partial(self, y: &mut [f32], v: Self::V) {
        // SAFETY: at most the length of the slice is written.
        unsafe { self.store_partial(y.as_mut_ptr(), y.len().min(Self::LANES), v) }
    }

    /// `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`.
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once where the CPU can.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `c - a * b`, rounded once where the CPU can.
    fn neg_mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger of both; `b` where one is not a number.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// The smaller of both; `b` where one is not a number.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// Square root.
    fn sqrt(self, a: Self::V) -> Self::V;
    /// `a` where `x > y`, `b` elsewhere.
    fn select_gt(self, x: Self::V, y: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// Bit `i` is set where lane `i` is positive.
    #[inline(always)]
    fn positive(self, a: Self::V) -> u32 {
        const { assert!(Self::LANES <= 16) };
        let mut lanes = [0.0; 16];
        self.write(&mut lanes, a);
        let bit = |(i, &x): (usize, &f32)| u32::from(x > 0.0) << i;
        lanes.iter().enumerate().map(bit).sum()
    }
    /// `a` in the lanes whose bit is set, 0 elsewhere.
    #[inline(always)]
    fn keep(self, a: Self::V, bits: u32) -> Self::V {
        const { assert!(Self::LANES <= 16) };
        let mut lanes = [0.0; 16];
        self.write(&mut lanes, a);
        for (i, x) in lanes.iter_mut().enumerate() {
            *x = if bits >> i & 1 == 1 { *x } else { 0.0 };
        }
        self.read(&lanes)
    }
    /// Sum of the lanes, in a fixed order (pairwise, halves first).
    fn sum(self, a: Self::V) -> f32;

    /// The same integer in all lanes.
    fn splat_u32(self, x: u32) -> Self::U;
    /// `0, 1, 2, ...`.
    fn iota(self) -> Self::U;
    /// Sum modulo 2^32.
    fn add_u32(self, a: Self::U, b: Self::U) -> Self::U;
    /// Difference modulo 2^32.
    fn sub_u32(self, a: Self::U, b: Self::U) -> Self::U;
    /// Bitwise exclusive or.
    fn xor(self, a: Self::U, b: Self::U) -> Self::U;
    /// Bitwise and.
    fn and(self, a: Self::U, b: Self::U) -> Self::U;
    /// Bitwise or.
    fn or(self, a: Self::U, b: Self::U) -> Self::U;
    /// `a << N`.
    fn shift_left<const N: i32>(self, a: Self::U) -> Self::U;
    /// `a >> N`, zeros from the left.
    fn shift_right<const N: i32>(self, a: Self::U) -> Self::U;
    /// The high and the low 32 bits of the 64-bit products.
    fn mul_wide(self, a: Self::U, b: Self::U) -> (Self::U, Self::U);
    /// `a` where `x < y` as signed integers, `b` elsewhere.
    fn select_less(self, x: Self::U, y: Self::U, a: Self::U, b: Self::U) -> Self::U;
    /// Whether any lane of both is equal.
    fn any_equal(self, a: Self::U, b: Self::U) -> bool;
    /// The first and the second word of the entries with these numbers.
    ///
    /// # Safety
    /// Every lane must be below the length of the table, and that at most 2^28.
    unsafe fn gather(self, table: &[[u32; 2]], index: Self::U) -> (Self::U, Self::U);
    /// The lanes, read as signed integers, as floats.
    fn to_float(self, a: Self::U) -> Self::V;
    /// `a[0][0], a[1][0], a[2][0], a[3][0], a[0][1], ...`: four vectors woven
    /// into one sequence.
    fn weave(self, a: [Self::V; 4]) -> [Self::V; 4];
    /// The bits of the floats.
    fn to_bits(self, a: Self::V) -> Self::U;
    /// The floats with these bits.
    fn float_from_bits(self, a: Self::U) -> Self::V;
}

/// `max(x, 0)`; a value that is not a number stays one.
#[inline(always)]
pub fn relu<S: Simd>(s: S, x: S::V) -> S::V {
    s.max(s.zero(), x)
}
