//! Memory for activations, packed weights and scratch, on cache-line borders.

use std::ops::{Deref, DerefMut};

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// Floats that start on a cache line, so that no vector load straddles two.
#[derive(Clone)]
pub struct Buffer {
    lines: Vec<Line>,
    len: usize,
}

impl Buffer {
    /// `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        Self {
            lines: vec![Line([0.0; 16]); len.div_ceil(16)],
            len,
        }
    }

    /// Makes room for at least `len` floats; what was there is kept or not.
    pub fn reserve(&mut self, len: usize) {
        if len > self.len {
            *self = Self::zeroed(len);
        }
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self::zeroed(0)
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({})", self.len)
    }
}

impl Deref for Buffer {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        debug_assert!(self.len <= self.lines.len() * 16);
        // SAFETY: the lines are contiguous arrays of 16 floats and hold `len`.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        debug_assert!(self.len <= self.lines.len() * 16);
        // SAFETY: the lines are contiguous arrays of 16 floats and hold `len`;
        // the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

/// Reads values that lie in memory once, in their order, so that they are in the cache.
///
/// A processor foresees this reading, but not that of a convolution, which jumps from row to
/// row: what is not in the cache costs it up to three times as long as its products.
/// Asking for lines ahead by prefetch instructions does not do the same.
pub fn bring_near(values: &[f32]) {
    // Four lines at a time: a single chain of additions would wait for each of them.
    let mut sums = [0.0; 4];
    for lines in values.chunks_exact(64) {
        for (sum, line) in sums.iter_mut().zip(lines.chunks_exact(16)) {
            *sum += line[0];
        }
    }
    std::hint::black_box(sums);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_on_a_line_and_grows() {
        let mut b = Buffer::default();
        for len in [0, 1, 16, 17, 100] {
            b.reserve(len);
            assert!(b.len() >= len);
            assert_eq!(b.as_ptr() as usize % 64, 0);
            b.fill(1.0);
        }
        assert_eq!(b.iter().sum::<f32>(), 100.0);
    }
}
