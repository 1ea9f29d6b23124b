//! Sums over a convolution's outputs, made while they are at hand: the statistics of a
//! batch norm behind it.

use crate::simd::Simd;

/// Per channel: a pivot among the values, and the sums of the distances from it and of
/// their squares. An address of `3 x channels` floats, or none.
#[derive(Clone, Copy)]
pub(crate) struct RawSums {
    at: *mut f32,
    channels: usize,
}

impl RawSums {
    /// Nothing is summed up.
    pub const NONE: Self = Self {
        at: std::ptr::null_mut(),
        channels: 0,
    };

    pub fn new(sums: &mut [f32]) -> Self {
        Self {
            at: sums.as_mut_ptr(),
            channels: sums.len() / 3,
        }
    }

    #[inline(always)]
    pub fn is_none(self) -> bool {
        self.at.is_null()
    }

    /// Those from channel `c` on.
    ///
    /// # Safety
    /// The channel must exist, if there are sums.
    #[inline(always)]
    pub unsafe fn from(self, c: usize) -> Self {
        if self.is_none() {
            return self;
        }
        Self {
            // SAFETY: by the contract.
            at: unsafe { self.at.add(c) },
            ..self
        }
    }

    /// Sums up rows; the first ones of all give the pivot.
    ///
    /// # Safety
    /// There must be sums of so many channels, and every row must be readable for them.
    #[inline(always)]
    pub unsafe fn rows<S: Simd>(
        self,
        s: S,
        channels: usize,
        rows: impl Iterator<Item = *const f32> + Clone,
        first: bool,
    ) {
        let Some(pivot) = rows.clone().next() else {
            return;
        };
        let mut c = 0;
        while c < channels {
            let n = S::LANES.min(channels - c);
            // SAFETY: `c + n <= channels`; by the contract.
            unsafe {
                let sums = self.from(c);
                if first {
                    s.store_partial(sums.at, n, s.load_partial(pivot.add(c), n));
                    s.store_partial(sums.at.add(self.channels), n, s.zero());
                    s.store_partial(sums.at.add(2 * self.channels), n, s.zero());
                }
                let pivot = sums.pivot(s, n);
                let (mut sum, mut square) = (s.zero(), s.zero());
                for row in rows.clone() {
                    let distance = s.sub(s.load_partial(row.add(c), n), pivot);
                    sum = s.add(sum, distance);
                    square = s.mul_add(distance, distance, square);
                }
                sums.add(s, n, sum, square);
            }
            c += S::LANES;
        }
    }

    /// The pivot of the first `n` channels.
    ///
    /// # Safety
    /// They must exist.
    #[inline(always)]
    pub unsafe fn pivot<S: Simd>(self, s: S, n: usize) -> S::V {
        // SAFETY: by the contract.
        unsafe { s.load_partial(self.at, n) }
    }

    /// Adds sums of distances and of their squares to those of the first `n` channels.
    ///
    /// # Safety
    /// They must exist.
    #[inline(always)]
    pub unsafe fn add<S: Simd>(self, s: S, n: usize, sum: S::V, square: S::V) {
        // SAFETY: by the contract.
        unsafe {
            for (part, more) in [(1, sum), (2, square)] {
                let at = self.at.add(part * self.channels);
                s.store_partial(at, n, s.add(s.load_partial(at, n), more));
            }
        }
    }
}

/// Mean and sum of squared deviations of each channel, from its sums over so many rows.
pub(super) fn finish(sums: &[f32], rows: usize, mean: &mut [f32], deviation: &mut [f32]) {
    let channels = sums.len() / 3;
    for c in 0..channels {
        let [pivot, sum, square] = [0, 1, 2].map(|part| f64::from(sums[part * channels + c]));
        let distance = sum / rows as f64;
        mean[c] = (pivot + distance) as f32;
        deviation[c] = (square - sum * distance).max(0.0) as f32;
    }
}
