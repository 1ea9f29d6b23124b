//! Walks over rows of channels: a few channels at a time, all rows for each.

use crate::simd::Simd;

/// A pass over all rows of the channels from `c` on: `V` whole vectors, or, if
/// `P`, the first `n` lanes of one.
pub(super) trait ByChannels {
    fn rows<S: Simd, const V: usize, const P: bool>(&mut self, simd: S, c: usize, n: usize);
}

/// Covers all channels. Two vectors are a cache line, so that each line is
/// touched once.
#[inline(always)]
pub(super) fn by_channels<S: Simd>(simd: S, channels: usize, pass: &mut impl ByChannels) {
    let mut c = 0;
    while c + 2 * S::LANES <= channels {
        pass.rows::<S, 2, false>(simd, c, S::LANES);
        c += 2 * S::LANES;
    }
    if c + S::LANES <= channels {
        pass.rows::<S, 1, false>(simd, c, S::LANES);
        c += S::LANES;
    }
    if c < channels {
        pass.rows::<S, 1, true>(simd, c, channels - c);
    }
}

/// # Safety
/// `p` must be valid for reading `V * LANES` floats, or `n` if `P`.
#[inline(always)]
pub(super) unsafe fn load<S: Simd, const V: usize, const P: bool>(
    simd: S,
    p: *const f32,
    n: usize,
) -> [S::V; V] {
    let mut out = [simd.zero(); V];
    for (v, out) in out.iter_mut().enumerate() {
        // SAFETY: by the contract of this function.
        *out = unsafe {
            match P {
                true => simd.load_partial(p, n),
                false => simd.load(p.add(v * S::LANES)),
            }
        };
    }
    out
}

/// # Safety
/// `p` must be valid for writing `V * LANES` floats, or `n` if `P`.
#[inline(always)]
pub(super) unsafe fn store<S: Simd, const V: usize, const P: bool>(
    simd: S,
    p: *mut f32,
    n: usize,
    values: [S::V; V],
) {
    for (v, &value) in values.iter().enumerate() {
        // SAFETY: by the contract of this function.
        unsafe {
            match P {
                true => simd.store_partial(p, n, value),
                false => simd.store(p.add(v * S::LANES), value),
            }
        }
    }
}
