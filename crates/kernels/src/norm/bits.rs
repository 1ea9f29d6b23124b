//! Where a ReLU passes its gradient, one bit a value.

use crate::isa::{Isa, Kernel};
use crate::simd::Simd;

/// Bytes for the bits of an image of so many values.
pub const fn bit_bytes(values: usize) -> usize {
    values.div_ceil(8)
}

/// Bytes for the bits of a vector.
const fn bytes<S: Simd>() -> usize {
    assert!(S::LANES == 8 || S::LANES == 16);
    S::LANES / 8
}

/// One or two bytes as a number, the first one lowest.
#[inline(always)]
fn word(bits: &[u8]) -> u32 {
    u32::from(bits[0]) | bits.get(1).map_or(0, |&high| u32::from(high) << 8)
}

/// Writes a set bit for every positive value of images of `values` values each,
/// the bits of an image in [`bit_bytes`] bytes.
///
/// # Panics
/// If the lengths do not fit.
pub fn positive_bits(isa: Isa, values: usize, x: &[f32], bits: &mut [u8]) {
    assert!(x.len().is_multiple_of(values));
    assert_eq!(bits.len(), x.len() / values * bit_bytes(values));
    isa.dispatch(Positive { values, x, bits });
}

struct Positive<'a> {
    values: usize,
    x: &'a [f32],
    bits: &'a mut [u8],
}

impl Kernel for Positive<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let bytes = const { bytes::<S>() };
        let bits = self.bits.chunks_exact_mut(bit_bytes(self.values));
        for (x, bits) in self.x.chunks_exact(self.values).zip(bits) {
            let whole = x.chunks_exact(S::LANES);
            let (rest, last) = (whole.remainder(), whole.len() * bytes);
            for (x, bits) in whole.zip(bits.chunks_exact_mut(bytes)) {
                let positive = simd.positive(simd.read(x)).to_le_bytes();
                bits.copy_from_slice(&positive[..bytes]);
            }
            if !rest.is_empty() {
                let positive = simd.positive(simd.read_partial(rest)).to_le_bytes();
                let bits = &mut bits[last..];
                bits.copy_from_slice(&positive[..bits.len()]);
            }
        }
    }
}

/// Sets the values of `dy` to 0 whose bit is not set.
///
/// # Panics
/// If the lengths do not fit.
pub fn keep_bits(isa: Isa, values: usize, bits: &[u8], dy: &mut [f32]) {
    assert!(dy.len().is_multiple_of(values));
    assert_eq!(bits.len(), dy.len() / values * bit_bytes(values));
    isa.dispatch(Keep { values, bits, dy });
}

struct Keep<'a> {
    values: usize,
    bits: &'a [u8],
    dy: &'a mut [f32],
}

impl Kernel for Keep<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let bytes = const { bytes::<S>() };
        let bits = self.bits.chunks_exact(bit_bytes(self.values));
        for (dy, bits) in self.dy.chunks_exact_mut(self.values).zip(bits) {
            let whole = dy.len() / S::LANES;
            let (dy, rest) = dy.split_at_mut(whole * S::LANES);
            for (dy, bits) in dy.chunks_exact_mut(S::LANES).zip(bits.chunks_exact(bytes)) {
                let kept = simd.keep(simd.read(dy), word(bits));
                simd.write(dy, kept);
            }
            if !rest.is_empty() {
                let kept = simd.keep(simd.read_partial(rest), word(&bits[whole * bytes..]));
                simd.write_partial(rest, kept);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_mask_as_values_do() {
        let numbers = |n: usize| (0..n).map(|i| (i * 37 % 11) as f32 - 5.0);
        for (values, images) in [(1, 3), (8, 2), (13, 3), (100, 1)] {
            let mut x: Vec<f32> = numbers(values * images).collect();
            x[0] = f32::NAN;
            let dy: Vec<f32> = numbers(x.len()).map(|v| v + 0.5).collect();
            for isa in Isa::available() {
                let mut bits = vec![255; images * bit_bytes(values)];
                positive_bits(isa, values, &x, &mut bits);
                let mut got = dy.clone();
                keep_bits(isa, values, &bits, &mut got);
                for i in 0..x.len() {
                    assert_eq!(got[i], if x[i] > 0.0 { dy[i] } else { 0.0 });
                }
            }
        }
    }
}
